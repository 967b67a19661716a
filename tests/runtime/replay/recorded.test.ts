import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { AuditEntry } from "../../../src/audit/entry.ts";
import { canonicalJson, hmacSha256Hex, sha256Hex } from "../../../src/core/digest.ts";
import { ARGUMENT_LIMITS } from "../../../src/core/json.ts";
import type { Parts } from "../../../src/runtime/composition/wiring.ts";
import type { Config } from "../../../src/runtime/config/config.ts";
import { type ReplayReport, replay } from "../../../src/runtime/replay/replay.ts";
import { entryLine, writeDays } from "../../support/audit-lines.ts";
import { assemble, readConfig } from "../../support/build.ts";
import { type Policy, ReplayWorld, usualPolicy } from "./replay-world.ts";

const DAY = "2026-02-16";
const HIDDEN = "[not logged]";
const world = new ReplayWorld();
let runs = 0;
afterAll(() => world.end());

type Changes = { readonly [Member in keyof AuditEntry]?: unknown };

async function withPolicy<T>(policy: Policy, use: (parts: Parts, config: Config) => Promise<T>): Promise<T> {
  const environment = { PATH: "/usr/bin:/bin" };
  const written = { ...world.sections(policy), audit: { dir: "unused" } };
  const config = readConfig(written, { folder: world.folder, environment, origin: "test" });
  const parts = await assemble(config);
  try {
    return await use(parts, config);
  } finally {
    await parts.close();
  }
}

/** Replays one line, which by default is a call of `order_update` that asked a person. */
async function replayLine(changes: (digest: string) => Changes, policy = usualPolicy()): Promise<ReplayReport> {
  return withPolicy(policy, async (parts, config) => {
    const digest = parts.registry.find("order_update").registered?.argsDigest ?? "";
    runs += 1;
    const dir = join(world.folder, `lines-${runs}`);
    const args = { n: 1, tier: "gold" };
    const made = {
      caller: { sub: "agent-0", iss: "https://idp.test", permissions: ["orders:write"] },
      tool: { name: "order_update", classification: "write", targetSystem: "orders", argsDigest: digest },
      request: { args, argsHash: hashOf(args), hashAlg: "sha256" },
      decision: "PENDING",
      error: { code: "APPROVAL_REQUIRED" },
      approval: { by: "APPROVAL_REQUIRED", id: "a-1" },
      stages: { AUTH: 0.1, PERMISSION: 0.1, VALIDATION: 0.1, PLAN: 0.1, APPROVAL: 0.1 },
      response: undefined,
      ...changes(digest),
    };
    writeDays(dir, { [DAY]: [entryLine(`${DAY}T10:00:00.000Z`, made as Parameters<typeof entryLine>[1])] });
    return replay({ parts, config, dir, filter: {}, asksExternal: false });
  });
}

function hashOf(args: unknown): string {
  return sha256Hex(canonicalJson(args, ARGUMENT_LIMITS));
}

const request = (args: unknown, more: object = {}) => ({
  request: { args, argsHash: "f".repeat(64), hashAlg: "sha256", ...more },
});
const tool = (argsDigest: string) => ({
  tool: { name: "order_update", classification: "write", targetSystem: "orders", argsDigest },
});
const UNJUDGED = { "arguments that are not in the audit": 1 };
const denied = (code: string, stage: string, more: object = {}) => ({
  ...{ decision: "DENIED", error: { code }, denial: { reason: "no", stage, ...more }, approval: undefined },
});

test.each<[string, (digest: string) => Changes, Partial<ReplayReport>]>([
  ["whole arguments", () => ({}), { unchanged: 1 }],
  ["a hidden argument that no rule reads", () => request({ n: HIDDEN, tier: "gold" }), { unchanged: 1 }],
  ["a hidden argument that a rule reads", () => request({ n: 1, tier: HIDDEN }), { notJudged: UNJUDGED }],
  ["whole arguments of which the hash is another", () => request({ n: 1, tier: "gold" }), { unchanged: 1 }],
  [
    "the same of another input schema",
    () => ({ ...request({ n: 1, tier: "gold" }), ...tool("0") }),
    { notJudged: UNJUDGED },
  ],
  [
    "an argument that is a secret",
    () => request({ n: 1, tier: "gold" }, { secrets: ["tier"] }),
    { notJudged: UNJUDGED },
  ],
  ["arguments that did not fit", () => request({}, { truncated: true }), { notJudged: UNJUDGED }],
  [
    "a hash with a key that is not at hand",
    () => ({ ...request({ n: 1 }, { hashAlg: "hmac-sha256" }), ...tool("0") }),
    { notJudged: UNJUDGED },
  ],
  [
    "arguments that the same schema refused",
    () => ({ ...request({}), ...denied("INVALID_INPUT", "VALIDATION") }),
    { unchanged: 1 },
  ],
  [
    "arguments that another schema refused",
    () => ({ ...request({}), ...denied("INVALID_INPUT", "VALIDATION"), ...tool("0") }),
    { notJudged: UNJUDGED },
  ],
])("a recorded call with %s", async (_name, changes, expected) => {
  const none = { calls: 1, unchanged: 0, changed: 0, notJudged: {}, leftOut: {} };
  expect(await replayLine(changes)).toMatchObject({ ...none, ...expected });
});

