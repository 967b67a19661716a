import { expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { canonical } from "../../src/core/digest.ts";
import { mask } from "../../src/core/output-policy/masks.ts";
import { applyPolicy, compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { plainReader, unread } from "../../src/core/schema/plain-reader.ts";
import type { FieldAction, Json, OutputFieldPolicy } from "../../src/core/types.ts";

/** A second reading of the guide, slow and plain: which rule names a leaf, and what is left of an answer. */

const ELEMENT: unique symbol = Symbol("element");
const ANY: unique symbol = Symbol("any steps");
type Segment = string | typeof ELEMENT | typeof ANY;
type Steps = readonly (string | typeof ELEMENT)[];

interface Rule {
  readonly segments: readonly Segment[];
  readonly action: FieldAction;
}

const STRICTNESS = { allow: 0, mask: 1, redact: 2 } as const;

function ruleOf(text: string, action: FieldAction): Rule {
  const segments = text.split(".").flatMap((part): Segment[] => {
    const name = part.replaceAll("[]", "");
    const lists = Array.from({ length: (part.length - name.length) / 2 }, (): Segment => ELEMENT);
    if (name === "") return lists;
    return [name === "*" ? ANY : name, ...lists];
  });
  return { segments, action };
}

function matches([segment, ...rest]: readonly Segment[], steps: Steps, isFirst = true): boolean {
  if (segment === undefined) return steps.length === 0;
  if (segment !== ANY) return steps[0] === segment && matches(rest, steps.slice(1), false);
  const least = isFirst && rest.length > 0 ? 0 : 1;
  return (
    steps.some((_, at) => at >= least && matches(rest, steps.slice(at), false)) ||
    (rest.length === 0 && least <= steps.length)
  );
}

function actionAt(rules: readonly Rule[], steps: Steps): FieldAction | undefined {
  const claims = rules.flatMap(({ segments, action }) =>
    steps.flatMap((_, at) => {
      if (!matches(segments, steps.slice(0, at + 1))) return [];
      const names = segments.filter((segment) => typeof segment === "string").length;
      const isExact = !segments.includes(ANY) && at + 1 === steps.length;
      return [{ weight: names * 100 + (isExact ? 10 : 0) + STRICTNESS[action], action }];
    }),
  );
  return claims.sort((a, b) => b.weight - a.weight)[0]?.action;
}

/** Whether a rule that lets something out spells out the way through a container. */
function isOnTheWay(rules: readonly Rule[], steps: Steps): boolean {
  return rules.some(
    ({ segments, action }) =>
      action !== "redact" && segments.length > steps.length && steps.every((step, at) => segments[at] === step),
  );
}

function left(rules: readonly Rule[], value: Json, steps: Steps): Json | undefined {
  const action = actionAt(rules, steps);
  if (typeof value !== "object" || value === null) {
    if (action === "allow") return value;
    return action === "mask" ? mask(value) : undefined;
  }
  const stays = steps.length === 0 || action === "allow" || action === "mask" || isOnTheWay(rules, steps);
  const parts = Array.isArray(value)
    ? value.map((item) => ["", left(rules, item, [...steps, ELEMENT])] as const)
    : Object.entries(value)
        .filter(([key]) => key !== "__proto__")
        .map(([key, item]) => [key, left(rules, item, [...steps, key])] as const);
  const kept = parts.flatMap(([key, item]) => (item === undefined ? [] : [[key, item] as const]));
  if (kept.length === 0 && !stays) return undefined;
  return Array.isArray(value) ? kept.map(([, item]) => item) : Object.fromEntries(kept);
}

interface Pair {
  readonly schema: z.ZodType;
  readonly value: fc.Arbitrary<unknown>;
}

const ODD_KEYS = [
  "a.b",
  "a[]",
  "[]",
  "*",
  "'",
  "constructor",
  "toString",
  "then",
  "toJSON",
  "",
  "0",
  "10",
  "é",
  "e\u0301",
  "A",
];
const dataKey = fc.constantFrom("a", "b", "c", "__proto__", ...ODD_KEYS);
const fieldKey = fc.oneof({ weight: 5, arbitrary: fc.constantFrom("a", "b", "c") }, fc.constantFrom(...ODD_KEYS));
const table = (value: fc.Arbitrary<unknown>) =>
  fc.array(fc.tuple(dataKey, value), { maxLength: 4 }).map((entries) => Object.fromEntries(entries));
const anything = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom("s", 1, null, true),
    fc.array(tie("value"), { maxLength: 3 }),
    table(tie("value")),
  ),
})).value;

