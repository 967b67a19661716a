import type {
  Declarations,
  FieldDeclaration,
  MessageDeclaration,
  ProtoScalar,
  TypeDeclaration,
} from "./declarations.ts";
import { ANY } from "./well-known.ts";

/** The scalar kinds that differ in what JSON they take; the 32-bit and 64-bit integers count as one kind each. */
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
  /** Of a map. */
  readonly key?: ProtoScalar;
  readonly value: ValueShape;
  /** Whether unset and set to its zero are two things. */
  readonly presence: boolean;
}

/** A message as the contract declares it. Field names are those of its JSON; recursive messages refer to themselves. */
export interface MessageShape {
  readonly fullName: string;
  readonly fields: ReadonlyMap<string, FieldShape>;
  /** Field name to the name of its oneof. */
  readonly oneofOf: ReadonlyMap<string, string>;
  /** The oneofs a contract declares, without those made up for fields that know whether they are set. */
  readonly oneofs: ReadonlySet<string>;
  /** Those made-up ones. */
  readonly impliedOneofs: ReadonlySet<string>;
  /** Fields this version cannot carry, with the reason. */
  readonly unsupported: readonly string[];
  /** Of google.protobuf.Any: the full names of the messages that it may hold. */
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
 * The oneof of a field, for the serializer: a field that knows whether it is set stands in one of its own, so that it is
 * left out when it is not. No name of a contract holds a `$`.
 */
export function serializedOneof({ name, oneof, presence }: FieldDeclaration): string | undefined {
  return oneof ?? (presence ? `${name}$` : undefined);
}

/** Every message of a contract by its full name; built once, on demand, per message. */
export class MessageShapes {
  readonly #declarations: Declarations;
  readonly #shapes = new Map<string, MessageShape>();

  readonly #anyTypes: readonly string[];

  constructor(declarations: Declarations, anyTypes: readonly string[] = []) {
    this.#declarations = declarations;
    this.#anyTypes = anyTypes;
  }

  /** The shape of a message by full name; undefined when the contract has none of that name. */
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
    // Registered before its fields are read, so that a message may contain itself.
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

/** Every message that can occur inside these, themselves included. */
export function reachable(...shapes: readonly MessageShape[]): ReadonlySet<MessageShape> {
  const seen = new Set<MessageShape>(shapes);
  for (const message of seen) {
    for (const { value } of message.fields.values()) if (value.kind === "message") seen.add(value.message);
  }
  return seen;
}
