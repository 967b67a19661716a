import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Ajv from "ajv";
import { Glob } from "bun";
import fc from "fast-check";
import { parse } from "yaml";
import { manifestText } from "../../../src/cli/import/manifest-text.ts";
import { createDefineTool } from "../../../src/core/define-tool.ts";
import { FIELD_RULES } from "../../../src/core/manifest/faults.ts";
import { MODULES } from "../../../src/modules.ts";
import { readDataOnly } from "../../../src/runtime/manifests/data-only.ts";
import { anySchema } from "../../core/json-schema/generated.ts";
import { BLOCKS, blockNamed } from "../../support/documented.ts";
import { runStc } from "../../support/stc.ts";
import { PROJECT } from "../../support/world.ts";
import { FILE, fileContent } from "./editor-schema-file.ts";

const schema = JSON.parse(fileContent());
const validate = new Ajv({ strict: false, allErrors: true }).compile(schema);
const BUILD = { kinds: MODULES.targetKinds, define: createDefineTool(MODULES.targetKinds) };

/** Every tool in YAML in the repository: files, and blocks of pages. */
const FILES: readonly Example[] = [...new Glob("{tools,docs}/**/*.tool.yaml").scanSync(PROJECT)].sort().map((path) => {
  const source = readFileSync(join(PROJECT, path), "utf8");
  return { name: path, folder: dirname(path), source };
});
const EXAMPLES: readonly Example[] = [...FILES, ...BLOCKS.flatMap(exampleIn)];

interface Example {
  readonly name: string;
  /** Folder of the file; of a page's block, where the page says to put the file. */
  readonly folder: string;
  readonly source: string;
}

function exampleIn({ name, language, text }: (typeof BLOCKS)[number]): readonly Example[] {
  const [indent = ""] = /^ */.exec(text) ?? [];
  const source = text.replaceAll(new RegExp(`^${indent}`, "gm"), "");
  return language === "yaml" && /^classification:/m.test(source) ? [{ name, folder: "tools", source }] : [];
}

/** Returns whether an editor, and the loader, accept a text. */
function accepted(source: string): readonly [editor: boolean, loader: boolean] {
  return [validate(parse(source)), "tool" in readDataOnly(source, BUILD)];
}

test("the file that editors read is current: else `bun run docs:tool-schema`", () => {
  expect(readFileSync(FILE, "utf8")).toBe(fileContent());
});

test("`stc schema tool` prints it, into the file that imported tools name", async () => {
  const [command = "", file = ""] = blockNamed("docs/manifests.md: stc schema tool").text.trim().split(" > ");
  const { code, out } = await runStc(command.split(" ").slice(1));
  expect([code, JSON.parse(out)]).toEqual([0, schema]);
  const imported = manifestText({
    ...{ name: "a", description: "b", classification: "read", permissions: [], target: {}, input: {}, output: {} },
  });
  expect(imported).toStartWith(`# yaml-language-server: $schema=${basename(file)}\n`);
});

test("it has every field that a file may have", () => {
  expect(Object.keys(schema.properties).sort()).toEqual(
    [...FIELD_RULES.fields].filter((field) => field !== "handler").sort(),
  );
});

test("keys of tables are described by patterns: for `propertyNames`, editors take the YAML key 404 for a number", () => {
  expect(JSON.stringify({ ...schema, definitions: {} })).not.toContain("propertyNames");
});

test("every field of a tool has a description, except the keywords of schemas", () => {
  const missing: string[] = [];
  const visit = (node: unknown, path: string): void => {
    if (typeof node !== "object" || node === null) return;
    const { properties = {} } = node as { readonly properties?: Readonly<Record<string, object>> };
    for (const [key, field] of Object.entries(properties)) {
      if (!("description" in field)) missing.push(`${path}.${key}`);
    }
    for (const [key, inner] of Object.entries(node)) visit(inner, `${path}.${key}`);
  };
  visit({ ...schema, definitions: {} }, "");
  expect(missing).toEqual([]);
});

test("examples of each kind are found in files, and some in pages", () => {
  const kinds = new Set(FILES.flatMap(({ source }) => Object.keys(parse(source).target)));
  expect([...kinds].sort()).toEqual(["grpc", "http", "mcp", "system"]);
  expect(EXAMPLES.length).toBeGreaterThan(FILES.length);
});

