import { isList, isTable } from "../../json.ts";
import type { Json } from "../../types.ts";

/** An object of JSON: a schema as it is declared or written, or the members of one. */
export type JsonTable = Readonly<Record<string, Json>>;

export function isJsonTable(value: Json | undefined): value is JsonTable {
  return isTable(value);
}

/** Returns an object as it is; an empty one for anything else. */
export function tableOf(value: Json | undefined): JsonTable {
  return isJsonTable(value) ? value : {};
}

/** Returns a list as it is; an empty one for anything else. */
export function listOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}
