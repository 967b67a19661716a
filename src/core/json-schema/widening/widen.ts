import { asStrings } from "../../json.ts";
import type { Json } from "../../types.ts";
import type { SchemaSide } from "../schema.ts";
import { zodFromJson } from "../zod.ts";
import { Losses } from "./losses.ts";
import { isStatableName } from "./statable.ts";
import { tableOf } from "./table.ts";
import { PARTS_MAX, Writer } from "./writer.ts";

export { plainWord } from "./losses.ts";
export { isStatable, isStatableName } from "./statable.ts";

/** A schema for a draft, with notes for the author on what it leaves out of the declared one. Notes repeat only plain names of it. */
export interface Widened {
  readonly schema: Json;
  readonly notes: readonly string[];
}

const DEPTHS = [16, 10, 8, 6, 5, 4, 3, 2, 1] as const;

/**
 * Returns a schema that manifests accept and that accepts what the declared one accepts, of any draft of JSON Schema: references
 * are written out, older keywords are written as today's, and what cannot be stated is left out, with a note.
 */
export function widened(side: SchemaSide, declared: Json): Widened {
  for (const depthMax of DEPTHS) {
    const losses = new Losses();
    const writer = new Writer({ top: declared, losses, side, depthMax });
    const schema = writer.whole(declared);
    if (writer.parts > PARTS_MAX) continue;
    const [fault] = zodFromJson(side, schema).faults;
    if (fault === undefined) return { schema, notes: losses.notes() };
    return {
      schema: named(side, declared),
      notes: [`${side}: only its names are kept, because a manifest cannot state it`],
    };
  }
  return {
    schema: named(side, declared),
    notes: [`${side}: only its names are kept, because it has more than ${PARTS_MAX} parts`],
  };
}

const NAMES_MAX = 4_000;

/** Returns a schema with nothing but the names of the members; for an answer, any object. */
function named(side: SchemaSide, declared: Json): Json {
  const { properties, required } = tableOf(declared);
  if (side === "output") return { type: "object", additionalProperties: true };
  const wanted = asStrings(required);
  const all = [...new Set([...wanted, ...Object.keys(tableOf(properties))])].filter(isStatableName);
  const names = all.slice(0, NAMES_MAX);
  return {
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, {}])),
    ...(wanted.length > 0 && { required: [...new Set(wanted)].filter((name) => names.includes(name)) }),
  };
}
