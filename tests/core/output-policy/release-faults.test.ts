import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { releaseFaults } from "../../../src/core/output-policy/release-faults.ts";
import type { OutputFieldPolicy } from "../../../src/core/types.ts";

const faults = (output: z.ZodType, outputPolicy: OutputFieldPolicy) =>
  releaseFaults({ output, outputPolicy }).map(({ message }) => message);

const REASON = { action: "allow", reason: "the desk's own, shown on its page" } as const;

describe("fields that the schema does not describe", () => {
  const whatever = (pattern: string, places: string, instead = "") =>
    `"${pattern}": "allow" releases everything that the target returns in ${places}, which the schema does not describe; name instead the fields that may be released${instead}`;

  test.each<[string, z.ZodType, OutputFieldPolicy, string]>([
    [
      "a loose object",
      z.looseObject({ id: z.string(), buyer: z.object({ email: z.string(), note: z.string() }) }),
      { "*": "allow", "buyer.email": "mask" },
      whatever("*", "*", ', such as "id": "allow", "buyer.note": "allow"'),
    ],
    ["a loose object without keys", z.looseObject({}), { "*": "allow" }, whatever("*", "*")],
    [
      "passthrough",
      z.object({ id: z.string() }).passthrough(),
      { "*": "allow" },
      whatever("*", "*", ', such as "id": "allow"'),
    ],
    [
      "a catchall",
      z.object({ id: z.string() }).catchall(z.string()),
      { "*": "allow" },
      whatever("*", "*", ', such as "id": "allow"'),
    ],
    ["a record", z.record(z.string(), z.string()), { "*": "allow" }, whatever("*", "*")],
    ["anything", z.object({ payload: z.unknown() }), { "*": "allow" }, whatever("*", "payload")],
    [
      "anything below a glob",
      z.object({ payload: z.any() }),
      { "payload.*": "allow" },
      whatever("payload.*", "payload.*"),
    ],
    [
      "a named part of anything",
      z.object({ payload: z.unknown() }),
      { "payload.spec.*": "allow" },
      whatever("payload.spec.*", "payload.spec.*"),
    ],
    [
      "JSON",
      z.object({ payload: z.json() }),
      { "*": "allow" },
      whatever("*", "payload[], payload.*", ', such as "payload": "allow"'),
    ],
    [
      "below a wildcard",
      z.object({ app: z.object({ spec: z.any() }) }),
      { "app.*": "allow" },
      whatever("app.*", "app.spec"),
    ],
    [
      "a container's rule, which is a glob by another name",
      z.object({ app: z.object({ id: z.string(), spec: z.any() }) }),
      { app: "allow" },
      whatever("app", "app.spec", ', such as "app.id": "allow"'),
    ],
    [
      "a loose part by its name: all that it does not spell out leaves with it",
      z.object({ app: z.looseObject({ id: z.string() }) }),
      { app: "allow" },
      whatever("app", "app.*", ', such as "app.id": "allow"'),
    ],
    [
      "in lists",
      z.object({ apps: z.array(z.looseObject({ id: z.string() })) }),
      { "apps[].*": "allow" },
      whatever("apps[].*", "apps[].*", ', such as "apps[].id": "allow"'),
    ],
    [
      "a list's rule",
      z.object({ apps: z.array(z.looseObject({ id: z.string() })) }),
      { apps: "allow" },
      whatever("apps", "apps[].*", ', such as "apps[].id": "allow"'),
    ],
    [
      "a record among others",
      z.object({ id: z.string(), labels: z.record(z.string(), z.string()) }),
      { "*": "allow" },
      whatever("*", "labels.*", ', such as "id": "allow", "labels": "allow"'),
    ],
    [
      "a glob over a record",
      z.object({ labels: z.record(z.string(), z.string()) }),
      { "labels.*": "allow" },
      whatever("labels.*", "labels.*", ', such as "labels": "allow"'),
    ],
    [
      "one kind of several",
      z.object({ o: z.union([z.object({ a: z.int() }), z.looseObject({ b: z.int() })]).nullable() }),
      { "o.*": "allow" },
      whatever("o.*", "o.*", ', such as "o.a": "allow", "o.b": "allow"'),
    ],
  ])("%s", (_title, output, policy, message) => {
    expect(faults(output, policy)).toEqual([message]);
  });

  test("no reason is accepted for unknown fields", () => {
    expect(faults(z.looseObject({ id: z.string() }), { "*": REASON })).toHaveLength(1);
  });

  const order = z.strictObject({ id: z.string(), buyer: z.strictObject({ note: z.string() }) });
  test.each<[string, z.ZodType, OutputFieldPolicy]>([
    ["a strict schema", order, { "*": "allow" }],
    ["a plain schema, whose other keys are dropped", z.object({ id: z.string() }), { "*": "allow" }],
    ["a glob over a described part", order, { "buyer.*": "allow" }],
    ["a loose object whose keys are named", z.looseObject({ id: z.string() }), { id: "allow" }],
    ["a catchall that takes nothing", z.object({ id: z.string() }).catchall(z.never()), { "*": "allow" }],
    ["a record of listed keys", z.object({ n: z.record(z.enum(["a", "b"]), z.int()) }), { "*": "allow" }],
    ["a record by its name", z.object({ labels: z.record(z.string(), z.string()) }), { labels: "allow" }],
    ["a record in a list by its name", z.object({ l: z.array(z.record(z.string(), z.int())) }), { l: "allow" }],
    [
      "a record by its name, wherever it stands",
      z.object({ a: z.object({ labels: z.record(z.string(), z.string()) }) }),
      { "*.labels": "allow" },
    ],
    [
      "a record's described part",
      z.object({ r: z.record(z.string(), z.object({ a: z.int() })) }),
      { "r.*.a": "allow" },
    ],
    ["JSON by its name", z.object({ payload: z.json() }), { payload: "allow" }],
    ["anything by its name", z.object({ payload: z.unknown() }), { payload: "allow" }],
    ["a named part of anything, by its name", z.object({ payload: z.unknown() }), { "payload.id": "allow" }],
    ["a list of anything by its name", z.object({ l: z.array(z.unknown()) }), { l: "allow" }],
    [
      "a loose part that the glob does not get",
      z.object({ a: z.int(), p: z.unknown() }),
      { "*": "allow", p: "redact" },
    ],
    ["a masking glob", z.object({ payload: z.unknown() }), { "*": "mask" }],
    ["nothing", z.looseObject({}), {}],
  ])("%s is accepted", (_title, output, policy) => {
    expect(faults(output, policy)).toEqual([]);
  });
});

