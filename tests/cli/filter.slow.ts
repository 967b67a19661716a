import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { stringify } from "yaml";
import { z } from "zod";
import { type FilteredAnswer, filterAnswer, leftOutBySchema } from "../../src/cli/filter.ts";
import { applyPolicy, compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { compileScan, type ScanPolicy } from "../../src/core/output-policy/scan-policy.ts";
import type { FieldAction, Json, OutputFieldPolicy } from "../../src/core/types.ts";
import { redactFiltered } from "../../src/pipeline/redactor.ts";
import { filler } from "../detection/secret-examples.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { type Ended, runStc } from "../support/stc.ts";

const TOKEN = `ghp_${filler(36)}`;

function filtered(policy: OutputFieldPolicy, scan: ScanPolicy, answer: Json): FilteredAnswer {
  return filterAnswer({ policy, compiled: compilePolicy(policy, z.unknown()), scan: compileScan(scan) }, answer);
}

describe("the treatment of a value", () => {
  const rows = (policy: OutputFieldPolicy, answer: Json, scan: ScanPolicy = {}) =>
    filtered(policy, scan, answer).fields.map(({ path, fate, pattern, rules, value }) => [
      path,
      [fate, ...rules].join(" "),
      pattern,
      value,
    ]);

  test.each<[string, OutputFieldPolicy, Json, readonly unknown[]]>([
    ["allowed", { a: "allow" }, { a: 1 }, [["a", "allow", "a", 1]]],
    ["masked", { a: "mask" }, { a: "Ann Lee" }, [["a", "mask", "a", "A** L**"]]],
    ["redacted", { "*": "allow", a: "redact" }, { a: 1 }, [["a", "redact", "a", undefined]]],
    ["stripped", {}, { a: 1 }, [["a", "stripped", undefined, undefined]]],
    ["hidden", { a: "allow" }, { a: TOKEN }, [["a", "hidden github-token", "a", "[REDACTED]"]]],
    ["cleaned", { a: "allow" }, { a: "x\u200by" }, [["a", "cleaned", "a", "xy"]]],
    [
      "hidden by its name",
      { "*": "allow" },
      { l: [{ password: "abc" }] },
      [["l[0].password", "hidden password-field", "*", "[REDACTED]"]],
    ],
    [
      "hidden by the name beside it",
      { "*": "allow" },
      { name: "DB_PASSWORD", value: "letmein" },
      [
        ["name", "allow", "*", "DB_PASSWORD"],
        ["value", "hidden password-field", "*", "[REDACTED]"],
      ],
    ],
    [
      "only the second of two",
      { "*": "allow" },
      { l: ["x", TOKEN] },
      [
        ["l[0]", "allow", "*", "x"],
        ["l[1]", "hidden github-token", "*", "[REDACTED]"],
      ],
    ],
    [
      "two things in one",
      { "*": "allow" },
      { a: `password=hunter2 ${TOKEN}` },
      [["a", "hidden github-token password-assignment", "*", "password=[REDACTED] [REDACTED]"]],
    ],
    [
      "beside its twin",
      { "*": "allow" },
      { a: TOKEN, b: TOKEN },
      [
        ["a", "hidden github-token", "*", "[REDACTED]"],
        ["b", "hidden github-token", "*", "[REDACTED]"],
      ],
    ],
    [
      "under a key that is hidden",
      { "r.*": "allow" },
      { r: { [TOKEN]: 1, b: 2 } },
      [
        [`r.${TOKEN} (key)`, "hidden github-token", "r.*", "[REDACTED]"],
        [`r.${TOKEN}`, "allow", "r.*", 1],
        ["r.b", "allow", "r.*", 2],
      ],
    ],
    [
      "under keys that are numbers",
      { "*": "allow" },
      { [TOKEN]: "t", "5": "five", "\u200b7": "seven" },
      [
        ["5", "allow", "*", "five"],
        [`${TOKEN} (key)`, "hidden github-token", "*", "[REDACTED]"],
        [TOKEN, "allow", "*", "t"],
        ["\u200b7 (key)", "cleaned", "*", "7"],
        ["\u200b7", "allow", "*", "seven"],
      ],
    ],
    ["a bare value", { "*": "allow" }, "text", [["", "stripped", undefined, undefined]]],
  ])("%s", (_title, policy, answer, want) => {
    expect(rows(policy, answer)).toEqual([...want] as never);
  });

  test("by the level of its field", () => {
    const answer = { a: "x@example.com", b: "x@example.com", c: TOKEN };
    expect(rows({ "*": "allow" }, answer, { b: "balanced", c: "off" })).toEqual([
      ["a", "allow", "*", "x@example.com"],
      ["b", "hidden EMAIL", "*", "[REDACTED:EMAIL]"],
      ["c", "allow", "*", TOKEN],
    ]);
  });

  test("a limited number of fields, and the count of others", () => {
    const { fields, omitted } = filtered(
      { "*": "allow" },
      {},
      Array.from({ length: 1_200 }, (_, at) => at),
    );
    expect([fields.length, omitted]).toEqual([1_000, 200]);
  });
});

describe("compared with the released answer", () => {
  const text = fc.constantFrom("x", TOKEN, "a\u200bb", "jane@example.com", "password=hunter2", "", "4155552671");
  const key = fc.oneof(
    fc.constantFrom("a", "b", "name", "value", "password", "7", "\u200b7", "email", "__proto__"),
    text,
  );
  const json = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      text,
      fc.constantFrom<Json>(null, 1, true, 4_111_111_111_111_111),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie("value")), { maxLength: 4 }).map((entries) => Object.fromEntries(entries) as Json),
    ),
  })).value;
  const pattern = fc.constantFrom("*", "a", "a.b", "*.name", "a.*", "[]", "[].a", "b[].value");
  const policy = fc.dictionary(pattern, fc.constantFrom<FieldAction>("allow", "mask", "redact"), { maxKeys: 4 });
  const scan = fc.dictionary(pattern, fc.constantFrom("off", "secrets", "balanced", "strict"), { maxKeys: 3 });

  const leaves = (value: Json): readonly Json[] =>
    typeof value === "object" && value !== null
      ? Object.values(value).flatMap((inner: Json) => leaves(inner))
      : [value];
  const sorted = (values: readonly unknown[]) => values.map((value) => JSON.stringify(value)).sort();

  test("the rows contain all that the agent sees and nothing else, and the rules that hid something", () => {
    fc.assert(
      fc.property(policy, scan, fc.array(json, { maxLength: 4 }), (rules, levels, answer) => {
        const { fields, result, filteredFields, redactions } = filtered(rules, levels as ScanPolicy, answer);
        const compiled = compilePolicy(rules, z.unknown());
        const looked = redactFiltered(applyPolicy(compiled, answer), compileScan(levels as ScanPolicy), compiled);
        expect([result, filteredFields, redactions]).toEqual([
          looked.value,
          looked.filteredFields,
          looked.redactions ?? {},
        ]);
        const values = fields.filter(({ path, value }) => !path.endsWith(" (key)") && isScalar(value));
        expect(sorted(values.map(({ value }) => value))).toEqual(sorted(leaves(result)));
        const told = new Set(fields.flatMap((field) => field.rules));
        expect([...told].sort()).toEqual(Object.keys(redactions).sort());
      }),
      { numRuns: 1_000 },
    );
  });

  function isScalar(value: Json | undefined): boolean {
    return value !== undefined && (typeof value !== "object" || value === null);
  }
});

