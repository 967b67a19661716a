import { expect, test } from "bun:test";
import { join } from "node:path";
import { environmentOf, run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** One row, and the place that fills the view, add a fact to what approvers see in a terminal and in the console. */

const PRELOAD = `--preload=${join(import.meta.dir, "toy-view-member.ts")}`;

const SHOWN = `
  const { approvalLines } = await import("./src/cli/approvals/view.ts");
  const { readApproval } = await import("./src/cli/approvals/answers.ts");
  const { planOf } = await import("./src/console/app/approvals/plan.ts");
  const { saidMembers } = await import("./src/core/approval-view.ts");
  const { defineTool } = await import("./src/index.ts");
  const { ModuleWorld } = await import("./tests/modules/module-world.ts");
  const { z } = await import("zod");
  const lend = defineTool({
    name: "lend", description: "Lends a book", classification: "write", category: "write", permissions: { required: ["money:send"] },
    input: z.strictObject({ title: z.string() }), output: z.object({}), outputPolicy: {}, handler: () => ({}),
  });
  const world = await new ModuleWorld().start(undefined, { tools: [lend] });
  try {
    const { body } = await world.call("lend", { title: "Emma" });
    const token = await world.person({ permissions: ["approvals:decide"] });
    const { body: shown } = await world.send("GET", "/approvals/" + body.approval.id, { token });
    const { view } = shown.approval;
    const lines = approvalLines(readApproval(shown), { columns: Infinity, now: 0 });
    console.log(JSON.stringify({ lines, more: planOf(view).more, said: saidMembers(view, "console") }));
  } finally {
    await world.end();
  }`;

async function shownWith(...options: readonly string[]) {
  const { out, err } = await run([process.execPath, ...options, "-e", SHOWN], { cwd: PROJECT, env: environmentOf({}) });
  return JSON.parse(out === "" ? JSON.stringify({ err }) : out);
}

test("a row of the table is a fact in the terminal and in the console", async () => {
  const [shown, before] = await Promise.all([shownWith(PRELOAD), shownWith()]);
  const at = shown.lines.findIndex((line: string) => line.startsWith("place of the book:"));
  expect(shown.lines[at + 1]).toBe('  [0] "The book is on the upper shelf"');
  const loan = shown.lines.indexOf("loan period:");
  expect(shown.lines.slice(loan, loan + 3)).toEqual([
    "loan period:",
    '  days: "\u0661\u0664"',
    '      in ASCII: "\\u{661}\\u{664}"',
  ]);
  expect(shown.said).toEqual([
    { label: "place of the book", value: "upper", sentences: ["The book is on the upper shelf"] },
  ]);
  const described = { label: "The tool's description", value: "Lends a book" };
  expect(shown.more).toEqual([{ label: "Loan period", value: ["{", '  days: "\u0661\u0664"', "}"] }, described]);
  expect([before.said, before.more, before.lines.length]).toEqual([[], [described], shown.lines.length - 5]);
});
