import { asStrings } from "../../json.ts";
import type { Json } from "../../types.ts";
import { isJsonTable, type JsonTable, listOf, tableOf } from "./table.ts";

/** Returns the schemas that may describe the same value as this one, which is the first. */
export function inPlace(schema: Json): readonly JsonTable[] {
  if (!isJsonTable(schema)) return [];
  const { allOf, anyOf, oneOf, dependentSchemas } = schema;
  const conditions = [schema["if"], schema["then"], schema["else"]].filter((part) => part !== undefined);
  const parts = [...[allOf, anyOf, oneOf].flatMap(listOf), ...conditions, ...Object.values(tableOf(dependentSchemas))];
  return [schema, ...parts.flatMap(inPlace)];
}

/**
 * Returns a schema of an argument that says which members it takes, as the loader wants it: a member that is only required may have
 * any value, and an object that names no members takes all.
 */
export function described(schema: JsonTable): JsonTable {
  const parts = inPlace(schema);
  const isOpen = parts.some(
    ({ additionalProperties, patternProperties }) =>
      additionalProperties !== undefined || patternProperties !== undefined,
  );
  if (isOpen) return schema;
  const names = new Set(parts.flatMap(({ properties }) => Object.keys(tableOf(properties))));
  const wanted = parts.flatMap(({ required, dependentRequired }) => [
    ...asStrings(required),
    ...Object.entries(tableOf(dependentRequired)).flatMap(([name, more]) => [name, ...asStrings(more)]),
  ]);
  const missing = [...new Set(wanted)].filter((name) => !names.has(name));
  if (missing.length > 0) {
    const further = Object.fromEntries(missing.map((name) => [name, {}]));
    return { ...schema, properties: { ...tableOf(schema["properties"]), ...further } };
  }
  const isObject = parts.some(({ type }) => [type].flat().includes("object"));
  return isObject && names.size === 0 ? { ...schema, additionalProperties: true } : schema;
}
