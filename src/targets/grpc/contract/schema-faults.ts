import type { Fault } from "../../../core/errors.ts";
import { listed, meant } from "../../../core/nearest.ts";
import { joinPath } from "../../../core/policy/field-path.ts";
import { defOf, type End, type Schema } from "../../../core/schema/walk.ts";
import type { FieldShape, MessageShape, Scalar, ValueShape } from "./message-shape.ts";
import { elementsOf, shapesOf } from "./schema-shapes.ts";
import { ANY, WELL_KNOWN } from "./well-known.ts";

const FINDINGS_MAX = 50;
const DEPTH_MAX = 16;

/** By the style guide the end of the name of what is not set: left out of schemas on purpose. */
const UNSPECIFIED = "_UNSPECIFIED";

/** Schemas of nothing: a choice that holds one besides is judged by the rest. */
const EMPTY: ReadonlySet<string> = new Set(["null", "undefined", "void", "never"]);

/** What the contract says these schemas can never send, or never receive. Examples find the rest. */
export function inputSchemaFaults(input: Schema, request: MessageShape): readonly Fault[] {
  return new Comparison("input").of(input, request).faults;
}

export function outputSchemaFaults(output: Schema, response: MessageShape): readonly Fault[] {
  return new Comparison("output").of(output, response).faults;
}

/** Fields of the answer that the output schema leaves out, and enum values it does not take: nothing wrong, but good to know. */
export function outputSchemaNotes(output: Schema, response: MessageShape): readonly Fault[] {
  return new Comparison("output").of(output, response).notes;
}

/** What a tool gets of a method that answers with a stream: a list of its messages, and whether it was cut off. */
export function listShape(response: MessageShape): MessageShape {
  return {
    fullName: `the list of ${response.fullName}`,
    fields: new Map<string, FieldShape>([
      ["items", { label: "repeated", number: 1, value: { kind: "message", message: response }, presence: false }],
      [
        "truncated",
        { label: "single", number: 2, value: { kind: "scalar", scalar: "bool", proto: "bool" }, presence: false },
      ],
    ]),
    oneofOf: new Map(),
    oneofs: new Set(),
    impliedOneofs: new Set(),
    unsupported: [],
  };
}

interface Place {
  readonly path: string;
  readonly depth: number;
}

class Comparison {
  readonly faults: Fault[] = [];
  readonly notes: Fault[] = [];
  readonly #side: Side;
  /** What an input schema makes goes out; what an output schema is given came in. */
  readonly #end: End;

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

