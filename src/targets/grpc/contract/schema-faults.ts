import type { Fault } from "../../../core/errors.ts";
import { closestName, listed } from "../../../core/nearest.ts";
import { joinPath } from "../../../core/output-policy/field-path.ts";
import { defOf, innerSchemas, type PipeSide, type Schema } from "../../../core/schema/walk.ts";
import { isSpecial } from "../codec/well-known.ts";
import {
  ANY,
  type EnumShape,
  type FieldShape,
  type MessageShape,
  type Scalar,
  type ValueShape,
} from "./declarations.ts";

const FINDINGS_MAX = 50;
const DEPTH_MAX = 16;

/** Suffix that the protobuf style guide prescribes for the value of an unset enum; schemas omit it on purpose. */
const UNSPECIFIED = "_UNSPECIFIED";

/** Types without values. In a union, only the other members count. */
const EMPTY: ReadonlySet<string> = new Set(["null", "undefined", "void", "never"]);

/** Returns the parts of the input schema that no request can represent. Examples find further problems. */
export function inputSchemaFaults(input: Schema, request: MessageShape): readonly Fault[] {
  return new Comparison("input").of(input, request).faults;
}

export function outputSchemaFaults(output: Schema, response: MessageShape): readonly Fault[] {
  return new Comparison("output").of(output, response).faults;
}

/** Returns notes: fields of the answer that the output schema omits, and enum values that it does not accept. */
export function outputSchemaNotes(output: Schema, response: MessageShape): readonly Fault[] {
  return new Comparison("output").of(output, response).notes;
}

/** Returns the shape of a streaming method's result: a list of its messages, and whether it was cut off. */
export function listShape(response: MessageShape): MessageShape {
  const field = { presence: false, required: false, packed: false };
  return {
    fullName: `the list of ${response.fullName}`,
    fields: new Map<string, FieldShape>([
      ["items", { ...field, label: "repeated", number: 1, value: { kind: "message", message: response } }],
      ["truncated", { ...field, label: "single", number: 2, value: { kind: "scalar", scalar: "bool", proto: "bool" } }],
    ]),
    oneofs: new Set(),
    unsupported: [],
  };
}

interface Position {
  readonly path: string;
  readonly depth: number;
}

class Comparison {
  readonly faults: Fault[] = [];
  readonly notes: Fault[] = [];
  readonly #side: Side;
  /** Side of the schema that is compared: the output of an input schema, the input of an output schema. */
  readonly #end: PipeSide;

  constructor(side: Side) {
    this.#side = side;
    this.#end = side === "input" ? "out" : "in";
  }

  of(schema: Schema, message: MessageShape): this {
    this.#message(schema, message, { path: this.#side, depth: 0 });
    return this;
  }

