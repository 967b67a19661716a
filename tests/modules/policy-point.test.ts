import { afterAll, afterEach, describe, expect, test } from "bun:test";
import type { StartupError } from "../../src/core/errors.ts";
import type { PolicyPoint, StagePoint } from "../../src/core/policy-point.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import type { CallRecordLog } from "../../src/pipeline/call-record.ts";
import type { PolicyPoints } from "../../src/pipeline/policy-points.ts";
import { readConfig, wire } from "../support/build.ts";
import { ModuleWorld, withPoints } from "./module-world.ts";
import { spending } from "./toy-policy-point.ts";

const world = new ModuleWorld();
afterEach(() => world.stop());
afterAll(() => world.end());

/** Starts the service with these points. */
function serving(...points: readonly PolicyPoint[]): Promise<ModuleWorld> {
  return world.start(withPoints(...points));
}

/** A point that answers whatever a row says; the types do not protect a build that is not type-checked. */
function odd(decide: () => unknown, more: Partial<StagePoint<"permission">> = {}): PolicyPoint {
  return { name: "odd", stage: "permission", decide: decide as never, ...more } as PolicyPoint;
}

describe("a policy point that one line of the build registers", () => {
  test("denies a call with its message and leaves its reason in the audit", async () => {
    const { http, body } = await (await serving(spending)).call("refund", { amount: 1 });
    expect({ http, error: body.error }).toEqual({
      http: 403,
      error: {
        code: "POLICY_DENIED",
        stage: "PERMISSION",
        message: "This tool is frozen: ask the operators.",
        retryable: false,
      },
    });
    expect(world.entry(body.traceId)).toMatchObject({
      decision: "DENIED",
      error: { code: "POLICY_DENIED" },
      denial: { stage: "PERMISSION", reason: "This tool is frozen: ask the operators." },
      decisionReasons: [{ point: "spending", verdict: "deny", reason: "refund is frozen" }],
    });
  });

  test("allows a call and leaves nothing in the audit", async () => {
    const { http, body } = await (await serving(spending)).call("pay", { amount: 1 });
    expect({ http, result: body.result }).toEqual({ http: 200, result: { paid: 1 } });
    expect(world.entry(body.traceId)).not.toHaveProperty("decisionReasons");
  });

  test.each(["default", "autoEdit", "yolo"])("makes the service ask a person in mode %s", async (mode) => {
    await world.start(withPoints(spending), { approvals: { store: "sqlite://./approvals.sqlite", mode } });
    const asked = await world.call("pay", { amount: 500 }, { session: `s-${mode}` });
    expect([asked.http, asked.body.status]).toEqual([202, "pending"]);
    const { id, options } = asked.body.approval;
    // The point does not say that an approval may be remembered.
    expect(options).toEqual(["cancel", "once"]);
    const { body: shown } = await world.send("GET", `/approvals/${id}`, { token: await world.person() });
    expect(shown.approval.view.notes).toContain("The policy spending requires an approval: an amount above 100");
    expect((await world.decide(id, "approve")).http).toBe(200);
    const ran = await world.call("pay", { amount: 500 }, { session: `s-${mode}`, approval: { id } });
    expect({ http: ran.http, result: ran.body.result }).toEqual({ http: 200, result: { paid: 500 } });
    const reasons = [{ point: "spending", verdict: "requireApproval", reason: "an amount above 100" }];
    expect(world.entry(asked.body.traceId)).toMatchObject({ decision: "PENDING", decisionReasons: reasons });
    expect(world.entry(ran.body.traceId)).toMatchObject({ decision: "ALLOWED", decisionReasons: reasons });
  });

  test.each([
    [true, ["cancel", "once", "session"], 200],
    [false, ["cancel", "once"], 202],
  ])("is remembered for the session only if it says so: %p", async (rememberable, options, again) => {
    await serving(odd(() => ({ verdict: "requireApproval", reasons: ["look at it"], rememberable })));
    const token = await world.agent({ permissions: ["money:send"] });
    const opened = await world.send("POST", "/sessions", { token, body: {} });
    const session = opened.body.session.id as string;
    const asked = await world.call("pay", { amount: 7 }, { session });
    const { id } = asked.body.approval;
    expect(asked.body.approval.options).toEqual(options);
    await world.decide(id, "approve", { scope: options.at(-1) });
    expect((await world.call("pay", { amount: 7 }, { session, approval: { id } })).http).toBe(200);
    expect((await world.call("pay", { amount: 7 }, { session })).http).toBe(again);
  });

  test("leaves no secret of an operator's rule in its reasons, not even a part of one at the end", async () => {
    const secret = "KX-204817";
    const reasons = [`badge ${secret}`, `${".".repeat(195)} ${secret}`];
    const rule = { id: "BADGE", anchors: ["kx-"], pattern: "KX-[0-9]{6}", level: "secrets", matches: [secret] };
    await world.start(withPoints(odd(() => ({ verdict: "requireApproval", reasons }))), {
      redaction: { rules: [rule] },
    });
    const { body } = await world.call("pay", { amount: 7 });
    const shown = await world.send("GET", `/approvals/${body.approval.id}`, { token: await world.person() });
    expect(shown.body.approval.view.notes).toContain("The policy odd requires an approval: badge [REDACTED]");
    expect(JSON.stringify([world.entry(body.traceId), shown.body, body])).not.toContain("KX-");
  });

  test("cannot weaken a built-in point", async () => {
    await serving(odd(() => ({ verdict: "allow" })));
    const token = await world.agent({ permissions: ["something:else"] });
    const { http, body } = await world.send("POST", "/call", { token, body: { tool: "pay", args: { amount: 1 } } });
    expect([http, body.error.code, body.error.message]).toEqual([
      403,
      "PERMISSION_DENIED",
      "Your token lacks: money:send.",
    ]);
    expect(world.entry(body.traceId)?.decisionReasons).toEqual([
      { point: "permissions", verdict: "deny", reason: "money:send" },
    ]);
  });
});