  #message(schema: Schema, message: MessageShape, { path, depth }: Place): void {
    const [shape, ...others] = this.#shapes(schema);
    // Of a choice one may fit while the others do not.
    if (shape === undefined || others.length > 0 || depth > DEPTH_MAX) return;
    const def = defOf(shape);
    if (isAny(message)) this.#any(shape, message, path);
    if (WELL_KNOWN.has(message.fullName) || def.type !== "object") return;
    const keys = Object.keys(def.shape);
    for (const [key, declared] of Object.entries(def.shape)) {
      const place = { path: joinPath(path, key), depth: depth + 1 };
      const field = message.fields.get(key);
      if (field === undefined) this.#unknown(declared, message, { path: place.path, key, declared: keys });
      else this.#field(declared, field, place);
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
    // A oneof's name may tell which of its members is set.
    if (message.oneofs.has(at.key) || this.#shapes(declared).length === 0) return;
    const names = [...message.fields.keys()];
    const like = meant(at.key, names);
    const hint = like === undefined ? "" : `; did you mean ${like}?`;
    const text = `${message.fullName} has no such field; it has ${listed(names)}${hint}`;
    // A field that may be missing may be one that the service is still to get, unless it looks like one that it has.
    const isSlip = like !== undefined && !at.declared.includes(like);
    const mayBeMissing = this.#side === "output" && declared._zod.optin === "optional" && !isSlip;
    if (mayBeMissing) this.#note(at.path, text);
    else this.#fault(at.path, text);
  }

  #field(declared: Schema, field: FieldShape, place: Place): void {
    if (!this.#fits(declared, { kinds: kindsOfField(field, this.#side), field, path: place.path })) return;
    if (field.label === "single") this.#value(declared, field.value, place);
    else this.#inner(declared, field, place);
  }

  /** The elements of a list, or the values of a map. */
  #inner(declared: Schema, field: FieldShape, place: Place): void {
    const inner = this.#shapes(declared).flatMap((shape) => {
      const def = defOf(shape);
      if (field.label === "repeated") return elementsOf(shape);
      return def.type === "record" ? [def.valueType] : [];
    });
    const path = joinPath(place.path, field.label === "repeated" ? "[]" : "*");
    const one: FieldShape = { label: "single", number: field.number, value: field.value, presence: false };
    for (const schema of inner) {
      if (this.#fits(schema, { kinds: kindsOf(field.value, this.#side), field: one, path })) {
        this.#value(schema, field.value, { path, depth: place.depth });
      }
    }
  }

  /** Whether some choice of the schema can be what the contract has here. */
  #fits(
    declared: Schema,
    at: { readonly kinds: readonly string[] | undefined; readonly field: FieldShape; readonly path: string },
  ): boolean {
    const { kinds, field, path } = at;
    const given = this.#shapes(declared).map((shape) => kindsOfSchema(shape, this.#end));
    if (kinds === undefined || given.length === 0) return true;
    if (given.some((some) => some === undefined || some.some((kind) => kinds.includes(kind)))) return true;
    const mine = [...new Set(given.flat())].sort().join(" or ");
    const isWide =
      field.label === "single" && this.#side === "output" && mine === "number" && /64/.test(nameOf(field.value));
    const text = isWide
      ? "is 64 bits wide and comes as a decimal string: write z.string(), or z.coerce.number()"
      : `is ${mine} here, and ${kinds.join(" or ")} in the proto (${describe(field)})`;
    this.#fault(path, text);
    return false;
  }

  #value(declared: Schema, value: ValueShape, place: Place): void {
    if (value.kind === "message") this.#message(declared, value.message, place);
    if (value.kind === "enum") this.#enum(declared, value, place.path);
  }

  #enum(declared: Schema, value: ValueShape & { readonly kind: "enum" }, path: string): void {
    const closed = this.#shapes(declared).map(closedValues);
    if (closed.length === 0 || closed.includes(undefined)) return;
    const allowed = new Set(closed.flatMap((values) => values ?? []));
    const numbers = new Set<unknown>(value.numbers.values());
    const names = [...value.numbers.keys()];
    const foreign = [...allowed].filter((one) => one !== null && !(value.numbers.has(String(one)) || numbers.has(one)));
    if (this.#side === "input" && foreign.length > 0) {
      const like = meant(String(foreign[0]), names);
      const hint = like === undefined ? `it has ${listed(names)}` : `did you mean ${like}?`;
      this.#fault(path, `${value.fullName} has no value ${foreign.map(String).join(", ")}; ${hint}`);
    }
    if (this.#side === "input") return;
    // Of several names for one number the first is the one that comes.
    const told = names.filter((name, at) => names.findIndex((one) => isAlias(value, one, name)) === at);
    const missing = told.filter((name) => !allowed.has(name) && !name.endsWith(UNSPECIFIED));
    if (!told.some((name) => allowed.has(name))) {
      this.#fault(path, `takes no value of ${value.fullName}, which has ${listed(names)}`);
    } else if (missing.length > 0) {
      this.#note(path, `an answer with ${listed(missing)} would be withheld: the output schema does not take it`);
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
      const isAlways = !message.oneofOf.has(name) && !field.presence;
      if (!isStrict) this.#note(at, "the answer has it, and the output schema leaves it out");
      else if (isAlways) {
        this.#fault(
          at,
          "every answer has it, and the strict output schema would refuse each: add it, or write z.object()",
        );
      } else this.#note(at, "an answer that has it would be withheld: the output schema is strict and lacks it");
    }
  }
}

function isAlias({ numbers }: ValueShape & { readonly kind: "enum" }, one: string, other: string): boolean {
  return numbers.get(one) === numbers.get(other);
}

/** What a JSON value can be, and by its own name what never is one. */
type Kind = "string" | "number" | "boolean" | "list" | "object" | "bigint" | "Date" | "Map" | "Set";

