import type { Json } from "../../types.ts";
import { keywordProblem } from "../schema.ts";
import { isCopied } from "./keywords.ts";
import { type Lose, plainWord } from "./losses.ts";
import { isStatable } from "./statable.ts";
import { type JsonTable, listOf } from "./table.ts";

const VALUES_MAX = 1_000;

/** Writes the keywords of a schema that hold no other schemas. */
export function valueKeywords(table: JsonTable, lose: Lose): JsonTable {
  return { ...types(table, lose), ...values(table, lose), ...bounds(table, lose), ...constraints(table, lose) };
}

/** Writes a keyword as it is declared; nothing when a manifest cannot state it. */
export function stated(key: string, value: Json, lose: Lose): JsonTable {
  if (keywordProblem(key, value) === undefined && isStatable(value)) return { [key]: value };
  lose(`${key === "format" ? `the format ${plainWord(value)}` : key} cannot be checked, and is left out`);
  return {};
}

function types({ type, nullable }: JsonTable, lose: Lose): JsonTable {
  if (type === undefined) return {};
  const names = [...new Set([type].flat())];
  const known = names.filter((name) => keywordProblem("type", name) === undefined);
  if (known.length < names.length || known.length === 0) {
    lose("has a type that JSON Schema does not have, and takes any");
    return {};
  }
  const all = nullable === true && !known.includes("null") ? [...known, "null"] : known;
  const [only, another] = all;
  return { type: another === undefined ? (only ?? "object") : all };
}

function values({ enum: declared, const: value, nullable }: JsonTable, lose: Lose): JsonTable {
  const schema: Record<string, Json> = {};
  if (value !== undefined) {
    if (isStatable(value)) schema["const"] = value;
    else lose("its value cannot be written in YAML, and is left out");
  }
  if (declared === undefined) return schema;
  const list = listOf(declared);
  if (list.length > VALUES_MAX) lose(`its enum of more than ${VALUES_MAX} values is left out`);
  else if (list.length > 0 && isStatable(list))
    schema["enum"] = nullable === true && !list.includes(null) ? [...list, null] : list;
  else lose("its enum cannot be written in YAML, and is left out");
  return schema;
}

/** In draft 4, `exclusiveMinimum: true` makes `minimum` exclusive. */
function bounds(table: JsonTable, lose: Lose): JsonTable {
  const schema: Record<string, Json> = {};
  for (const [name, exclusive] of [
    ["minimum", "exclusiveMinimum"],
    ["maximum", "exclusiveMaximum"],
  ] as const) {
    const { [name]: bound, [exclusive]: strict } = table;
    if (bound !== undefined) Object.assign(schema, stated(strict === true ? exclusive : name, bound, lose));
    if (typeof strict !== "boolean" && strict !== undefined) Object.assign(schema, stated(exclusive, strict, lose));
  }
  return schema;
}

/** Copies the keywords that say something about one value. */
function constraints(table: JsonTable, lose: Lose): JsonTable {
  const copied = Object.entries(table).filter(([key]) => isCopied(key));
  return Object.assign({}, ...copied.map(([key, value]) => stated(key, value, lose)));
}
