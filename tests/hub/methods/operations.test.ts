import { expect, test } from "bun:test";
import * as flowAnswers from "../../../src/data-flow/answer-operations.ts";
import * as flowRest from "../../../src/data-flow/operations.ts";
import type { Operation, StateOperations } from "../../../src/database/operations.ts";
import { operationsOn } from "../../../src/database/operations.ts";
import { openSharedState } from "../../../src/database/shared-state.ts";
import { Halts } from "../../../src/halts/halts.ts";
import * as halts from "../../../src/halts/operations.ts";
import { decodeWire, encodeWire } from "../../../src/hub/wire.ts";
import * as quotas from "../../../src/quotas/operations.ts";
import { Quotas } from "../../../src/quotas/quotas.ts";
import { StoredPolicy } from "../../data-flow/stored-policy.ts";
import { callerOf, run, toolOf } from "../../quotas/world.ts";

const isOperation = (value: unknown): value is Operation<unknown, unknown> =>
  typeof value === "object" && value !== null && "run" in value && "input" in value;
const flow = { ...flowAnswers, ...flowRest };
const ALL = [flow, halts, quotas].flatMap((module) => Object.values(module).filter(isOperation));

const sent = (value: unknown): unknown => decodeWire(encodeWire(value));
const NOW = 1_000_000;
const BY = { issuer: "https://staff.test", subject: "olga" };

/** Operations that check what passes them, and note their names. */
function checked(operations: StateOperations, seen: Set<string>): StateOperations {
  return {
    ...operations,
    async run<Input, Output>(operation: Operation<Input, Output>, input: Input) {
      const arrived = operation.input.parse(sent(input));
      expect(arrived).toEqual(input);
      const { value, now } = await operations.run(operation, arrived);
      expect(sent(value)).toEqual(value);
      seen.add(operation.name);
      return { value: sent(value) as Output, now };
    },
  };
}

const read = toolOf("read_things");
const RARE = Array.from({ length: 40 }, (_, at) => `zuq${at.toString(26)}xvyl`).join(" ");

test("every operation's input passes its own schema after it was sent, and so does its output", async () => {
  const state = openSharedState({ now: () => NOW, monotonic: () => performance.now() });
  const seen = new Set<string>();
  let ids = 0;
  const clocks = { clock: () => NOW, monotonic: () => performance.now(), log: () => {} };
  const operations = checked(
    operationsOn(state, async () => {}),
    seen,
  );

  const process = new Halts({
    state: operations,
    ...clocks,
    file: undefined,
    journal: async () => {},
    newId: () => {
      ids += 1;
      return `halt-${ids}`;
    },
    whenUnknown: "keepLast",
  });
  const target = { kind: "caller", issuer: "https://i.test", value: "a" } as const;
  await process.set({ target, reason: "r", cancelRunning: true, forMs: 1_000, by: BY });
  await process.set({ target: { kind: "all", issuer: "", value: "" }, reason: "r", cancelRunning: false, by: BY });
  await process.lift("halt-1", BY);
  expect(await process.lift("none", BY)).toBeUndefined();
  await operations.run(halts.sweepHalts, {});

  const rules = [
    { name: "daily", per: ["caller", "tool"], calls: 3, window: "day" },
    { name: "money", per: [], cost: 1.5, window: "month" },
  ] as const;
  const quota = new Quotas({ rules, state: operations, ...clocks });
  await run(quota, { tool: read, caller: callerOf("ann") });
  await quota.judge({ tool: read, caller: callerOf("ben") });
  await quota.list({ filter: { quota: "daily", subject: "ann" }, limit: 10 });
  await quota.list({ filter: {}, after: { quota: "daily", used: 1, id: "x" }, limit: 10 });
  await quota.reset({ quota: "daily" });
  await quota.close();
  await quota.sweep();

  const policy = new StoredPolicy({ operations });
  await policy.reads("read_mail", { body: RARE });
  await policy.reads("read_mail", { body: `${RARE} and more` });
  await policy.writes("keep_note", { text: RARE });
  await policy.reads("list_notes", { notes: [RARE] }, "reader");
  await policy.isAsked("write to bob@partner.test");
  await policy.asks("send_mail", { to: ["mark@evil.test"], body: RARE });
  await policy.isVouched("mark@evil.test");
  const caller = { issuer: "https://issuer.test", subject: "agent-7" };
  expect(await policy.labelsOf("agent-7")).toMatchObject([{ label: "untrusted", tool: "read_mail" }]);
  expect(await policy.labelsOf("reader")).toMatchObject([{ label: "untrusted", stored: { tool: "keep_note" } }]);
  await operations.run(flow.clearCaller, caller);
  await operations.run(flow.flowChanges, {});
  await operations.run(flow.sweepFlow, {});

  expect([...seen].sort()).toEqual(ALL.map(({ name }) => name).sort());
  await state.close();
});

