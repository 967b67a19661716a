import { expect, test } from "bun:test";
import fc from "fast-check";
import { matchesToolName } from "../../src/core/tool-names.ts";

const NAMES: readonly (readonly [pattern: string, name: string, matches: boolean])[] = [
  ["deploy_app", "deploy_app", true],
  ["deploy_app", "deploy_apps", false],
  ["deploy_app", "deploy_ap", false],
  ["*", "deploy_app", true],
  ["**", "a", true],
  ["deploy_*", "deploy_app", true],
  ["deploy_*", "deploy_", true],
  ["deploy_*", "redeploy_app", false],
  ["*_app", "deploy_app", true],
  ["*_app", "deploy_app2", false],
  ["*ploy*", "deploy_app", true],
  ["d*p", "deploy_app", true],
  ["deploy*deploy", "deploy", false],
  ["a*a", "a", false],
  ["a*a", "aa", true],
  ["a*b*a", "aba", true],
  ["a*b*ba", "aba", false],
  ["deploy.app", "deploy_app", false],
];

test.each(NAMES)("%s and %s: %p", (pattern, name, matches) => {
  expect(matchesToolName(pattern, name)).toBe(matches);
});

test("a pattern means the same as a regular expression with the same wildcards", () => {
  const text = (letters: string) => fc.string({ unit: fc.constantFrom(...letters), maxLength: 8 });
  fc.assert(
    fc.property(text("ab*"), text("ab"), (pattern, name) => {
      const oracle = new RegExp(`^${pattern.replace(/\*+/g, "[ab]*")}$`);
      expect(matchesToolName(pattern, name)).toBe(oracle.test(name));
    }),
    { numRuns: 2_000 },
  );
});
