import { z } from "zod";
import { canonicalJson } from "../digest.ts";
import { isTable, type JsonLimits } from "../json.ts";
import type { Json } from "../types.ts";
import {
  JSON_TYPES,
  type JsonSchema,
  type JsonType,
  type SchemaTable,
  type TypeName,
  typeOf,
  typesOf,
} from "./schema.ts";
import { formatTest, patternTest, type TextTest } from "./text.ts";

/** A violation, in Zod's terms: Zod words it, as it does for manifests in TypeScript. */
export type Violation = z.core.$ZodRawIssue;

/** Limits the time of one check, in visited schemas and in pieces of text. */
const STEPS_MAX = 4_000_000;
/** A value that is compared is written out first. */
const STEPS_TO_COMPARE = 20;
const TEXT_PIECE_CHARACTERS = 16;
/** Declared members that are looked up in one step. */
const MEMBERS_PER_STEP = 8;
const VIOLATIONS_MAX = 20;
const LIMITS: JsonLimits = { depthMax: 256, nodesMax: 1_000_000, bytesMax: 67_108_864 };

interface Run {
  /** The path of each begins at the value that is being checked, and grows while the checks of its containers return. */
  readonly violations: Violation[];
  steps: number;
  /** True while only the result of a check matters: nothing is added to the violations. */
  isAsking: boolean;
}

/** Returns whether a value is accepted. Adds the violations of a value that is not. */
type Check = (value: unknown, run: Run) => boolean;
type Table = Readonly<Record<string, unknown>>;
type TableCheck = (table: Table, run: Run) => boolean;

/**
 * Returns a function that returns the violations of a schema by a value, at most 20. The schema is prepared once, as functions
 * that call each other. Nothing of the schema is run as code.
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
    const run: Run = { violations: [], steps: STEPS_MAX, isAsking: false };
    check(value, run);
    return run.violations;
  };
}

/** Adds a violation. Returns false, as the check does that found it. */
function refuse(run: Run, value: unknown, violation: Table & { readonly code: string }): false {
  if (!run.isAsking && run.violations.length < VIOLATIONS_MAX) {
    run.violations.push({ input: value, path: [], ...violation } as Violation);
  }
  return false;
}

/** Puts a step in front of the paths of the violations from `first` on. Returns the number of violations. */
function placed(run: Run, first: number, step: PropertyKey): number {
  const { violations } = run;
  for (let index = first; index < violations.length; index += 1) violations[index]?.path?.unshift(step);
  return violations.length;
}

function spend(run: Run, steps: number): void {
  run.steps -= steps;
  if (run.steps < 0) throw new RangeError("the schema takes too many steps for this value");
}

function spendOnText(run: Run, text: string): void {
  spend(run, 1 + Math.ceil(text.length / TEXT_PIECE_CHARACTERS));
}

/** Returns whether a check accepts a value, without its violations. */
function accepts(check: Check, value: unknown, run: Run): boolean {
  spend(run, 1);
  const { isAsking } = run;
  run.isAsking = true;
  const isAccepted = check(value, run);
  run.isAsking = isAsking;
  return isAccepted;
}

/** Returns a check that runs all of these and adds the violations of each. */
function every<Value>(checks: readonly ((value: Value, run: Run) => boolean)[]): (value: Value, run: Run) => boolean {
  const [only, another] = checks;
  if (only !== undefined && another === undefined) return only;
  return (value, run) => {
    spend(run, checks.length);
    let isAccepted = true;
    for (const check of checks) if (!check(value, run)) isAccepted = false;
    return isAccepted;
  };
}

const canonical = (value: unknown): string => canonicalJson(value, LIMITS);

interface Member {
  readonly name: string;
  readonly check: Check | undefined;
  readonly isRequired: boolean;
}

class Compiler {
  readonly #patterns = new Map<string, TextTest>();