describe("a denial wins", () => {
  test("over points that allow or require an approval, and all of them are recorded", async () => {
    const asks = { ...odd(async () => ({ verdict: "requireApproval", reasons: ["unusual"] })), name: "asks" };
    const denies = { ...odd(() => ({ verdict: "deny", reasons: ["quota"], code: "RATE_LIMITED" })), name: "denies" };
    const { http, body } = await (
      await serving(
        asks,
        denies,
        odd(() => ({ verdict: "allow" })),
      )
    ).call("pay", { amount: 1 });
    expect([http, body.error.code, body.error.stage]).toEqual([429, "RATE_LIMITED", "LIMIT"]);
    expect(world.entry(body.traceId)?.decisionReasons).toEqual([
      { point: "asks", verdict: "requireApproval", reason: "unusual" },
      { point: "denies", verdict: "deny", reason: "quota" },
    ]);
  });

  test("over an approval: the points decide again when the approval is claimed", async () => {
    let isHalted = false;
    const halt = odd(() => (isHalted ? { verdict: "deny", reasons: ["halted"] } : { verdict: "allow" }));
    await serving(spending, halt);
    const { body } = await world.call("pay", { amount: 501 });
    await world.decide(body.approval.id, "approve");
    isHalted = true;
    const claimed = await world.call("pay", { amount: 501 }, { approval: { id: body.approval.id } });
    expect([claimed.http, claimed.body.error.code]).toEqual([403, "POLICY_DENIED"]);
  });
});