test("fields that the schema leaves out", () => {
  const raw = { a: 1, b: { c: 2, d: [{ e: 3, f: 4 }] }, g: "h" };
  expect(leftOutBySchema(raw, { a: 1, b: { d: [{ e: 3 }] }, g: { h: 1 } }, 10)).toEqual(["b.c", "b.d[0].f"]);
  expect(leftOutBySchema({ a: 1, b: 2, c: 3 }, {}, 2)).toEqual(["a", "b"]);
  expect(leftOutBySchema("text", { a: 1 }, 2)).toEqual([]);
});

describe("the command line", () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-filter-")));
  const config = join(folder, "stc.yaml");

  const manifest = `
    import { defineTool } from "safe-tool-call";
    import { z } from "zod";
    const common = { classification: "read", permissions: { required: ["orders:read"] }, input: z.strictObject({}), handler: () => { throw new Error("ran"); } };
    export const find = defineTool({
      ...common, name: "find_order", description: "Find an order",
      output: z.object({ number: z.string(), buyer: z.object({ name: z.string(), email: z.string(), vip: z.boolean() }), note: z.string(), apiToken: z.string() }),
      outputPolicy: { "*": "allow", "buyer.name": "mask", "buyer.email": "redact" },
      scan: { note: "off" },
      limits: { outputBytesMax: 1_000 },
    });
    export const raw = defineTool({
      ...common, name: "raw_order", description: "An order as it is",
      output: z.looseObject({ number: z.string() }), outputPolicy: { number: "allow" },
    });
    export const desk = defineTool({
      ...common, name: "find_desk", description: "Whom to ask",
      output: z.object({ email: z.string(), hours: z.string() }),
      outputPolicy: { email: { action: "allow", reason: "the desk's own, on its public page" } },
    });`;
  const unreasoned = `
    import { defineTool } from "safe-tool-call";
    import { z } from "zod";
    export const people = defineTool({
      name: "list_people", description: "List people", classification: "read",
      permissions: { required: ["people:read"] }, input: z.strictObject({}), handler: () => { throw new Error("ran"); },
      output: z.object({ people: z.array(z.looseObject({ workEmail: z.string() })) }), outputPolicy: { "people[].*": "allow" },
    });`;

  beforeAll(() => {
    writeFileSync(join(folder, "tools.ts"), manifest);
    writeFileSync(
      config,
      stringify({ tools: ["./tools.ts"], audit: { dir: "./audit" }, jwt: { issuers: new LiveIssuers().profiles() } }),
    );
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const ORDER = {
    number: "AB-1",
    buyer: { name: "Ada Lovelace", email: "ada@example.org", vip: true },
    note: "\u001b[31mred\u202e",
    apiToken: "abc123def456",
    extra: 1,
  };

  function run(tool: string, answer: unknown, ...more: readonly string[]): Promise<Ended> {
    const sample = join(folder, `sample-${Bun.randomUUIDv7()}.json`);
    writeFileSync(sample, typeof answer === "string" ? answer : JSON.stringify(answer));
    return runStc(["filter", tool, "--config", config, "--sample", sample, ...more]);
  }

  test("shows each field, without control sequences", async () => {
    const { code, out, err } = await run("find_order", ORDER);
    expect([code, err]).toEqual([0, ""]);
    const lines = out.split("\n").map((line) => line.replace(/ {2,}/g, " | "));
    expect(lines).toEqual([
      "FIELD | WHAT HAPPENS | BY | THE AGENT SEES",
      'number | allow | "*" | "AB-1"',
      'buyer.name | mask | "buyer.name" | "A** L*******"',
      'buyer.email | redact | "buyer.email"',
      'buyer.vip | allow | "*" | true',
      expect.stringMatching(/^note \| allow \| "\*" \| "\\u001b\[31mred\\u\{202e\}"$/),
      'apiToken | hidden: token-field | "*" | "[REDACTED]"',
      "extra | not in the schema | no pattern",
      "filteredFields: apiToken, buyer.email, buyer.name",
      "redactions: token-field 1",
      "",
    ]);
  });

  test("the reason why a field is released, and fields that no pattern covers", async () => {
    const answer = { email: "desk@example.org", hours: "9 to 5" };
    const { out } = await run("find_desk", answer);
    expect(out.split("\n").map((line) => line.replace(/ {2,}/g, " | "))).toEqual([
      "FIELD | WHAT HAPPENS | BY | THE AGENT SEES",
      'email | allow | "email", because: the desk\'s own, on its public page | "desk@example.org"',
      "hours | stripped | no pattern",
      "no pattern covers: hours",
      "filteredFields: hours",
      "",
    ]);
    const { out: json } = await run("find_desk", answer, "--json");
    expect(JSON.parse(json)).toMatchObject({
      fields: [
        { path: "email", reason: "the desk's own, on its public page" },
        { path: "hours", fate: "stripped" },
      ],
      uncovered: ["hours"],
    });
  });

  test("--json gives the same, with the whole result", async () => {
    const { code, out } = await run("find_order", ORDER, "--json");
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      tool: "find_order",
      ok: true,
      omitted: 0,
      result: { number: "AB-1", buyer: { name: "A** L*******", vip: true }, apiToken: "[REDACTED]" },
      filteredFields: ["apiToken", "buyer.email", "buyer.name"],
      redactions: { "token-field": 1 },
    });
    expect(out).not.toContain("ada@example.org");
  });

  test("an answer that the schema refuses: where", async () => {
    const refused = { ...ORDER, buyer: { name: "x\u001b[2J", vip: "yes" } };
    const { code, err, out } = await run("find_order", refused);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain("withheld, INVALID_OUTPUT:\nbuyer.email: ");
    expect(err).toContain("\nbuyer.vip: ");
    const { code: jsonCode, out: json } = await run("find_order", refused, "--json");
    expect([jsonCode, JSON.parse(json)]).toMatchObject([
      1,
      {
        tool: "find_order",
        ok: false,
        code: "INVALID_OUTPUT",
        issues: [{ path: "buyer.email" }, { path: "buyer.vip" }],
      },
    ]);
  });

  test.each<[string, string, unknown, string]>([
    [
      "an answer over the tool's limit",
      "find_order",
      { ...ORDER, ["x".repeat(1_000)]: 1 },
      "withheld, OUTPUT_TOO_LARGE:\n(answer): over 1000 bytes, and cannot be cut",
    ],
    [
      "an answer that is too deep",
      "raw_order",
      `{"number":"1","x":${"[".repeat(70)}${"]".repeat(70)}}`,
      "withheld, INVALID_OUTPUT:\n*[][]",
    ],
  ])("%s", async (_title, tool, answer, message) => {
    const { code, err } = await run(tool, answer);
    expect(code).toBe(1);
    expect(err).toContain(message);
  });

  test("a text over the tool's limit is cut and marked", async () => {
    const answer = { ...ORDER, note: "x".repeat(3_000) };
    const { code, out } = await run("find_order", answer);
    expect([code, out]).toEqual([0, expect.stringContaining("\ntruncated: the answer is over the tool's limit")]);
    const { out: json } = await run("find_order", answer, "--json");
    const told = JSON.parse(json);
    expect([told.ok, told.truncated, told.result.note.length < 1_000]).toEqual([true, true, true]);
  });

  test.each([
    ["a file that is no JSON", "find_order", "{number: 1}", 66, "is not JSON"],
    ["an unknown tool", "no\u202esuch", {}, 64, "there is no tool no\\u{202e}such"],
  ])("%s is not a withheld answer", async (_title, tool, answer, exit, message) => {
    const { code, out, err } = await run(tool, answer, "--json");
    expect({ code, out }).toEqual({ code: exit, out: "" });
    expect(err).toContain(message);
  });

  test("stc check names probable mistakes, with the line to write", async () => {
    const { code, out } = await runStc(["check", "--config", config]);
    expect(code).toBe(0);
    const told = out.split("\n").filter((line) => line.includes(": tool "));
    expect(told.map((line) => line.replace(/^note: .*?: tool /, ""))).toEqual([
      'find_desk: outputPolicy: no pattern covers hours: stripped from every answer; write "redact" if that is meant, else "allow" or "mask"',
      "find_desk: outputPolicy: email is released, because: the desk's own, on its public page",
      'find_order: outputPolicy: apiToken is a secret by its name, and allowed; unless it must be released, write "apiToken": "redact"',
      'find_order: scan: off for note, which may contain any text, also a secret; write "secrets", or leave it out',
      'raw_order: outputPolicy: no pattern covers *: stripped from every answer; write "redact" if that is meant, else "allow" or "mask"',
    ]);
  });

  test("fields that nobody released prevent the start: file, tool, field, and the line to write", async () => {
    writeFileSync(join(folder, "people.ts"), unreasoned);
    const broken = join(folder, "broken.yaml");
    writeFileSync(
      broken,
      stringify({ tools: ["./people.ts"], audit: { dir: "./audit" }, jwt: { issuers: new LiveIssuers().profiles() } }),
    );
    const { code, err } = await runStc(["check", "--config", broken]);
    expect(code).toBe(78);
    expect(err).toContain(
      'people.ts: tool list_people: outputPolicy: people[].workEmail is personal data by its name, and is released; write "people[].workEmail": "mask"',
    );
    expect(err).toContain(
      'people.ts: tool list_people: outputPolicy: "people[].*": "allow" releases everything that the target returns in people[].*, which',
    );
  });
});
