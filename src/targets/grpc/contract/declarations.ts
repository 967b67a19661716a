/** The scalar types of the proto language by its own names, and the kind of JSON that each accepts. */
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

/** Scalar kinds that differ in the JSON they accept; the 32-bit and the 64-bit integers count as one kind each. */
export type Scalar = (typeof SCALARS)[ProtoScalar];

export const PROTO_SCALARS = Object.keys(SCALARS) as readonly ProtoScalar[];

export const ANY = "google.protobuf.Any";

export type TypeDeclaration =
  | { readonly kind: "scalar"; readonly scalar: ProtoScalar }
  | { readonly kind: "enum" | "message"; readonly fullName: string };

export interface FieldDeclaration {
  /** The name in JSON: lowerCamelCase, or the value of `json_name`. */
  readonly name: string;
  readonly number: number;
  readonly label: "single" | "repeated" | "map";
  /** Type of a map's keys. */
  readonly key?: ProtoScalar;
  /** Type of the field, of its elements or of the map's values. */
  readonly type: TypeDeclaration;
  /** True when the wire distinguishes unset from set to zero: fields declared `optional`, and every proto2 field. */
  readonly presence: boolean;
  readonly required: boolean;
  readonly packed: boolean;
  /** The oneof that declares it. */
  readonly oneof?: string;
}

export interface MessageDeclaration {
  readonly fullName: string;
  readonly fields: readonly FieldDeclaration[];
  /** Fields that cannot be carried, with the reason. */
  readonly unsupported: readonly string[];
}

export interface EnumDeclaration {
  readonly fullName: string;
  /** In the order of the contract; the first of several names for one number is the one that is printed. */
  readonly values: readonly (readonly [name: string, number: number])[];
  /** True when a reader treats a field with an unknown number as not set; proto2 enums are closed. */
  readonly isClosed: boolean;
}

export interface MethodDeclaration {
  readonly name: string;
  /** Full names of the messages. */
  readonly request: string;
  readonly response: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
}

/** The declarations of a contract, regardless of its source: everything by its full name, without a leading dot. */
export interface Declarations {
  readonly messages: ReadonlyMap<string, MessageDeclaration>;
  readonly enums: ReadonlyMap<string, EnumDeclaration>;
  /** Service name → method name → method. */
  readonly services: ReadonlyMap<string, ReadonlyMap<string, MethodDeclaration>>;
}

/** A field that was read, or the reason why it cannot be carried. */
export type ReadField = FieldDeclaration | { readonly name: string; readonly because: string };

const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const NAME_CHARS_MAX = 256;

/** Returns the JSON name that protoc gives a field: underscores are removed, and the letter after each becomes upper case. */
export function jsonNameOf(name: string): string {
  return name.replace(/_+([^_]|$)/g, (_, next: string) => next.toUpperCase());
}

/** Returns why no field can have this name in JSON; `undefined` when it can. */
function nameFault(name: string): string | undefined {
  // Every plain object seems to have these names, so they could not be distinguished from a value.
  if (name in Object.prototype) return `has the name ${name} in JSON, which every JavaScript object has already`;
  if (!PLAIN_NAME.test(name) || name.length > NAME_CHARS_MAX) return "has a JSON name that is not a plain identifier";
  return undefined;
}

/**
 * Returns a message with the fields that can be carried. The others are listed, because a call must not lose them silently.
 */
export function messageOf(fullName: string, read: readonly ReadField[]): MessageDeclaration {
  const fields: FieldDeclaration[] = [];
  const unsupported: string[] = [];
  const names = new Set<string>();
  const numbers = new Set<number>();
  for (const field of read) {
    const because = "because" in field ? field.because : nameFault(field.name);
    if (because !== undefined) unsupported.push(`${fullName}.${field.name} ${because}`);
    else if (names.has(field.name)) unsupported.push(`${fullName}.${field.name} is the JSON name of two fields`);
    else if ("number" in field && numbers.has(field.number)) {
      unsupported.push(`${fullName}.${field.name} has the number of another field`);
    } else if ("number" in field) {
      fields.push(field);
      numbers.add(field.number);
    }
    names.add(field.name);
  }
  for (const oneof of new Set(fields.map((field) => field.oneof))) {
    if (oneof === undefined) continue;
    const because = names.has(oneof) ? "is the name of a oneof and of a field" : nameFault(oneof);
    if (because !== undefined) unsupported.push(`${fullName}.${oneof} ${because}`);
  }
  return { fullName, fields, unsupported };
}

