import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { NOT_LOGGED } from "../../src/core/audit-fields.ts";
import { compileInputPolicy, sanitizeInput } from "../../src/core/manifest/input-policy.ts";
import type { InputPolicy } from "../../src/core/types.ts";

const PLANTED = "planted-free-text";
const person = z.object({ name: z.string() });

function audited(of: z.ZodType, value: unknown, policy: InputPolicy = {}): unknown {
  return sanitizeInput(compileInputPolicy(policy, z.object({ of })), { of: value })["of"];
}

describe("a harmless choice next to free text releases none of the text", () => {
  test.each([
    ["a literal or an object", z.union([z.literal("all"), person]), { name: PLANTED }],
    ["a switch or a list", z.union([z.boolean(), z.array(z.string())]), [PLANTED]],
    ["a switch or a list of objects", z.union([z.boolean(), z.array(person)]), [{ name: PLANTED }]],
    ["a switch or a loose object", z.union([z.boolean(), z.looseObject({})]), { any: PLANTED }],
    [
      "a switch or names that no pattern can say",
      z.union([z.boolean(), z.object({ "a b": z.string() })]),
      { "a b": PLANTED },
    ],
    [
      "a kind, or a record",
      z.union([z.object({ kind: z.enum(["x"]) }), z.record(z.string(), z.string())]),
      { kind: PLANTED },
    ],
    ["a kind, or a loose object", z.union([z.object({ kind: z.enum(["x"]) }), z.looseObject({})]), { kind: PLANTED }],
    ["a kind, or anything", z.union([z.object({ kind: z.enum(["x"]) }), z.unknown()]), { kind: PLANTED }],
    ["kinds, or a tuple", z.union([z.array(z.enum(["x"])), z.tuple([z.string()])]), [PLANTED]],
    [
      "two loose objects, each with the other's name",
      z.union([z.looseObject({ a: z.enum(["x"]) }), z.looseObject({ b: z.enum(["x"]) })]),
      { a: PLANTED, b: "x" },
    ],
    ["elements that are a kind or a list", z.array(z.union([z.enum(["x"]), z.array(z.string())])), [[PLANTED]]],
    ["optional, with a default", z.union([z.literal("all"), person.optional()]).default("all"), { name: PLANTED }],
  ])("%s", (_title, of, value) => {
    expect(JSON.stringify(audited(of, value))).not.toContain(PLANTED);
  });
});

describe("harmless arguments are still logged", () => {
  test.each([
    ["the literal beside the object", z.union([z.literal("all"), person]), "all", "all"],
    [
      "the kind within the choice",
      z.union([z.boolean(), z.object({ kind: z.enum(["x"]), name: z.string() })]),
      { kind: "x", name: PLANTED },
      { kind: "x", name: NOT_LOGGED },
    ],
    [
      "the kind of a loose object",
      z.looseObject({ kind: z.enum(["x"]) }),
      { kind: "x", more: PLANTED },
      { kind: "x", more: NOT_LOGGED },
    ],
    [
      "kinds of a discriminated union",
      z.discriminatedUnion("kind", [
        z.object({ kind: z.literal("a"), on: z.boolean() }),
        z.object({ kind: z.literal("b"), name: z.string() }),
      ]),
      { kind: "b", name: PLANTED },
      { kind: "b", name: NOT_LOGGED },
    ],
    ["a choice or nothing", z.enum(["x"]).nullable().optional(), null, null],
  ])("%s", (_title, of, value, shown) => {
    expect(audited(of, value)).toEqual(shown);
  });

  test("and explicit rules apply", () => {
    const of = z.union([z.literal("all"), person]);
    expect(audited(of, { name: "Ada" }, { "of.name": "allow" })).toEqual({ name: "Ada" });
    expect(audited(of, { name: "Ada" }, { "*.name": "allow" })).toEqual({ name: "Ada" });
    expect(audited(of, "all", { "*": "redact" })).toBe(NOT_LOGGED);
  });
});