describe("personal data by its name", () => {
  const text = z.string();
  const message = (path: string, line = path) =>
    `${path} is personal data by its name, and is released; write "${line}": "mask" or "${line}": "redact" or, if it must be released, "${line}": { action: "allow", reason: "…" }`;

  test.each<[string, z.ZodType, OutputFieldPolicy, string]>([
    ["its own line", z.object({ email: text }), { email: "allow" }, message("email")],
    ["a glob", z.object({ email: text }), { "*": "allow" }, message("email")],
    ["a container's line", z.object({ a: z.object({ email: text }) }), { a: "allow" }, message("a.email")],
    ["in a list", z.object({ l: z.array(z.object({ phone: text })) }), { "l[].phone": "allow" }, message("l[].phone")],
    ["a list of them", z.object({ emails: z.array(text) }), { emails: "allow" }, message("emails")],
    ["elements of it", z.object({ emails: z.array(text) }), { "emails[]": "allow" }, message("emails", "emails[]")],
    ["numbers", z.object({ phones: z.array(z.int()) }), { phones: "allow" }, message("phones")],
    ["a number", z.object({ ssn: z.int() }), { ssn: "allow" }, message("ssn")],
    [
      "a part of it",
      z.object({ email: z.object({ work: text }) }),
      { "email.work": "allow" },
      message("email", "email.work"),
    ],
    [
      "by what it stands in",
      z.object({ customer: z.object({ name: text }) }),
      { "*": "allow" },
      message("customer.name"),
    ],
    ["anything", z.object({ email: z.unknown() }), { email: "allow" }, message("email")],
    ["optional", z.object({ email: z.email().nullish() }), { email: "allow" }, message("email")],
    ["one of several kinds", z.object({ email: z.union([z.boolean(), text]) }), { email: "allow" }, message("email")],
    ["of a loose object", z.looseObject({ id: text }), { id: "allow", email: "allow" }, message("email")],
    [
      "of anything",
      z.object({ payload: z.unknown() }),
      { "payload.user.email": "allow" },
      message("payload.user.email"),
    ],
    ["wherever it stands", z.object({ payload: z.unknown() }), { "*.phone": "allow" }, message("payload.phone")],
    ["of a catchall", z.object({ id: text }).catchall(text), { customerEmail: "allow" }, message("customerEmail")],
    ["of a record", z.object({ r: z.record(z.string(), text) }), { "r.dob": "allow" }, message("r.dob")],
    [
      "in a record",
      z.object({ r: z.record(z.string(), z.object({ phone: text })) }),
      { r: "allow" },
      message("r.*.phone"),
    ],
    ["with a reason for all", z.object({ email: text }), { "*": REASON }, message("email")],
    [
      "with a reason for what it stands in",
      z.object({ a: z.object({ email: text }) }),
      { a: REASON },
      message("a.email"),
    ],
  ])("%s", (_title, output, policy, want) => {
    expect(faults(output, policy)).toEqual([want]);
  });

  const inKeys = z.object({ usersByEmail: z.record(z.string(), z.object({ active: z.boolean() })) });
  test.each<[string, OutputFieldPolicy]>([
    ["allowed", { usersByEmail: "allow" }],
    ["allowed in part", { "usersByEmail.*.active": "allow" }],
    ["masked: keys are not", { usersByEmail: "mask" }],
  ])("as keys, %s", (_title, policy) => {
    expect(faults(inKeys, policy)).toEqual([
      expect.stringContaining(
        'usersByEmail has personal data as its keys by its name, and is released; write "usersByEmail',
      ),
    ]);
  });

  test.each<[string, z.ZodType, OutputFieldPolicy]>([
    ["masked", z.object({ email: text }), { email: "mask" }],
    ["redacted", z.object({ email: text }), { email: "redact" }],
    ["stripped", z.object({ email: text, id: text }), { id: "allow" }],
    ["masked below a glob", z.object({ email: text, id: text }), { "*": "allow", email: "mask" }],
    ["a reason", z.object({ email: text }), { email: REASON }],
    ["a reason wherever it stands", z.object({ a: z.object({ email: text }) }), { "*.email": REASON }],
    ["a reason for all of its parts", z.object({ email: z.object({ work: text }) }), { email: REASON }],
    ["a reason for keys", inKeys, { usersByEmail: REASON }],
    ["a reason in a loose object", z.looseObject({ id: text }), { email: REASON }],
    ["a flag", z.object({ email: z.boolean(), emailVerified: z.boolean() }), { "*": "allow" }],
    ["a choice", z.object({ phone: z.enum(["home", "work"]), email: z.literal("hidden") }), { "*": "allow" }],
    ["a count", z.object({ emails: z.int(), phones: z.number(), email: z.int() }), { "*": "allow" }],
    ["a template", z.object({ email: z.object({ template: text }), emailTemplate: text }), { "*": "allow" }],
    ["names of things", z.object({ pod: z.object({ name: text }), filename: text, hostname: text }), { "*": "allow" }],
    ["an endpoint", z.object({ endpoint: z.object({ address: text }), address: text }), { "*": "allow" }],
  ])("%s is accepted", (_title, output, policy) => {
    expect(faults(output, policy)).toEqual([]);
  });

  test("however wrapped and nested, a glob never releases it without a note", () => {
    type Wrap = (inner: z.ZodType) => z.ZodType;
    const wraps: readonly Wrap[] = [
      (inner) => z.object({ a: inner }),
      (inner) => z.strictObject({ items: inner, id: z.int() }),
      (inner) => z.array(inner),
      (inner) => z.tuple([z.int(), inner]),
      (inner) => inner.optional(),
      (inner) => inner.nullable(),
      (inner) => inner.readonly(),
      (inner) => z.union([z.boolean(), inner]),
      (inner) => z.lazy(() => inner),
      (inner) => z.record(z.enum(["x", "y"]), inner),
      (inner) => z.record(z.string(), inner),
      (inner) => z.intersection(z.object({ n: z.int() }), z.object({ m: inner })),
    ];
    const wrapped = fc.array(fc.constantFrom(...wraps), { maxLength: 6 });
    const name = fc.constantFrom("email", "customerPhone", "date_of_birth", "SSN", "firstName", "home-address");
    fc.assert(
      fc.property(wrapped, name, wrapped, (outside, key, inside) => {
        const value = inside.reduceRight<z.ZodType>((inner, wrap) => wrap(inner), z.string());
        const output = z.object({
          top: outside.reduceRight<z.ZodType>((inner, wrap) => wrap(inner), z.object({ [key]: value })),
        });
        expect(faults(output, { "*": "allow" }).join("\n")).toContain(key);
        expect(faults(output, { top: "allow" }).join("\n")).toContain(key);
        expect(faults(output, { top: "redact" })).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test("the suggested line suffices", () => {
    const output = z.object({ l: z.array(z.object({ email: text, customer: z.object({ name: text }) })) });
    const lines = faults(output, { "*": "allow" }).map((fault) => /write "([^"]+)": "mask"/.exec(fault)?.[1] ?? "");
    expect(lines).toEqual(["l[].email", "l[].customer.name"]);
    const mended = Object.fromEntries(lines.map((path) => [path, "mask" as const]));
    expect(faults(output, { "*": "allow", ...mended })).toEqual([]);
  });

  test("many are counted", () => {
    const output = z.object(Object.fromEntries(Array.from({ length: 15 }, (_, at) => [`email${at}`, text])));
    expect(faults(output, { "*": "allow" }).at(-1)).toBe("and 5 more of that kind");
  });
});
