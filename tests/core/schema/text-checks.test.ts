import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { NOT_LOGGED } from "../../../src/core/audit-fields.ts";
import { compileInputPolicy, sanitizeInput } from "../../../src/core/manifest/input-policy.ts";
import { unboundedStrings } from "../../../src/core/schema/bounds.ts";
import { boundedFormatsOf, checksOf, maximumOf, writtenPattern } from "../../../src/core/schema/text-checks.ts";

/** Each format as a schema of its own and as a check of a text. */
const FORMATS: readonly (readonly [name: string, own: z.ZodType, check: z.ZodType, isBounded: boolean])[] = [
  ["uuid", z.uuid(), z.string().uuid(), true],
  ["uuid", z.uuidv4(), z.string().uuidv4(), true],
  ["guid", z.guid(), z.string().guid(), true],
  ["date", z.iso.date(), z.string().date(), true],
  ["datetime", z.iso.datetime({ offset: true }), z.string().datetime({ offset: true }), true],
  ["time", z.iso.time(), z.string().time(), true],
  ["ipv4", z.ipv4(), z.string().ipv4(), true],
  ["ipv6", z.ipv6(), z.string().ipv6(), true],
  ["cidrv4", z.cidrv4(), z.string().cidrv4(), true],
  ["ulid", z.ulid(), z.string().ulid(), true],
  ["e164", z.e164(), z.string().e164(), true],
  ["email", z.email(), z.string().email(), false],
  ["url", z.url(), z.string().url(), false],
  ["nanoid", z.nanoid(), z.string().nanoid(), false],
  ["jwt", z.jwt(), z.string().jwt(), false],
  ["base64", z.base64(), z.string().base64(), false],
];

const UUID = "3f0c9a52-6b1e-4c77-9d3a-000000000001";

/** What the audit shows of a value with this schema. */
function logged(schema: z.ZodType, value = UUID): unknown {
  return sanitizeInput(compileInputPolicy({}, z.strictObject({ value: schema })), { value })["value"];
}

describe("a format is read alike as a schema and as a check:", () => {
  test.each(FORMATS)("%s", (name, own, check, isBounded) => {
    const readings = [own, check, check.optional(), check.describe("An id")].map((schema) => {
      const inner = schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema;
      return {
        formats: boundedFormatsOf(checksOf(inner)),
        isRefused: unboundedStrings(z.strictObject({ value: schema })).length > 0,
        logged: logged(schema),
      };
    });
    const isUuid = name === "uuid" || name === "guid";
    const expected = { formats: isBounded ? [name] : [], isRefused: !isBounded, logged: isUuid ? UUID : NOT_LOGGED };
    expect(readings).toEqual(readings.map(() => expected));
  });
});

test.each([
  ["another pattern under the format's name", z.stringFormat("uuid", /^.*$/)],
  ["a function under the format's name", z.stringFormat("uuid", () => true)],
  ["a format that only some values have", z.string().check(z.uuid({ when: () => false } as never))],
  ["a text that may also be free", z.union([z.string().uuid(), z.string()])],
])("%s is not taken for the format", (_title, schema) => {
  expect(logged(schema)).toBe(NOT_LOGGED);
});

test.each([
  ["in lower case", z.string().uuid().toLowerCase()],
  ["trimmed first", z.string().trim().uuid()],
  ["with a length", z.string().length(36).uuid()],
  ["checked again", z.uuid().refine((value) => value !== "")],
  ["or absent", z.string().uuid().nullish()],
])("an id is logged: %s", (_title, schema) => {
  expect(logged(schema)).toBe(UUID);
});

test("the smallest maximum counts, and a pattern that an author wrote", () => {
  const checks = checksOf(
    z
      .string()
      .max(9)
      .length(4)
      .regex(/^[a-z]+$/),
  );
  expect(maximumOf(checks)).toBe(4);
  expect(checks.flatMap((check) => writtenPattern(check)?.source ?? [])).toEqual(["^[a-z]+$"]);
  expect(maximumOf(checksOf(z.string().min(3)))).toBeUndefined();
  expect(maximumOf(checksOf(z.array(z.string()).max(3)))).toBe(3);
});
