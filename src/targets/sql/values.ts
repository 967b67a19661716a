import { Refusal } from "../../core/errors.ts";
import { defOf, leavesOf, type Schema } from "../../core/schema/walk.ts";
import { BOUNDED_TEXT_LIMITS, parseAnswerJson } from "../../core/strict-json.ts";
import type { Json } from "../../core/types.ts";
import { elementOf } from "./manifest.ts";

/**
 * Values travel as text in both directions: drivers change some values (numbers in JSON, microseconds, lists with
 * NULL), the server's own text does not. So a parameter has the type that the statement gives it, and no other.
 */

const INTEGER = /^-?\d{1,19}$/;
const DECIMAL = /^-?\d{1,1000}(?:\.\d{1,1000})?$/;
const FLOAT = /^-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const TIME = /^\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?$/;
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?$/;
const TIMESTAMP_ZONE = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}(?::?\d{2})?)$/;
/** PostgreSQL cuts a longer name without an error. */
const NAME = /^[\x00-\x7f]{0,63}$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

interface Form {
  readonly pattern: RegExp;
  readonly says: string;
}

const ANY: Form = { pattern: /^/, says: "text" };
const WHOLE: Form = { pattern: INTEGER, says: "a whole number" };
const FLOATING: Form = { pattern: FLOAT, says: "a number" };

/**
 * The types that a parameter may have, and how their values are written. The server accepts more: ` 5 `, `yes`, `now`, `infinity`,
 * names of tables.
 */
const FORMS: ReadonlyMap<string, Form> = new Map([
  ...["text", "character varying", "character", "bpchar", "citext", "json", "jsonb"].map(
    (type) => [type, ANY] as const,
  ),
  ["name", { pattern: NAME, says: "a name of at most 63 ASCII characters" }],
  ...["smallint", "integer", "bigint"].map((type) => [type, WHOLE] as const),
  ...["real", "double precision"].map((type) => [type, FLOATING] as const),
  ["numeric", { pattern: DECIMAL, says: "a decimal number" }],
  ["boolean", { pattern: /^(?:true|false)$/, says: "true or false" }],
  ["uuid", { pattern: UUID, says: "a UUID" }],
  ["date", { pattern: DATE, says: "a date, such as 2026-11-28" }],
  ["time without time zone", { pattern: TIME, says: "a time, such as 14:02" }],
  ["timestamp without time zone", { pattern: TIMESTAMP, says: "a time without a zone, such as 2026-11-28T14:02" }],
  ["timestamp with time zone", { pattern: TIMESTAMP_ZONE, says: "a time with a zone, such as 2026-11-28T14:02Z" }],
]);

/** The type of a parameter. */
export interface ParameterType {
  /** Name of the type in the engine's notation, without `[]`. */
  readonly name: string;
  readonly isList: boolean;
  readonly isEnum: boolean;
  /** Notation of the values, for engines that define their own. */
  readonly form?: ValueForm;
}

export const TEXT_TYPE: ParameterType = { name: "text", isList: false, isEnum: false };

export interface ValueForm {
  readonly textOf: (value: unknown) => string;
  readonly fits: (text: string) => boolean;
  /** Description of the values, for agents: "a date, such as 2026-11-28". */
  readonly says: string;
}

/** Returns whether parameters may have the type: its values are data, and name nothing on the server. */
export function isValueType({ name, isEnum, form }: ParameterType): boolean {
  return isEnum || form !== undefined || FORMS.has(name);
}

/** Returns the notation of a type's values; undefined when parameters may not have the type. */
export function parameterForm(type: ParameterType): ValueForm | undefined {
  return isValueType(type) ? (type.form ?? formOf(type)) : undefined;
}

/**
 * Returns the text of an argument; null for NULL.
 * @throws {Refusal} INVALID_INPUT that names the argument
 */
export function parameterText(argument: string, value: unknown, type: ParameterType): string | null {
  if (value === undefined || value === null) return null;
  if (!type.isList) return scalarText(argument, value, type);
  if (!Array.isArray(value)) throw invalid(argument, "must be a list");
  return `{${value.map((each) => quoted(each === null ? null : scalarText(argument, each, type))).join(",")}}`;
}

function scalarText(argument: string, value: unknown, type: ParameterType): string {
  const { textOf, fits, says } = type.form ?? formOf(type);
  const text = textOf(value);
  // PostgreSQL has no NUL, and a lone surrogate would be stored as another character than the approved one.
  if (text.includes("\0") || !text.isWellFormed()) throw invalid(argument, "has characters that cannot be stored");
  if (!fits(text)) throw invalid(argument, `must be ${says}`);
  return text;
}