  #fault(path: string, message: string): void {
    if (this.faults.length < FINDINGS_MAX) this.faults.push({ field: path, message });
  }

  #note(path: string, message: string): void {
    if (this.notes.length < FINDINGS_MAX) this.notes.push({ field: path, message });
  }

  #shapes(schema: Schema): readonly Schema[] {
    return shapesOf([schema], this.#end).filter((shape) => !EMPTY.has(defOf(shape).type));
  }

  #message(schema: Schema, message: MessageShape, { path, depth }: Position): void {
    const [shape, ...others] = this.#shapes(schema);
    // One fitting member of a union is enough.
    if (shape === undefined || others.length > 0 || depth > DEPTH_MAX) return;
    const def = defOf(shape);
    if (isAny(message)) this.#any(shape, message, path);
    if (isSpecial(message) || def.type !== "object") return;
    const keys = Object.keys(def.shape);
    for (const [key, declared] of Object.entries(def.shape)) {
      const position = { path: joinPath(path, key), depth: depth + 1 };
      const field = message.fields.get(key);
      if (field === undefined) this.#unknown(declared, message, { path: position.path, key, declared: keys });
      else this.#field(declared, field, position);
    }
    const isStrict = def.catchall !== undefined && defOf(def.catchall).type === "never";
    const isOpen = def.catchall !== undefined && !isStrict;
    if (this.#side === "output" && !isOpen) this.#uncovered(keys, message, { path, isStrict });
  }

  #unknown(
    declared: Schema,
    message: MessageShape,
    at: { readonly path: string; readonly key: string; readonly declared: readonly string[] },
  ): void {
    // A request may name the set member under the oneof's name.
    if (message.oneofs.has(at.key) || this.#shapes(declared).length === 0) return;
    const names = [...message.fields.keys()];
    const similar = closestName(at.key, names);
    const hint = similar === undefined ? "" : `; did you mean ${similar}?`;
    const text = `${message.fullName} has no such field; it has ${listed(names)}${hint}`;
    // An optional output field may be one that the service will add later, unless its name resembles an existing field.
    const isTypo = similar !== undefined && !at.declared.includes(similar);
    const mayBeMissing = this.#side === "output" && declared._zod.optin === "optional" && !isTypo;
    if (mayBeMissing) this.#note(at.path, text);
    else this.#fault(at.path, text);
  }

  #field(declared: Schema, field: FieldShape, position: Position): void {
    if (!this.#fits(declared, { kinds: kindsOfField(field, this.#side), field, path: position.path })) return;
    if (field.label === "single") this.#value(declared, field.value, position);
    else this.#inner(declared, field, position);
  }

  #inner(declared: Schema, field: FieldShape, position: Position): void {
    const inner = this.#shapes(declared).flatMap((shape) => {
      const def = defOf(shape);
      if (field.label === "repeated") return elementsOf(shape);
      return def.type === "record" ? [def.valueType] : [];
    });
    const path = joinPath(position.path, field.label === "repeated" ? "[]" : "*");
    const one: FieldShape = { ...field, label: "single" };
    for (const schema of inner) {
      if (this.#fits(schema, { kinds: kindsOf(field.value, this.#side), field: one, path })) {
        this.#value(schema, field.value, { path, depth: position.depth });
      }
    }
  }

  /**
   * Returns true when the schema, or a member of its union, has a JSON type of the contract's value. Otherwise adds a fault.
   */
  #fits(
    declared: Schema,
    at: { readonly kinds: readonly string[] | undefined; readonly field: FieldShape; readonly path: string },
  ): boolean {
    const { kinds, field, path } = at;
    const kindsOfShapes = this.#shapes(declared).map((shape) => kindsOfSchema(shape, this.#end));
    if (kinds === undefined || kindsOfShapes.length === 0) return true;
    if (kindsOfShapes.some((some) => some === undefined || some.some((kind) => kinds.includes(kind)))) return true;
    const declaredKinds = [...new Set(kindsOfShapes.flat())].sort().join(" or ");
    const isWide =
      field.label === "single" &&
      this.#side === "output" &&
      declaredKinds === "number" &&
      /64/.test(nameOf(field.value));
    const text = isWide
      ? "is 64 bits wide and comes as a decimal string: write z.string(), or z.coerce.number()"
      : `is ${declaredKinds} here, and ${kinds.join(" or ")} in the proto (${describe(field)})`;
    this.#fault(path, text);
    return false;
  }

  #value(declared: Schema, value: ValueShape, position: Position): void {
    if (value.kind === "message") this.#message(declared, value.message, position);
    if (value.kind === "enum") this.#enum(declared, value, position.path);
  }

  #enum(declared: Schema, value: EnumShape, path: string): void {
    const closed = this.#shapes(declared).map(closedValues);
    if (closed.length === 0 || closed.includes(undefined)) return;
    const allowed = new Set(closed.flatMap((values) => values ?? []));
    const numbers = new Set<unknown>(value.numbers.values());
    const names = [...value.numbers.keys()];
    const undeclared = [...allowed].filter(
      (one) => one !== null && !(value.numbers.has(String(one)) || numbers.has(one)),
    );
    if (this.#side === "input" && undeclared.length > 0) {
      const similar = closestName(String(undeclared[0]), names);
      const hint = similar === undefined ? `it has ${listed(names)}` : `did you mean ${similar}?`;
      this.#fault(path, `${value.fullName} has no value ${undeclared.map(String).join(", ")}; ${hint}`);
    }
    if (this.#side === "input") return;
    // When an enum number has several names, the service sends the first.
    const sent = [...value.names.values()];
    const missing = sent.filter((name) => !allowed.has(name) && !name.endsWith(UNSPECIFIED));
    if (!sent.some((name) => allowed.has(name))) {
      this.#fault(path, `accepts no value of ${value.fullName}, which has ${listed(names)}`);
    } else if (missing.length > 0) {
      this.#note(path, `an answer with ${listed(missing)} would be withheld: the output schema does not accept it`);
    }
  }

  #any(shape: Schema, message: MessageShape, path: string): void {
    if ((message.anyTypes ?? []).length > 0) return;
    const def = defOf(shape);
    const isTypeOnly = def.type !== "object" || Object.keys(def.shape).every((key) => key === "@type");
    if (this.#side === "output" && isTypeOnly) return;
    this.#fault(path, "is a google.protobuf.Any: the messages it may hold must be named in the system's anyTypes");
  }

  #uncovered(
    covered: readonly string[],
    message: MessageShape,
    { path, isStrict }: { readonly path: string; readonly isStrict: boolean },
  ): void {
    for (const [name, field] of message.fields) {
      if (covered.includes(name)) continue;
      const at = joinPath(path, name);
      const isAlways = field.oneof === undefined && !field.presence;
      if (!isStrict) this.#note(at, "the answer has it, and the output schema leaves it out");
      else if (isAlways) this.#fault(at, ALWAYS_REFUSED);
      else this.#note(at, "an answer that has it would be withheld: the output schema is strict and lacks it");
    }
  }
}

