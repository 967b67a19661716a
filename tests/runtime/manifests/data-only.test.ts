import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { createDefineTool } from "../../../src/core/define-tool.ts";
import { zodFromJson } from "../../../src/core/json-schema/zod.ts";
import { MODULES } from "../../../src/modules.ts";
import { readDataOnly } from "../../../src/runtime/manifests/data-only.ts";
import { fieldsOf, patternsOf } from "../../../src/targets/http/manifest.ts";
import { readConfig } from "../../support/build.ts";
import { blocksOf } from "../../support/documented.ts";
import { loadFor } from "../../support/kinds.ts";

const BUILD = { kinds: MODULES.targetKinds, define: createDefineTool(MODULES.targetKinds) };

const MANIFEST = `name: get_account
description: Get one account
classification: read
permissions:
  required: [accounts:read]
target:
  system: accounts
  grpc: { package: bank.v1, service: Accounts, method: GetAccount }
input:
  type: object
  properties:
    accountId: { type: string, format: uuid }
  required: [accountId]
output:
  type: object
  properties:
    owner: { type: string }
    iban: { type: string }
outputPolicy:
  owner: mask
  iban: redact
examples:
  accepts:
    - accountId: 3f0c9a52-6b1e-4c77-9d3a-000000000001
  rejects:
    - {}
`;

function problemsOf(source: string): readonly string[] {
  const read = readDataOnly(source, BUILD);
  return "problems" in read ? read.problems : [];
}

const HTTP_MANIFEST = MANIFEST.replace(/grpc: .*/, 'http: { method: GET, path: "/accounts/{accountId}" }');

test.each([
  ["a UUID", "type: string, format: uuid", []],
  ["a bounded text", 'type: string, pattern: "^[a-z0-9]+$", maxLength: 64', []],
  ["a list of values", "enum: [savings, current]", []],
  ["an unbounded text", "type: string", ["input.accountId: is part of the path: write an enum"]],
  [
    "a text with a large bound",
    "type: string, maxLength: 513",
    ["input.accountId: is part of the path: write an enum"],
  ],
] as const)("an argument in the path of an HTTP request: %s", (_what, schema, expected) => {
  const source = HTTP_MANIFEST.replace("type: string, format: uuid", schema).replace(/examples:.*/s, "");
  const found = problemsOf(source);
  expect(found).toHaveLength(expected.length);
  for (const [index, problem] of expected.entries()) expect(found[index]).toContain(problem);
});

/** The manifest with a line replaced. */
const changed = (from: string, to: string): string => {
  expect(MANIFEST).toContain(from);
  return MANIFEST.replace(from, to);
};

test("the guide's manifest is a tool", () => {
  const [example] = blocksOf("docs/manifests.md").filter(({ language }) => language === "yaml");
  const source = example?.text ?? "";
  expect(problemsOf(source)).toEqual([]);
  const misspelt = source.replace("account.owner: mask", "account.ownr: mask");
  const [shown] = blocksOf("docs/manifests.md").filter(({ language }) => language === "text");
  expect(shown?.text.trim()).toBe(`tools/get-account.tool.yaml: ${problemsOf(misspelt)[0]}`);
});

test("a manifest is a tool with the defaults of every tool", () => {
  const read = readDataOnly(MANIFEST, BUILD);
  expect("tool" in read && read.tool).toMatchObject({
    ...{ name: "get_account", version: "1", classification: "read", category: "read", timeoutMs: 30_000 },
    outputPolicy: { owner: "mask", iban: "redact" },
  });
});

test("a manifest that writes may say that it only adds", () => {
  const written = changed("classification: read", "classification: write\nadditive: true");
  const read = readDataOnly(written, BUILD);
  expect("tool" in read && read.tool.additive).toBe(true);
});

test("a format bounds a path parameter, and allows no character that means something in a path", () => {
  const inPath = (schema: string): readonly string[] =>
    problemsOf(
      changed("{ type: string, format: uuid }", schema)
        .replace(
          "grpc: { package: bank.v1, service: Accounts, method: GetAccount }",
          "http: { method: GET, path: '/{accountId}' }",
        )
        .replace(/examples:.*/s, ""),
    ).filter((problem) => problem.includes("input.accountId"));
  for (const format of ["date", "date-time", "time", "ipv4", "ipv6", "uuid"]) {
    expect(inPath(`{ type: string, format: ${format} }`)).toEqual([]);
  }
  expect(inPath("{ type: string, format: uri }")).toEqual([expect.stringContaining("is part of the path")]);
  const { schema } = zodFromJson("input", { type: "object", properties: { id: { type: "string", format: "uri" } } });
  expect(patternsOf(fieldsOf(schema)["id"] ?? schema)).toEqual([]);
});

