import { defOf, type Schema } from "../../core/schema-walk.ts";
import { elementsOf, fieldOf, shapesOf, takesNull } from "./schema-shapes.ts";

/**
 * A message field that the service did not set comes out of the decoder as null. Where the output schema takes no null there, the
 * field is left out instead, as the protobuf JSON mapping has it: so `.nullable()` and `.optional()` both mean "may be unset".
 * Changes the answer, which nobody else holds yet.
 */
export function leaveOutAbsent(answer: unknown, output: Schema): void {
  fit(answer, shapesOf([output], "in"));
}

type Fields = Record<string, unknown>;

function fit(value: unknown, shapes: readonly Schema[]): void {
  if (typeof value !== "object" || value === null || shapes.length === 0) return;
  if (Array.isArray(value)) {
    const elements = shapesOf(
      shapes.flatMap((shape) => elementsOf(shape)),
      "in",
    );
    if (elements.length > 0) for (const item of value) fit(item, elements);
    return;
  }
  const fields = value as Fields;
  for (const key of Object.keys(fields)) {
    const declared = shapes.flatMap((shape) => fieldOf(shape, key));
    if (fields[key] !== null) fit(fields[key], shapesOf(declared, "in"));
    // The values of a map are never unset: null there is a value.
    else if (declared.length > 0 && !shapes.some(isRecord) && !declared.some(takesNull)) delete fields[key];
  }
}

function isRecord(shape: Schema): boolean {
  return defOf(shape).type === "record";
}
