import type { Json } from "../../types.ts";
import { described, inPlace } from "./described.ts";
import type { Lose } from "./losses.ts";
import { merged } from "./merged.ts";
import { isJsonTable, type JsonTable, tableOf } from "./table.ts";

/** Returns the schema of arguments: an object, without a choice at its top, which LLM APIs refuse. */
export function asArguments(written: Json, top: Json, lose: Lose): JsonTable {
  if (!isJsonTable(written)) return { type: "object", properties: {} };
  const { allOf, anyOf, oneOf, type, ...own } = written;
  if (type !== undefined && type !== "object" && ![type].flat().includes("object"))
    lose("is not an object, as arguments are");
  const parts = [allOf, anyOf, oneOf].filter((part) => part !== undefined);
  if (parts.length === 0) return withNames({ type: "object", ...own }, top, lose);
  if (anyOf !== undefined || oneOf !== undefined)
    lose("its choices are written as one object: the system checks which arguments go together");
  return withNames(described(merged({ type: "object", ...own }, [allOf, anyOf, oneOf])), top, lose);
}

/** Returns a schema that names its arguments. A manifest that names none takes none. */
function withNames(schema: JsonTable, top: Json, lose: Lose): JsonTable {
  if (Object.keys(tableOf(schema["properties"])).length > 0) return schema;
  const { additionalProperties: _, patternProperties, ...others } = schema;
  const names = new Set(inPlace(others).flatMap(({ properties }) => Object.keys(tableOf(properties))));
  if (names.size > 0) return schema;
  const isOpen = tableOf(top)["additionalProperties"] ?? patternProperties ?? false;
  if (isOpen !== false) lose("names no arguments, so that the tool takes none: write them");
  return { ...others, properties: {} };
}
