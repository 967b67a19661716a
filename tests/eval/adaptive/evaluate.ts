import { TASKS } from "./honest.ts";
import { askingForChanges, type Measured, measure, RECOMMENDED, VOUCHED } from "./measure.ts";
import { STRATEGIES, type Strategy } from "./strategies.ts";

/** Plays an attacker who knows the rules: `bun run eval:adaptive`. Prints the tables of docs/data-flow-evaluation.md. */

const sets = [...RECOMMENDED, ...RECOMMENDED.slice(-1).map(askingForChanges), VOUCHED];
const measured: Measured[] = [];
for (const set of sets) measured.push(await measure(set, STRATEGIES));

const line = (...columns: readonly (string | number)[]): void => console.log(`| ${columns.join(" | ")} |`);
const isEncoded = ({ decode }: Strategy): boolean => decode !== undefined;

line("", ...sets.map(({ name }) => name));
line("---", ...sets.map(() => "---"));
for (const [title, those] of [
  ["strategies that write values as they are", STRATEGIES.filter((one) => !isEncoded(one))],
  ["strategies that encode the secret", STRATEGIES.filter(isEncoded)],
] as const) {
  const names = new Set(those.map(({ name }) => name));
  line(title, ...measured.map(({ reached }) => `${reached.filter((one) => names.has(one)).length} of ${those.length}`));
}
line(
  "honest tasks without a question",
  ...measured.map(({ questions }) => `${questions.filter((one) => one === 0).length} of ${TASKS.length}`),
);
line(
  "questions a task",
  ...measured.map(({ questions }) => (questions.reduce((sum, one) => sum + one, 0) / TASKS.length).toFixed(2)),
);

console.log("\nGoals reached without a question:\n");
line("strategy", ...sets.map(({ name }) => name));
line("---", ...sets.map(() => "---"));
for (const { name } of STRATEGIES) {
  if (measured.some(({ reached }) => reached.includes(name)))
    line(name, ...measured.map(({ reached }) => (reached.includes(name) ? "reached" : "–")));
}
console.log("\nTasks that ask:\n");
for (const [index, { request }] of TASKS.entries()) {
  const asked = measured.map(({ questions }) => questions[index] ?? 0);
  if (asked.some((one) => one > 0)) line(request, ...asked);
}
