import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { freeText, freeTextFields, unboundedStrings } from "../../../src/core/schema/bounds.ts";

const bounded = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z-]*$/);
const tree: z.ZodType = z.strictObject({
  name: bounded,
  get below() {
    return z.array(tree).max(3);
  },
});
const fresh: z.ZodType = z.lazy(() => z.object({ name: bounded, below: z.lazy(() => z.array(fresh).max(3)) }));
const endless = (): z.ZodType => z.object({ next: z.lazy(endless) });

describe("accepted", () => {
  test.each([
    ["enum", z.enum(["a", "b"])],
    ["literal", z.literal("a")],
    ["boolean, number, null", z.union([z.boolean(), z.number(), z.int(), z.null()])],
    [
      "formats",
      z.tuple([
        z.uuid(),
        z.uuidv4(),
        z.guid(),
        z.iso.date(),
        z.iso.datetime(),
        z.iso.datetime({ offset: true, precision: 3 }),
        z.iso.time(),
        z.ipv4(),
        z.ipv6(),
        z.cidrv4(),
        z.cidrv6(),
        z.cuid(),
        z.ulid(),
        z.xid(),
        z.ksuid(),
        z.e164(),
      ]),
    ],
    ["formats as checks", z.tuple([z.string().uuid(), z.string().ipv4(), z.string().datetime(), z.string().date()])],
    ["maximum and pattern", bounded],
    [
      "pattern first",
      z
        .string()
        .regex(/^[a-z]+$/)
        .max(5),
    ],
    [
      "exact length",
      z
        .string()
        .length(40)
        .regex(/^[0-9a-f]{40}$/),
    ],
    [
      "one good pattern of two",
      z
        .string()
        .max(5)
        .regex(/a/)
        .regex(/^[a-z]+$/),
    ],
    [
      "trimmed before",
      z
        .string()
        .trim()
        .toLowerCase()
        .max(5)
        .regex(/^[a-z]+$/),
    ],
    ["refined after", bounded.refine((text) => text !== "x")],
    [
      "a format that is not bounded, with a pattern",
      z
        .email()
        .max(50)
        .regex(/^[a-z].*$/),
    ],
    [
      "wrappers",
      bounded.optional().nullable().default("a").catch("b").readonly().brand<"B">().describe("d").meta({ title: "t" }),
    ],
    ["prefault, nonoptional", z.nonoptional(bounded.prefault("a").optional())],
    ["pipe", z.string().pipe(bounded)],
    [
      "array, tuple, record",
      z.object({
        a: z.array(bounded).max(3),
        t: z.tuple([bounded]),
        r: z.record(bounded, bounded),
        e: z.record(z.enum(["x"]), bounded),
      }),
    ],
    ["intersection", z.intersection(z.object({ a: bounded }), z.object({ b: z.uuid() }))],
    [
      "discriminated union",
      z.discriminatedUnion("k", [z.object({ k: z.literal("a"), v: bounded }), z.object({ k: z.literal("b") })]),
    ],
    ["recursion", tree],
    ["recursion, built anew each time", fresh],
    ["lazy", z.lazy(() => bounded)],
    ["coerced number", z.coerce.number()],
    ["free text", freeText(100)],
    ["free text, longer than nothing", freeText(100).min(1).describe("phrase").optional()],
  ])("%s", (_, schema) => {
    expect(unboundedStrings(z.strictObject({ field: schema }))).toEqual([]);
  });
});

describe("one argument of a command holds 131,071 bytes, and a character has up to four", () => {
  const ascii = (max: number) =>
    z
      .string()
      .max(max)
      .regex(/^[a-z][\w .-]*$/);
  const words = (max: number) =>
    z
      .string()
      .max(max)
      .regex(/^[a-z][^-]*$/);
  test.each<[string, z.ZodType, boolean]>([
    ["free text that fits", freeText(32_767), true],
    ["free text that may not", freeText(32_768), false],
    ["ASCII that fits", ascii(131_071), true],
    ["ASCII that does not", ascii(131_072), false],
    ["any characters that fit", words(32_767), true],
    ["any characters that may not", words(32_768), false],
    [
      "letters of which two are not ASCII",
      z
        .string()
        .max(40_000)
        .regex(/^[a-z]+$/iu),
      false,
    ],
    [
      "an exact length that does not fit",
      z
        .string()
        .length(200_000)
        .regex(/^[a-z]+$/),
      false,
    ],
    ["the smaller of two maxima", ascii(200_000).max(100), true],
  ])("%s", (_title, schema, fits) => {
    const faults = unboundedStrings(z.strictObject({ field: schema }));
    expect(faults.map(({ field }) => field)).toEqual(fits ? [] : ["field"]);
    if (!fits) expect(faults[0]?.message).toContain("longer than one argument of a command can, 131071 bytes");
  });
});