describe("is refused, with its line", () => {
  test.each([
    [
      "a misspelt field",
      changed("classification:", "clasification:"),
      [
        "line 3: tool get_account: clasification: is not a field of a manifest; did you mean classification?",
        "line 1: tool get_account: classification: must be read, write or destructive",
      ],
    ],
    [
      "a read that says that it adds",
      changed("classification: read", "classification: read\nadditive: true"),
      ["line 4: tool get_account: additive: is for classification write: a read tool adds nothing"],
    ],
    [
      "a misspelt field of the target",
      changed("method: GetAccount", "methd: GetAccount"),
      [
        "line 8: tool get_account: target.grpc.method: must be a name",
        "line 8: tool get_account: target.grpc.methd: is unknown; did you mean method?",
      ],
    ],
    [
      "a misspelt kind",
      changed("grpc:", "gprc:"),
      [
        "line 8: tool get_account: target.gprc: is unknown: a target is one of grpc, http, cli, fs, mcp, sql, handler; did you mean grpc?",
      ],
    ],
    [
      "errors in schemas, together with others",
      changed("format: uuid", "format: uid").replace("[accounts:read]", "[]"),
      [
        "line 12: tool get_account: input.properties.accountId.format: is not a known format; did you mean uuid?",
        "line 5: tool get_account: permissions.required: must name at least one permission: every tool needs one",
      ],
    ],
    [
      "a policy for a field that does not exist",
      changed("iban: redact", "ibn: redact"),
      ['line 21: tool get_account: outputPolicy: "ibn" matches no field of the schema'],
    ],
    [
      "an example that lies",
      changed("- {}", "- { accountId: 3f0c9a52-6b1e-4c77-9d3a-000000000001 }"),
      ["line 26: tool get_account: examples.rejects[0]: is accepted by the input schema"],
    ],
    [
      "personal data that is released",
      changed("iban: redact", "iban: allow"),
      [expect.stringMatching(/^line 19: tool get_account: outputPolicy: iban is personal data by its name/)],
    ],
    [
      "an operators' permission",
      changed("accounts:read", "audit:read"),
      ["line 5: tool get_account: permissions.required[0]: audit:read belongs to operators"],
    ],
    [
      "a version that YAML reads as a number",
      changed("classification", "version: 1\nclassification"),
      ["line 3: tool get_account: version: must be a string"],
    ],
    [
      "a schema that is missing",
      changed("output:\n  type: object\n  properties:\n    owner: { type: string }\n    iban: { type: string }\n", ""),
      ["line 1: tool get_account: output: must be a schema: a table, true or false"],
    ],
  ])("%s", (_what, source, problems) => {
    expect(problemsOf(source)).toEqual(problems as string[]);
  });
});

describe("code has no place in it", () => {
  test.each([
    ["a handler", changed("target:", "handler: async () => 1\ntarget:"), "handler"],
    [
      "a condition",
      changed(
        "  required: [accounts:read]",
        "  required: [accounts:read]\n  elevatedIf: { when: 'true', required: [a] }",
      ),
      "permissions.elevatedIf",
    ],
    [
      "an approval that is computed",
      changed("target:", "approval: { needsApproval: '() => false' }\ntarget:"),
      "approval.needsApproval",
    ],
    [
      "a command",
      changed(
        "grpc: { package: bank.v1, service: Accounts, method: GetAccount }",
        "cli: { command: rm, argsBuilder: '() => []' }",
      ),
      "target.cli",
    ],
    [
      "files",
      changed("grpc: { package: bank.v1, service: Accounts, method: GetAccount }", "fs: { operation: write }"),
      "target.fs",
    ],
  ])("%s", (_what, source, field) => {
    expect(
      problemsOf(source).filter((problem) => problem.includes(`: ${field}: is code, which a YAML file cannot hold`)),
    ).toHaveLength(1);
  });

  test.each([
    "!!js/function 'globalThis.ran = 1'",
    "!!js/undefined ''",
    "!!python/object/apply:os.system [id]",
    "!!binary aGk=",
    "!<tag:x> y",
    "!!str x",
  ])("the tag of %s is refused", (written) => {
    expect(problemsOf(changed("Get one account", written)).join()).toMatch(/tag/i);
    expect("ran" in globalThis).toBe(false);
  });
});

/** Nine lists, each with nine aliases of the one before: 9 to the power of 9 texts. */
const LAUGHS = Array.from(
  { length: 9 },
  (_, at) =>
    `l${at}: &l${at} [${Array(9)
      .fill(at === 0 ? "lol" : `*l${at - 1}`)
      .join(", ")}]`,
).join("\n");

