import type { End } from "../../../core/schema/walk.ts";
import { defOf, type Schema } from "../../../core/schema/walk.ts";
import type { FieldShape, MessageShape, Scalar, ValueShape } from "../contract/message-shape.ts";
import { ANY } from "../contract/well-known.ts";

/** What a JSON value can be, and by its own name what never is one. */
export type Kind = "string" | "number" | "boolean" | "list" | "object" | "bigint" | "Date" | "Map" | "Set";

export type Side = "input" | "output";

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
export function kindsOf(value: ValueShape, side: Side): Kinds {
  if (side === "output" && isWide(value)) return ["string"];
  if (value.kind === "scalar") return OF_SCALAR[value.scalar];
  // An unknown number in an answer stays a number; it is a rare one, and no schema should count on it.
  if (value.kind === "enum") return side === "input" ? ["string", "number"] : ["string"];
  return OF_WELL_KNOWN.has(value.message.fullName) ? OF_WELL_KNOWN.get(value.message.fullName) : ["object"];
}

/** What the whole field is in JSON. */
export function kindsOfField({ label, value }: FieldShape, side: Side): Kinds {
  if (label === "repeated") return ["list"];
  return label === "map" ? ["object"] : kindsOf(value, side);
}

/** How the contract calls it, for a message. */
export function describe({ label, value, key }: FieldShape): string {
  const type = nameOf(value);
  if (label === "repeated") return `repeated ${type}`;
  return label === "map" ? `map<${key ?? "string"}, ${type}>` : type;
}

export function nameOf(value: ValueShape): string {
  if (value.kind === "scalar") return value.proto;
  return value.kind === "enum" ? `enum ${value.fullName}` : value.message.fullName;
}

export function isAny(message: MessageShape): boolean {
  return message.fullName === ANY;
}

/** What a schema takes or makes; `undefined` when that cannot be told. */
export function kindsOfSchema(shape: Schema, end: End): readonly Kind[] | undefined {
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
export function closedValues(shape: Schema): readonly unknown[] | undefined {
  const def = defOf(shape);
  if (def.type === "enum") return Object.values(def.entries);
  return def.type === "literal" ? def.values : undefined;
}
