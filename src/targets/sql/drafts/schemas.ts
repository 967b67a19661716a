import { printable } from "../../../core/printable.ts";
import type { Json } from "../../../core/types.ts";
import type { CatalogColumn, DescribedColumn } from "../engine.ts";
import type { ParameterType } from "../values.ts";

/** Schemas of drafts. What a draft says of a type is what `checks.ts` and `values.ts` accept. */

type Known = Partial<Pick<CatalogColumn, "labels" | "charsMax" | "comment">>;

const TEXT_CHARS_MAX = 1_000;
const LIST_ITEMS_MAX = 100;
/** Larger enumerations are texts: the database knows their values. */
const LABELS_MAX = 100;
const COMMENT_CHARS_MAX = 300;

const DIGITS = { type: "string", pattern: "^-?[0-9]{1,19}$" } as const;
const DECIMAL = { type: "string", pattern: "^-?[0-9]{1,100}(?:\\.[0-9]{1,100})?$" } as const;

/** Schemas of arguments, by the type of the parameter. */
const ARGUMENTS: Readonly<Record<string, Json>> = {
  smallint: { type: "integer", minimum: -32_768, maximum: 32_767 },
  integer: { type: "integer", minimum: -2_147_483_648, maximum: 2_147_483_647 },
  bigint: DIGITS,
  signed: DIGITS,
  // With another 19th digit, SQLite would store a rounded number.
  int64: { type: "string", pattern: "^-?(?:[0-9]{1,18}|[1-8][0-9]{18})$" },
  "int unsigned": { type: "integer", minimum: 0, maximum: 4_294_967_295 },
  // A number of two digits would be another year.
  year: { type: "integer", minimum: 1901, maximum: 2155 },
  unsigned: { type: "string", pattern: "^[0-9]{1,20}$" },
  numeric: DECIMAL,
  decimal: DECIMAL,
  real: { type: "number" },
  "double precision": { type: "number" },
  double: { type: "number" },
  boolean: { type: "boolean" },
  uuid: { type: "string", pattern: "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" },
  date: { type: "string", pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" },
  "time without time zone": { type: "string", maxLength: 15 },
  time: { type: "string", maxLength: 17 },
  "timestamp without time zone": { type: "string", maxLength: 26 },
  datetime: { type: "string", maxLength: 26 },
  "timestamp with time zone": { type: "string", maxLength: 32 },
  json: { type: "object", additionalProperties: true },
  jsonb: { type: "object", additionalProperties: true },
};

/** Returns the schema of an argument that becomes a parameter of a type. */
export function argumentSchema(type: ParameterType, { labels, charsMax, comment }: Known): Json {
  const base = type.name.replace(/\(.*$/, "");
  const own = Object.hasOwn(ARGUMENTS, base) ? ARGUMENTS[base] : undefined;
  const one = labelled(labels) ?? own ?? { type: "string", maxLength: charsMax ?? TEXT_CHARS_MAX };
  const schema = type.isList ? { type: "array", maxItems: LIST_ITEMS_MAX, items: one } : one;
  return { ...(schema as object), ...described(comment) };
}

/** Returns the schema of a column as the result has it. */
export function columnSchema(
  column: Pick<DescribedColumn, "type" | "isList"> & Pick<CatalogColumn, "labels" | "isNullable" | "comment">,
): Json {
  const { type, isList, labels, isNullable, comment } = column;
  const own = isList ? listSchema(type.replace(/\[\]$/, ""), labels) : valueSchema(type, labels, isNullable);
  return { ...(isList && isNullable ? nullable(own) : own), ...described(comment) };
}

type Table = { readonly [key: string]: Json };

function valueSchema(type: string, labels: readonly string[] | undefined, isNullable: boolean): Table {
  if (/^jsonb?$/.test(type)) return {};
  const known = labelled(labels);
  const own = known ?? { type: typeOf(type) };
  return isNullable ? nullable(own) : own;
}

function listSchema(element: string, labels: readonly string[] | undefined): Table {
  return { type: "array", items: valueSchema(element, labels, true) };
}

/** Returns the type of values that JSON holds exactly. Of others, the text is the value. */
function typeOf(type: string): string {
  if (type === "boolean") return "boolean";
  if (/^(?:smallint|integer|tinyint|mediumint|int|year)$/.test(type)) return "integer";
  return /^(?:real|double precision|float|double)$/.test(type) ? "number" : "string";
}

function nullable(schema: Table): Table {
  const values = schema["enum"];
  return {
    ...schema,
    ...(schema["type"] !== undefined && { type: [schema["type"], "null"] }),
    ...(Array.isArray(values) && { enum: [...(values as Json[]), null] }),
  };
}

function labelled(labels: readonly string[] | undefined): Table | undefined {
  if (labels === undefined || labels.length === 0 || labels.length > LABELS_MAX) return undefined;
  return { type: "string", enum: labels };
}

function described(comment: string | undefined): { readonly description?: string } {
  if (comment === undefined) return {};
  const line = comment.slice(0, COMMENT_CHARS_MAX).replace(/\s+/g, " ").trim();
  return { description: printable(line) };
}
