import { z } from "zod";
import { canonicalJson } from "../digest.ts";
import { isTable, type JsonLimits } from "../json.ts";
import type { Json } from "../types.ts";
import { type JsonSchema, type SchemaTable, typeOf, typesOf } from "./schema.ts";
import { formatTest, patternTest, type TextTest } from "./text.ts";

/** A violation, in Zod's terms: Zod words it, as it does for manifests in TypeScript. */
export type Violation = z.core.$ZodRawIssue;

/** Limits the time of one check, in visited schemas and in pieces of text. */
const STEPS_MAX = 4_000_000;
/** A value that is compared is written out first. */
const STEPS_TO_COMPARE = 20;
const TEXT_PIECE_CHARACTERS = 16;
const VIOLATIONS_MAX = 20;
const LIMITS: JsonLimits = { depthMax: 256, nodesMax: 1_000_000, bytesMax: 67_108_864 };

interface Run {
  readonly path: PropertyKey[];
  violations: Violation[];
  steps: number;
}

type Check = (value: unknown, run: Run) => void;

/**
 * Returns a function that returns the violations of a schema by a value, at most 20. Nothing of the schema is run as code.
 *
 * Rejected: Ajv, which writes a program from names, enums and patterns that others choose, and checks `uniqueItems` in quadratic
 * time; `@cfworker/json-schema`, which runs patterns with the runtime's own matcher. Both have no limit for a value that a
 * schema makes expensive. Tests compare the results with Ajv's and with the official suite.
 *
 * @throws {RangeError} (the returned function) for a value that takes too many steps
 */
export function checkerOf(schema: JsonSchema): (value: unknown) => readonly Violation[] {
  const check = new Compiler().check(schema);
  return (value) => {
    const run: Run = { path: [], violations: [], steps: STEPS_MAX };
    check(value, run);
    return run.violations.slice(0, VIOLATIONS_MAX);
  };
}

function add(run: Run, value: unknown, violation: Readonly<Record<string, unknown>> & { readonly code: string }): void {
  if (run.violations.length < VIOLATIONS_MAX) {
    run.violations.push({ input: value, path: [...run.path], ...violation } as Violation);
  }
}

function spend(run: Run, steps: number): void {
  run.steps -= steps;
  if (run.steps < 0) throw new RangeError("the schema takes too many steps for this value");
}

function spendOnText(run: Run, text: string): void {
  spend(run, 1 + Math.ceil(text.length / TEXT_PIECE_CHARACTERS));
}

/** Runs checks on a member or an element. */
function runAt(run: Run, step: PropertyKey, runChecks: () => void): void {
  run.path.push(step);
  runChecks();
  run.path.pop();
}

/** Returns the violations of one check alone. */
function violationsOf(check: Check, value: unknown, run: Run): readonly Violation[] {
  const { violations } = run;
  run.violations = [];
  check(value, run);
  const found = run.violations;
  run.violations = violations;
  return found;
}

function accepts(check: Check, value: unknown, run: Run): boolean {
  return violationsOf(check, value, run).length === 0;
}

const textOf = (value: unknown): string => canonicalJson(value, LIMITS);

class Compiler {
  readonly #patterns = new Map<string, TextTest>();

