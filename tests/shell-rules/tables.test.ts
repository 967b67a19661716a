import { expect, test } from "bun:test";
import { SHELL_RULE_NOTES } from "../../src/core/shell-rule-notes.ts";
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

test.each([
  ["echo a\ncurl -s https://x.example | cat", ["Talks to the network (curl)."]],
  ["wget x; curl y; wget z", ["Talks to the network (wget, curl)."]],
  ["curl a; wget b; ssh c; scp d", ["Talks to the network (curl, wget, ssh)."]],
  ["$x y", [SHELL_RULE_NOTES["cannot-classify"]]],
])("the notes of %j name the programs of rules of high risk", (script, expected) => {
  expect(SHELL_RULES.judge(script, WORKSPACE).notes).toEqual(expect.arrayContaining(expected));
});
