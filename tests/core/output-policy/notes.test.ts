import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { policyNotes } from "../../../src/core/output-policy/notes.ts";
import { compilePolicy } from "../../../src/core/output-policy/output-policy.ts";
import type { ScanPolicy } from "../../../src/core/output-policy/scan-policy.ts";
import type { OutputFieldPolicy } from "../../../src/core/types.ts";
import { labelOf } from "../../../src/detection/labels.ts";
import { getCustomer } from "../../../tools/customer-data/get-customer.ts";
import { listCustomers } from "../../../tools/customer-data/list-customers.ts";

const namesSecret = (name: string): boolean => labelOf(name).secret !== undefined;

function notes(output: z.ZodType, outputPolicy: OutputFieldPolicy, scan: ScanPolicy = {}): readonly string[] {
  compilePolicy(outputPolicy, output);
  return policyNotes({ output, outputPolicy, scan }, namesSecret).map(({ field, message }) => `${field}: ${message}`);
}

const order = z.object({ number: z.string(), buyer: z.object({ name: z.string(), email: z.email() }), total: z.int() });
const named = { number: "allow", "buyer.name": "mask", "buyer.email": "redact", total: "allow" } as const;

describe("fields that no pattern covers", () => {
  const stripped = (paths: string) =>
    `outputPolicy: no pattern covers ${paths}: stripped from every answer; write "redact" if that is meant, else "allow" or "mask"`;

  test.each<[string, z.ZodType, OutputFieldPolicy, readonly string[]]>([
    ["all are covered", order, named, []],
    ["one is not", order, { number: "allow", "buyer.name": "mask", total: "allow" }, [stripped("buyer.email")]],
    ["a whole part is not", order, { number: "allow", total: "allow" }, [stripped("buyer")]],
    ["covered by the container", order, { number: "allow", buyer: "redact", total: "allow" }, []],
    [
      "in lists",
      z.object({ l: z.array(z.object({ a: z.int(), b: z.int() })) }),
      { "l[].a": "allow" },
      [stripped("l[].b")],
    ],
    [
      "in records",
      z.object({ r: z.record(z.string(), z.object({ a: z.int(), b: z.int() })) }),
      { "r.*.a": "allow" },
      [stripped("r.*.b")],
    ],
    ["keys that nobody named", z.looseObject({ a: z.int() }), { a: "allow" }, [stripped("*")]],
    ["what is open, in part", z.object({ o: z.unknown() }), { "o.id": "allow" }, []],
    [
      "of wrappers and choices",
      z.object({ o: z.union([z.object({ a: z.int() }), z.object({ b: z.int() })]).nullable() }),
      {
        "o.a": "allow",
      },
      [stripped("o.b")],
    ],
    [
      "a key of its prototype",
      z.object({ constructor: z.int(), a: z.int() }),
      { a: "allow" },
      [stripped("constructor")],
    ],
  ])("%s", (_title, output, policy, want) => {
    expect(notes(output, policy)).toEqual([...want]);
  });

  test("many are counted", () => {
    const output = z.object(Object.fromEntries(Array.from({ length: 15 }, (_, at) => [`f${at}`, z.int()])));
    expect(notes(output, { f14: "allow" })).toEqual([expect.stringContaining("f8, f9 and 4 more: stripped")]);
  });

  test.each([["text"], ["choice"]])("a bare value: %s", (kind) => {
    const output = kind === "text" ? z.string() : z.union([z.object({ a: z.int() }), z.int()]);
    expect(notes(output, {})).toEqual([
      "output: may be a bare value, which no pattern can name: it becomes null; write z.object({ … }) around it",
    ]);
  });
});

test("an optional answer", () => {
  expect(notes(z.union([z.object({ a: z.int() }).nullable(), z.null()]), { a: "allow" })).toEqual([]);
});

