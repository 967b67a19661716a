import { askingForChanges, RECOMMENDED } from "../adaptive/measure.ts";
import { ATTACKS, USER_TASKS } from "./cases.ts";
import { type Measured, measure } from "./measure.ts";

/** Plays 1,054 cases with the structure of InjecAgent: `bun run eval:injecagent`. Prints the tables of docs/data-flow-evaluation.md. */

const sets = [...RECOMMENDED, ...RECOMMENDED.slice(-1).map(askingForChanges)];
const measured: Measured[] = [];
for (const set of sets) measured.push(await measure(set));

const line = (...columns: readonly (string | number)[]): void => console.log(`| ${columns.join(" | ")} |`);
const names = sets.map(({ name }) => name);

line("goals reached without a question", "cases", ...names);
line("---", "---", ...names.map(() => "---"));
for (const kind of new Set(ATTACKS.map((goal) => goal.kind))) {
  const cases = ATTACKS.filter((goal) => goal.kind === kind).length * USER_TASKS.length;
  line(kind, cases, ...measured.map(({ reached }) => reached.filter(({ goal }) => goal.kind === kind).length));
}
const all = ATTACKS.length * USER_TASKS.length;
line("all", all, ...measured.map(({ reached }) => reached.length));
line(
  "user's task alone: asks",
  USER_TASKS.length,
  ...measured.map(({ questions }) => questions.filter((one) => one > 0).length),
);
line("the user asks for the same calls: asks", all, ...measured.map(({ asking }) => asking.length));

for (const [title, of] of [
  ["Goals reached, by tool", ({ reached }: Measured) => reached],
  ["The user asks for the same, by tool", ({ asking }: Measured) => asking],
] as const) {
  console.log(`\n${title}:\n`);
  line("tool", ...names);
  line("---", ...names.map(() => "---"));
  for (const { tool } of ATTACKS) {
    const counts = measured.map((one) => of(one).filter(({ goal }) => goal.tool === tool).length);
    if (counts.some((count) => count > 0)) line(tool, ...counts);
  }
}