const ALWAYS_REFUSED =
  "every answer has it, and the strict output schema would refuse each: add it, or write z.object()";

/** The type of a JSON value, or of a value that JSON does not have. */
type Kind = "string" | "number" | "boolean" | "list" | "object" | "bigint" | "Date" | "Map" | "Set";

type Side = "input" | "output";

/** JSON types of a value in the contract; `undefined` for any. */
type Kinds = readonly Kind[] | undefined;

/** JSON types of the scalars. In answers, 64-bit integers are only strings, since a number would lose digits. */
const SCALAR_KINDS: Readonly<Record<Scalar, readonly Kind[]>> = {
  string: ["string"],
  bytes: ["string"],
  bool: ["boolean"],
  int32: ["number"],
  int64: ["string", "number"],
  float: ["number"],
  double: ["number"],
};

const WELL_KNOWN_KINDS: ReadonlyMap<string, Kinds> = new Map<string, Kinds>(
  Object.entries<Kinds>({
    Timestamp: ["string"],
    Duration: ["string"],
    FieldMask: ["string"],
    ListValue: ["list"],
    Value: undefined,
    DoubleValue: ["number"],
    FloatValue: ["number"],
    Int32Value: ["number"],
    UInt32Value: ["number"],
    Int64Value: SCALAR_KINDS.int64,
    UInt64Value: SCALAR_KINDS.int64,
    BoolValue: ["boolean"],
    StringValue: ["string"],
    BytesValue: ["string"],
  }).map(([name, kinds]) => [`google.protobuf.${name}`, kinds]),
);

function isWide(value: ValueShape): boolean {
  if (value.kind === "scalar") return value.scalar === "int64";
  return value.kind === "message" && /^google\.protobuf\.U?Int64Value$/.test(value.message.fullName);
}

/** Returns the JSON types of one value of the field, such as an element of a list. */
function kindsOf(value: ValueShape, side: Side): Kinds {
  if (side === "output" && isWide(value)) return ["string"];
  if (value.kind === "scalar") return SCALAR_KINDS[value.scalar];
  // An unknown number in an answer stays a number; this is rare, and no schema should rely on it.
  if (value.kind === "enum") return side === "input" ? ["string", "number"] : ["string"];
  return WELL_KNOWN_KINDS.has(value.message.fullName) ? WELL_KNOWN_KINDS.get(value.message.fullName) : ["object"];
}

function kindsOfField({ label, value }: FieldShape, side: Side): Kinds {
  if (label === "repeated") return ["list"];
  return label === "map" ? ["object"] : kindsOf(value, side);
}

function describe({ label, value, key }: FieldShape): string {
  const type = nameOf(value);
  if (label === "repeated") return `repeated ${type}`;
  return label === "map" ? `map<${key ?? "string"}, ${type}>` : type;
}