  check(schema: JsonSchema): Check {
    if (schema === true) return () => true;
    if (schema === false) return (value, run) => refuse(run, value, { code: "invalid_type", expected: "never" });
    const first = [
      ...(schema.const === undefined ? [] : [valuesCheck([schema.const])]),
      ...(schema.enum === undefined ? [] : [valuesCheck(schema.enum)]),
      ...(schema.type === undefined ? [] : [typeCheck([schema.type].flat())]),
    ];
    const all = [
      ...[...this.#texts(schema), ...numberChecks(schema), ...this.#lists(schema)],
      ...[...this.#objects(schema), ...this.#combinations(schema)],
    ];
    const checks = all.length === 0 ? first : [...first, every(all)];
    const [check = () => true, ...others] = checks;
    // A value of another type violates everything else, too.
    return others.reduce((before, next) => (value, run) => before(value, run) && next(value, run), check);
  }

  #pattern(source: string): TextTest {
    const known = this.#patterns.get(source) ?? patternTest(source);
    this.#patterns.set(source, known);
    return known;
  }

  #texts({ minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, format }: SchemaTable): readonly Check[] {
    const checks: ((text: string, run: Run) => boolean)[] = [];
    const code = "invalid_format";
    const matcher = pattern === undefined ? undefined : this.#pattern(pattern);
    const formatted = format === undefined ? undefined : formatTest(format);
    const add = ({ test }: TextTest, violation: Table): void => {
      checks.push((text, run) => test(text) || refuse(run, text, { code, ...violation }));
    };
    if (minLength > 0 || maxLength < Number.POSITIVE_INFINITY) {
      const limits: Limits = { origin: "string", minimum: minLength, maximum: maxLength };
      checks.push((text, run) => checkSize(text, run, charactersOf(text, limits), limits));
    }
    if (formatted !== undefined) add(formatted, { format: ZOD_FORMATS[format ?? ""] ?? "" });
    if (matcher !== undefined) add(matcher, { format: "regex", pattern: `/${matcher.pattern.source}/` });
    if (checks.length === 0) return [];
    const all = every(checks);
    return [
      (value, run) => {
        if (typeof value !== "string") return true;
        spendOnText(run, value);
        return all(value, run);
      },
    ];
  }

  #lists(schema: SchemaTable): readonly Check[] {
    const { prefixItems = [], items = true, minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema;
    const first = prefixItems.map((part) => this.check(part));
    const rest = items === true ? undefined : this.check(items);
    const checks: ((list: readonly unknown[], run: Run) => boolean)[] = [];
    if (minItems > 0 || maxItems < Number.POSITIVE_INFINITY) {
      const limits: Limits = { origin: "array", minimum: minItems, maximum: maxItems };
      checks.push((list, run) => checkSize(list, run, list.length, limits));
    }
    if (first.length > 0 || rest !== undefined) {
      checks.push((list, run) => {
        let seen = run.violations.length;
        let isAccepted = true;
        for (let index = 0; index < list.length; index += 1) {
          const check = index < first.length ? first[index] : rest;
          if (check === undefined || check(list[index], run)) continue;
          isAccepted = false;
          seen = placed(run, seen, index);
        }
        return isAccepted;
      });
    }
    if (schema.contains !== undefined) checks.push(containsCheck(this.check(schema.contains), schema));
    if (schema.uniqueItems === true) checks.push(checkUnique);
    if (checks.length === 0) return [];
    const all = every(checks);
    return [
      (value, run) => {
        if (!Array.isArray(value)) return true;
        spend(run, value.length);
        return all(value, run);
      },
    ];
  }