type Side = "input" | "output";

/** What a value of the contract is in JSON; `undefined` when it may be anything. */
type Kinds = readonly Kind[] | undefined;

/** The same both ways, the 64-bit integers apart: they come as texts, for a number would lose digits. */
const OF_SCALAR: Readonly<Record<Scalar, readonly Kind[]>> = {
  string: ["string"],
  bytes: ["string"],
  bool: ["boolean"],
  int32: ["number"],
  int64: ["string", "number"],
  float: ["number"],
  double: ["number"],
};

const OF_WELL_KNOWN: ReadonlyMap<string, Kinds> = new Map<string, Kinds>([
  ["google.protobuf.Timestamp", ["string"]],
  ["google.protobuf.Duration", ["string"]],
  ["google.protobuf.FieldMask", ["string"]],
  ["google.protobuf.Struct", ["object"]],
  ["google.protobuf.ListValue", ["list"]],
  ["google.protobuf.Value", undefined],
  [ANY, ["object"]],
  ["google.protobuf.DoubleValue", ["number"]],
  ["google.protobuf.FloatValue", ["number"]],
  ["google.protobuf.Int64Value", ["string", "number"]],
  ["google.protobuf.UInt64Value", ["string", "number"]],
  ["google.protobuf.Int32Value", ["number"]],
  ["google.protobuf.UInt32Value", ["number"]],
  ["google.protobuf.BoolValue", ["boolean"]],
  ["google.protobuf.StringValue", ["string"]],
  ["google.protobuf.BytesValue", ["string"]],
]);

function isWide(value: ValueShape): boolean {
  if (value.kind === "scalar") return value.scalar === "int64";
  return value.kind === "message" && /^google\.protobuf\.U?Int64Value$/.test(value.message.fullName);
}

/** What one value of the field is in JSON: an element of a list, a value of a map. */
function kindsOf(value: ValueShape, side: Side): Kinds {
  if (side === "output" && isWide(value)) return ["string"];
  if (value.kind === "scalar") return OF_SCALAR[value.scalar];
  // An unknown number in an answer stays a number; it is a rare one, and no schema should count on it.
  if (value.kind === "enum") return side === "input" ? ["string", "number"] : ["string"];
  return OF_WELL_KNOWN.has(value.message.fullName) ? OF_WELL_KNOWN.get(value.message.fullName) : ["object"];
}

/** What the whole field is in JSON. */
function kindsOfField({ label, value }: FieldShape, side: Side): Kinds {
  if (label === "repeated") return ["list"];
  return label === "map" ? ["object"] : kindsOf(value, side);
}

/** How the contract calls it, for a message. */
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

/** What a schema takes or makes; `undefined` when that cannot be told. */
function kindsOfSchema(shape: Schema, end: End): readonly Kind[] | undefined {
  const def = defOf(shape);
  // What coerces takes nearly anything, and makes what it is named for.
  if (end === "in" && "coerce" in def && def.coerce === true) return undefined;
  switch (def.type) {
    case "string":
    case "number":
    case "boolean":
    case "bigint":
      return [def.type];
    case "template_literal":
      return ["string"];
    case "enum":
      return kindsOfValues(Object.values(def.entries));
    case "literal":
      return kindsOfValues(def.values);
    case "array":
    case "tuple":
      return ["list"];
    case "object":
    case "record":
      return ["object"];
    case "date":
      return ["Date"];
    case "map":
      return ["Map"];
    case "set":
      return ["Set"];
    default:
      return undefined;
  }
}

function kindsOfValues(values: readonly unknown[]): readonly Kind[] | undefined {
  const kinds = new Set<Kind>();
  for (const value of values) {
    const kind = typeof value;
    if (kind === "string" || kind === "number" || kind === "boolean" || kind === "bigint") kinds.add(kind);
  }
  return kinds.size === 0 ? undefined : [...kinds];
}

/** The texts and numbers a closed schema allows; `undefined` for an open one. */
function closedValues(shape: Schema): readonly unknown[] | undefined {
  const def = defOf(shape);
  if (def.type === "enum") return Object.values(def.entries);
  return def.type === "literal" ? def.values : undefined;
}