  check(schema: JsonSchema): Check {
    if (schema === true) return () => {};
    if (schema === false) return (value, run) => add(run, value, { code: "invalid_type", expected: "never" });
    const first = [
      ...(schema.const === undefined ? [] : [valuesCheck([schema.const])]),
      ...(schema.enum === undefined ? [] : [valuesCheck(schema.enum)]),
      ...(schema.type === undefined ? [] : [typeCheck([schema.type].flat())]),
    ];
    const others = [...this.#texts(schema), ...numberChecks(schema), ...this.#lists(schema)];
    const all = [...others, ...this.#objects(schema), ...this.#combinations(schema)];
    return (value, run) => {
      spend(run, 1);
      const { length } = run.violations;
      for (const check of first) {
        check(value, run);
        // A value of another type violates everything else, too.
        if (run.violations.length > length) return;
      }
      for (const check of all) check(value, run);
    };
  }

  #pattern(source: string): TextTest {
    const known = this.#patterns.get(source) ?? patternTest(source);
    this.#patterns.set(source, known);
    return known;
  }

  #texts({ minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, format }: SchemaTable): readonly Check[] {
    const tests: { readonly test: TextTest; readonly violation: Readonly<Record<"code" | "format", string>> }[] = [];
    const code = "invalid_format";
    const matcher = pattern === undefined ? undefined : this.#pattern(pattern);
    const formatted = format === undefined ? undefined : formatTest(format);
    if (formatted !== undefined)
      tests.push({ test: formatted, violation: { code, format: ZOD_FORMATS[format ?? ""] ?? "" } });
    if (matcher !== undefined) {
      const shown = { code, format: "regex", pattern: `/${matcher.pattern.source}/` };
      tests.push({ test: matcher, violation: shown });
    }
    const hasLength = minLength > 0 || maxLength < Number.POSITIVE_INFINITY;
    if (tests.length === 0 && !hasLength) return [];
    return [
      (value, run) => {
        if (typeof value !== "string") return;
        spendOnText(run, value);
        if (hasLength)
          checkSize(value, run, {
            origin: "string",
            size: charactersOf(value, maxLength),
            minimum: minLength,
            maximum: maxLength,
          });
        for (const { test, violation } of tests) if (!test.test(value)) add(run, value, violation);
      },
    ];
  }