  #objects(schema: SchemaTable): readonly Check[] {
    const { required = [], properties = {}, minProperties = 0, maxProperties = Number.POSITIVE_INFINITY } = schema;
    const checks: TableCheck[] = [];
    const declared = new Map(Object.entries(properties).map(([name, part]) => [name, this.check(part)]));
    const names = new Set(required);
    const keys = this.#keys(schema, declared);
    const members = [...new Set([...declared.keys(), ...required])].map((name) => ({
      name,
      check: declared.get(name),
      isRequired: names.has(name),
    }));
    const isClosed = keys === undefined && schema.additionalProperties === false;
    if (members.length > 0 || isClosed) checks.push(membersCheck(members, isClosed));
    if (keys !== undefined) checks.push(keys);
    if (minProperties > 0 || maxProperties < Number.POSITIVE_INFINITY) {
      const limits: Limits = { origin: "object", minimum: minProperties, maximum: maxProperties };
      checks.push((table, run) => checkSize(table, run, keysOf(table, run).length, limits));
    }
    checks.push(...this.#dependencies(schema));
    if (checks.length === 0) return [];
    const all = every(checks);
    return [(value, run) => !isTable(value) || all(value, run)];
  }

  /** Returns the check that reads every key of a value; undefined when the declared members are enough. */
  #keys(
    { patternProperties = {}, additionalProperties = true, propertyNames }: SchemaTable,
    declared: ReadonlyMap<string, Check>,
  ): TableCheck | undefined {
    const patterns = Object.entries(patternProperties).map(
      ([source, part]) => [this.#pattern(source), this.check(part)] as const,
    );
    const other = typeof additionalProperties === "boolean" ? undefined : this.check(additionalProperties);
    const names = propertyNames === undefined ? undefined : this.check(propertyNames);
    if (patterns.length === 0 && other === undefined && names === undefined) return undefined;
    return (table, run) => {
      const unknown: string[] = [];
      let seen = run.violations.length;
      let isAccepted = true;
      for (const key of Object.keys(table)) {
        spendOnText(run, key);
        const value = table[key];
        let isKnown = declared.has(key);
        let fits = true;
        for (const [pattern, check] of patterns) {
          if (!pattern.test(key)) continue;
          isKnown = true;
          fits = check(value, run) && fits;
        }
        if (!isKnown && additionalProperties === false) unknown.push(key);
        else if (!isKnown && other !== undefined) fits = other(value, run) && fits;
        if (names !== undefined && !accepts(names, key, run))
          fits = refuse(run, value, { code: "invalid_key", origin: "record", issues: [] });
        if (fits) continue;
        isAccepted = false;
        seen = placed(run, seen, key);
      }
      if (unknown.length === 0) return isAccepted;
      return refuse(run, table, { code: "unrecognized_keys", keys: unknown, allowed: [...declared.keys()] });
    };
  }

  #dependencies({ dependentRequired = {}, dependentSchemas = {} }: SchemaTable): readonly TableCheck[] {
    const required = Object.entries(dependentRequired).map(([key, names]) => {
      const members = names.map((name) => ({ name, check: undefined, isRequired: true }));
      return [key, membersCheck(members, false)] as const;
    });
    const schemas = Object.entries(dependentSchemas).map(([key, part]) => [key, this.check(part)] as const);
    return [...required, ...schemas].map(
      ([key, check]) =>
        (table, run) =>
          !Object.hasOwn(table, key) || check(table, run),
    );
  }

  #combinations({ allOf = [], anyOf, oneOf, not, ...conditional }: SchemaTable): readonly Check[] {
    const checks = allOf.map((part) => this.check(part));
    if (anyOf !== undefined) checks.push(this.#choice(anyOf, false));
    if (oneOf !== undefined) checks.push(this.#choice(oneOf, true));
    if (not !== undefined) {
      const check = this.check(not);
      const violation = { code: "custom", message: "Invalid input: has a form that is not allowed" };
      checks.push((value, run) => !accepts(check, value, run) || refuse(run, value, violation));
    }
    if (conditional.if !== undefined && (conditional.then !== undefined || conditional.else !== undefined)) {
      const condition = this.check(conditional.if);
      const met = this.check(conditional.then ?? true);
      const unmet = this.check(conditional.else ?? true);
      checks.push((value, run) => (accepts(condition, value, run) ? met : unmet)(value, run));
    }
    return checks;
  }

  /** When only one choice takes the value's type, as for a value that may also be null, its violations are those of the value. */
  #choice(choices: readonly JsonSchema[], isExactlyOne: boolean): Check {
    const options = choices.map((choice) => ({ check: this.check(choice), types: typesOf(choice) }));
    const checkOf = (type: JsonType | undefined): Check => {
      const checks = options.flatMap(({ check, types }) => (type === undefined || types.has(type) ? [check] : []));
      const [only, another] = checks;
      return only !== undefined && another === undefined ? only : choiceCheck(checks, isExactlyOne);
    };
    const byType = new Map([undefined, ...JSON_TYPES].map((type) => [type, checkOf(type)]));
    const tag = tagOf(choices);
    return (value, run) => {
      const check = byType.get(typeOf(value));
      if (tag === undefined || run.isAsking || !isTable(value)) return check?.(value, run) === true;
      const isAccepted = accepts(check ?? (() => false), value, run);
      if (isAccepted) return true;
      const tagged = tag.options.get(value[tag.name]);
      const one = tagged === undefined ? undefined : options[tagged];
      if (one !== undefined) return one.check(value, run);
      const violation = {
        code: "invalid_union",
        errors: [],
        discriminator: tag.name,
        options: [...tag.options.keys()],
      };
      return refuse(run, value, { ...violation, path: [tag.name] });
    };
  }
}

