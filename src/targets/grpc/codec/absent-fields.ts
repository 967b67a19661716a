import { defOf, type Schema } from "../../../core/schema/walk.ts";
import { elementsOf, fieldOf, shapesOf, takesNull } from "../contract/schema-shapes.ts";

/** Fields whose declarations are remembered, of all places of one schema together: the keys of a map are the service's. */
const REMEMBERED_MAX = 4_000;

/** What the output schema declares at one place of the answer. */
interface Place {
  readonly shapes: readonly Schema[];
  readonly isMap: boolean;
  readonly fields: Map<string, Field>;
  elements: Place | undefined;
}

interface Field {
  readonly place: Place;
  /** Whether the field is left out when it is null. */
  readonly omitsNull: boolean;
}

type Fields = Record<string, unknown>;

/**
 * A message field that the service did not set comes out of the decoder as null. Where the output schema takes no null there, the
 * field is left out instead, as the protobuf JSON mapping has it: so `.nullable()` and `.optional()` both mean "may be unset".
 * What it answers changes the answer it is given, which nobody else may hold yet.
 */
export function absentFieldsLeftOut(output: Schema): (answer: unknown) => void {
  const memory = new Memory();
  const root = placeOf([output]);
  return (answer) => memory.fit(answer, root);
}

class Memory {
  #remembered = 0;

  fit(value: unknown, place: Place): void {
    if (typeof value !== "object" || value === null || place.shapes.length === 0) return;
    if (Array.isArray(value)) {
      place.elements ??= placeOf(place.shapes.flatMap((shape) => elementsOf(shape)));
      if (place.elements.shapes.length > 0) for (const item of value) this.fit(item, place.elements);
      return;
    }
    const fields = value as Fields;
    for (const key of Object.keys(fields)) {
      const inner = fields[key];
      // Only what is null, or may hold it, is looked at.
      if (typeof inner !== "object") continue;
      const field = place.fields.get(key) ?? this.#read(place, key);
      if (inner !== null) this.fit(inner, field.place);
      else if (field.omitsNull) delete fields[key];
    }
  }

  #read(place: Place, key: string): Field {
    const declared = place.shapes.flatMap((shape) => fieldOf(shape, key));
    // The values of a map are never unset: null there is a value.
    const omitsNull = declared.length > 0 && !place.isMap && !declared.some(takesNull);
    const field = { place: placeOf(declared), omitsNull };
    if (this.#remembered < REMEMBERED_MAX) {
      this.#remembered += 1;
      place.fields.set(key, field);
    }
    return field;
  }
}

function placeOf(declared: readonly Schema[]): Place {
  const shapes = shapesOf(declared, "in");
  return {
    shapes,
    isMap: shapes.some((shape) => defOf(shape).type === "record"),
    fields: new Map(),
    elements: undefined,
  };
}