/** Mistakes for tools of one kind; `kind` is the text that their target has. */
const MISTAKES: readonly (readonly [kind: string, from: string, to: string])[] = [
  ["", "classification: read", "classification: raed"],
  ["", "classification: read", "clasification: read"],
  ["", "required: [", "requires: ["],
  ["", "type: object", "type: objct"],
  ["", "properties:", "propertis:"],
  ["", ": allow", ": alow"],
  ["", "examples:", "handler: x\nexamples:"],
  ["", "examples:", "timeoutMs: 0\nexamples:"],
  ["", "examples:", "limits: { outputBytesMax: 1.5 }\nexamples:"],
  ["classification: read", "examples:", "approval: { risk: low }\nexamples:"],
  [" grants:", "runs: 20", "runs: 0"],
  [" grants:", "runs: 20", "run: 20"],
  [" grants:", "minutes: 60", "minutes: 2000"],
  [" grants:", "note: any", "note: prefix"],
  [" grants:", "max: 2500", "most: 2500"],
  [" grants:", "oneOf: [damaged, late, goodwill]", "oneOf: []"],
  [" grants:", "oneOf: [damaged, late, goodwill]", "oneOf: [[damaged]]"],
  ["", "accepts:", "acepts:"],
  ["", "  system:", "  sytem:"],
  [" grpc:", "grpc:", "gprc:"],
  [" grpc:", "method:", "methd:"],
  [" http:", "http:", "htp:"],
  [" http:", "method: GET", "methd: GET"],
  [" http:", "method: GET", "method: get"],
  [" http:", "path: /", "path: https://orders.example/"],
  [" http:", "path: /orders", "path: /orders?limit=5&order="],
  [" http:", "    path:", "    url: x\n    path:"],
  [" http:", "query: {", "query: { limit: 5,"],
  [" http:", "query: {", "querry: {"],
  [" http:", "    path:", "    headers: { X-Tenant: a }\n    path:"],
  [" http:", "    path:", "    headers: [x-tenant]\n    path:"],
  [" http:", "method: GET", "method: POST\n    body: {}\n    contentType: application/xml"],
  [" http:", "410: NOT_FOUND", "410: NOTFOUND"],
  [" http:", "410: NOT_FOUND", "500: NOT_FOUND"],
  [" http:", "410: NOT_FOUND", "401: NOT_FOUND"],
  [" mcp:", "mcp:", "mpc:"],
  [" mcp:", "tool: ", "name: "],
  [" mcp:", "tool: ", "tool: 1 #"],
  [" mcp:", "    tool:", "    result: xml\n    tool:"],
  [" mcp:", "    tool:", "    definitionSha256: 3f0c\n    tool:"],
  [" mcp:", "    tool:", "    definition: text\n    tool:"],
  [" mcp:", "    tool:", "    arguments: {}\n    tool:"],
];

describe.each([...EXAMPLES])("$name", ({ folder, source }) => {
  test("is accepted by editors and by the loader, and names the schema in its first line", () => {
    expect(accepted(source)).toEqual([true, true]);
    const [, path = ""] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(source) ?? [];
    expect(join(folder, path)).toBe("docs/tool.schema.json");
  });

  test.each(MISTAKES.filter(([kind, from]) => source.includes(kind) && source.includes(from)))(
    "an editor and the loader both refuse, in a tool%s %j as %j",
    (_, from, to) => {
      expect(accepted(source.replace(from, to))).toEqual([false, false]);
    },
  );
});

test.each(MISTAKES)("a tool%s with %j is among the examples", (kind, from) => {
  expect(EXAMPLES.some(({ source }) => source.includes(kind.trim()) && source.includes(from))).toBe(true);
});

test("an editor accepts every schema that the loader accepts", () => {
  fc.assert(
    fc.property(anySchema, (output) => {
      const manifest = { ...parse(readFileSync(join(PROJECT, FILES[0]?.name ?? ""), "utf8")), output };
      expect(validate(manifest) || validate.errors).toBe(true);
    }),
    { seed: Number(process.env["STC_TEST_SEED"] ?? 1), numRuns: 100 },
  );
});
