import { describe, expect, test } from "bun:test";
import { parse } from "yaml";
import { applied, type LearnedPolicy } from "../../../src/cli/import/apply.ts";
import { manifestProblems } from "../../../src/cli/import/manifest-text.ts";

const SOURCE = `# Ours: keep this line.
name: list_things
description: Lists things
classification: read
permissions: { required: ["things:read"] }

target: { system: things, mcp: { tool: list } }

input: { type: object, properties: {} }

output:
  type: object
  properties:
    id: { type: string, description: The identifier }
    extra: {}
    more: { type: array, items: {} }

# What agents see.
outputPolicy:
  id: { action: allow, reason: It is public }
  # more: allow
  extra: allow

# The limits.
limits: { outputBytesMax: 1000 }
`;

const row = { type: ["object", "null"], properties: { state: { type: ["string", "null"] } } };
const PROPOSAL: LearnedPolicy = {
  outputPolicy: [
    { path: "id", action: null, reason: "words" },
    { path: "extra.state", action: "allow", reason: "2 words" },
    { path: "more[].state", action: null, reason: 'text with "quotes"' },
    { path: "more[].email", action: "mask", reason: "its name" },
  ],
  described: [
    { path: "extra", schema: row },
    { path: "more[]", schema: { ...row, properties: { ...row.properties, email: { type: ["string", "null"] } } } },
  ],
};

const written = (source: string, proposal: LearnedPolicy): string => applied(source, parse(source), proposal);

test("a target whose answers are JSON reads them as JSON, even where the manifest says text", () => {
  const source = SOURCE.replace("mcp: { tool: list }", "mcp: { tool: list, result: text }");
  const proposal: LearnedPolicy = { ...PROPOSAL, described: [{ path: "", schema: row }], result: "json" };
  expect(parse(written(source, proposal)).target).toEqual({ system: "things", mcp: { tool: "list", result: "json" } });
});

describe("a proposal in a manifest", () => {
  const text = written(SOURCE, PROPOSAL);

  test("replaces the policy and the parts that were described, and nothing else", () => {
    expect(manifestProblems(text)).toEqual([]);
    const { output, outputPolicy, ...others } = parse(text);
    const { output: _output, outputPolicy: _policy, ...before } = parse(SOURCE);
    expect(others).toEqual(before);
    expect(output.properties.id).toEqual({ type: "string", description: "The identifier" });
    expect(output.properties.extra).toEqual(row);
    expect(output.properties.more.items.properties.email).toEqual({ type: ["string", "null"] });
    for (const comment of ["# Ours: keep this line.", "# What agents see.", "# The limits."]) {
      expect(text.split(comment).length).toBe(2);
    }
    expect(outputPolicy).toEqual({
      ...{ extra: "allow", id: { action: "allow", reason: "It is public" } },
      ...{ "extra.state": "allow", "more[].email": "mask" },
    });
  });

  test("has what it does not decide as comments, except what the author allowed", () => {
    expect(text).toContain('  # "more[].state": allow # text with "quotes"\n');
  });

  test("is the same when it is applied again", () => {
    expect(written(text, { ...PROPOSAL, described: [] })).toBe(text);
  });

  test("masks what the author allowed, when that is what it says", () => {
    const strict = {
      ...PROPOSAL,
      outputPolicy: [{ path: "id", action: "mask" as const, reason: "looked like EMAIL" }],
    };
    expect(parse(written(SOURCE, strict)).outputPolicy.id).toBe("mask");
  });

  test("makes the JSON in a text the result, with a schema and a policy of its own", () => {
    const source = SOURCE.replace(
      /output:[\s\S]*(?=# What)/,
      "output: { type: object, properties: { text: { type: string } } }\n",
    ).replace(/outputPolicy:[\s\S]*(?=\n# The)/, "outputPolicy: { text: allow }\n");
    expect(manifestProblems(source)).toEqual([]);
    const json: LearnedPolicy = {
      outputPolicy: [{ path: "[].state", action: "allow", reason: "2 words" }],
      described: [{ path: "", schema: { type: "array", items: row } }],
      result: "json",
    };
    const manifest = parse(written(source, json));
    expect(manifest.target).toEqual({ system: "things", mcp: { tool: "list", result: "json" } });
    expect(manifest.output).toEqual({ type: "array", items: row });
    expect(manifest.outputPolicy).toEqual({ "[].state": "allow" });
    expect(manifestProblems(written(source, json))).toEqual([]);
  });
});