/** A member that every choice requires, with another fixed value in each: it says which of them a value is meant to be. */
interface Tag {
  readonly name: string;
  /** The positions of the choices, by the values of the member. */
  readonly options: ReadonlyMap<unknown, number>;
}

function tagOf(choices: readonly JsonSchema[]): Tag | undefined {
  const [first] = choices;
  if (choices.length < 2 || typeof first !== "object") return undefined;
  for (const name of first.required ?? []) {
    const options = new Map<unknown, number>();
    const isTag = choices.every((choice, at) => {
      const values = typeof choice === "object" && choice.required?.includes(name) ? fixedValues(choice, name) : [];
      const isNew = values.every((value) => typeof value === "string" && !options.has(value));
      for (const value of values) options.set(value, at);
      return values.length > 0 && isNew;
    });
    if (isTag) return { name, options };
  }
  return undefined;
}

function fixedValues({ properties = {} }: SchemaTable, name: string): readonly Json[] {
  const part = Object.hasOwn(properties, name) ? properties[name] : undefined;
  if (typeof part !== "object") return [];
  return part.const === undefined ? (part.enum ?? []) : [part.const];
}

/** Describing a refused choice takes at most so many of the steps of the whole check. */
const STEPS_TO_DESCRIBE_MAX = 100_000;
const CHOICES_DESCRIBED_MAX = 20;

