import type { Fault } from "../../core/errors.ts";
import { joinPath } from "../../core/field-path.ts";
import { defOf, type Schema } from "../../core/schema-walk.ts";
import type { MessageShape, Scalar, ValueShape } from "./message-shape.ts";
import { type End, elementsOf, shapesOf } from "./schema-shapes.ts";
import { WELL_KNOWN } from "./well-known.ts";

const FAULTS_MAX = 50;
const DEPTH_MAX = 16;

/** What JSON each scalar is, as `typeof` names it. */
const JSON_TYPES: Readonly<Record<Scalar, readonly string[]>> = {
  string: ["string"],
  bytes: ["string"],
  bool: ["boolean"],
  int32: ["number"],
  float: ["number"],
  double: ["number"],
  int64: ["string", "number"],
};

const EMPTY: ReadonlySet<string> = new Set(["null", "undefined", "void", "never"]);

/** What the contract says these schemas can never send, or never receive. Examples find the rest. */
export function inputSchemaFaults(input: Schema, request: MessageShape): readonly Fault[] {
  return new Walk("input").faultsOf(input, request);
}

export function outputSchemaFaults(output: Schema, response: MessageShape): readonly Fault[] {
  return new Walk("output").faultsOf(output, response);
}

interface Place {
  readonly path: string;
  readonly depth: number;
}

class Walk {
  readonly #side: "input" | "output";
  /** What an input schema makes goes out; what an output schema is given came in. */
  readonly #end: End;
  readonly #faults: Fault[] = [];

  constructor(side: "input" | "output") {
    this.#side = side;
    this.#end = side === "input" ? "out" : "in";
  }

  faultsOf(schema: Schema, message: MessageShape): readonly Fault[] {
    this.#message([schema], message, { path: this.#side, depth: 0 });
    return this.#faults.slice(0, FAULTS_MAX);
  }

  #message(schemas: readonly Schema[], message: MessageShape, { path, depth }: Place): void {
    if (WELL_KNOWN.has(message.fullName) || depth > DEPTH_MAX || this.#faults.length > FAULTS_MAX) return;
    const [shape, ...others] = shapesOf(schemas, this.#end).filter((known) => !EMPTY.has(defOf(known).type));
    // Of a choice one may fit while the others do not.
    if (shape === undefined || others.length > 0) return;
    const def = defOf(shape);
    if (def.type !== "object") return;
    for (const [key, declared] of Object.entries(def.shape)) {
      const place = { path: joinPath(path, key), depth: depth + 1 };
      const field = message.fields.get(key);
      if (field === undefined) this.#unknown(declared, message, { ...place, key });
      else if (field.label === "single") this.#value(declared, field.value, place);
      else if (field.label === "repeated") this.#elements(declared, field.value, place);
    }
  }

  #elements(declared: Schema, value: ValueShape, { path, depth }: Place): void {
    const place = { path: joinPath(path, "[]"), depth };
    for (const element of shapesOf([declared], this.#end).flatMap((list) => elementsOf(list))) {
      this.#value(element, value, place);
    }
  }

  #unknown(
    declared: Schema,
    message: MessageShape,
    { path, key }: { readonly path: string; readonly key: string },
  ): void {
    // An answer's oneof tells its member under the oneof's own name, and what may be missing does no harm.
    if (this.#side === "output" && (message.oneofs.has(key) || declared._zod.optin === "optional")) return;
    if (this.#side === "input" && message.oneofs.has(key)) return;
    const known = [...message.fields.keys()].join(", ") || "none";
    this.#faults.push({ field: path, message: `${message.fullName} has no such field; it has ${known}` });
  }

  #value(declared: Schema, value: ValueShape, place: Place): void {
    if (value.kind === "message") this.#message([declared], value.message, place);
    if (value.kind !== "scalar") return;
    const expected = JSON_TYPES[this.#side === "output" && value.scalar === "int64" ? "string" : value.scalar];
    // A choice that holds null or nothing besides is judged by the rest.
    const given = shapesOf([declared], this.#end)
      .filter((shape) => !EMPTY.has(defOf(shape).type))
      .map(jsonTypeOf);
    if (given.length === 0 || given.some((type) => type === undefined || expected.includes(type))) return;
    const message =
      value.scalar === "int64"
        ? "is 64 bits wide and comes as a decimal string: write z.string(), or z.coerce.number()"
        : `is ${given.join(" or ")} here, and ${expected.join(" or ")} in the proto (${value.scalar})`;
    this.#faults.push({ field: place.path, message });
  }
}

/** The JSON type of a scalar schema; `undefined` when it may be any. */
function jsonTypeOf(shape: Schema): string | undefined {
  const def = defOf(shape);
  if ("coerce" in def && def.coerce === true) return undefined;
  if (def.type === "string" || def.type === "number" || def.type === "boolean") return def.type;
  return def.type === "object" || def.type === "array" || def.type === "record" ? "object" : undefined;
}