export type ValueShape =
  | { readonly kind: "scalar"; readonly scalar: Scalar; readonly proto: ProtoScalar }
  | {
      readonly kind: "enum";
      readonly fullName: string;
      readonly numbers: ReadonlyMap<string, number>;
      /** The name that is printed for each number. */
      readonly names: ReadonlyMap<number, string>;
      readonly isClosed: boolean;
    }
  | { readonly kind: "message"; readonly message: MessageShape };

/** A field whose type is resolved. */
export interface FieldShape extends Omit<FieldDeclaration, "name" | "type"> {
  readonly value: ValueShape;
}

/** A message as the contract declares it. Field names are the JSON names; recursive messages refer to themselves. */
export interface MessageShape {
  readonly fullName: string;
  readonly fields: ReadonlyMap<string, FieldShape>;
  /** Names of the oneofs. */
  readonly oneofs: ReadonlySet<string>;
  /** Fields that this version cannot carry, with the reason. */
  readonly unsupported: readonly string[];
  /** Full names of the messages that it may hold; only set for google.protobuf.Any. */
  readonly anyTypes?: readonly string[];
}

/** The messages of a contract by full name; each is built once, on demand. */
export class MessageShapes {
  readonly #declarations: Declarations;
  readonly #shapes = new Map<string, MessageShape>();
  readonly #anyTypes: readonly string[];

  constructor(declarations: Declarations, anyTypes: readonly string[] = []) {
    this.#declarations = declarations;
    this.#anyTypes = anyTypes;
  }

  /** Returns the shape of a message by full name; undefined when the contract does not declare it. */
  find(fullName: string): MessageShape | undefined {
    const known = this.#shapes.get(fullName);
    if (known !== undefined) return known;
    const declared = this.#declarations.messages.get(fullName);
    return declared && this.#make(declared);
  }

  /** Returns the shape of a message that the contract is known to declare. */
  get(fullName: string): MessageShape {
    const shape = this.find(fullName);
    if (shape === undefined) throw new Error(`${fullName} is not declared`);
    return shape;
  }

  #make({ fullName, fields: declared, unsupported: lost }: MessageDeclaration): MessageShape {
    const fields = new Map<string, FieldShape>();
    const unsupported = [...lost];
    const oneofs = new Set(declared.flatMap(({ oneof = [] }) => oneof));
    const holds = fullName === ANY ? { anyTypes: this.#anyTypes } : {};
    const shape: MessageShape = { fullName, fields, oneofs, unsupported, ...holds };
    // Registered before its fields are read, because a message may contain itself.
    this.#shapes.set(fullName, shape);
    for (const { name, type, ...field } of declared) {
      const value = this.#value(type);
      if (value === undefined) unsupported.push(`${fullName}.${name} has a type that is declared nowhere`);
      else fields.set(name, { ...field, value });
    }
    return shape;
  }

  #value(type: TypeDeclaration): ValueShape | undefined {
    if (type.kind === "scalar") return { kind: "scalar", scalar: SCALARS[type.scalar], proto: type.scalar };
    if (type.kind === "enum") {
      const declared = this.#declarations.enums.get(type.fullName);
      if (declared === undefined) return undefined;
      const { fullName, values, isClosed } = declared;
      const names = new Map<number, string>();
      for (const [name, number] of values) if (!names.has(number)) names.set(number, name);
      return { kind: "enum", fullName, numbers: new Map(values), names, isClosed };
    }
    const message = this.find(type.fullName);
    return message && { kind: "message", message };
  }
}

/** Returns every message that can occur inside these, including themselves. */
export function reachable(...shapes: readonly MessageShape[]): ReadonlySet<MessageShape> {
  const seen = new Set<MessageShape>(shapes);
  for (const message of seen) {
    for (const { value } of message.fields.values()) if (value.kind === "message") seen.add(value.message);
  }
  return seen;
}