/** Returns the violations of each choice, for as long as the steps last. */
function violationsOf(checks: readonly Check[], value: unknown, run: Run): readonly (readonly Violation[])[] {
  const errors: Violation[][] = [];
  const inner: Run = { violations: [], steps: Math.min(run.steps / 2, STEPS_TO_DESCRIBE_MAX), isAsking: false };
  const { steps } = inner;
  try {
    for (const check of checks.slice(0, CHOICES_DESCRIBED_MAX)) {
      check(value, inner);
      errors.push(inner.violations.splice(0));
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  run.steps -= steps - Math.max(inner.steps, 0);
  return errors;
}

function choiceCheck(checks: readonly Check[], isExactlyOne: boolean): Check {
  return (value, run) => {
    let accepting = 0;
    for (const check of checks) {
      if (accepts(check, value, run)) accepting += 1;
      if (accepting === 1 && !isExactlyOne) return true;
    }
    if (accepting === 1) return true;
    if (accepting > 1) return refuse(run, value, { code: "invalid_union", errors: [], inclusive: false });
    const errors = run.isAsking ? [] : violationsOf(checks, value, run);
    return refuse(run, value, { code: "invalid_union", errors });
  };
}

/** Returns the keys of a value, which are counted as steps. */
function keysOf(table: Table, run: Run): readonly string[] {
  const keys = Object.keys(table);
  spend(run, Math.ceil(keys.length / MEMBERS_PER_STEP));
  return keys;
}

/** Returns the check of declared members. `isClosed`: a value has no others. */
function membersCheck(members: readonly Member[], isClosed: boolean): TableCheck {
  const steps = Math.ceil(members.length / MEMBERS_PER_STEP);
  const declared = new Set(members.flatMap(({ name, check }) => (check === undefined ? [] : [name])));
  return (table, run) => {
    let seen = run.violations.length;
    let isAccepted = true;
    let present = 0;
    for (const { name, check, isRequired } of members) {
      const value = table[name];
      if (value === undefined && !Object.hasOwn(table, name)) {
        if (!isRequired) continue;
        checkMissing(check, run);
      } else {
        if (check === undefined) continue;
        present += 1;
        if (check(value, run)) continue;
      }
      isAccepted = false;
      seen = placed(run, seen, name);
    }
    spend(run, steps + present);
    if (!isClosed) return isAccepted;
    const keys = keysOf(table, run);
    if (keys.length === present) return isAccepted;
    const unknown = keys.filter((key) => !declared.has(key));
    return refuse(run, table, { code: "unrecognized_keys", keys: unknown, allowed: [...declared] });
  };
}

/** Adds the violations of a member that is missing. */
function checkMissing(check: Check | undefined, run: Run): void {
  if (check?.(undefined, run) !== false) refuse(run, undefined, { code: "invalid_type", expected: "nonoptional" });
}

/** Zod's names of the formats, by which it words violations. */
const ZOD_FORMATS: Readonly<Record<string, string>> = {
  date: "date",
  time: "time",
  "date-time": "datetime",
  duration: "duration",
  email: "email",
  hostname: "hostname",
  ipv4: "ipv4",
  ipv6: "ipv6",
  uuid: "uuid",
  uri: "URI",
  "uri-reference": "URI reference",
};

const VALUES_CHARACTERS_MAX = 200;

function valuesText(values: readonly Json[]): string {
  const text = values.map((value) => JSON.stringify(value)).join(" | ");
  return text.length <= VALUES_CHARACTERS_MAX ? text : `${text.slice(0, VALUES_CHARACTERS_MAX).toWellFormed()}…`;
}

function valuesCheck(values: readonly Json[]): Check {
  const scalars = new Set<unknown>(values.filter((value) => typeof value !== "object" || value === null));
  const others = new Set(values.filter((value) => typeof value === "object" && value !== null).map(canonical));
  const violation =
    others.size > 0
      ? { code: "custom", message: `Invalid input: is not one of the allowed values: ${valuesText(values)}` }
      : { code: "invalid_value", values: [...scalars] };
  return (value, run) => {
    if (typeof value !== "object" || value === null) return scalars.has(value) || refuse(run, value, violation);
    if (others.size === 0) return refuse(run, value, violation);
    const text = canonical(value);
    spendOnText(run, text);
    spend(run, STEPS_TO_COMPARE);
    return others.has(text) || refuse(run, value, violation);
  };
}

const IS_OF_TYPE: Readonly<Record<TypeName, (value: unknown) => boolean>> = {
  null: (value) => value === null,
  boolean: (value) => typeof value === "boolean",
  // Others may be rounded.
  integer: Number.isSafeInteger,
  number: (value) => typeof value === "number",
  string: (value) => typeof value === "string",
  array: Array.isArray,
  object: isTable,
};

function typeCheck(names: readonly TypeName[]): Check {
  const [isFirst = () => false, isSecond = () => false, ...others] = names.map((name) => IS_OF_TYPE[name]);
  const violationOf = typeViolations(names);
  return (value, run) => {
    if (isFirst(value) || isSecond(value) || others.some((isOther) => isOther(value))) return true;
    return refuse(run, value, violationOf(value));
  };
}

/** Returns a function that returns the violation of a value that has none of these types. */
function typeViolations(names: readonly TypeName[]): (value: unknown) => Table & { readonly code: string } {
  const [expected, another] = names.filter((name) => name !== "null");
  if (another !== undefined) {
    const errors = names.map((name) => [{ code: "invalid_type", expected: name, path: [] }]);
    return () => ({ code: "invalid_union", errors });
  }
  if (expected !== "integer") return () => ({ code: "invalid_type", expected: expected ?? "null" });
  return (value) =>
    typeof value === "number"
      ? { code: "invalid_type", expected: "int", format: "safeint" }
      : { code: "invalid_type", expected: "number" };
}

interface Limits {
  readonly origin: "string" | "array" | "object";
  readonly minimum: number;
  readonly maximum: number;
}

/** Returns the number of code points; when the limits do not depend on it, another number with the same result. */
function charactersOf(text: string, { minimum, maximum }: Limits): number {
  const most = text.length;
  // At most two UTF-16 units per character.
  const least = Math.ceil(most / 2);
  if (least > maximum || (least >= minimum && most <= maximum)) return most;
  let characters = 0;
  for (const _ of text) characters += 1;
  return characters;
}

function checkSize(value: unknown, run: Run, size: number, { origin, minimum, maximum }: Limits): boolean {
  let isAccepted = true;
  if (size < minimum) isAccepted = refuse(run, value, { code: "too_small", origin, minimum, inclusive: true });
  if (size > maximum) isAccepted = refuse(run, value, { code: "too_big", origin, maximum, inclusive: true });
  return isAccepted;
}

function numberChecks(schema: SchemaTable): readonly Check[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf: divisor } = schema;
  const checks: ((value: number, run: Run) => boolean)[] = [];
  const rule = (isMet: (value: number) => boolean, violation: Table & { readonly code: string }): void => {
    checks.push((value, run) => isMet(value) || refuse(run, value, { origin: "number", ...violation }));
  };
  if (minimum !== undefined) rule((value) => value >= minimum, { code: "too_small", minimum, inclusive: true });
  if (maximum !== undefined) rule((value) => value <= maximum, { code: "too_big", maximum, inclusive: true });
  if (exclusiveMinimum !== undefined) {
    const violation = { code: "too_small", minimum: exclusiveMinimum, inclusive: false };
    rule((value) => value > exclusiveMinimum, violation);
  }
  if (exclusiveMaximum !== undefined) {
    const violation = { code: "too_big", maximum: exclusiveMaximum, inclusive: false };
    rule((value) => value < exclusiveMaximum, violation);
  }
  if (divisor !== undefined) {
    rule((value) => z.core.util.floatSafeRemainder(value, divisor) === 0, { code: "not_multiple_of", divisor });
  }
  if (checks.length === 0) return [];
  const all = every(checks);
  return [(value, run) => typeof value !== "number" || all(value, run)];
}

function containsCheck(
  check: Check,
  { minContains = 1, maxContains = Number.POSITIVE_INFINITY }: SchemaTable,
): (list: readonly unknown[], run: Run) => boolean {
  const violation = { code: "custom", message: "Invalid input: holds too few or too many elements of the wanted form" };
  return (list, run) => {
    const size = list.filter((element) => accepts(check, element, run)).length;
    return (size >= minContains && size <= maxContains) || refuse(run, list, violation);
  };
}

function checkUnique(list: readonly unknown[], run: Run): boolean {
  const texts = new Set<string>();
  for (const element of list) {
    spend(run, STEPS_TO_COMPARE);
    const text = canonical(element);
    spendOnText(run, text);
    texts.add(text);
  }
  if (texts.size === list.length) return true;
  return refuse(run, list, { code: "custom", message: "Invalid input: holds the same element twice" });
}
