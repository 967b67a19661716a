import { expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../../src/core/errors.ts";
import { defineTool } from "../../../src/index.ts";

const GRANTS = { runs: 5, minutes: 30, arguments: { status: { oneOf: ["on"] }, amount: { max: 50 }, note: "any" } };

function define(grants: unknown, more: Record<string, unknown> = {}, approval: Record<string, unknown> = {}) {
  return defineTool({
    ...{ name: "switch_it", description: "Switches it", classification: "write", category: "network" },
    permissions: { required: ["deeds:do"] },
    input: z.strictObject({
      status: z.enum(["on", "off"]),
      amount: z.number().min(-10).max(100).default(1),
      note: z.string().max(20).trim().optional(),
    }),
    output: z.object({ done: z.boolean() }),
    outputPolicy: { done: "allow" },
    approval: { grants, ...approval },
    handler: () => ({ done: true }),
    ...more,
  } as never);
}

function faultsOf(make: () => unknown): readonly (readonly [string, string])[] {
  try {
    make();
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field, message }) => [field, message] as const);
  }
}

const bounds = (more: unknown) => ({ ...GRANTS, arguments: more });

test("bounds of every kind load", () => {
  expect(faultsOf(() => define(GRANTS))).toEqual([]);
  expect(faultsOf(() => define({ runs: 1, minutes: 1 }))).toEqual([]);
  expect(faultsOf(() => define(bounds({ status: "equal", amount: { min: -5, max: -1 } })))).toEqual([]);
});

const FIELD = "approval.grants";
const BOUND = "must be equal, any, { oneOf: [values] } or { min?, max } with numbers";

test.each([
  ["no table", 5, FIELD, "must be { runs, minutes, arguments? }"],
  ["no runs", { minutes: 1 }, `${FIELD}.runs`, "must be a whole number from 1 to 1000"],
  ["too many runs", { ...GRANTS, runs: 1_001 }, `${FIELD}.runs`, "must be a whole number from 1 to 1000"],
  ["days", { ...GRANTS, minutes: 1_441 }, `${FIELD}.minutes`, "must be a whole number from 1 to 1440"],
  ["an unknown key", { ...GRANTS, seconds: 5 }, `${FIELD}.seconds`, expect.stringContaining("unknown")],
  ["a prefix", bounds({ note: { prefix: "a" } }), `${FIELD}.arguments.note`, BOUND],
  ["an empty set", bounds({ status: { oneOf: [] } }), `${FIELD}.arguments.status`, BOUND],
  ["a set of lists", bounds({ status: { oneOf: [["on"]] } }), `${FIELD}.arguments.status`, BOUND],
  ["a set and a range", bounds({ amount: { oneOf: [1], max: 5 } }), `${FIELD}.arguments.amount`, BOUND],
  ["a range without an end", bounds({ amount: { min: 5 } }), `${FIELD}.arguments.amount`, BOUND],
  ["a range upside down", bounds({ amount: { min: 5, max: 4 } }), `${FIELD}.arguments.amount`, BOUND],
  ["a negative end whose start is 0", bounds({ amount: { max: -4 } }), `${FIELD}.arguments.amount`, BOUND],
  ["an endless range", bounds({ amount: { max: Number.POSITIVE_INFINITY } }), `${FIELD}.arguments.amount`, BOUND],
  [
    "no such argument",
    bounds({ notes: "any" }),
    `${FIELD}.arguments.notes`,
    expect.stringContaining("has no such argument"),
  ],
  [
    "a name of the prototype",
    bounds({ constructor: "any" }),
    `${FIELD}.arguments.constructor`,
    expect.stringContaining("no such"),
  ],
  [
    "a value that is never accepted",
    bounds({ status: { oneOf: ["on", "of"] } }),
    `${FIELD}.arguments.status`,
    'the input never accepts "of"',
  ],
  [
    "a value that the schema changes",
    bounds({ note: { oneOf: [" a"] } }),
    `${FIELD}.arguments.note`,
    'the input never accepts " a"',
  ],
  ["a range of texts", bounds({ note: { max: 5 } }), `${FIELD}.arguments.note`, "the input never accepts 5"],
  [
    "a range beyond the schema",
    bounds({ amount: { max: 101 } }),
    `${FIELD}.arguments.amount`,
    "the input never accepts 101",
  ],
])("a manifest that offers %s does not load", (_title, grants, field, message) => {
  expect(faultsOf(() => define(grants))).toContainEqual([field, message]);
});

test.each([
  ["a destructive tool", { classification: "destructive" }, {}, "is not for destructive tools: each call is approved"],
  ["a question to a person", { category: "ask" }, {}, "is not for category ask: each call is a question of its own"],
  ["high risk", {}, { risk: "high" }, "is not for risk high: each call is approved"],
  ["critical risk", {}, { risk: "critical" }, "is not for risk critical: each call is approved"],
] as const)("a manifest of %s offers no grants", (_title, more, approval, message) => {
  expect(faultsOf(() => define(GRANTS, more, approval))).toEqual([[FIELD, message]]);
});