test("a call that was denied a permission, and is not any more, has changed whatever its arguments are", async () => {
  const early = {
    ...request({}),
    ...denied("PERMISSION_DENIED", "PERMISSION"),
    stages: { AUTH: 0.1, PERMISSION: 0.1 },
  };
  const report = await replayLine(() => early);
  expect(report).toMatchObject({ changed: 1, notJudged: {} });
  expect(report.changes).toMatchObject([
    { then: "PERMISSION_DENIED", now: "INVALID_INPUT or POLICY_DENIED or ask", calls: 1 },
  ]);
  const policy = usualPolicy();
  policy.permissions["agent-0"] = [];
  expect(await replayLine(() => early, policy)).toMatchObject({ unchanged: 1, changed: 0 });
});

test.each<[string, Changes, string]>([
  ["a rate limit", denied("RATE_LIMITED", "LIMIT"), "RATE_LIMITED"],
  [
    "a halt",
    {
      ...denied("HALTED", "PERMISSION"),
      decisionReasons: [{ stage: "PERMISSION", point: "halts", verdict: "deny", reason: "halt 4f0c" }],
    },
    "HALTED",
  ],
  [
    "a quota that is used up",
    {
      ...denied("QUOTA_EXCEEDED", "LIMIT"),
      decisionReasons: [{ stage: "LIMIT", point: "quotas", verdict: "deny", reason: "daily" }],
    },
    "QUOTA_EXCEEDED",
  ],
  ["an approval that could not be used", denied("APPROVAL_EXPIRED", "APPROVAL"), "APPROVAL_EXPIRED"],
  ["a dry run", { decision: "DRY_RUN", dryRun: true }, "dry run"],
  [
    "a repeated answer",
    { decision: "ALLOWED", error: undefined, approval: { by: "idempotency-key" } },
    "answered again by its Idempotency-Key",
  ],
  [
    "a plan that the target refused",
    { ...denied("TARGET_REFUSED", "EXECUTION"), decision: "ERROR", stages: { AUTH: 0.1, VALIDATION: 0.1, PLAN: 0.1 } },
    "planning ended with TARGET_REFUSED",
  ],
  [
    "an unauthenticated client",
    { ...denied("UNAUTHENTICATED", "AUTH"), caller: { sub: "anonymous", permissions: [] }, count: 40 },
    "UNAUTHENTICATED",
  ],
])("%s is left out", async (_name, changes, reason) => {
  const report = await replayLine(() => changes);
  const times = changes.count === undefined ? 1 : Number(changes.count);
  expect(report).toMatchObject({ calls: times, unchanged: 0, changed: 0, notJudged: {}, leftOut: { [reason]: times } });
});

test.each<[string, Changes, string]>([
  [
    "a call that failed at its target",
    { decision: "ERROR", error: { code: "TARGET_FAILED" }, approval: { by: "mode:yolo" }, sessionMode: "yolo" },
    "allow",
  ],
  [
    "a person's approval",
    { decision: "ALLOWED", error: undefined, approval: { by: "human:https://people.test|ann", id: "a" } },
    "ask",
  ],
  ["a grant for the session", { decision: "ALLOWED", error: undefined, approval: { by: "grant:g-1" } }, "ask"],
  ["a person's denial", denied("APPROVAL_DENIED", "APPROVAL"), "ask"],
  ["too many pending requests", denied("RATE_LIMITED", "LIMIT", { details: { limit: "pendingApprovals" } }), "ask"],
])("the verdict of %s", async (_name, changes, then) => {
  expect(await replayLine(() => changes)).toMatchObject({ unchanged: 1 });
  const policy = usualPolicy();
  policy.permissions["agent-0"] = [];
  const { changes: found } = await replayLine(() => changes, policy);
  expect(found).toMatchObject([{ then, now: "PERMISSION_DENIED" }]);
});

test("a claim in a session whose mode would allow the call says nothing about the mode when it was asked", async () => {
  const approved = {
    decision: "ALLOWED",
    error: undefined,
    approval: { by: "human:x|ann", id: "a" },
    sessionMode: "yolo",
  };
  expect(await replayLine(() => approved)).toMatchObject({
    unchanged: 0,
    changed: 0,
    notJudged: { "the session's mode": 1 },
  });
});

test("a keyed hash proves the arguments where the key is at hand", async () => {
  const key = Buffer.alloc(32, 7);
  const args = { n: 1, tier: "frozen", amount: 3 };
  const sent = { n: 1, tier: "frozen" };
  await withPolicy(usualPolicy(), async (parts, config) => {
    const dir = join(world.folder, "keyed");
    const argsHash = hmacSha256Hex(key, canonicalJson(sent, ARGUMENT_LIMITS));
    const line = entryLine(`${DAY}T10:00:00.000Z`, {
      ...tool("0"),
      caller: { sub: "agent-0", iss: "https://idp.test", permissions: [] },
      request: { args, argsHash, hashAlg: "hmac-sha256" },
      ...denied("POLICY_DENIED", "PERMISSION"),
      stages: { VALIDATION: 0.1, PLAN: 0.1, APPROVAL: 0.1 },
    } as Parameters<typeof entryLine>[1]);
    writeDays(dir, { [DAY]: [line] });
    const asked = { parts: { ...parts, hashKey: key }, config, dir, filter: {}, asksExternal: false };
    expect(await replay(asked)).toMatchObject({ unchanged: 1 });
    expect(await replay({ ...asked, parts: { ...parts, hashKey: undefined } })).toMatchObject({ notJudged: UNJUDGED });
  });
});
