import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Approvals, KeyUse, StoredAnswer } from "../../../src/approvals/types.ts";
import { sha256Hex } from "../../../src/core/digest.ts";
import { type ApprovalWorld, createApprovalWorld } from "../../support/approvals.ts";

let world: ApprovalWorld;
let store: Approvals;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
});
afterEach(() => world.end());

const USE: KeyUse = {
  issuer: "https://idp.example",
  subject: "agent-1",
  tool: "deploy",
  keyHash: "k".repeat(64),
  argsHash: "a".repeat(64),
};
const ANSWER = {
  result: { done: true, note: "\ud800\u0000é" },
  filteredFields: ["items[].email"],
  outputHash: "f".repeat(64),
};
const FOUND = { claimant: "log-a", approvalId: undefined };
const DAY_MS = 86_400_000;
const LEASE_MS = 900_000;

test("the first use begins, the next waits for it, and later ones get its answer for a day", async () => {
  expect(await store.beginKey(USE)).toEqual({ outcome: "begin" });
  expect(await store.beginKey(USE)).toEqual({ outcome: "running" });
  await store.endKey(USE, ANSWER);
  world.now += DAY_MS - 1;
  expect(await store.beginKey(USE)).toEqual({ outcome: "answered", answer: ANSWER });
  world.now += 1;
  expect(await store.beginKey(USE)).toEqual({ outcome: "begin" });
});

test("of many concurrent first uses one begins", async () => {
  const states = await Promise.all(Array.from({ length: 30 }, () => store.beginKey(USE)));
  expect(states.filter(({ outcome }) => outcome === "begin")).toHaveLength(1);
  expect(states.filter(({ outcome }) => outcome === "running")).toHaveLength(29);
});

const OTHERS: readonly (readonly [title: string, more: Partial<KeyUse>, outcome: string])[] = [
  ["arguments", { argsHash: "b".repeat(64) }, "other_args"],
  ["key", { keyHash: "l".repeat(64) }, "begin"],
  ["tool", { tool: "undeploy" }, "begin"],
  ["subject", { subject: "agent-2" }, "begin"],
  ["issuer", { issuer: "https://other.example" }, "begin"],
];

test.each(OTHERS)("with other %s", async (_title, more, outcome) => {
  await store.beginKey(USE);
  expect(await store.beginKey({ ...USE, ...more })).toEqual({ outcome } as never);
  await store.endKey(USE, ANSWER);
  const after = outcome === "begin" ? "running" : outcome;
  expect(await store.beginKey({ ...USE, ...more })).toEqual({ outcome: after } as never);
});

test("a use that ran nothing may begin again with the same arguments", async () => {
  await store.beginKey(USE);
  await store.endKey(USE, "not_run");
  expect(await store.beginKey({ ...USE, argsHash: "b" })).toEqual({ outcome: "other_args" });
  expect(await store.beginKey(USE)).toEqual({ outcome: "begin" });
  expect(await store.beginKey(USE)).toEqual({ outcome: "running" });
});

test("the outcome of a use is unknown at once when its process is known to have ended", async () => {
  await store.doubtKey(USE);
  expect(await store.beginKey(USE)).toEqual({ outcome: "begin" });
  await store.doubtKey({ ...USE, subject: "agent-2" });
  expect(await store.beginKey(USE)).toEqual({ outcome: "running" });
  await store.doubtKey(USE);
  expect(await store.beginKey(USE)).toEqual({ outcome: "unknown" });
  await store.endKey(USE, ANSWER);
  expect(await store.beginKey(USE)).toEqual({ outcome: "unknown" });
});

test("the uses of a process that has ended are unknown at once, and those of others are not", async () => {
  const [answered, notRun, taken, others] = ["b", "c", "d", "e"].map((name) => ({ ...USE, keyHash: name.repeat(64) }));
  world.claimant = "log-a";
  for (const use of [USE, answered, notRun, taken]) await store.beginKey(use as KeyUse);
  await store.endKey(answered as KeyUse, ANSWER);
  for (const use of [notRun, taken]) await store.endKey(use as KeyUse, "not_run");
  world.claimant = "log-b";
  for (const use of [taken, others]) await store.beginKey(use as KeyUse);
  await store.doubtClaimsOf("log-a");
  expect(await store.beginKey(USE)).toEqual({ outcome: "unknown" });
  expect(await store.beginKey(answered as KeyUse)).toEqual({ outcome: "answered", answer: ANSWER });
  for (const use of [taken, others]) expect(await store.beginKey(use as KeyUse)).toEqual({ outcome: "running" });
  expect(await store.beginKey(notRun as KeyUse)).toEqual({ outcome: "begin" });
  await store.endKey(taken as KeyUse, ANSWER);
  expect(await store.beginKey(taken as KeyUse)).toEqual({ outcome: "answered", answer: ANSWER });
});

test("a key that another process uses again after its time is not ended with the process that used it first", async () => {
  world.claimant = "log-a";
  await store.beginKey(USE);
  world.now += LEASE_MS + DAY_MS;
  world.claimant = "log-b";
  expect(await store.beginKey(USE)).toEqual({ outcome: "begin" });
  await store.doubtClaimsOf("log-a");
  await store.doubtKey(USE);
  expect(await store.beginKey(USE)).toEqual({ outcome: "running" });
});

