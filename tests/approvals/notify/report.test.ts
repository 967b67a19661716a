import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../../src/approvals/approvals.ts";
import { offerFor } from "../../../src/approvals/grants.ts";
import { type ReportRow, reportOf } from "../../../src/approvals/notify/report.ts";
import type { NewApproval } from "../../../src/approvals/types.ts";
import { AGENT, type ApprovalWorld, askFor, createApprovalWorld, OPERATOR } from "../../support/approvals.ts";

const HOUR_MS = 3_600_000;
const BOB = { ...OPERATOR, subject: "bob" };

let world: ApprovalWorld;
let store: OpenedApprovals;
let asked = 0;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open({ pendingPerCallerMax: 1_000, pendingPerSessionMax: 1_000, coolDownSeconds: 1 });
});
afterEach(() => world.end());

interface Answered extends Partial<NewApproval> {
  readonly by?: typeof OPERATOR;
  readonly decision?: "approve" | "deny";
  readonly afterMs?: number;
}

async function answer({ by = OPERATOR, decision = "approve", afterMs = 10_000, ...question }: Answered = {}) {
  asked += 1;
  const { id } = await askFor(store, { planDigest: String(asked).padStart(64, "0"), grantKey: undefined, ...question });
  world.now += afterMs;
  await store.decide({ id, by, decision });
}

const wholeReport = () => store.report({ from: world.now - 24 * HOUR_MS, to: world.now + 1 });

