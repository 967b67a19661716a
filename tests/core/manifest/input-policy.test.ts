import { expect, test } from "bun:test";
import { z } from "zod";
import { NOT_LOGGED } from "../../../src/core/audit-fields.ts";
import { compileInputPolicy, sanitizeInput } from "../../../src/core/manifest/input-policy.ts";
import type { InputPolicy } from "../../../src/core/types.ts";

const UUID = "3f0c9a52-6b1e-4c77-9d3a-000000000001";

const input = z.object({
  id: z.uuid(),
  status: z.enum(["ACTIVE", "BLOCKED"]).optional(),
  dry: z.boolean().optional(),
  count: z.int().min(1).max(100).optional(),
  income: z.number().optional(),
  name: z.string().optional(),
  either: z.union([z.uuid(), z.string()]).optional(),
  list: z.array(z.object({ kind: z.literal("x"), note: z.string() })).optional(),
  labels: z.record(z.string(), z.string()).optional(),
});

const rows: readonly (readonly [string, InputPolicy, Record<string, unknown>, Record<string, unknown>])[] = [
  [
    "uuids, enums, booleans and bounded numbers are logged",
    {},
    { id: UUID, status: "ACTIVE", dry: true, count: 7 },
    { id: UUID, status: "ACTIVE", dry: true, count: 7 },
  ],
  [
    "free strings and unbounded numbers are not",
    {},
    { id: UUID, name: "John Smith", income: 91_000 },
    { id: UUID, name: NOT_LOGGED, income: NOT_LOGGED },
  ],
  ["where one shape is free, none is logged", {}, { id: UUID, either: UUID }, { id: UUID, either: NOT_LOGGED }],
  [
    "lists and objects keep their shape",
    {},
    { id: UUID, list: [{ kind: "x", note: "secret" }] },
    { id: UUID, list: [{ kind: "x", note: NOT_LOGGED }] },
  ],
  ["records keep their keys", {}, { id: UUID, labels: { team: "blue" } }, { id: UUID, labels: { team: NOT_LOGGED } }],
  ["a rule opens a field", { name: "allow" }, { id: UUID, name: "x y" }, { id: UUID, name: "x y" }],
  ["a rule masks a field", { name: "mask" }, { id: UUID, name: "John Smith" }, { id: UUID, name: "J*** S****" }],
  [
    "a rule closes a field that is open by default",
    { id: "redact" },
    { id: UUID, dry: true },
    { id: NOT_LOGGED, dry: true },
  ],
  [
    "a wildcard closes everything",
    { "*": "redact" },
    { id: UUID, status: "ACTIVE", list: [{ kind: "x", note: "n" }] },
    { id: NOT_LOGGED, status: NOT_LOGGED, list: [{ kind: NOT_LOGGED, note: NOT_LOGGED }] },
  ],
  [
    "a rule inside a list",
    { "list[].note": "allow" },
    { id: UUID, list: [{ kind: "x", note: "n" }] },
    { id: UUID, list: [{ kind: "x", note: "n" }] },
  ],
];

test.each(rows)("%s", (_title, policy, args, shown) => {
  expect(sanitizeInput(compileInputPolicy(policy, input), args)).toEqual(shown as never);
});

test("an own __proto__ is neither shown nor followed", () => {
  const args = JSON.parse('{"__proto__":{"polluted":true},"name":"x"}') as unknown;
  const shown = sanitizeInput(compileInputPolicy({}, input), args);
  expect(shown).toEqual({ name: NOT_LOGGED });
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});
