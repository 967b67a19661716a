import { expect, test } from "bun:test";
import { readApproval } from "../../../src/cli/approvals/answers.ts";
import { approvalLines } from "../../../src/cli/approvals/view.ts";
import { question } from "../../support/terminal-approvals.ts";

const NOW = Date.parse("2026-02-16T12:00:00.000Z");

function linesOf(more: Readonly<Record<string, unknown>>): readonly string[] {
  const approval = readApproval({ approval: { ...question(), ...more } });
  if (approval === undefined) throw new Error("the answer is not an approval");
  return approvalLines(approval, { columns: Number.POSITIVE_INFINITY, now: NOW });
}

const ESCALATIONS = [
  {
    ...{ policy: "prod", stage: "team", afterSeconds: 60, webhooks: ["pager"] },
    ...{ dueAt: "2026-02-16T11:58:00.000Z", takenAt: "2026-02-16T11:58:03.000Z" },
  },
  { policy: "prod", afterSeconds: 240, dueAt: "2026-02-16T12:01:00.000Z" },
];

test("escalation steps: those taken, and while the request is pending those to come", () => {
  const shown = (more: object) =>
    linesOf({ escalations: ESCALATIONS, ...more }).filter((line) => line.startsWith("escalation"));
  const taken = "escalation      prod, team: asks further approvers (pager) after 60 s, taken 2026-02-16T11:58:03.000Z";
  expect(shown({})).toEqual([taken, "escalation      prod, notifies after 240 s, in 1 min 0 s"]);
  expect(shown({ state: "denied" })).toEqual([taken]);
});

test("earlier decisions, of which nothing can pose as a line", () => {
  const decision = { decision: "deny", at: "2026-02-16T11:00:00.000Z", by: { iss: "i", sub: "ann" } };
  const lines = linesOf({ earlierDecisions: [{ ...decision, reason: "no\nrisk  low\u202e" }, decision] });
  expect(lines.filter((line) => line.startsWith("earlier"))).toEqual([
    'earlier         deny by "ann", 2026-02-16T11:00:00.000Z: "no\\u{a}risk  low\\u{202e}"',
    'earlier         deny by "ann", 2026-02-16T11:00:00.000Z',
  ]);
  expect(lines.filter((line) => line.startsWith("risk"))).toHaveLength(1);
});

test("the members of the hub that asked, of which none can pose as a line", () => {
  const lines = linesOf({ members: ["crm", "a\nrisk  low"] });
  expect(lines.filter((line) => line.startsWith("from member"))).toEqual(['from member     "crm", "a\\u{a}risk  low"']);
});

test("an older service's answer has neither", () => {
  const lines = linesOf({});
  expect(lines.filter((line) => /^(?:escalation|earlier)/.test(line))).toEqual([]);
});

test("names that look like others are repeated in ASCII", () => {
  const like = (word: string) => word.replace("a", "\u0430");
  const ann = { iss: "https://idp.example", sub: like("ann") };
  const reason = `${like("maria")} said so`;
  const voters = [{ ...ann, at: "2026-02-16T11:00:00.000Z" }];
  const stages = [{ name: like("team"), state: "open", have: 1, needed: 2, voters }];
  const lines = linesOf({
    ...{ tool: like("announce"), summary: `run ${like("announce")}`, decidedBy: ann, decisionReason: reason },
    earlierDecisions: [{ decision: "deny", at: "2026-02-16T11:00:00.000Z", by: ann, reason }],
    quorum: { reasonRequired: "never", missing: [], policies: [{ name: like("prod-a"), stages }] },
  });
  for (const label of ["tool", "decided by", "decision reason", "earlier"]) {
    const line = lines.find((one) => one.startsWith(label));
    expect([label, line]).toEqual([label, expect.stringContaining("⟦in ASCII: ")]);
  }
  expect(lines.find((line) => line.startsWith("tool"))).toContain("\u0430nnounce ⟦in ASCII: \\u{430}nnounce⟧");
  expect(linesOf({ decidedBy: { ...ann, sub: "Иван" } }).join("\n")).not.toContain("in ASCII");
});