describe("APR-60: how people answer", () => {
  test("without approval requests the report is empty", async () => {
    expect(await wholeReport()).toMatchObject({
      ...{ asked: 0, approved: 0, denied: 0, isWhole: true, alerts: [], tools: [], deciders: [], suggestions: [] },
      ...{ approvalRate: null, medianSeconds: null, p90Seconds: null, hastyShare: null },
    });
  });

  test("rate, times and results, by tool and by person", async () => {
    for (const afterMs of [1_000, 2_000, 3_000, 4_000]) await answer({ afterMs });
    await answer({ afterMs: 100_000, by: BOB, decision: "deny", tool: "erase", planDigest: "e".repeat(64) });
    await askFor(store, { tool: "erase", planDigest: "d".repeat(64) });
    world.now += 700_000;
    await store.sweep();
    const cancelled = await askFor(store, { planDigest: "c".repeat(64) });
    await store.cancel(cancelled.id, AGENT);
    await askFor(store, { planDigest: "b".repeat(64) });
    const report = await wholeReport();
    expect(report).toMatchObject({
      ...{ asked: 8, approved: 4, denied: 1, expired: 1, cancelled: 1, pending: 1, alerts: [] },
      ...{ approvalRate: 0.8, medianSeconds: 3, p90Seconds: 100, hastyShare: 0.6 },
    });
    expect(report.tools).toMatchObject([
      { tool: "deploy", asked: 6, approved: 4, denied: 0, expired: 0, medianSeconds: 2 },
      { tool: "erase", asked: 2, approved: 0, denied: 1, expired: 1, approvalRate: 0 },
    ]);
    expect(report.deciders).toMatchObject([
      { sub: "ann", approved: 4, denied: 0, approvalRate: 1, perHour: 4, busiestHour: 4 },
      { sub: "bob", approved: 0, denied: 1, hastyShare: 0 },
    ]);
  });

  test("an approval that expired unused or was revoked is still an approval", async () => {
    await answer();
    world.now += 301_000;
    await store.sweep();
    expect(await wholeReport()).toMatchObject({ approved: 1, denied: 0, expired: 0 });
  });

  test("an approval that its caller cancelled unused is still an approval: every request has one outcome", async () => {
    const { id } = await askFor(store);
    await store.decide({ id, by: OPERATOR, decision: "approve" });
    await store.cancel(id, AGENT);
    expect(await wholeReport()).toMatchObject({
      asked: 1,
      approved: 1,
      denied: 0,
      expired: 0,
      cancelled: 0,
      pending: 0,
    });
  });

  test("an approver before the last one is counted too, with their own time", async () => {
    const stages = [{ name: "pair", count: 2, deciders: { permissions: [] } }];
    const requirement = {
      ...({ digest: "d".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false } as const),
      policies: [{ name: "two", distinctPeople: true, stages }],
    };
    const approved = await askFor(store, { requirement });
    world.now += 1_000;
    await store.decide({ id: approved.id, by: OPERATOR, decision: "approve" });
    world.now += 9_000;
    await store.decide({ id: approved.id, by: BOB, decision: "approve" });
    const denied = await askFor(store, { requirement, planDigest: "f".repeat(64) });
    world.now += 1_000;
    await store.decide({ id: denied.id, by: OPERATOR, decision: "approve" });
    world.now += 4_000;
    await store.decide({ id: denied.id, by: BOB, decision: "deny" });
    const report = await wholeReport();
    expect(report).toMatchObject({ asked: 2, approved: 1, denied: 1, medianSeconds: 5, p90Seconds: 10, hastyShare: 0 });
    expect(report.deciders).toMatchObject([
      { sub: "ann", approved: 2, denied: 0, medianSeconds: 1, hastyShare: 1, busiestHour: 2 },
      { sub: "bob", approved: 1, denied: 1, medianSeconds: 5, p90Seconds: 10, hastyShare: 0 },
    ]);
  });

  test("by hour and person: asked, decided, median, and approvals within three seconds", async () => {
    world.now = Date.parse("2026-02-16T12:58:00.000Z");
    const named = (...subjects: readonly string[]) => ({
      permissions: [],
      subjects: subjects.map((subject) => ({ issuer: OPERATOR.issuer, subject })),
    });
    const requirement = {
      ...({ digest: "n".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false } as const),
      policies: [
        {
          ...{ name: "named", distinctPeople: true },
          stages: [{ name: "one", count: 1, deciders: named("ann", "agent-1", "cleo") }],
          escalate: [{ afterSeconds: 30, adds: { stage: 0, deciders: named("dora") } }],
        },
      ],
    };
    await answer({ requirement, afterMs: 3_000 });
    await answer({ afterMs: 3_001 });
    await answer({ afterMs: 1_000, by: BOB, decision: "deny" });
    // Asked in this hour, escalated, and decided in the next one.
    const late = await askFor(store, { requirement, planDigest: "e".repeat(64) });
    world.now += 30_000;
    await store.sweep();
    world.now += 120_000;
    await store.decide({ id: late.id, by: OPERATOR, decision: "approve" });
    const { issuer: iss } = OPERATOR;
    const idle = { decided: 0, medianSeconds: null, quickApprovalShare: null };
    expect((await wholeReport()).hours).toEqual([
      {
        ...{ from: "2026-02-16T13:00:00.000Z", asked: 0, decided: 1 },
        approvers: [{ iss, sub: "ann", asked: 0, decided: 1, medianSeconds: 150, quickApprovalShare: 0 }],
      },
      {
        ...{ from: "2026-02-16T12:00:00.000Z", asked: 4, decided: 3 },
        approvers: [
          { iss, sub: "ann", asked: 3, decided: 2, medianSeconds: 3, quickApprovalShare: 0.5 },
          { iss, sub: "bob", asked: 1, decided: 1, medianSeconds: 1, quickApprovalShare: 0 },
          { iss, sub: "cleo", asked: 2, ...idle },
          { iss, sub: "dora", asked: 1, ...idle },
        ],
      },
    ]);
  });

  test("prompts per person and hour", async () => {
    for (let count = 0; count < 3; count += 1) await answer({ afterMs: 1_000 });
    world.now += HOUR_MS;
    await answer({ afterMs: 1_000 });
    expect((await wholeReport()).deciders).toMatchObject([{ perHour: 2, busiestHour: 3 }]);
  });

  test.each([
    ["19 of 19", 19, 0, 10_000, []],
    ["20 of 20", 20, 0, 10_000, ["approval_rate"]],
    ["19 of 20, which is 95 %", 19, 1, 10_000, []],
    ["in three seconds", 15, 5, 3_000, ["hasty_share"]],
    ["later", 15, 5, 3_001, []],
    ["half of them denied, in no time", 10, 10, 100, []],
    ["everything, in no time", 20, 0, 100, ["approval_rate", "hasty_share"]],
  ] as const)("alerts: %s", async (_, yes, no, afterMs, alerts) => {
    for (let count = 0; count < yes; count += 1) await answer({ afterMs });
    for (let count = 0; count < no; count += 1) await answer({ afterMs, decision: "deny" });
    const report = await wholeReport();
    expect(report.alerts).toEqual([...alerts]);
    expect(report.deciders[0]?.alerts).toEqual([...alerts]);
  });

  test("only approval requests of the period are counted", async () => {
    await answer();
    const from = world.now;
    world.now += HOUR_MS;
    await answer();
    const { now } = world;
    expect(await store.report({ from, to: now })).toMatchObject({ asked: 1 });
    expect(await store.report({ from: 0, to: from })).toMatchObject({ asked: 1 });
    expect(await store.report({ from: now, to: now + HOUR_MS })).toMatchObject({ asked: 0 });
  });

  test("more rows than one read returns", async () => {
    // All of one moment: what is left out or counted twice would be seen.
    for (let count = 0; count < 520; count += 1) {
      await store.ask({
        ...{ requester: { ...AGENT, subject: `agent-${count % 4}` }, tool: "deploy", category: "write" },
        ...{ classification: "write", risk: "low", rules: [], view: {}, summary: "s", scopes: ["once"], traceId: "t" },
        ...{ planDigest: String(count).padStart(64, "0"), viewDigest: "b".repeat(64), grantKey: undefined },
      });
    }
    expect(await wholeReport()).toMatchObject({ asked: 520, pending: 520, isWhole: true });
  });
});

