import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { z } from "zod";
import {
  type ApprovalCallback,
  ApprovalManager,
  defineTool,
  SafeToolCall,
  type ToolCallResult,
} from "../../src/index.ts";
import { auditEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { AGENTS_AUDIENCE, AGENTS_ISSUER } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const issuers = new LiveIssuers();
const folder = mkdtempSync(join(tmpdir(), "stc-callback-"));
const deeds: unknown[] = [];
const open: SafeToolCall[] = [];
let runs = 0;

const common = {
  classification: "write",
  category: "network",
  permissions: { required: ["deeds:do"] },
  input: z.strictObject({ what: z.string().max(20), more: z.record(z.string(), z.unknown()).optional() }),
  output: z.object({ done: z.boolean() }),
  outputPolicy: { done: "allow" },
  handler: (given: unknown) => {
    deeds.push(given);
    return { done: true };
  },
} as const;

const tools = [
  defineTool({ ...common, name: "deed", description: "Does it" } as never),
  defineTool({ ...common, name: "grave_deed", description: "Does it", classification: "destructive" } as never),
];

interface World {
  readonly stc: SafeToolCall;
  readonly dir: string;
  readonly call: (tool: string, args: unknown, options?: Record<string, unknown>) => Promise<ToolCallResult>;
}

async function world(onToolApprove?: ApprovalCallback, approvals: Record<string, unknown> = {}): Promise<World> {
  runs += 1;
  const dir = join(folder, `audit-${runs}`);
  const stc = SafeToolCall.create({
    ...{
      tools,
      folder,
      audit: { dir },
      jwt: { issuers: issuers.profiles() as never },
      approvals,
    },
    ...(onToolApprove !== undefined && { onToolApprove }),
  });
  open.push(stc);
  await stc.ready();
  const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["deeds:do"] });
  return { stc, dir, call: (tool, args, options) => stc.call(tool, args, token, options) };
}

function codeOf(result: ToolCallResult): string {
  return "error" in result ? result.error.code : result.status;
}

function messageOf(result: ToolCallResult): string | undefined {
  return "error" in result ? result.error.message : undefined;
}

