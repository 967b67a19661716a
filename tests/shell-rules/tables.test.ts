import { expect, test } from "bun:test";
import { SHELL_RULES, SHELL_TABLES } from "../../src/shell-rules/shell-rules.ts";
import { WORKSPACE } from "./level.ts";

const idsOf = (script: string): readonly string[] =>
  SHELL_RULES.matching(SHELL_RULES.read(script, WORKSPACE)).map(({ id }) => id);

const rules = Object.values(SHELL_TABLES).flat();

const matches = rules.flatMap(({ id, matches }) => matches.map((script) => [id, script] as const));
const misses = rules.flatMap(({ id, misses }) => misses.map((script) => [id, script] as const));

test("every rule has examples of both kinds and its own id", () => {
  expect(rules.filter((rule) => rule.matches.length === 0 || rule.misses.length === 0)).toEqual([]);
  expect(new Set(rules.map(({ id }) => id)).size).toBe(rules.length);
});

test.each(matches)("%s matches %j", (id, script) => {
  expect(idsOf(script)).toContain(id);
});

test.each(misses)("%s does not match %j", (id, script) => {
  expect(idsOf(script)).not.toContain(id);
});
