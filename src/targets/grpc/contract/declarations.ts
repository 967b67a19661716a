/** The scalar types of the proto language, and the kind of JSON that each accepts. */
const SCALARS = {
  string: "string",
  bool: "bool",
  bytes: "bytes",
  int32: "int32",
  sint32: "int32",
  sfixed32: "int32",
  uint32: "int32",
  fixed32: "int32",
  int64: "int64",
  sint64: "int64",
  sfixed64: "int64",
  uint64: "int64",
  fixed64: "int64",
  float: "float",
  double: "double",
} as const;

export type ProtoScalar = keyof typeof SCALARS;

/** Kinds of scalars by the JSON they accept. All 32-bit integers are one kind, and all 64-bit integers. */
export type Scalar = (typeof SCALARS)[ProtoScalar];

export const PROTO_SCALARS = Object.keys(SCALARS) as readonly ProtoScalar[];

export const ANY = "google.protobuf.Any";

export type ScalarShape = { readonly kind: "scalar"; readonly scalar: Scalar; readonly proto: ProtoScalar };

export interface EnumShape {
  readonly kind: "enum";
  readonly fullName: string;
  readonly numbers: ReadonlyMap<string, number>;
  /** By number. Of several names of a number, the first. */
  readonly names: ReadonlyMap<number, string>;
  /** True when readers treat an unknown number as unset, as for proto2 enums. */
  readonly isClosed: boolean;
}

export type ValueShape = ScalarShape | EnumShape | { readonly kind: "message"; readonly message: MessageShape };

export interface FieldShape {
  readonly number: number;
  readonly label: "single" | "repeated" | "map";
  readonly key?: ProtoScalar;
  readonly value: ValueShape;
  /** True when the wire distinguishes unset from zero: for fields declared `optional`, and in proto2. */
  readonly presence: boolean;
  readonly required: boolean;
  readonly packed: boolean;
  readonly oneof?: string;
}

/** Recursive messages refer to themselves. */
export interface MessageShape {
  readonly fullName: string;
  /** By JSON name: lowerCamelCase, or the value of `json_name`. */
  readonly fields: ReadonlyMap<string, FieldShape>;
  readonly oneofs: ReadonlySet<string>;
  readonly unsupported: readonly string[];
  /** Full names of the messages that a google.protobuf.Any may hold; only set for that message. */
  readonly anyTypes?: readonly string[];
}

export interface MethodDeclaration {
  readonly name: string;
  readonly request: string;
  readonly response: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
}

/** The declarations of a contract from any source, by full name without a leading dot. */
export interface Declarations {
  readonly messages: ReadonlyMap<string, DeclaredMessage>;
  readonly services: ReadonlyMap<string, ReadonlyMap<string, MethodDeclaration>>;
}

/** Comments of methods and fields, by `package.Service.Method` and by `package.Message.jsonName`. */
export type Comments = Map<string, string>;

export type ReadField = { readonly name: string } & (FieldShape | { readonly reason: string });

const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const NAME_CHARS_MAX = 256;

/** Returns the JSON name that protoc gives a field: without underscores, and the letter after each in upper case. */
export function jsonNameOf(name: string): string {
  return name.replace(/_+([^_]|$)/g, (_, next: string) => next.toUpperCase());
}

/** Returns why a field cannot have this name in JSON; `undefined` when it can. */
function nameProblem(name: string): string | undefined {
  // Every plain object inherits these names, so unset fields would seem to be set.
  if (name in Object.prototype) return `has the name ${name} in JSON, which every JavaScript object already has`;
  if (!PLAIN_NAME.test(name) || name.length > NAME_CHARS_MAX) return "has a JSON name that is not a plain identifier";
  return undefined;
}

export function scalarShape(proto: ProtoScalar): ScalarShape {
  return { kind: "scalar", scalar: SCALARS[proto], proto };
}

/** @param values in the order of the contract */
export function enumShape(
  fullName: string,
  values: readonly (readonly [name: string, number: number])[],
  isClosed: boolean,
): EnumShape {
  const names = new Map<number, string>();
  for (const [name, number] of values) if (!names.has(number)) names.set(number, name);
  return { kind: "enum", fullName, numbers: new Map(values), names, isClosed };
}

/** A message whose fields are filled in once all messages exist, because they refer to each other. */
export class DeclaredMessage implements MessageShape {
  readonly fullName: string;
  readonly fields = new Map<string, FieldShape>();
  readonly oneofs = new Set<string>();
  readonly unsupported: string[] = [];
  anyTypes?: readonly string[];

  constructor(fullName: string) {
    this.fullName = fullName;
  }

  /** Sets the supported fields and lists the others, so that no call loses them silently. */
  fill(read: readonly ReadField[]): void {
    const names = new Set<string>();
    const numbers = new Set<number>();
    for (const { name, ...field } of read) {
      const reason = "reason" in field ? field.reason : nameProblem(name);
      if (reason !== undefined) this.#addUnsupported(name, reason);
      else if (names.has(name)) this.#addUnsupported(name, "is the JSON name of two fields");
      else if ("number" in field && numbers.has(field.number))
        this.#addUnsupported(name, "has the number of another field");
      else if ("number" in field) {
        this.fields.set(name, field);
        numbers.add(field.number);
        if (field.oneof !== undefined) this.oneofs.add(field.oneof);
      }
      names.add(name);
    }
    for (const oneof of this.oneofs) {
      const reason = names.has(oneof) ? "is the name of a oneof and of a field" : nameProblem(oneof);
      if (reason !== undefined) this.#addUnsupported(oneof, reason);
    }
  }

  #addUnsupported(name: string, reason: string): void {
    this.unsupported.push(`${this.fullName}.${name} ${reason}`);
  }
}

/** Returns the given messages and all messages in their fields. */
export function reachable(...shapes: readonly MessageShape[]): ReadonlySet<MessageShape> {
  const seen = new Set<MessageShape>(shapes);
  for (const message of seen) {
    for (const { value } of message.fields.values()) if (value.kind === "message") seen.add(value.message);
  }
  return seen;
}
