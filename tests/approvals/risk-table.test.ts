import { expect, test } from "bun:test";
import { rulesOf, SHELL_RULES, scriptOf } from "../../src/approvals/risk/shell.ts";
import { WORKSPACE } from "./shell-level.ts";

const idsOf = (script: string): readonly string[] => rulesOf(scriptOf(script, WORKSPACE)).map(({ id }) => id);

const matches = SHELL_RULES.flatMap(({ id, matches }) => matches.map((script) => [id, script] as const));
const misses = SHELL_RULES.flatMap(({ id, misses }) => misses.map((script) => [id, script] as const));

test("every rule has examples of both kinds and its own id", () => {
  expect(SHELL_RULES.filter((rule) => rule.matches.length === 0 || rule.misses.length === 0)).toEqual([]);
  expect(new Set(SHELL_RULES.map(({ id }) => id)).size).toBe(SHELL_RULES.length);
});

test.each(matches)("%s matches %j", (id, script) => {
  expect(idsOf(script)).toContain(id);
});

test.each(misses)("%s does not match %j", (id, script) => {
  expect(idsOf(script)).not.toContain(id);
});
