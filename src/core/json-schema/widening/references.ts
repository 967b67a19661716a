import type { Json } from "../../types.ts";
import { isJsonTable, type JsonTable } from "./table.ts";

const HOPS_MAX = 64;

/** Returns the schema that a reference names; undefined when it names none. A schema that is only a reference is followed. */
export function referenced(top: Json, reference: Json | undefined): Json | undefined {
  let found = typeof reference === "string" ? pointed(top, reference) : undefined;
  for (let hops = 0; hops < HOPS_MAX && isJsonTable(found) && isBareReference(found); hops += 1) {
    found = pointed(top, String(found["$ref"]));
  }
  return found;
}

function isBareReference(table: JsonTable): boolean {
  return typeof table["$ref"] === "string" && Object.keys(table).length === 1;
}

/** Returns the part of a schema at a JSON pointer in a URI fragment. */
function pointed(top: Json, reference: string): Json | undefined {
  if (reference === "#") return top;
  if (!reference.startsWith("#/")) return undefined;
  let found: Json | undefined = top;
  for (const step of reference.slice(2).split("/")) {
    const key = decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
    const isKnown: boolean = typeof found === "object" && found !== null && Object.hasOwn(found, key);
    found = isKnown ? (found as JsonTable)[key] : undefined;
  }
  return found;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not encoded: the name itself has a %.
    return text;
  }
}