afterEach(() => {
  deeds.length = 0;
});
afterAll(async () => {
  for (const stc of open) await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("APR-14: a callback's answer is used as it was given", () => {
  test.each([
    ["an answer", false],
    ["a frozen answer with something loose in it", true],
  ])("%s that is changed afterwards runs as it was", async (_title, isFrozen) => {
    const more = { list: ["first"], deep: { value: "first" } };
    const params = { what: "a", more };
    const { call, dir } = await world(() => {
      setImmediate(change);
      return { approved: true, params: isFrozen ? Object.freeze(params) : params };
    });
    const change = (): void => {
      more.list[0] = "second";
      more.deep.value = "second";
    };
    expect(codeOf(await call("deed", { what: "x" }))).toBe("success");
    expect(deeds).toEqual([{ what: "a", more: { list: ["first"], deep: { value: "first" } } }]);
    expect(more.list).toEqual(["second"]);
    expect(auditEntries(dir).at(-1)).toMatchObject({ approval: { by: "callback:amended" } });
  });

  const odd: readonly (readonly [string, () => unknown])[] = [
    [
      "a getter that throws",
      () => ({
        approved: true,
        params: {
          get what() {
            throw new Error("x");
          },
        },
      }),
    ],
    [
      "an approval that throws",
      () => ({
        get approved() {
          throw new Error("x");
        },
      }),
    ],
    [
      "params that turn upon themselves",
      () => {
        const params: Record<string, unknown> = { what: "a" };
        params["more"] = { params };
        return { approved: true, params };
      },
    ],
    ["a function among its params", () => ({ approved: true, params: { what: "a", more: { run: () => 1 } } })],
    ["an instance of a class", () => ({ approved: true, params: new Map([["what", "a"]]) })],
    [
      "a proxy that throws",
      () =>
        new Proxy(
          {},
          {
            get: () => {
              throw new Error("x");
            },
          },
        ),
    ],
    ["a promise of a promise of no", async () => Promise.resolve(Promise.resolve(false))],
    ["a thenable that never ends", () => ({ then: () => {} })],
    ["a truthy object", () => ({ approved: new Boolean(true) })],
    [
      "an approval of its prototype",
      () =>
        Object.create({
          get approved() {
            return 1;
          },
        }),
    ],
  ];
  test.each(odd)("%s is not an approval", async (_title, answer) => {
    const { call } = await world(answer as ApprovalCallback, { callbackTimeoutMs: 200 });
    expect(codeOf(await call("deed", { what: "a" }))).toBe("APPROVAL_DENIED");
    expect(deeds).toEqual([]);
  });

  test("a rule forbids the arguments that a callback substitutes", async () => {
    const rules = [
      {
        name: "never-b",
        when: { tool: "deed", args: { what: ["b"] } },
        verdict: "deny",
        examples: { matches: [{ what: "b" }], misses: [{ what: "a" }] },
      },
    ];
    const { call } = await world(() => ({ approved: true, params: { what: "b" } }), { rules });
    expect(codeOf(await call("deed", { what: "a" }))).toBe("POLICY_DENIED");
    expect(deeds).toEqual([]);
  });
});

describe("a callback that calls the library itself", () => {
  test("makes another call with its own approval request", async () => {
    const asked: unknown[] = [];
    const { call } = await world(async ({ params }) => {
      asked.push(params["what"]);
      if (params["what"] === "outer") await call("deed", { what: "inner" });
      return true;
    });
    expect(codeOf(await call("deed", { what: "outer" }))).toBe("success");
    expect(asked).toEqual(["outer", "inner"]);
    expect(deeds).toEqual([{ what: "inner" }, { what: "outer" }]);
  });

  test("with the same key gets CALL_IN_PROGRESS", async () => {
    let inner: ToolCallResult | undefined;
    const { call } = await world(
      async () => {
        inner = await call("deed", { what: "a" }, { idempotencyKey: "k" });
        return true;
      },
      { store: "sqlite://./reentrant.sqlite" },
    );
    expect(codeOf(await call("deed", { what: "a" }, { idempotencyKey: "k" }))).toBe("success");
    expect(inner && codeOf(inner)).toBe("CALL_IN_PROGRESS");
    expect(deeds).toHaveLength(1);
  });
});

describe("APR-65: reasons for the end of an approval request are distinguished", () => {
  test("silence and failure are not attributed to a person", async () => {
    const silent = await world(() => new Promise(() => {}), { callbackTimeoutMs: 50 });
    expect(messageOf(await silent.call("deed", { what: "a" }))).toBe("No approver answered whether this call may run.");
    const failing = await world(() => Promise.reject(new Error("secret detail")));
    expect(JSON.stringify(await failing.call("deed", { what: "a" }))).not.toContain("secret detail");
    const denying = await world(() => ({ approved: false, denyReason: "no" }));
    expect(messageOf(await denying.call("deed", { what: "a" }))).toBe("Denied by user: no");
  });

  test("a disconnected client has cancelled", async () => {
    const leaving = new AbortController();
    const { call } = await world(() => new Promise(() => {}));
    const gone = call("deed", { what: "a" }, { signal: leaving.signal });
    leaving.abort();
    expect(codeOf(await gone)).toBe("CANCELLED");
    expect(deeds).toEqual([]);
  });
});

describe("ApprovalManager", () => {
  test("an error in a notification before the answer denies, and nothing else breaks", async () => {
    const manager = new ApprovalManager({
      onRequest: async () => {
        await Bun.sleep(1);
        throw new Error("the window is gone");
      },
    });
    const { call } = await world(manager.onToolApprove);
    expect(codeOf(await call("deed", { what: "a" }))).toBe("APPROVAL_DENIED");
  });

  test("an error in a notification after the answer changes nothing", async () => {
    const failed = Promise.withResolvers<void>();
    const manager = new ApprovalManager({
      onRequest: async ({ approvalId }) => {
        manager.resolve(approvalId);
        await Bun.sleep(20);
        failed.resolve();
        throw new Error("too late");
      },
    });
    const { call } = await world(manager.onToolApprove);
    expect(codeOf(await call("deed", { what: "a" }))).toBe("success");
    await failed.promise;
  });

  test("an answer counts once, and never for another approval request", async () => {
    const ids: string[] = [];
    const manager = new ApprovalManager({ onRequest: ({ approvalId }) => void ids.push(approvalId) });
    const { call } = await world(manager.onToolApprove);
    const calls = [call("deed", { what: "a" }), call("deed", { what: "b" })];
    await until("both questions", () => ids.length === 2 || undefined);
    expect([manager.resolve(ids[0] ?? ""), manager.reject(ids[0] ?? ""), manager.reject(ids[1] ?? "")]).toEqual([
      true,
      false,
      true,
    ]);
    expect((await Promise.all(calls)).map(codeOf).toSorted()).toEqual(["APPROVAL_DENIED", "success"]);
  });
});

describe("a callback's approval", () => {
  test("counts only while the caller's token is valid", async () => {
    const { stc, dir } = await world(async () => {
      await until("the token's end", () => Date.now() >= endsAt || undefined);
      return true;
    });
    const { alg, kid, privateKey } = issuers.agents;
    const exp = Math.ceil(Date.now() / 1_000) - 4;
    // Clocks may differ by five seconds.
    const endsAt = (exp + 5) * 1_000;
    const token = await new SignJWT({ sub: "agent-7", permissions: ["deeds:do"], iat: exp - 60, exp })
      .setProtectedHeader({ alg, kid })
      .setIssuer(AGENTS_ISSUER)
      .setAudience(AGENTS_AUDIENCE)
      .sign(privateKey);
    expect(codeOf(await stc.call("deed", { what: "a" }, token))).toBe("UNAUTHENTICATED");
    expect(deeds).toEqual([]);
    expect(auditEntries(dir)).toHaveLength(1);
  });
});

describe("a closing library", () => {
  test("returns the pending approval request to waiting callers, with its audit line", async () => {
    const { call, stc, dir } = await world(undefined, { store: "sqlite://./closing.sqlite" });
    const waiting = call("deed", { what: "a" }, { waitMs: 60_000 });
    await until("the question", async () => (await stc.pendingApprovals())[0]);
    const closed = stc.close();
    expect((await waiting).status).toBe("pending");
    await closed;
    expect(auditEntries(dir).map(({ decision }) => decision)).toEqual(["PENDING"]);
  });
});