describe("APR-60: rules that would avoid approval requests", () => {
  test("the same call in one session, always approved", async () => {
    const same = { grantKey: "1".repeat(64) };
    for (let count = 0; count < 4; count += 1) await answer(same);
    expect((await wholeReport()).suggestions).toEqual([{ kind: "session_scope", tool: "deploy", prompts: 3 }]);
  });

  test.each([
    ["refused once", [{ decision: "deny" }]],
    ["in two sessions", [{ requester: { ...AGENT, session: "sid-2" } }, { requester: { ...AGENT, session: "sid-2" } }]],
    [
      "of two callers",
      [{ requester: { ...AGENT, subject: "agent-2" } }, { requester: { ...AGENT, subject: "agent-2" } }],
    ],
    ["without a session", [{ requester: { ...AGENT, session: undefined } }]],
    ["of high risk", [{ risk: "high" }, { risk: "high" }]],
    ["that destroys", [{ classification: "destructive" }, { classification: "destructive" }]],
    ["that offers no session", [{ scopes: ["once"] }]],
  ] as const)("calls that were %s suggest nothing", async (_, others) => {
    const same = { grantKey: "1".repeat(64) };
    await answer(same);
    await answer(same);
    for (const other of others) await answer({ ...same, ...(other as Answered) });
    expect((await wholeReport()).suggestions).toEqual([]);
  });

  test("calls that a bounded grant could cover, approved one by one", async () => {
    const scopes = ["once", "bounded"] as const;
    const offer = offerFor(
      {
        ...{ requester: AGENT, boundsKey: "k", input: {}, isElevated: false, risk: "medium", rules: [] },
      },
      { runs: 9, minutes: 9 },
      "s",
    );
    for (let count = 0; count < 6; count += 1) await answer({ category: "network", scopes, offer });
    expect((await wholeReport()).suggestions).toEqual([{ kind: "bounded_grant", tool: "deploy", prompts: 5 }]);
  });

  test("a tool that only reads; the writes of one session", async () => {
    for (let count = 0; count < 5; count += 1) await answer({ tool: "look", classification: "read", category: "read" });
    for (let count = 0; count < 10; count += 1) await answer({ category: "write" });
    expect((await wholeReport()).suggestions).toEqual([
      { kind: "auto_edit", tool: undefined, prompts: 10 },
      { kind: "read_tool", tool: "look", prompts: 5 },
    ]);
  });
});

test("the lists of a report are limited", () => {
  const rows: readonly ReportRow[] = Array.from({ length: 500 }, (_, index) => ({
    ...{ tool: `tool-${index}`, category: "write", classification: "read", risk: "low", session: `s-${index}` },
    ...{
      requester: "[]",
      grantKey: "k",
      offersSession: true,
      offersBounded: false,
      state: "approved",
      isApproved: true,
      scope: "once",
    },
    ...{
      createdAt: index,
      decidedAt: index + 1,
      approver: { issuer: "i", subject: `p-${index}` },
      votes: [],
      named: [],
    },
  }));
  const report = reportOf(rows, { from: 0, to: 1_000, isWhole: true });
  expect([report.tools.length, report.deciders.length]).toEqual([100, 100]);
});