const scalar = fc.constantFrom<Pair>(
  { schema: z.string(), value: fc.string({ maxLength: 6 }) },
  { schema: z.number(), value: fc.constantFrom(0, -0, 1e21, -1.5) },
  { schema: z.enum(["x", "y"]).nullable(), value: fc.constantFrom("x", "y", null) },
  { schema: z.boolean().readonly(), value: fc.boolean() },
  { schema: z.string().catch("caught"), value: fc.constantFrom("fine", 5, { a: { b: "hidden" } }) },
  { schema: z.preprocess((value) => JSON.stringify(value), z.string()), value: fc.constantFrom("p", 1) },
  {
    schema: z.codec(z.string(), z.number(), { decode: (text) => text.length, encode: String }),
    value: fc.constantFrom("p", "qq"),
  },
);

const pair: fc.Memo<Pair> = fc.memo((depth) => {
  if (depth <= 1) return scalar;
  const inner = pair(depth - 1);
  return fc.oneof(
    scalar,
    { weight: 4, arbitrary: object(depth) },
    inner.map(({ schema, value }): Pair => ({ schema: z.array(schema), value: fc.array(value, { maxLength: 3 }) })),
    inner.map(({ schema, value }): Pair => ({ schema: z.record(z.string(), schema), value: table(value) })),
    inner.map(({ schema, value }): Pair => ({ schema: z.lazy(() => schema), value })),
    fc
      .tuple(inner, inner)
      .map(([a, b]): Pair => ({ schema: z.union([a.schema, b.schema]), value: fc.oneof(a.value, b.value) })),
    fc
      .tuple(inner, inner)
      .map(([a, b]): Pair => ({ schema: z.tuple([a.schema], b.schema), value: fc.tuple(a.value, b.value) })),
    fc.constant<Pair>({ schema: z.unknown(), value: anything }),
  );
});

function object(depth: number): fc.Arbitrary<Pair> {
  const fields = fc.uniqueArray(fc.tuple(fieldKey, pair(depth - 1)), { selector: ([key]) => key, maxLength: 4 });
  return fc.tuple(fields, fc.constantFrom(z.object, z.strictObject, z.looseObject)).map(([named, make]) => {
    const known = fc.tuple(...named.map(([key, { value }]) => value.map((item) => [key, item] as const)));
    const shape = Object.fromEntries(named.map(([key, { schema }]) => [key, schema.optional()]));
    const more = make === z.strictObject ? fc.constant({}) : table(anything);
    const value = fc.tuple(more, known).map(([extra, entries]) => ({ ...extra, ...Object.fromEntries(entries) }));
    return { schema: make(shape), value };
  });
}

const segment = fc.constantFrom("a", "b", "c", "a", "b", "*", "a[]", "b[][]", "constructor", "0", "then");
const policy = fc
  .array(
    fc.tuple(
      fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(".")),
      fc.constantFrom<FieldAction>("allow", "allow", "mask", "redact"),
    ),
    { maxLength: 5 },
  )
  .map((entries) => Object.fromEntries(entries) as OutputFieldPolicy);

test("for any schema, policy and answer: what leaves is what the guide says", () => {
  let released = 0;
  fc.assert(
    fc.property(
      pair(4).chain(({ schema, value }) => fc.tuple(fc.constant(schema), value, policy)),
      ([schema, raw, declared]) => {
        const { value } = canonical(raw, { depthMax: 64, nodesMax: 100_000, bytesMax: 1_000_000 });
        const parsed = schema.safeParse(value);
        const plain = plainReader(schema)?.(value) ?? unread;
        if (plain !== unread) expect<unknown>(plain).toEqual(parsed.success ? parsed.data : unread);
        if (!parsed.success || typeof parsed.data !== "object" || parsed.data === null) return;
        const rules = Object.entries(declared).map(([text, action]) => ruleOf(text, action as FieldAction));
        const { result } = applyPolicy(compilePolicy(declared, schema), parsed.data as Json);
        expect(result).toStrictEqual(left(rules, parsed.data as Json, []) as Json);
        if (Object.keys(result as object).length > 0) released += 1;
      },
    ),
    { numRuns: 3_000 },
  );
  expect(released).toBeGreaterThan(200);
});
