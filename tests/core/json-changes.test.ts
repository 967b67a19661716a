import { expect, test } from "bun:test";
import { changesBetween } from "../../src/core/json-changes.ts";

const rule = (name: string, verdict = "ask") => ({ name, verdict });

test.each([
  ["nothing", { a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }, []],
  ["a member", { a: { b: 1 } }, { a: { b: 2 } }, [{ path: "a.b", before: 1, after: 2 }]],
  ["a member that is new", {}, { a: 1 }, [{ path: "a", after: 1 }]],
  ["a member that is gone", { a: null }, {}, [{ path: "a", before: null }]],
  ["a kind", { a: [] }, { a: {} }, [{ path: "a", before: [], after: {} }]],
  [
    "an item by its position",
    [1, 2],
    [1, 3, 4],
    [
      { path: "[1]", before: 2, after: 3 },
      { path: "[2]", after: 4 },
    ],
  ],
  [
    "a named item, wherever it is",
    { rules: [rule("a"), rule("b")] },
    { rules: [rule("new"), rule("b", "deny"), rule("a")] },
    [
      { path: "rules[b].verdict", before: "ask", after: "deny" },
      { path: "rules[new]", after: rule("new") },
    ],
  ],
  ["a list whose names repeat, by position", [rule("a"), rule("a")], [rule("a")], [{ path: "[1]", before: rule("a") }]],
])("differs: %s", (_title, before, after, changes) => {
  expect(changesBetween(before, after)).toEqual(changes);
});
