import { expect, test } from "bun:test";
import { judgeShell, SHELL_RULES } from "../../src/approvals/risk/shell/shell.ts";

const standing = { cwd: "/ws/project", home: "/ws/project" };
const rulesOf = (command: string): readonly string[] => judgeShell(command, standing).rules.map(({ name }) => name);

const matches = SHELL_RULES.flatMap(({ name, matches }) => matches.map((command) => [name, command] as const));
const misses = SHELL_RULES.flatMap(({ name, misses }) => misses.map((command) => [name, command] as const));

test("every rule has examples of both kinds, and a name of its own", () => {
  expect(SHELL_RULES.filter((rule) => rule.matches.length === 0 || rule.misses.length === 0)).toEqual([]);
  expect(new Set(SHELL_RULES.map(({ name }) => name)).size).toBe(SHELL_RULES.length);
});

test.each(matches)("%s matches %j", (name, command) => {
  expect(rulesOf(command)).toContain(name);
});

test.each(misses)("%s misses %j", (name, command) => {
  expect(rulesOf(command)).not.toContain(name);
});