test("no two operations have the same name, and all inputs are strict and bounded", () => {
  const names = ALL.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  const long = "x".repeat(100_000);
  const carrier = { issuer: "i", subject: "s", session: "" };
  const answer = { tool: "t", traceId: "", rememberMs: 1, marks: [], rows: [], carriers: [] };
  const rejected: readonly (readonly [Operation<never, unknown>, unknown])[] = [
    ...ALL.map((operation) => [operation as Operation<never, unknown>, { stranger: 1 }] as const),
    [flow.readCarriers as never, { carriers: [{ ...carrier, subject: long, since: 0, known: [] }] }],
    [flow.readCarriers as never, { carriers: Array.from({ length: 17 }, () => ({ ...carrier, since: 0, known: [] })) }],
    [flow.readCarriers as never, { carriers: [{ ...carrier, since: 0, known: Array(3_000).fill("x") }] }],
    [flow.addAnswer as never, { ...answer, tool: "the user's request" }],
    [flow.rememberAnswer as never, { ...answer, tool: "an approver's answer" }],
    [flow.addAnswer as never, { ...answer, rows: [rowOf(new Uint8Array(flow.ANSWER_BYTES_MAX + 1))] }],
    [flow.addAnswer as never, { ...answer, rows: [{ ...rowOf(new Uint8Array()), prints: "bytes" }] }],
    [flow.storeText as never, { seq: 0, storedMs: 1, text: textOf(new Uint8Array(flow.TEXT_BYTES_MAX + 1)) }],
    [quotas.fillOrders as never, { orders: [{ ...ORDER, owed: -1 }] }],
    [quotas.fillOrders as never, { orders: Array(33).fill(ORDER) }],
  ];
  for (const [operation, input] of rejected) expect(operation.input.safeParse(input).success).toBe(false);
  const accepted: readonly (readonly [Operation<never, unknown>, unknown])[] = [
    [flow.addAnswer as never, { ...answer, rows: [rowOf(new Uint8Array(flow.ANSWER_BYTES_MAX))] }],
    [flow.storeText as never, { seq: 0, storedMs: 1, text: textOf(new Uint8Array(flow.TEXT_BYTES_MAX)) }],
    [quotas.fillOrders as never, { orders: [ORDER] }],
  ];
  for (const [operation, input] of accepted) expect(operation.input.safeParse(input).error).toBeUndefined();
});

const rowOf = (prints: Uint8Array) => ({ id: "a", of: "", labels: [], fields: [], prints });
const textOf = (prints: Uint8Array) => ({
  ...{ issuer: "i", subject: "s", tool: "t", traceId: "", system: "", labels: [], prints },
});
const ORDER = {
  quota: { name: "q", unit: "calls", window: "day", limit: 1 },
  user: { issuer: "i", subject: "s", tool: "", system: "" },
  ...{ owed: 0, wanted: 1, least: 1, inBlocks: false, knownUse: 0 },
};

test("the largest answers and texts that may be sent fit into a request of the hub", () => {
  const field = { path: "x".repeat(120), isTrusted: false };
  const row = { ...rowOf(new Uint8Array(flow.ANSWER_BYTES_MAX)), fields: Array.from({ length: 256 }, () => field) };
  expect(() => encodeWire({ rows: [row, row, row, row] })).not.toThrow();
  expect(() => encodeWire({ text: textOf(new Uint8Array(flow.TEXT_BYTES_MAX)) })).not.toThrow();
});