function nameOf(value: ValueShape): string {
  if (value.kind === "scalar") return value.proto;
  return value.kind === "enum" ? `enum ${value.fullName}` : value.message.fullName;
}

function isAny(message: MessageShape): boolean {
  return message.fullName === ANY;
}

/** Returns the types that a schema accepts or produces; `undefined` when they are not known. */
function kindsOfSchema(shape: Schema, end: PipeSide): readonly Kind[] | undefined {
  const def = defOf(shape);
  // A coercing schema accepts nearly anything.
  if (end === "in" && "coerce" in def && def.coerce === true) return undefined;
  if (def.type === "enum") return kindsOfValues(Object.values(def.entries));
  if (def.type === "literal") return kindsOfValues(def.values);
  const kind = SCHEMA_KINDS[def.type];
  return kind && [kind];
}

const SCHEMA_KINDS: Readonly<Record<string, Kind>> = {
  string: "string",
  template_literal: "string",
  number: "number",
  boolean: "boolean",
  bigint: "bigint",
  array: "list",
  tuple: "list",
  object: "object",
  record: "object",
  date: "Date",
  map: "Map",
  set: "Set",
};

function kindsOfValues(values: readonly unknown[]): readonly Kind[] | undefined {
  const kinds = new Set<Kind>();
  for (const value of values) {
    const kind = typeof value;
    if (kind === "string" || kind === "number" || kind === "boolean" || kind === "bigint") kinds.add(kind);
  }
  return kinds.size === 0 ? undefined : [...kinds];
}

function closedValues(shape: Schema): readonly unknown[] | undefined {
  const def = defOf(shape);
  if (def.type === "enum") return Object.values(def.entries);
  return def.type === "literal" ? def.values : undefined;
}

export function fieldOf(shape: Schema, key: string): readonly Schema[] {
  const def = defOf(shape);
  if (def.type === "record") return [def.valueType];
  if (def.type !== "object") return [];
  const declared = Object.hasOwn(def.shape, key) ? def.shape[key] : def.catchall;
  return declared === undefined ? [] : [declared];
}

export function elementsOf(shape: Schema): readonly Schema[] {
  const def = defOf(shape);
  if (def.type === "array") return [def.element];
  if (def.type !== "tuple") return [];
  return def.rest === null ? def.items : [...def.items, def.rest];
}

const knownShapes = {
  in: new WeakMap<Schema, readonly Schema[]>(),
  out: new WeakMap<Schema, readonly Schema[]>(),
} as const satisfies Record<PipeSide, unknown>;

export function shapesOf(schemas: readonly Schema[], end: PipeSide): readonly Schema[] {
  const [only] = schemas;
  if (only === undefined || schemas.length > 1) return schemas.flatMap((schema) => shapesOf([schema], end));
  const found = knownShapes[end].get(only);
  if (found !== undefined) return found;
  const shapes = new Set<Schema>();
  const seen = new Set<Schema>();
  const todo = [only];
  for (let schema = todo.pop(); schema !== undefined; schema = todo.pop()) {
    if (seen.has(schema)) continue;
    seen.add(schema);
    const inner = innerSchemas(schema, end) ?? [];
    if (inner.length === 0) shapes.add(schema);
    todo.push(...inner);
  }
  knownShapes[end].set(only, [...shapes]);
  return [...shapes];
}

/** Types that never accept null. All others (any, unknown, custom …) may accept it. */
const NEVER_NULL: ReadonlySet<string> = new Set(
  ["string", "number", "int", "boolean", "enum", "object", "record", "array", "tuple", "template_literal", "never"], //
);

/** Returns whether the schema may accept null. */
export function takesNull(schema: Schema): boolean {
  const def = defOf(schema);
  if (def.type === "nullable" || def.type === "catch") return true;
  if (def.type === "intersection") return takesNull(def.left) && takesNull(def.right);
  if (def.type === "literal") return def.values.includes(null);
  // A coercing schema converts null.
  if ("coerce" in def && def.coerce === true) return true;
  const inner = innerSchemas(schema, "in") ?? [];
  return inner.length === 0 ? !NEVER_NULL.has(def.type) : inner.some(takesNull);
}
