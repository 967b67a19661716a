import type {
  Declarations,
  FieldDeclaration,
  MessageDeclaration,
  ProtoScalar,
  TypeDeclaration,
} from "./declarations.ts";
import { ANY } from "./well-known.ts";

/** Scalar kinds that differ in the JSON they accept; the 32-bit and the 64-bit integers count as one kind each. */
export type Scalar = "string" | "bool" | "bytes" | "int32" | "int64" | "float" | "double";

export type ValueShape =
  | { readonly kind: "scalar"; readonly scalar: Scalar; readonly proto: ProtoScalar }
  | {
      readonly kind: "enum";
      readonly fullName: string;
      readonly numbers: ReadonlyMap<string, number>;
      readonly isClosed: boolean;
    }
  | { readonly kind: "message"; readonly message: MessageShape };

export interface FieldShape {
  readonly label: "single" | "repeated" | "map";
  readonly number: number;
  /** Type of a map's keys. */
  readonly key?: ProtoScalar;
  readonly value: ValueShape;
  /** True when unset differs from set to zero. */
  readonly presence: boolean;
}

/** A message as the contract declares it. Field names are the JSON names; recursive messages refer to themselves. */
export interface MessageShape {
  readonly fullName: string;
  readonly fields: ReadonlyMap<string, FieldShape>;
  /** Field name → name of its oneof. */
  readonly oneofOf: ReadonlyMap<string, string>;
  /** Oneofs that the contract declares, without the implied ones. */
  readonly oneofs: ReadonlySet<string>;
  /** Oneofs that are generated for fields with presence. */
  readonly impliedOneofs: ReadonlySet<string>;
  /** Fields that this version cannot carry, with the reason. */
  readonly unsupported: readonly string[];
  /** Full names of the messages that it may hold; only set for google.protobuf.Any. */
  readonly anyTypes?: readonly string[];
}

const KINDS: Readonly<Record<ProtoScalar, Scalar>> = {
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
};

export function scalarOf(proto: ProtoScalar): Scalar {
  return KINDS[proto];
}

/**
 * Returns the oneof of a field for the serializer: a field with presence gets a oneof of its own, so that it is omitted when
 * it is not set. No name in a contract contains a `$`.
 */
export function serializedOneof({ name, oneof, presence }: FieldDeclaration): string | undefined {
  return oneof ?? (presence ? `${name}$` : undefined);
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

  #make(declared: MessageDeclaration): MessageShape {
    const { fullName } = declared;
    const fields = new Map<string, FieldShape>();
    const unsupported = [...declared.unsupported];
    const oneofOf = new Map(
      declared.fields.flatMap((field) => {
        const oneof = serializedOneof(field);
        return oneof === undefined ? [] : [[field.name, oneof] as const];
      }),
    );
    const oneofs = new Set(declared.fields.flatMap(({ oneof }) => (oneof === undefined ? [] : [oneof])));
    const impliedOneofs = new Set([...oneofOf.values()].filter((oneof) => !oneofs.has(oneof)));
    const holds = fullName === ANY ? { anyTypes: this.#anyTypes } : {};
    const shape: MessageShape = { fullName, fields, oneofOf, oneofs, impliedOneofs, unsupported, ...holds };
    // Registered before its fields are read, because a message may contain itself.
    this.#shapes.set(fullName, shape);
    for (const { name, number, label, key, type, presence } of declared.fields) {
      const value = this.#value(type);
      if (value === undefined) unsupported.push(`${fullName}.${name} has a type that is declared nowhere`);
      else fields.set(name, { label, number, ...(key !== undefined && { key }), value, presence });
    }
    return shape;
  }

  #value(type: TypeDeclaration): ValueShape | undefined {
    if (type.kind === "scalar") return { kind: "scalar", scalar: scalarOf(type.scalar), proto: type.scalar };
    if (type.kind === "enum") {
      const declared = this.#declarations.enums.get(type.fullName);
      if (declared === undefined) return undefined;
      const { fullName, values, isClosed } = declared;
      return { kind: "enum", fullName, numbers: new Map(values), isClosed };
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