  #lists(schema: SchemaTable): readonly Check[] {
    const {
      prefixItems = [],
      items = true,
      contains,
      uniqueItems,
      minItems = 0,
      maxItems = Number.POSITIVE_INFINITY,
    } = schema;
    const first = prefixItems.map((part) => this.check(part));
    const rest = items === true ? undefined : this.check(items);
    const checks: ((list: readonly unknown[], run: Run) => void)[] = [];
    if (minItems > 0 || maxItems < Number.POSITIVE_INFINITY) {
      checks.push((list, run) =>
        checkSize(list, run, { origin: "array", size: list.length, minimum: minItems, maximum: maxItems }),
      );
    }
    if (first.length > 0 || rest !== undefined) {
      checks.push((list, run) => {
        for (let index = 0; index < list.length; index += 1) {
          run.path.push(index);
          (first[index] ?? rest)?.(list[index], run);
          run.path.pop();
        }
      });
    }
    if (contains !== undefined) checks.push(containsCheck(this.check(contains), schema));
    if (uniqueItems === true) checks.push(checkUnique);
    if (checks.length === 0) return [];
    return [
      (value, run) => {
        if (!Array.isArray(value)) return;
        spend(run, value.length);
        for (const check of checks) check(value, run);
      },
    ];
  }

  #objects(schema: SchemaTable): readonly Check[] {
    const { required = [], properties = {}, minProperties = 0, maxProperties = Number.POSITIVE_INFINITY } = schema;
    const checks: ((table: Readonly<Record<string, unknown>>, run: Run) => void)[] = [];
    const members = new Map(Object.entries(properties).map(([name, part]) => [name, this.check(part)]));
    if (required.length > 0) {
      const wanted = required.map((name) => [name, members.get(name)] as const);
      checks.push((table, run) => {
        for (const [name, check] of wanted)
          if (!Object.hasOwn(table, name)) runAt(run, name, () => checkMissing(check, run));
      });
    }
    const other = this.#members(schema, members);
    if (other !== undefined) checks.push(other);
    if (minProperties > 0 || maxProperties < Number.POSITIVE_INFINITY) {
      checks.push((table, run) => {
        const size = Object.keys(table).length;
        checkSize(table, run, { origin: "object", size, minimum: minProperties, maximum: maxProperties });
      });
    }
    checks.push(...this.#dependencies(schema));
    if (checks.length === 0) return [];
    return [
      (value, run) => {
        if (!isTable(value)) return;
        for (const check of checks) check(value, run);
      },
    ];
  }

  #members(
    { patternProperties = {}, additionalProperties = true, propertyNames }: SchemaTable,
    members: ReadonlyMap<string, Check>,
  ): ((table: Readonly<Record<string, unknown>>, run: Run) => void) | undefined {
    const patterns = Object.entries(patternProperties).map(
      ([source, part]) => [this.#pattern(source), this.check(part)] as const,
    );
    const other = additionalProperties === true ? undefined : this.check(additionalProperties);
    const names = propertyNames === undefined ? undefined : this.check(propertyNames);
    if (members.size === 0 && patterns.length === 0 && other === undefined && names === undefined) return undefined;
    return (table, run) => {
      let unknown: string[] | undefined;
      for (const key of Object.keys(table)) {
        spendOnText(run, key);
        const value = table[key];
        const check = members.get(key);
        let isKnown = check !== undefined;
        run.path.push(key);
        check?.(value, run);
        for (const [pattern, below] of patterns) {
          if (!pattern.test(key)) continue;
          isKnown = true;
          below(value, run);
        }
        if (!isKnown && additionalProperties === false) {
          unknown ??= [];
          unknown.push(key);
        } else if (!isKnown) other?.(value, run);
        if (names !== undefined && !accepts(names, key, run))
          add(run, value, { code: "invalid_key", origin: "record", issues: [] });
        run.path.pop();
      }
      if (unknown !== undefined) add(run, table, { code: "unrecognized_keys", keys: unknown });
    };
  }

  #dependencies({
    dependentRequired = {},
    dependentSchemas = {},
  }: SchemaTable): readonly ((table: Readonly<Record<string, unknown>>, run: Run) => void)[] {
    const required = Object.entries(dependentRequired).map(([key, names]) => {
      return (table: Readonly<Record<string, unknown>>, run: Run): void => {
        if (!Object.hasOwn(table, key)) return;
        for (const name of names) if (!Object.hasOwn(table, name)) runAt(run, name, () => checkMissing(undefined, run));
      };
    });
    const schemas = Object.entries(dependentSchemas).map(([key, part]) => {
      const check = this.check(part);
      return (table: Readonly<Record<string, unknown>>, run: Run): void => {
        if (Object.hasOwn(table, key)) check(table, run);
      };
    });
    return [...required, ...schemas];
  }

  #combinations({ allOf = [], anyOf, oneOf, not, ...conditional }: SchemaTable): readonly Check[] {
    const checks = allOf.map((part) => this.check(part));
    if (anyOf !== undefined) checks.push(this.#choice(anyOf, false));
    if (oneOf !== undefined) checks.push(this.#choice(oneOf, true));
    if (not !== undefined) {
      const check = this.check(not);
      checks.push((value, run) => {
        if (accepts(check, value, run))
          add(run, value, { code: "custom", message: "Invalid input: has a form that is not allowed" });
      });
    }
    if (conditional.if !== undefined && (conditional.then !== undefined || conditional.else !== undefined)) {
      const [condition, met, unmet] = [conditional.if, conditional.then ?? true, conditional.else ?? true].map((part) =>
        this.check(part),
      );
      checks.push((value, run) => {
        if (condition !== undefined) (accepts(condition, value, run) ? met : unmet)?.(value, run);
      });
    }
    return checks;
  }

  /** When only one choice takes the value's type, as for a value that may also be null, its violations are those of the value. */
  #choice(choices: readonly JsonSchema[], isExactlyOne: boolean): Check {
    const options = choices.map((choice) => ({ check: this.check(choice), types: typesOf(choice) }));
    return (value, run) => {
      const type = typeOf(value);
      const candidates = options.filter(({ types }) => type === undefined || types.has(type));
      const [only, another] = candidates;
      if (only !== undefined && another === undefined) return only.check(value, run);
      const isAccepted = ({ check }: (typeof options)[number]): boolean => accepts(check, value, run);
      const accepting = isExactlyOne ? candidates.filter(isAccepted).length : Number(candidates.some(isAccepted));
      if (accepting === 0) add(run, value, { code: "invalid_union", errors: [] });
      else if (accepting > 1) add(run, value, { code: "invalid_union", errors: [], inclusive: false });
    };
  }
}

/** Zod's names of the formats, by which it words violations. */
const ZOD_FORMATS: Readonly<Record<string, string>> = {
  ...{
    date: "date",
    time: "time",
    "date-time": "datetime",
    duration: "duration",
    email: "email",
    hostname: "hostname",
  },
  ...{ ipv4: "ipv4", ipv6: "ipv6", uuid: "uuid", uri: "URI", "uri-reference": "URI reference" },
};