describe("names that may indicate personal data", () => {
  const customer = z.object({
    shop: z.object({ address: z.object({ city: z.string() }), apiToken: z.string(), id: z.string() }),
  });
  const note = (path: string, what: string, line: string) =>
    `outputPolicy: ${path} ${what} by its name, and allowed; unless it must be released, write ${line}`;

  test("are reported with the line to write", () => {
    expect(notes(customer, { "*": "allow" })).toEqual([
      note("shop.address", "may be personal data", '"shop.address": "mask"'),
      note("shop.apiToken", "is a secret", '"shop.apiToken": "redact"'),
    ]);
  });

  test("and those lines suffice", () => {
    const mended = { "*": "allow", "shop.address": "mask", "shop.apiToken": "redact" } as const;
    expect(notes(customer, mended)).toEqual([]);
  });

  test.each<[string, z.ZodType, OutputFieldPolicy, string]>([
    [
      "where a deeper rule allows",
      customer,
      { "*": "redact", "shop.address.city": "allow" },
      '"shop.address.city": "mask"',
    ],
    [
      "where elements are allowed",
      z.object({ mails: z.array(z.string()) }),
      { "mails[]": "allow" },
      '"mails[]": "mask"',
    ],
    [
      "in a record",
      z.object({ r: z.record(z.string(), z.object({ fax: z.string() })) }),
      { r: "allow" },
      '"r.*.fax": "mask"',
    ],
    ["a number", z.object({ pan: z.int() }), { pan: "allow" }, '"pan": "mask"'],
  ])("the line wins %s", (_title, output, policy, line) => {
    const [found = "", ...others] = notes(output, policy);
    expect([found.endsWith(`write ${line}`), others]).toEqual([true, []]);
    const [, path = "", action] = /^"(.+)": "(.+)"$/.exec(line) ?? [];
    expect(notes(output, { ...policy, [path]: action } as OutputFieldPolicy)).toEqual([]);
  });

  test.each<[string, z.ZodType]>([
    ["a flag", z.object({ hasPassword: z.boolean() })],
    ["a choice", z.object({ mobile: z.enum(["home", "work"]) })],
    ["a count of tokens", z.object({ token: z.int() })],
    ["a page's token", z.object({ nextPageToken: z.string() })],
  ])("%s does not indicate personal data", (_title, output) => {
    expect(notes(output, { "*": "allow" })).toEqual([]);
  });

  test("masked and redacted fields get no note", () => {
    expect(notes(order, named)).toEqual([]);
  });
});

test("a reason is shown, and nothing else of its field", () => {
  const output = z.object({ desk: z.object({ email: z.string(), address: z.string() }) });
  const reason = "the service desk's own, on its public page";
  expect(
    notes(output, { "desk.email": { action: "allow", reason }, "desk.address": { action: "allow", reason } }),
  ).toEqual([
    `outputPolicy: desk.email is released, because: ${reason}`,
    `outputPolicy: desk.address is released, because: ${reason}`,
  ]);
});

describe("scan", () => {
  const log = z.object({
    lines: z.array(z.string()),
    id: z.uuid(),
    commit: z.string().regex(/^[0-9a-f]{40}$/),
    level: z.enum(["info", "error"]),
    note: z.string().min(200),
    short: z.string().max(20),
    any: z.unknown(),
  });
  const policy = {
    lines: "allow",
    id: "allow",
    commit: "allow",
    level: "allow",
    note: "allow",
    short: "allow",
    any: "allow",
  } as const;
  const off = (paths: string) =>
    `scan: off for ${paths}, which may contain any text, also a secret; write "secrets", or leave it out`;

  test.each<[string, ScanPolicy, readonly string[]]>([
    ["off where text is free", { lines: "off", short: "off" }, [off("lines[], short")]],
    ["off for everything", { "*": "off" }, [off("lines[], note, short, any")]],
    ["off for ids", { id: "off", commit: "off", level: "off" }, []],
    [
      "off, and back on for the text",
      { "*": "off", lines: "secrets", note: "balanced", short: "strict", any: "secrets" },
      [],
    ],
  ])("%s", (_title, scan, want) => {
    expect(notes(log, policy, scan)).toEqual(want.map((text) => expect.stringContaining(text)));
  });

  test("off matters only for released fields", () => {
    expect(
      notes(z.object({ text: z.string(), number: z.int() }), { text: "redact", number: "allow" }, { text: "off" }),
    ).toEqual([]);
  });
});

test("the customers' tools get no note", () => {
  expect([getCustomer, listCustomers].flatMap((tool) => policyNotes(tool, namesSecret))).toEqual([]);
});

test("traversal of an infinite schema ends", () => {
  const endless = (): z.ZodType => z.object({ next: z.lazy(endless) });
  expect(() => notes(endless(), {})).toThrow(RangeError);
});

test("of a schema with many fields few are named, and one with too many is refused", () => {
  const grown = (depth: number): z.ZodType => {
    const part = depth === 0 ? z.object({ mail: z.string() }) : grown(depth - 1);
    return depth === 0 ? part : z.object({ a: part, b: part, "c.d": part });
  };
  const found = notes(grown(7), { "*": "allow" });
  expect(found).toHaveLength(11);
  expect(found.at(-1)).toMatch(/^outputPolicy: and \d+ more of that kind$/);
  expect(() => notes(grown(12), { "*": "allow" })).toThrow(new RangeError("the schema has more than 50000 parts"));
});

test("a policy that releases nothing is reported", () => {
  const says = "outputPolicy: releases nothing, so every answer is empty";
  expect(notes(order, {})[0]).toStartWith(says);
  expect(notes(order, { number: "redact", buyer: "redact" })[0]).toStartWith(says);
  expect(notes(order, { number: "mask" }).join()).not.toContain(says);
  expect(notes(z.object({}), {})).toEqual([]);
});
