import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { compileScan, type ScanPolicy } from "../../src/core/output-policy/scan-policy.ts";
import type { OutputFieldPolicy } from "../../src/core/types.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { release } from "../../src/pipeline/output-filter.ts";

const SECRET = "DB_PASSWORD=correct-horse";

interface Let {
  readonly output: z.ZodType;
  readonly policy: OutputFieldPolicy;
  readonly scan?: ScanPolicy;
}

/** The reported names of the fields in which something was hidden; the audit has them, too. */
function told({ output, policy, scan = {} }: Let, raw: unknown): readonly string[] {
  const tool = { name: "case_tool", input: z.strictObject({}), output, limits: { outputBytesMax: 1_048_576 } };
  const parts = { outputPolicy: compilePolicy(policy, output), scan: compileScan(scan) };
  return release({ tool, ...parts, raw } as never, DETECTOR).filteredFields;
}

const text = z.string();

describe("hidden fields are reported without keys that are data", () => {
  test.each([
    [
      "a record",
      { output: z.object({ by: z.record(text, text) }), policy: { by: "allow" } },
      { by: { "ann@example.com": SECRET } },
      ["by.*"],
    ],
    [
      "a record of objects",
      { output: z.object({ by: z.record(text, z.object({ note: text })) }), policy: { by: "allow" } },
      { by: { "ann@example.com": { note: SECRET } } },
      ["by.*.note"],
    ],
    [
      "anything",
      { output: z.object({ any: z.unknown() }), policy: { any: "allow" } },
      { any: { "ann@example.com": [{ x: SECRET }] } },
      ["any.*[].*"],
    ],
    [
      "a key with dots and brackets",
      { output: z.record(text, text), policy: { "*": "allow" } },
      { "a.b[0]": SECRET },
      ["*"],
    ],
    [
      "a key itself",
      { output: z.object({ by: z.record(text, text) }), policy: { by: "allow" }, scan: { by: "balanced" } },
      { by: { "ann@example.com": "x" } },
      ["by.*"],
    ],
    [
      "a record beside what the policy took",
      { output: z.object({ by: z.record(text, text) }), policy: { by: "allow", "by.gone": "redact" } },
      { by: { gone: "1", "ann@example.com": SECRET } },
      ["by.*"],
    ],
  ] as const)("%s", (_title, parts, raw, fields) => {
    expect(told(parts as unknown as Let, raw)).toEqual([...fields]);
  });
});

describe("and with those that the schema or the policy names", () => {
  test.each([
    [
      "fields",
      { output: z.object({ log: z.object({ lines: z.array(text) }) }), policy: { "*": "allow" } },
      { log: { lines: ["fine", SECRET] } },
      ["log.lines[]"],
    ],
    [
      "lists in lists",
      { output: z.object({ rows: z.array(z.array(text)) }), policy: { rows: "allow" } },
      { rows: [[SECRET]] },
      ["rows[][]"],
    ],
    [
      "a choice from a list of keys",
      { output: z.object({ by: z.partialRecord(z.enum(["dev", "prod"]), text) }), policy: { by: "allow" } },
      { by: { prod: SECRET } },
      ["by.prod"],
    ],
    [
      "what the policy names of anything",
      { output: z.object({ any: z.unknown() }), policy: { "any.note": "allow" } },
      { any: { note: SECRET } },
      ["any.note"],
    ],
  ] as const)("%s", (_title, parts, raw, fields) => {
    expect(told(parts as unknown as Let, raw)).toEqual([...fields].sort());
  });
});

test("a list that was cut is reported, though fields follow it", () => {
  const names = Array.from({ length: 1_500 }, (_, index) => `f${index}`);
  const output = z.object(Object.fromEntries([...names, "kept"].map((name) => [name, text])));
  const raw = { ...Object.fromEntries(names.map((name) => [name, "x"])), kept: SECRET };
  const fields = told({ output, policy: { kept: "allow" } }, raw);
  expect([fields.length, fields.at(-1)]).toEqual([1_001, "…"]);
});