function valuesCheck(values: readonly Json[]): Check {
  const scalars = new Set<unknown>(values.filter((value) => typeof value !== "object" || value === null));
  const others = new Set(values.filter((value) => typeof value === "object" && value !== null).map(textOf));
  const violation =
    others.size > 0
      ? { code: "custom", message: "Invalid input: is not one of the allowed values" }
      : { code: "invalid_value", values: [...scalars] };
  return (value, run) => {
    if (typeof value !== "object" || value === null) {
      if (!scalars.has(value)) add(run, value, violation);
      return;
    }
    if (others.size === 0) return add(run, value, violation);
    const text = textOf(value);
    spendOnText(run, text);
    spend(run, STEPS_TO_COMPARE);
    if (!others.has(text)) add(run, value, violation);
  };
}

function typeCheck(names: readonly string[]): Check {
  const [expected, another] = names.filter((name) => name !== "null");
  const types: ReadonlySet<string | undefined> = new Set(names);
  return (value, run) => {
    const type = typeOf(value);
    if (types.has(type)) return;
    if (type === "number" && types.has("integer")) {
      if (Number.isInteger(value)) return;
      if (another === undefined) return add(run, value, { code: "invalid_type", expected: "int", format: "safeint" });
    }
    if (another !== undefined) return add(run, value, { code: "invalid_union", errors: [] });
    add(run, value, { code: "invalid_type", expected: expected === "integer" ? "number" : (expected ?? "null") });
  };
}

/** Returns the number of code points, which need not be exact above the maximum. */
function charactersOf(text: string, maximum: number): number {
  if (text.length > maximum * 2) return text.length;
  let characters = 0;
  for (const _ of text) characters += 1;
  return characters;
}

interface Size {
  readonly origin: "string" | "array" | "object";
  readonly size: number;
  readonly minimum: number;
  readonly maximum: number;
}

function checkSize(value: unknown, run: Run, { origin, size, minimum, maximum }: Size): void {
  if (size < minimum) add(run, value, { code: "too_small", origin, minimum, inclusive: true });
  if (size > maximum) add(run, value, { code: "too_big", origin, maximum, inclusive: true });
}

function numberChecks(schema: SchemaTable): readonly Check[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf: divisor } = schema;
  const origin = "number";
  const rules: { readonly isMet: (value: number) => boolean; readonly violation: { readonly code: string } }[] = [];
  const rule = (isMet: (value: number) => boolean, violation: { readonly code: string } & Record<string, unknown>) =>
    rules.push({ isMet, violation });
  if (minimum !== undefined) rule((value) => value >= minimum, { code: "too_small", origin, minimum, inclusive: true });
  if (maximum !== undefined) rule((value) => value <= maximum, { code: "too_big", origin, maximum, inclusive: true });
  if (exclusiveMinimum !== undefined) {
    rule((value) => value > exclusiveMinimum, {
      code: "too_small",
      origin,
      minimum: exclusiveMinimum,
      inclusive: false,
    });
  }
  if (exclusiveMaximum !== undefined) {
    rule((value) => value < exclusiveMaximum, { code: "too_big", origin, maximum: exclusiveMaximum, inclusive: false });
  }
  if (divisor !== undefined) {
    rule((value) => z.core.util.floatSafeRemainder(value, divisor) === 0, { code: "not_multiple_of", origin, divisor });
  }
  if (rules.length === 0) return [];
  return [
    (value, run) => {
      if (typeof value !== "number") return;
      for (const { isMet, violation } of rules) if (!isMet(value)) add(run, value, violation);
    },
  ];
}

function containsCheck(check: Check, { minContains = 1, maxContains = Number.POSITIVE_INFINITY }: SchemaTable) {
  return (list: readonly unknown[], run: Run): void => {
    const size = list.filter((element) => accepts(check, element, run)).length;
    if (size >= minContains && size <= maxContains) return;
    add(run, list, { code: "custom", message: "Invalid input: holds too few or too many elements of the wanted form" });
  };
}

function checkUnique(list: readonly unknown[], run: Run): void {
  const texts = new Set<string>();
  for (const element of list) {
    spend(run, STEPS_TO_COMPARE);
    const text = textOf(element);
    spendOnText(run, text);
    texts.add(text);
  }
  if (texts.size < list.length)
    add(run, list, { code: "custom", message: "Invalid input: holds the same element twice" });
}

/** Adds the violations of a member that is missing. */
function checkMissing(check: Check | undefined, run: Run): void {
  const { length } = run.violations;
  check?.(undefined, run);
  if (run.violations.length === length) add(run, undefined, { code: "invalid_type", expected: "nonoptional" });
}
