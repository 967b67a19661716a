import { afterEach, beforeEach, expect, test } from "bun:test";
import type { ResolvedDoubt } from "../../../src/approvals/types.ts";
import { intentLine } from "../../../src/audit/journal/journal.ts";
import type { ChangeFinding } from "../../../src/core/target-kind.ts";
import { resolveInterrupted } from "../../../src/runtime/composition/interrupted-changes.ts";
import type { Config } from "../../../src/runtime/config/config.ts";
import { createWorld, draftOf, NOON, type World } from "../../audit/support/open.ts";
import { until } from "../../support/until.ts";

let world: World;
beforeEach(() => {
  world = createWorld();
});
afterEach(() => world.end());

const { caller, request } = draftOf("");
const tool = { name: "add", classification: "write", targetSystem: "shop" } as const;
const approval = { id: "a-1", by: "human:bob" };
const key = { issuer: "https://idp.example", subject: "agent-1", tool: "add", keyHash: "k" };

/** Announces calls that have no entry when their process ends. Each has recorded these transactions. */
async function interrupt(calls: Readonly<Record<string, readonly string[]>>): Promise<void> {
  const log = world.open();
  for (const [traceId, transactions] of Object.entries(calls)) {
    await log.journal(intentLine({ traceId, caller, tool, request, approval, keyHash: "k" }));
    for (const transaction of transactions)
      await log.journal({ type: "change.prepared", traceId, system: "shop", transaction });
  }
  await world.stop();
}

type Answers = Readonly<Record<string, ChangeFinding["outcome"] | undefined>>;

/** The next start: returns what it asked, what it settled and what its journal says. */
async function nextStart(answers: Answers) {
  const asked: unknown[] = [];
  const settled: ResolvedDoubt[] = [];
  const errors: unknown[] = [];
  const audit = world.open();
  const config = { audit: { dir: world.dir }, folder: "/" } as unknown as Config;
  const resolving = resolveInterrupted(config, {
    clock: () => world.now,
    logError: (...error) => void errors.push(error),
    audit,
    approvals: { resolveDoubt: async (doubt) => void settled.push(doubt) },
    targets: () => ({
      mayResolve: true,
      async resolve(system, { transaction }) {
        asked.push([system, transaction]);
        const outcome = answers[String(transaction)];
        return outcome && { outcome };
      },
    }),
  });
  const mayAskAgain = Object.values(answers).includes("in progress");
  if (mayAskAgain)
    await until("what can be said now", () => (asked.length === Object.keys(answers).length ? true : undefined));
  else await resolving.done;
  await resolving.close();
  await world.stop();
  expect(errors).toEqual([]);
  const lines = world.lines("journal/2026-02-16.jsonl");
  return { asked, settled, resolved: lines.filter(({ type }) => type === "change.resolved") };
}

test.each([
  ["committed", "its transaction is", ["7"], { 7: "committed" }, true],
  ["aborted", "its transaction is", ["7"], { 7: "aborted" }, false],
  ["committed", "one of its attempts is", ["7", "8"], { 7: "aborted", 8: "committed" }, true],
  ["aborted", "all of its attempts are", ["7", "8"], { 7: "aborted", 8: "aborted" }, false],
] as const)("a call is %s when %s", async (outcome, _when, transactions, answers, isDone) => {
  await interrupt({ "t-1": transactions });
  const { resolved, settled } = await nextStart(answers);
  const transaction = transactions.at(-1);
  expect(resolved).toEqual([expect.objectContaining({ traceId: "t-1", system: "shop", transaction, outcome })]);
  const claimant = expect.any(String);
  expect(settled).toEqual([{ claimant, approvalId: "a-1", key, startedAt: NOON, isDone }] as never);
});

test("a call with one unknown attempt is unknown, and settles nothing", async () => {
  await interrupt({ "t-1": ["7", "8"] });
  const { resolved, settled } = await nextStart({ 7: "aborted", 8: "unknown" });
  expect(resolved).toEqual([expect.objectContaining({ transaction: "8", outcome: "unknown" })]);
  expect(settled).toEqual([]);
});

test("a call is resolved once, and one in progress by a later start", async () => {
  await interrupt({ "t-1": ["7"], "t-2": ["8"], "t-3": [] });
  expect((await nextStart({ 7: "committed", 8: "in progress" })).resolved).toHaveLength(1);
  const { asked, resolved } = await nextStart({ 8: "aborted" });
  expect(asked).toEqual([["shop", "8"]]);
  expect(resolved.at(-1)).toMatchObject({ traceId: "t-2", outcome: "aborted" });
});

test("a call of a system that keeps no record, or of former days, has no line", async () => {
  await interrupt({ "t-1": ["7"] });
  expect(await nextStart({})).toEqual({ asked: [["shop", "7"]], settled: [], resolved: [] });
  world.now += 3 * 86_400_000;
  expect(await nextStart({})).toEqual({ asked: [], settled: [], resolved: [] });
});
