import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../src/core/errors.ts";
import { policyNotes } from "../../src/core/output-policy/notes.ts";
import type { OutputFieldPolicy } from "../../src/core/types.ts";
import { defineTool } from "../../src/index.ts";

const text = z.string();
const loose = z.looseObject({ id: text });

function faultsOf(output: z.ZodType, outputPolicy: OutputFieldPolicy): readonly string[] {
  try {
    defineTool({
      name: "case_tool",
      description: "A tool of a test",
      classification: "read",
      permissions: { required: ["case:run"] },
      input: z.strictObject({}),
      handler: async () => ({}) as never,
      output,
      outputPolicy,
    });
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ message }) => message);
  }
}

describe("naming the elements of a list names the list: the rest does not release loose keys", () => {
  test.each([
    ["items[]", z.object({ items: z.array(loose) }), "items[].*"],
    ["items[][]", z.object({ items: z.array(z.array(loose)) }), "items[][].*"],
    ["[]", z.array(loose), "[].*"],
    ["pair[]", z.object({ pair: z.tuple([text, loose]) }), "pair[].*"],
    ["e", z.object({ e: z.looseRecord(z.enum(["a"]), text) }), "e.*"],
    ["*", z.object({ e: z.looseRecord(z.enum(["a"]), text) }), "e.*"],
    ["*", z.object({ e: z.looseRecord(z.templateLiteral(["x", text]), text) }), "e.*"],
  ] as const)("%s", (pattern, output, open) => {
    const faults = faultsOf(output, { [pattern]: "allow" });
    expect(faults).toHaveLength(1);
    expect(faults[0]).toStartWith(`"${pattern}": "allow" releases everything that the target returns in ${open}`);
    expect(faults[0]).not.toContain(`such as "${pattern}": "allow"`);
  });

  test.each([
    ["items[].id", z.object({ items: z.array(loose) })],
    ["items[].more", z.object({ items: z.array(loose) })],
    ["rows[]", z.object({ rows: z.array(z.record(text, text)) })],
    ["rows", z.object({ rows: z.array(z.record(text, text)) })],
    ["[]", z.array(z.record(text, text))],
    ["[]", z.array(z.unknown())],
    ["[].id", z.array(loose)],
    ["items[]", z.object({ items: z.array(z.looseObject({})) })],
    ["items[]", z.object({ items: z.array(z.object({ id: text })) })],
    ["e.a", z.object({ e: z.looseRecord(z.enum(["a"]), text) })],
    ["e.more", z.object({ e: z.looseRecord(z.enum(["a"]), text) })],
    ["e.more.inside", z.object({ e: z.looseRecord(text.regex(/^x/), text) })],
    ["e", z.object({ e: z.looseRecord(text.regex(/^x/), text) })],
  ] as const)("%s by its own name loads", (pattern, output) => {
    expect(faultsOf(output, { [pattern]: "allow" })).toEqual([]);
  });
});

describe("a field is checked however many precede it", () => {
  const numbers = Object.fromEntries(Array.from({ length: 6_000 }, (_, index) => [`n${index}`, z.number()]));

  test("personal data after 6,000 fields", () => {
    const [fault = ""] = faultsOf(z.object({ ...numbers, email: text }), { "*": "allow" });
    expect(fault).toStartWith("email is personal data by its name, and is released");
  });

  test("an open schema after 6,000 fields", () => {
    const [fault = ""] = faultsOf(z.object({ ...numbers, more: z.unknown() }), { "*": "allow" });
    expect(fault).toStartWith('"*": "allow" releases everything that the target returns in more');
  });

  test("6,000 harmless ones load", () => {
    expect(faultsOf(z.object(numbers), { "*": "allow" })).toEqual([]);
  });

  test("a schema too large to check does not load", () => {
    const wide = Object.fromEntries(Array.from({ length: 50_001 }, (_, index) => [`n${index}`, z.number()]));
    expect(faultsOf(z.object(wide), { "*": "allow" })).toEqual(["the schema has more than 50000 parts"]);
  });
});

describe("a line that protects a name everywhere but is overridden gets a note", () => {
  const output = z.object({ customer: z.object({ data: z.object({ note: text, size: text }) }), note: text });
  const notes = (outputPolicy: OutputFieldPolicy) =>
    policyNotes({ output, outputPolicy, scan: {} }, () => false).map(({ message }) => message);

  test.each([
    [
      "redact by a container that is allowed",
      { note: "redact", "customer.data": "allow", "*.note": "redact" },
      "redact",
      "allow",
      "customer.data",
    ],
    [
      "redact by a glob that masks",
      { note: "redact", "customer.data.*": "mask", "*.note": "redact" },
      "redact",
      "mask",
      "customer.data.*",
    ],
    [
      "mask by a container that is allowed",
      { note: "mask", "customer.data": "allow", "*.note": "mask" },
      "mask",
      "allow",
      "customer.data",
    ],
  ] as const)("%s", (_title, policy, action, wins, by) => {
    expect(notes(policy)).toEqual([
      `"*.note": "${action}" does not hold for customer.data.note: "${by}" has more names, and says ${wins}; write "customer.data.note": "${action}" as well`,
    ]);
  });

  test.each([
    ["the name itself is allowed", { "*": "mask", "*.note": "redact", "customer.data.note": "allow" }],
    [
      "the line that is told to be written",
      { "customer.data": "allow", "*.note": "redact", "customer.data.note": "redact" },
    ],
    ["everything is closed but what is named", { "*": "redact", "customer.data": "allow" }],
    ["as many names: the stricter wins", { customer: "allow", "*.note": "redact" }],
  ] as const)("no note where %s", (_title, policy) => {
    expect(notes(policy)).toEqual([]);
  });
});
