import { expect, test } from "bun:test";
import { MODULES } from "../../src/modules.ts";
import { type Source, sources } from "./sources.ts";

/** The member of manifests that is no part of `target`: the vocabulary of all tools knows it. */
const SHORTHAND = "handler";
/** Shows each kind of call in a form of its own; others as what they consist of. */
const SHOWN_BY_KIND = "src/console/app/approvals/plan.ts";

const names = [...new Set(MODULES.targetKinds.flatMap(({ name, key }) => [name, key]))].filter(
  (name) => name !== SHORTHAND,
);
const oneOf = `(?:${names.join("|")})`;
const NAMES_A_KIND = new RegExp(
  [
    `"${oneOf}" in\\b`,
    `\\b(?:kind|key|name)\\b(?:"\\])? *[!=]== "${oneOf}"`,
    `\\b[tT]arget(?:\\.${oneOf}\\b|\\["${oneOf}"\\])`,
    `case "${oneOf}":`,
  ].join("|"),
);

const outside = sources("src").filter(({ path }) => !path.startsWith("src/targets/") && path !== SHOWN_BY_KIND);

/** Files in which one of these words names something else. */
const OTHER_MEANINGS: Readonly<Record<string, string>> = {
  "src/audit/journal/journal.ts": "the protocol of a call",
  "src/core/tool-export.ts": "the form of a list of tools",
};

test("only a kind's own folder asks whether a target is of this kind: others read its declaration", () => {
  const isNamed = ({ path, code }: Source): boolean => NAMES_A_KIND.test(code) && !(path in OTHER_MEANINGS);
  expect(outside.filter(isNamed).map(({ path }) => path)).toEqual([]);
});

test.each([
  ['if ("grpc" in target) return;', true],
  ['if (plan["kind"] !== "cli") return [];', true],
  ['kind.key === "mcp"', true],
  ["const { result } = tool.target.mcp;", true],
  ['const part = target["http"];', true],
  ["kind.key in target", false],
  ['const scheme = isTls ? "https" : "http";', false],
])("%s: %p", (code, isNamed) => {
  expect(NAMES_A_KIND.test(code)).toBe(isNamed);
});