describe("YAML that is more than JSON", () => {
  test.each([
    ["aliases that multiply", LAUGHS, /^line 1: YAML anchors/],
    ["an alias", "a: &x 1\nb: *x\n", /^line 1: YAML anchors/],
    ["an alias of nothing", "a: *x\n", /^(?:line 1: )?(?:Unresolved alias|YAML aliases)/],
    [
      "a merge key",
      changed("  owner: mask", "  <<: { owner: allow }\n  owner: mask"),
      /^line 20: the key << is not supported/,
    ],
    [
      "the prototype as a key",
      changed("  owner: mask", "  __proto__: allow"),
      /^line 20: the key __proto__ is not supported/,
    ],
    ["a duplicate key", changed("  owner: mask", "  owner: mask\n  owner: allow"), /^line 21: Map keys must be unique/],
    [
      "a duplicate key in quotes",
      changed("  owner: mask", '  owner: mask\n  "own\\u0065r": allow'),
      /^line 21: Map keys must be unique/,
    ],
    ["keys that are no texts", "? [1, 2]\n: 3\n", /keys must be strings/],
    ["another version of YAML", `%YAML 1.1\n---\n${MANIFEST}`, /directives/],
    ["tags with names of their own", `%TAG ! tag:example.com,2026:\n---\n${MANIFEST}`, /directives/],
    ["several documents", `${MANIFEST}---\n${MANIFEST}`, /multiple documents/],
    ["no document", "", /^must be a table/],
    ["a list", "- 1\n", /^must be a table/],
    ["a text", "hello", /^must be a table/],
    ["an open bracket", "a: [1\n", /^line \d+: /],
    [
      "a number without an end",
      changed("  required: [accountId]", "  required: [accountId]\n  minProperties: .inf"),
      /^line 14: is not a number that JSON keeps exactly/,
    ],
    [
      "a number that loses digits",
      changed("  required: [accountId]", "  required: [accountId]\n  const: 12345678901234567890"),
      /^line 14: is not a number that JSON keeps exactly/,
    ],
    ["a NUL", changed("Get one", "Get\u0000one"), /^line 2: holds a control character/],
    ["an escape sequence for terminals", changed("Get one", "Get\u001b[2Jone"), /^line 2: holds a control character/],
    [
      "a line end of YAML 1.1",
      changed("Get one account", "Get one account\u2028classification: destructive"),
      /^line 2: holds a control character or line end/,
    ],
    ["a carriage return alone", changed("Get one", "Get\rone"), /^line 2: holds a control character or line end/],
    [
      "a control character that is escaped",
      changed("Get one account", '"Get \\e[2J one"'),
      /^line 2: holds control or bidirectional characters/,
    ],
    [
      "a description that reorders itself",
      changed("Get one account", "Pay \u202ellib"),
      /^line 2: holds control or bidirectional characters/,
    ],
    [
      "invisible instructions",
      changed("Get one account", "Get \u{e0049}\u{e0047}"),
      /^line 2: holds control or bidirectional characters/,
    ],
    ["bytes that are not UTF-8", changed("Get one", "Get \ufffd one"), /^must be UTF-8/],
    ["200 levels", `a: ${"[".repeat(200)}${"]".repeat(200)}\n`, /nested more than 64 levels/],
    ["100,000 levels", `a: ${"[".repeat(100_000)}\n`, /^line 1: is nested more than 64 levels deep/],
    ["100,000 levels of keys", `${"? ".repeat(100_000)}a\n`, /^line 1: is nested more than 64 levels deep/],
    [
      "levels by indentation",
      Array.from({ length: 1_000 }, (_, level) => `${" ".repeat(level)}a:`).join("\n"),
      /64 levels deep/,
    ],
    [
      "20,000 keys",
      Array.from({ length: 20_000 }, (_, key) => `k${key}: 1`).join("\n"),
      /^line 1: tool \(unnamed\): input: must be a schema/,
    ],
    ["20,000 duplicate keys", `a: {${"a: 1, ".repeat(20_000)}}`, /^line 1: Map keys must be unique/],
    [
      "10,000 unknown keywords",
      `input: {${Array.from({ length: 10_000 }, (_, key) => `k${key}: 1`).join()}}`,
      /is not a keyword of JSON Schema/,
    ],
    ["two million characters", `${MANIFEST}# ${"x".repeat(2_000_000)}\n`, /^is longer than 1048576 characters/],
  ])("%s is refused", (_what, source, problem) => {
    expect(problemsOf(source)[0]).toMatch(problem);
  });

  test("what looks like it and is not is accepted", () => {
    const texts = [
      "Get *one* & only",
      "Say !important: no",
      "Costs 100 % of <<it>>",
      "Zwölf Boxkämpfer, ไทย, فارسی‌زبان, 👩‍👩‍👧",
      "Line one\\nLine two",
    ];
    for (const text of texts)
      expect(problemsOf(changed("Get one account", JSON.stringify(text).replaceAll("\\\\n", "\\n")))).toEqual([]);
    expect(problemsOf(changed("Get one account", "|\n  First line\n  Second line"))).toEqual([]);
    expect(problemsOf(`\ufeff${MANIFEST}`)).toEqual([]);
    expect(problemsOf(MANIFEST.replaceAll("\n", "\r\n"))).toEqual([]);
    expect(problemsOf(JSON.stringify(Bun.YAML.parse(MANIFEST)))).toEqual([]);
    expect(problemsOf(changed("accounts:read]", "accounts:read] # a: &comment *with !tags"))).toEqual([]);
  });

  test("a policy of which every line is a comment releases nothing", () => {
    const read = readDataOnly(changed("  owner: mask\n  iban: redact\n", "  # owner: mask\n"), BUILD);
    expect("tool" in read && read.tool.outputPolicy).toEqual({});
  });
});