describe("a point that cannot decide denies the call: it", () => {
  const rows: readonly (readonly [string, () => unknown])[] = [
    ["throws", () => JSON.parse("{")],
    ["rejects", () => Promise.reject(new Error("no connection to the decision service"))],
    ["never answers", () => new Promise(() => {})],
    ["answers nothing", () => undefined],
    ["answers a verdict that there is not", () => ({ verdict: "perhaps", reasons: [] })],
    ["denies without reasons that are texts", () => ({ verdict: "deny", reasons: [1] })],
    ["denies with a code that is no denial's", () => ({ verdict: "deny", reasons: ["x"], code: "APPROVAL_REQUIRED" })],
  ];
  const stages = ["permission", "elevation", "approval"] as const;
  test.each(stages)("at the stage %s", async (stage) => {
    let decide: () => unknown = () => undefined;
    await serving({ ...odd(() => decide()), stage, timeoutMs: 1 } as PolicyPoint);
    for (const [title, answer] of rows) {
      decide = answer;
      const { http, body } = await world.call("pay", { amount: 1 });
      const message = "A policy of the service's operators could not be decided, so the call was not run.";
      expect([title, http, body.error.code, body.error.message]).toEqual([title, 403, "POLICY_DENIED", message]);
      expect(world.entry(body.traceId)).toMatchObject({
        decision: "DENIED",
        decisionReasons: [{ point: "odd", verdict: "deny", reason: "could not decide" }],
      });
    }
  });

  test("and the log names the point and the cause", async () => {
    const lines: CallRecordLog[] = [];
    const config = readConfig(world.sections(), { folder: world.folder, environment: {}, origin: "test" });
    const service = await wire(config, { log: (line) => lines.push(line) }, withPoints(odd(() => JSON.parse("{"))));
    const authorization = `Bearer ${await world.agent({ permissions: ["money:send"] })}`;
    await service.proxy.call({ tool: "pay", args: { amount: 1 }, authorization, source: "test" });
    await service.close(0);
    const [{ code, cause } = { code: "", cause: undefined }] = lines;
    expect([code, (cause as Error).message]).toEqual(["POLICY_DENIED", "policy point odd could not decide"]);
    expect((cause as Error).cause).toBeInstanceOf(SyntaxError);
  });
});

test("reasons are recorded as one bounded line without secrets", async () => {
  const secret = `ghp_${"a1B2".repeat(9)}`;
  const reasons = [`token ${secret}\n\u202eleft`, "x".repeat(1_000), "third", "fourth", "fifth"];
  const { body } = await (await serving(odd(() => ({ verdict: "deny", reasons })))).call("pay", { amount: 1 });
  const recorded = world.entry(body.traceId)?.decisionReasons?.map(({ reason }) => reason) ?? [];
  expect(recorded).toHaveLength(4);
  expect(recorded[0]).not.toContain(secret);
  expect(recorded[0]).not.toMatch(/[\n\u202e]/);
  expect(recorded[1]).toHaveLength(200);
});

test("a point sees a frozen copy of the call and not how it runs", async () => {
  const seen: object[] = [];
  const point: StagePoint<"approval"> = {
    name: "watcher",
    stage: "approval",
    decide(request) {
      seen.push(request);
      return { verdict: "allow" };
    },
  };
  await (await serving(point)).call("pay", { amount: 3 });
  expect(Object.keys(seen[0] ?? {}).sort()).toEqual(["caller", "input", "plan", "tool"]);
  expect(seen[0]).toMatchObject({ tool: { name: "pay" }, input: { amount: 3 }, plan: { kind: "inline" } });
  expect(Object.isFrozen((seen[0] as { readonly plan: object }).plan)).toBe(true);
});

test("a build with an unusable or repeated name does not start", async () => {
  const error: unknown = await serving(spending, spending, { ...spending, name: "Risk!" }).catch((thrown) => thrown);
  expect((error as StartupError).problems).toEqual([
    "policy point spending: another point has this name",
    'policy point "Risk!": the name must be of a-z, 0-9 and -, at most 64',
  ]);
});

/** Rows that must not compile: a build without a built-in policy point. The type checker is the test. */
export function incomplete(): readonly unknown[] {
  const { permissions: _permissions, ...withoutPermissions } = MODULES.policyPoints;
  const { elevation: _elevation, ...withoutElevation } = MODULES.policyPoints;
  const { risk: _risk, ...withoutRisk } = MODULES.policyPoints;
  // @ts-expect-error the required permissions are always checked
  const first: PolicyPoints = withoutPermissions;
  // @ts-expect-error the elevated permissions are always checked
  const second: PolicyPoints = withoutElevation;
  // @ts-expect-error the risk rules always apply
  const third: PolicyPoints = withoutRisk;
  // @ts-expect-error another point cannot take the place of a built-in one
  const fourth: PolicyPoints = { ...MODULES.policyPoints, permissions: spending };
  const { policyPoints: _points, ...withoutPoints } = MODULES;
  // @ts-expect-error a build has policy points
  const fifth: BuildModules = withoutPoints;
  return [first, second, third, fourth, fifth];
}

test("the rows above are checked by the type checker", () => {
  expect(typeof incomplete).toBe("function");
});