describe("refused", () => {
  test.each([
    ["plain string", z.string(), "field", "freeText(n)"],
    ["only a maximum", z.string().max(5), "field", "freeText(n)"],
    ["only a pattern", z.string().regex(/^[a-z]+$/), "field", ".max(n)"],
    [
      "an endless maximum",
      z
        .string()
        .max(Number.POSITIVE_INFINITY)
        .regex(/^[a-z]+$/),
      "field",
      ".max(n)",
    ],
    [
      "a pattern that may begin with -",
      z
        .string()
        .max(5)
        .regex(/^[\w-]+$/),
      "field",
      "must not let the text begin with -",
    ],
    ["nanoid", z.nanoid(), "field", "freeText(n)"],
    ["base64url", z.base64url().max(9), "field", "freeText(n)"],
    ["email", z.email().max(9), "field", "freeText(n)"],
    ["url", z.url().max(9), "field", "freeText(n)"],
    ["a format under a borrowed name", z.stringFormat("uuid", /^-.*$/), "field", "freeText(n)"],
    ["a format under a borrowed name, by function", z.stringFormat("ipv4", () => true), "field", "freeText(n)"],
    ["trimmed after", bounded.trim(), "field", "before"],
    ["lower case after", bounded.toLowerCase(), "field", "before"],
    ["normalized after a format", z.uuid().normalize(), "field", "before"],
    ["overwritten", bounded.overwrite(() => "-x"), "field", "before"],
    [
      "checked by what may change it",
      bounded.check((context) => {
        context.value = "-x";
      }),
      "field",
      "before",
    ],
    [
      "superRefine",
      bounded.superRefine((_, context) => {
        context.value = "-x";
      }),
      "field",
      "before",
    ],
    ["an overwritten object", z.object({ a: bounded }).overwrite((value) => value), "field", "rewritten"],
    ["an overwritten enum", z.enum(["a"]).overwrite((value) => value), "field", "rewritten"],
    ["transform", bounded.transform((text) => `-${text}`), "field", "must not be transformed"],
    ["preprocess", z.preprocess((value) => value, bounded), "field", "must not be transformed"],
    [
      "codec",
      z.codec(bounded, bounded, { decode: () => "-x", encode: (text) => text }),
      "field",
      "must not be transformed",
    ],
    [
      "coerced",
      z.coerce
        .string()
        .max(5)
        .regex(/^[a-z]+$/),
      "field",
      "must not be coerced",
    ],
    ["any", z.any(), "field", "must not be any"],
    ["unknown", z.unknown(), "field", "must not be unknown"],
    ["custom", z.custom<string>(), "field", "must not be custom"],
    ["template literal", z.templateLiteral(["-", z.string()]), "field", "must not be template_literal"],
    ["array without a maximum", z.array(bounded), "field", ".max(n)"],
    ["array of plain strings", z.array(z.string()).max(3), "field[]", "freeText(n)"],
    ["tuple with a rest", z.tuple([bounded], bounded), "field", "rest"],
    ["record with free keys", z.record(z.string(), bounded), "field.*", "freeText(n)"],
    ["loose record", z.looseRecord(bounded, bounded), "field", "loose"],
    ["loose object", z.looseObject({ a: bounded }), "field", "keys that it does not name"],
    ["one branch of a union", z.union([bounded, z.string()]), "field", "freeText(n)"],
    [
      "one side of an intersection",
      z.intersection(z.object({ a: z.string() }), z.object({ b: bounded })),
      "field.a",
      "freeText(n)",
    ],
    ["inside wrappers", z.string().optional().nullable().default("a"), "field", "freeText(n)"],
    ["inside lazy", z.lazy(() => z.string()), "field", "freeText(n)"],
    ["deep", z.object({ a: z.array(z.object({ b: z.string() })).max(2) }), "field.a[].b", "freeText(n)"],
    ["free text, rewritten", freeText(9).normalize("NFKD"), "field", "before"],
  ] as const)("%s", (_, schema, field, message) => {
    const wanted = message === "before" ? "put .trim() and the like first" : message;
    expect(unboundedStrings(z.strictObject({ field: schema }))).toEqual([
      { field, message: expect.stringContaining(wanted) },
    ]);
  });

  test("traversal of an infinite schema stops at a limit", () => {
    expect(() => unboundedStrings(endless())).toThrow(RangeError);
  });
});

test("accepted formats never accept a text that begins with -", () => {
  const formats = [
    z.uuid(),
    z.guid(),
    z.iso.date(),
    z.iso.datetime({ offset: true, local: true }),
    z.iso.time(),
    z.ipv4(),
    z.ipv6(),
    z.cidrv4(),
    z.cidrv6(),
    z.cuid(),
    z.ulid(),
    z.xid(),
    z.ksuid(),
    z.e164(),
  ];
  fc.assert(
    fc.property(
      fc.constantFrom(...formats),
      fc.string({ unit: fc.constantFrom(..."-0123456789abcdef:./@[]%TZ"), maxLength: 40 }),
      (format, rest) => {
        expect(format.safeParse(`-${rest}`).success).toBe(false);
      },
    ),
  );
});

describe("freeText", () => {
  test.each([
    ["anything", "--help; $(x) \n\t é 😀", true],
    ["the maximum in code points", "😀".repeat(50), true],
    ["more", "x".repeat(51), false],
    ["NUL", "a\0b", false],
    ["a lone surrogate", "a\ud800", false],
  ])("%s", (_, text, ok) => {
    expect(freeText(50).safeParse(text).success).toBe(ok);
  });

  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])("a maximum of %p is refused", (max) => {
    expect(() => freeText(max)).toThrow(RangeError);
  });

  test("its fields are found at any depth", () => {
    const text = freeText(9);
    const input = z.strictObject({
      command: text.describe("d"),
      list: z.array(z.strictObject({ note: text.optional() })).max(2),
      choice: z.union([z.uuid(), text]),
      map: z.record(z.enum(["a"]), text),
      plain: bounded,
    });
    expect(freeTextFields(input)).toEqual(["command", "list[].note", "choice", "map.*"]);
  });
});