test("whatever is written into a manifest, it is a tool or has problems, and nothing runs", () => {
  const lines = MANIFEST.split("\n");
  const piece = fc.oneof(
    fc.constantFrom(
      "*a",
      "&a ",
      "!!x ",
      "<<: ",
      "---",
      "%YAML 1.1",
      "? ",
      "- ",
      "{",
      "[",
      "'",
      '"',
      "|",
      ">",
      "#",
      "\t",
      "\u2028",
    ),
    fc.constantFrom(
      "__proto__: 1",
      "constructor: {}",
      "$(globalThis.ran = 1)",
      "!!js/function 'globalThis.ran = 1'",
      "0x1F",
      ".nan",
    ),
    fc.string({ maxLength: 8, unit: "binary" }),
  );
  const change = fc.record({
    line: fc.nat({ max: lines.length - 1 }),
    column: fc.nat({ max: 40 }),
    piece,
    cut: fc.nat({ max: 6 }),
  });
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 3 }), (changes) => {
      const written = [...lines];
      for (const { line, column, piece: text, cut } of changes) {
        const before = written[line] ?? "";
        written[line] = before.slice(0, column) + text + before.slice(column + cut);
      }
      const read = readDataOnly(written.join("\n"), BUILD);
      if ("problems" in read) expect(read.problems.length).toBeGreaterThan(0);
      else expect(read.tool.name).toMatch(/^[a-z][a-z0-9_]*$/);
      expect("ran" in globalThis).toBe(false);
    }),
    { seed: Number(process.env["STC_TEST_SEED"] ?? 1), numRuns: 1_500 },
  );
});

describe("the loader", () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc data-only ")));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const load = (tools: readonly string[]) => {
    const jwt = { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] };
    return loadFor(
      readConfig({ tools, audit: { dir: "audit" }, jwt } as never, { folder, environment: {}, origin: "config" }),
    );
  };
  const write = (path: string, text: string): void => {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  };

  test("reads *.tool.yaml and *.tool.yml in a folder, and no other YAML file", async () => {
    write("some/deep/one.tool.yaml", MANIFEST);
    write("some/two.tool.yml", changed("get_account", "get_other"));
    write("some/values.yaml", "a: [1");
    write("some/.hidden.tool.yaml", "a: [1");
    const { tools, problems, origins } = await load(["some"]);
    expect(problems).toEqual([]);
    expect(tools.map((tool) => [tool.name, origins.get(tool)])).toEqual([
      ["get_account", "some/deep/one.tool.yaml"],
      ["get_other", "some/two.tool.yml"],
    ]);
  });

  test("reports every file, and a name that is taken", async () => {
    write("bad/a.tool.yaml", MANIFEST);
    write("bad/b.tool.yaml", MANIFEST);
    write("bad/c.tool.yaml", "a: [1");
    write("bad/d.tool.yaml", changed("read\n", "raed\n"));
    const { tools, problems } = await load(["bad"]);
    expect(tools).toHaveLength(1);
    expect(problems).toEqual([
      "bad/b.tool.yaml: tool get_account: name: is already taken by bad/a.tool.yaml",
      expect.stringMatching(/^bad\/c\.tool\.yaml: line \d: /),
      "bad/d.tool.yaml: line 3: tool get_account: classification: must be read, write or destructive",
    ]);
  });

  test("a file's digest is that of its text", async () => {
    write("digest/one.tool.yaml", MANIFEST);
    const file = join(folder, "digest/one.tool.yaml");
    const before = (await load(["digest"])).sources.digest(file);
    write("digest/one.tool.yaml", `${MANIFEST}# changed\n`);
    expect((await load(["digest"])).sources.digest(file)).not.toBe(before);
  });
});