function formOf({ name, isEnum }: ParameterType): ValueForm {
  const { pattern, says } = isEnum ? ANY : (FORMS.get(name) ?? ANY);
  const isJson = name === "json" || name === "jsonb";
  const textOf = (value: unknown): string =>
    isJson || typeof value === "object" ? JSON.stringify(value) : decimalText(value);
  return { textOf, fits: (text) => pattern.test(text), says };
}

/** Returns the text of a value. A number has no exponent there, as JavaScript would write it: decimals of SQL have none. */
export function decimalText(value: unknown): string {
  const text = String(value);
  if (typeof value !== "number") return text;
  const [, sign = "", whole = "", fraction = "", exponent] = /^(-?)(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(text) ?? [];
  if (exponent === undefined) return text;
  const digits = `${whole}${fraction}`;
  const size = whole.length + Number(exponent);
  return size > 0 ? `${sign}${digits.padEnd(size, "0")}` : `${sign}0.${digits.padStart(digits.length - size, "0")}`;
}

/** Returns an element in the notation of arrays. */
function quoted(text: string | null): string {
  return text === null ? "NULL" : `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}

function invalid(argument: string, message: string): Refusal {
  return new Refusal("INVALID_INPUT", "The arguments do not match the tool's input schema.", {
    details: { violations: [{ field: argument, message }] },
  });
}

/** The form in which the text of a column is read. */
export type ColumnForm = "text" | "number" | "boolean" | "json" | "list";

/** Returns the form that an output schema gives a column; undefined when it takes several or none. */
export function columnForm(schema: Schema): ColumnForm | undefined {
  const leaves = leavesOf(schema, "in").map((leaf) => defOf(leaf).type);
  const forms = new Set(leaves.flatMap((type) => FORM_OF_SCHEMA[type] ?? (type === "null" ? [] : [undefined])));
  const [form] = forms;
  return forms.size === 1 ? form : undefined;
}

const FORM_OF_SCHEMA: Readonly<Record<string, ColumnForm>> = {
  string: "text",
  enum: "text",
  literal: "text",
  template_literal: "text",
  number: "number",
  int: "number",
  boolean: "boolean",
  object: "json",
  record: "json",
  unknown: "json",
  any: "json",
  array: "list",
};

/** Reads the text of a column. @throws {Error} when the value does not have the form */
export function columnValue(text: string | null, form: ColumnForm, schema: Schema): unknown {
  if (text === null) return null;
  switch (form) {
    case "text":
      return text;
    case "number":
      return exactNumber(text);
    case "boolean":
      if (!TRUTH.has(text)) throw new Error("is neither true nor false");
      return text === "true" || text === "1";
    case "json":
      checkFractions(text);
      return parseAnswerJson(text, BOUNDED_TEXT_LIMITS);
    case "list":
      return listValue(text, elementOf(schema));
  }
}

/** Engines without truth values have numbers. */
const TRUTH = new Set(["true", "false", "1", "0"]);

/** Returns the value of a list, which arrives as a JSON array of texts, or of lists of texts. */
function listValue(text: string, element: Schema | undefined): unknown {
  return elementsOf(parseAnswerJson(text, BOUNDED_TEXT_LIMITS) as readonly Json[], element);
}

function elementsOf(values: readonly Json[], element: Schema | undefined): readonly unknown[] {
  const form = (element && columnForm(element)) ?? "text";
  return values.map((each) => {
    if (Array.isArray(each)) return elementsOf(each, element && elementOf(element));
    return typeof each === "string" && element ? columnValue(each, form, element) : each;
  });
}

/** A number with fewer digits, and without a small exponent, is kept. */
const MAY_CHANGE = /(?:\d\.?){16}|\d[eE]-/;
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;

/** @throws {Error} for a fraction that JSON.parse would round; the parser itself refuses whole numbers. */
function checkFractions(text: string): void {
  if (!MAY_CHANGE.test(text)) return;
  for (const [token] of text.matchAll(STRING_OR_NUMBER)) {
    if (!token.startsWith('"') && /[.]|e-/i.test(token)) exactNumber(token);
  }
}

/** Numbers that JSON would change are refused: the schema can take them as text. */
function exactNumber(text: string): number {
  const number = Number(text);
  if (!Number.isFinite(number)) throw new Error("is not a number in JSON: declare text");
  if (INTEGER.test(text) && !Number.isSafeInteger(number)) throw new Error("is too large for a number: declare text");
  if (digitsOf(text) !== digitsOf(String(number))) throw new Error("has more digits than a number: declare text");
  return number;
}

/** Returns a number's sign, digits and size in one form: `1.50`, `15e-1` and `1.5` have the same one. */
function digitsOf(text: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const size = digits.length - fraction.length + Number(exponent);
  const significant = digits.replace(/0+$/, "");
  return significant === "" ? "0" : `${sign}0.${significant}e${size}`;
}
