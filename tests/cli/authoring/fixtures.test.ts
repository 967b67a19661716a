import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import fc from "fast-check";
import { parse, stringify } from "yaml";
import { fixturesSchema, readFixtures } from "../../../src/cli/authoring/fixtures.ts";
import { blockNamed } from "../../support/documented.ts";
import { PROJECT } from "../../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/upstreams/tools/get-order.test.yaml");
const validate = new Ajv({ strict: false, allErrors: true }).compile(fixturesSchema() as object);

/** Returns what is wrong with a text. */
function problemsOf(source: string): readonly string[] {
  const read = readFixtures(source);
  return "problems" in read ? read.problems : [];
}

test("the documented fixtures are the example's", () => {
  const { text } = blockNamed("docs/authoring.md: # yaml-language-server");
  const withoutHint = (source: string): string => source.slice(source.indexOf("\n"));
  expect(withoutHint(text)).toBe(withoutHint(readFileSync(EXAMPLE, "utf8")));
});

describe("a file of fixtures", () => {
  test("is read, and fields have their lines", () => {
    const source = readFileSync(EXAMPLE, "utf8");
    const read = readFixtures(source);
    if ("problems" in read) throw new Error(read.problems.join("\n"));
    expect(read.fixtures.calls).toHaveLength(3);
    expect(read.fixtures.answers.map(({ name }) => name)).toEqual([
      "an order as the service sends it",
      "an order without its state",
    ]);
    expect(read.lineOf("calls[1].refused.field")).toBe(11);
    expect(validate(parse(source))).toBe(true);
  });

  test.each([
    ["tool: a_tool\ncals: []\n", "line 2: cals: is not a known key; did you mean calls?"],
    [
      "tool: a_tool\ncalls:\n  - args: { a: 1 }\n    verdict: maybe\n",
      "line 4: calls[0].verdict: must be one of allow, ask, deny",
    ],
    [
      "tool: a_tool\nanswers:\n  - name: neither\n",
      "line 3: answers[0].answer: needs answer, or stdout of a command, and not both",
    ],
    ["calls: []\n", "line 1: tool: is missing; it is text"],
    ["tool: a_tool\ntool: b_tool\n", "line 2: Map keys must be unique"],
    ["tool: [\n", "line 2: Flow sequence in block collection must be sufficiently indented and end with a ]"],
  ])("%j: names line and field", (source, problem) => {
    expect(problemsOf(source)).toEqual([problem]);
  });

  test("any YAML gets fixtures or problems, and the editor agrees", () => {
    const anything = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.jsonValue().map((value) => stringify(value)),
      fc
        .record({ tool: fc.constant("a_tool"), calls: fc.array(fc.jsonValue()), answers: fc.array(fc.jsonValue()) })
        .map((value) => stringify(value)),
    );
    fc.assert(
      fc.property(anything, (source) => {
        const read = readFixtures(source);
        if ("problems" in read) expect(read.problems.length).toBeGreaterThan(0);
        else expect(validate(parse(source))).toBe(true);
      }),
    );
  });
});
