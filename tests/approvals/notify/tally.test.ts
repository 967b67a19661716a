import { afterEach, beforeEach, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../../src/approvals/approvals.ts";
import { offerFor } from "../../../src/approvals/grants.ts";
import { DecisionTally } from "../../../src/approvals/notify/tally.ts";
import { createMetrics } from "../../../src/http/metrics.ts";
import { AGENT, type ApprovalWorld, askFor, createApprovalWorld, OPERATOR } from "../../support/approvals.ts";

let world: ApprovalWorld;
let store: OpenedApprovals;
let tally: DecisionTally;
let plans = 0;
beforeEach(async () => {
  world = createApprovalWorld();
  tally = new DecisionTally();
  const opened = await world.open({ pendingPerCallerMax: 1_000, pendingPerSessionMax: 1_000 });
  store = { ...opened, ...tally.counted(opened) };
});
afterEach(() => world.end());

async function decide(subject: string, decision: "approve" | "deny", afterMs = 10_000): Promise<void> {
  plans += 1;
  const { id } = await askFor(store, { planDigest: `plan ${plans}` });
  world.now += afterMs;
  await store.decide({ id, by: { ...OPERATOR, subject }, decision });
}

async function metrics(): Promise<string> {
  const made = createMetrics();
  for (const line of world.lines) tally.noteLine(line);
  made.watch({ approvals: () => ({ ...store, tally }) });
  return made.text();
}

test("requests, and the decisions of each approver with those within three seconds, are counted", async () => {
  await decide("ann", "approve", 3_000);
  await decide("ann", "approve", 3_001);
  await decide("ann", "deny", 1);
  await decide('b"ob\n', "approve", 0);
  const text = await metrics();
  const ann = 'issuer="https://people.example",approver="ann"';
  expect(text).toContain("stc_approvals_requested_total 4\n");
  expect(text).toContain(`stc_approver_decisions_total{${ann},decision="approve"} 2\n`);
  expect(text).toContain(`stc_approver_decisions_total{${ann},decision="deny"} 1\n`);
  expect(text).toContain(`stc_approver_quick_approvals_total{${ann}} 1\n`);
  expect(text).toContain('approver="b\\"ob\\n",decision="approve"} 1\n');
});

test("an attempt that does not count is not counted; a vote before the last one is", async () => {
  const requirement = {
    ...({ digest: "d", reasonRequired: "never", scopes: ["once"], callback: false } as const),
    policies: [
      { name: "two", distinctPeople: true, stages: [{ name: "pair", count: 2, deciders: { permissions: ["team"] } }] },
    ],
  };
  const { id } = await askFor(store, { requirement });
  const vote = (subject: string, permissions: readonly string[]) =>
    store.decide({ id, by: { ...OPERATOR, subject }, permissions, decision: "approve" });
  await vote("zoe", []);
  world.now += 2_000;
  await vote("ann", ["team"]);
  await vote("ann", ["team"]);
  world.now += 2_000;
  await vote("bob", ["team"]);
  expect([...tally.approvers()].map(({ approver, approve, quick }) => [approver.subject, approve, quick])).toEqual([
    ["ann", 1, 1],
    ["bob", 1, 0],
  ]);
});

test("after a hundred approvers, the others share one name", async () => {
  for (let count = 0; count < 103; count += 1) await decide(`person-${count}`, "approve");
  await decide("person-7", "deny");
  const text = await metrics();
  const names = [...text.matchAll(/stc_approver_decisions_total\{.*approver="([^"]+)",decision="approve"\} (\d+)/g)];
  expect(names).toHaveLength(101);
  expect(names.at(-1)?.slice(1)).toEqual(["other", "3"]);
  expect(text).toContain('approver="person-7",decision="deny"} 1\n');
});

test("grants and the runs of bounded ones are counted", async () => {
  const call = {
    ...{ requester: AGENT, boundsKey: "k", input: {}, isElevated: false, rules: [] },
    risk: "medium" as const,
  };
  const { id } = await askFor(store, {
    offer: offerFor(call, { runs: 3, minutes: 1 }, "s"),
    scopes: ["once", "bounded"],
  });
  await store.decide({ id, by: OPERATOR, decision: "approve", scope: "bounded" });
  const [grant] = await store.findBoundedGrants(call);
  for (let run = 0; run < 2; run += 1) await store.useGrant(grant?.id ?? "", "trace");
  await store.revokeGrant(grant?.id ?? "", OPERATOR);
  const lines = ["created", "revoked"].map((change) => `stc_grants_total{change="${change}"} 1\n`);
  const shown = (await metrics()).split("\n").filter((line) => line.startsWith("stc_grants_total"));
  expect(shown.map((line) => `${line}\n`).sort()).toEqual([...lines, 'stc_grants_total{change="used"} 2\n'].sort());
});

test("escalation steps are counted by policy", async () => {
  const requirement = {
    ...({ digest: "d", reasonRequired: "never", scopes: ["once"], callback: false } as const),
    policies: [
      {
        ...{ name: "prod", distinctPeople: true, escalate: [{ afterSeconds: 10 }, { afterSeconds: 20 }] },
        stages: [{ name: "one", count: 1, deciders: { permissions: [] } }],
      },
    ],
  };
  await askFor(store, { requirement });
  world.now += 20_000;
  await store.sweep();
  expect(await metrics()).toContain('stc_approvals_escalated_total{policy="prod"} 2\n');
});