test("an answer that is stored stays when its process ends later", async () => {
  await store.beginKey(USE);
  await store.endKey(USE, ANSWER);
  await store.doubtKey(USE);
  expect(await store.beginKey(USE)).toEqual({ outcome: "answered", answer: ANSWER });
});

describe("an unknown use whose outcome is found later", () => {
  const { argsHash: _, ...key } = USE;
  const found = (isDone: boolean) => ({ ...FOUND, key, startedAt: world.now, isDone });

  test("runs again where nothing was changed", async () => {
    await store.beginKey(USE);
    await store.resolveDoubt(found(false));
    expect(await store.beginKey(USE)).toEqual({ outcome: "running" });
    await store.doubtKey(key);
    await store.resolveDoubt(found(false));
    expect(await store.beginKey({ ...USE, argsHash: "b" })).toEqual({ outcome: "other_args" });
    expect(await store.beginKey(USE)).toEqual({ outcome: "begin" });
  });

  test("is answered without its result where the change was made, for good", async () => {
    await store.beginKey(USE);
    await store.doubtKey(key);
    await store.resolveDoubt(found(true));
    const answer = { result: null, filteredFields: ["*"], truncated: true, outputHash: sha256Hex("null") };
    expect(await store.beginKey(USE)).toEqual({ outcome: "answered", answer: answer as StoredAnswer });
    await store.resolveDoubt(found(false));
    expect(await store.beginKey(USE)).toEqual({ outcome: "answered", answer: answer as StoredAnswer });
  });

  test("stays unknown where the key may have been used again since", async () => {
    await store.beginKey(USE);
    await store.doubtKey(key);
    for (const startedAt of [world.now - DAY_MS, Number.NaN]) {
      await store.resolveDoubt({ ...found(false), startedAt });
      expect(await store.beginKey(USE)).toEqual({ outcome: "unknown" });
    }
  });
});

test("an unknown outcome stays unknown", async () => {
  await store.beginKey(USE);
  await store.endKey(USE, "unknown");
  await store.endKey(USE, "not_run");
  expect(await store.beginKey(USE)).toEqual({ outcome: "unknown" });
  await store.close();
  store = await world.open();
  expect(await store.beginKey(USE)).toEqual({ outcome: "unknown" });
});

test("a use whose lease ended is unknown, after a restart too, until its end is reported", async () => {
  await store.beginKey(USE);
  await store.close();
  store = await world.open();
  world.now += LEASE_MS - 1;
  expect(await store.beginKey(USE)).toEqual({ outcome: "running" });
  world.now += 1;
  expect(await store.beginKey(USE)).toEqual({ outcome: "unknown" });
  await store.endKey(USE, ANSWER);
  expect(await store.beginKey(USE)).toEqual({ outcome: "answered", answer: ANSWER });
});

test("an end is reported once, and only by a use with the same arguments", async () => {
  await store.endKey(USE, ANSWER);
  expect(await store.beginKey(USE)).toEqual({ outcome: "begin" });
  await store.endKey({ ...USE, argsHash: "b" }, ANSWER);
  expect(await store.beginKey(USE)).toEqual({ outcome: "running" });
  await store.endKey(USE, ANSWER);
  await store.endKey(USE, "not_run");
  expect((await store.beginKey(USE)).outcome).toBe("answered");
});

const WITHHELD = { result: null, filteredFields: ["*"], truncated: true, outputHash: "" };

test.each([
  ["just fits", 1_048_576, "unknown", { outcome: "answered", answer: { result: expect.any(String) } }],
  ["is a byte too large", 1_048_577, "unknown", { outcome: "answered", answer: WITHHELD }],
  ["is a byte too large, of a call that may be repeated", 1_048_577, "not_run", { outcome: "begin" }],
] as const)("an answer that %s", async (_title, bytes, unkept, want) => {
  const overhead = JSON.stringify({ result: "", filteredFields: [], outputHash: "" }).length;
  await store.beginKey(USE);
  await store.endKey(USE, { result: "x".repeat(bytes - overhead), filteredFields: [], outputHash: "" }, unkept);
  expect(await store.beginKey(USE)).toMatchObject(want);
});

test("one caller's answers use limited storage, and expired ones free it", async () => {
  const answer = { result: "x".repeat(1_000_000), filteredFields: [], outputHash: "" };
  const run = async (index: number) => {
    const use = { ...USE, keyHash: `${index}` };
    await store.beginKey(use);
    await store.endKey(use, answer);
    const state = await store.beginKey(use);
    return "answer" in state && state.answer.result === null ? "withheld" : state.outcome;
  };
  const outcomes: string[] = [];
  for (let index = 0; index < 70; index += 1) outcomes.push(await run(index));
  expect(outcomes.filter((outcome) => outcome === "answered")).toHaveLength(67);
  expect(outcomes.slice(67)).toEqual(["withheld", "withheld", "withheld"]);
  world.now += DAY_MS;
  await store.sweep();
  expect(await run(100)).toBe("answered");
});
