import type { EnumTypeDefinition, MessageTypeDefinition, PackageDefinition } from "@grpc/proto-loader";
import { type DescriptorFacts, readFileDescriptors } from "./file-descriptors.ts";

/** The scalar kinds that differ in what JSON they take; the 32-bit and 64-bit integers count as one kind each. */
export type Scalar = "string" | "bool" | "bytes" | "int32" | "int64" | "float" | "double";

export type ValueShape =
  | { readonly kind: "scalar"; readonly scalar: Scalar }
  | { readonly kind: "enum"; readonly numbers: ReadonlyMap<string, number> }
  | { readonly kind: "message"; readonly message: MessageShape };

export interface FieldShape {
  readonly label: "single" | "repeated" | "map";
  readonly value: ValueShape;
}

/** A message as the contract declares it. Field names are lowerCamelCase; recursive messages refer to themselves. */
export interface MessageShape {
  readonly fullName: string;
  readonly fields: ReadonlyMap<string, FieldShape>;
  /** Field name to the name of its oneof. */
  readonly oneofOf: ReadonlyMap<string, string>;
  /** The oneofs a contract declares, without those that protobuf makes up for proto3 `optional` fields. */
  readonly oneofs: ReadonlySet<string>;
  /** Those made-up ones. */
  readonly impliedOneofs: ReadonlySet<string>;
  /** Fields this version cannot carry, with the reason. */
  readonly unsupported: readonly string[];
}

interface FieldDescriptor {
  readonly name: string;
  readonly label: string;
  readonly type: string;
  readonly typeName: string;
}

interface EnumDescriptor {
  readonly name: string;
  readonly value: readonly { readonly name: string; readonly number: number }[];
}

interface MessageDescriptor {
  readonly name: string;
  readonly field: readonly FieldDescriptor[];
  readonly nestedType: readonly MessageDescriptor[];
  readonly enumType: readonly EnumDescriptor[];
  readonly options: { readonly mapEntry: boolean } | null;
}

const SCALARS: Readonly<Record<string, Scalar>> = {
  TYPE_STRING: "string",
  TYPE_BOOL: "bool",
  TYPE_BYTES: "bytes",
  TYPE_INT32: "int32",
  TYPE_SINT32: "int32",
  TYPE_SFIXED32: "int32",
  TYPE_UINT32: "int32",
  TYPE_FIXED32: "int32",
  TYPE_INT64: "int64",
  TYPE_SINT64: "int64",
  TYPE_SFIXED64: "int64",
  TYPE_UINT64: "int64",
  TYPE_FIXED64: "int64",
  TYPE_FLOAT: "float",
  TYPE_DOUBLE: "double",
};

function isMessage(definition: PackageDefinition[string]): definition is MessageTypeDefinition<object, object> {
  return "format" in definition && definition.format === "Protocol Buffer 3 DescriptorProto";
}

function isEnum(definition: PackageDefinition[string]): definition is EnumTypeDefinition {
  return "format" in definition && definition.format === "Protocol Buffer 3 EnumDescriptorProto";
}

/** Every message of a loaded contract by its full name; built once, on demand, per message. */
export class MessageShapes {
  readonly #messages = new Map<string, MessageDescriptor>();
  readonly #enums = new Map<string, EnumDescriptor>();
  readonly #shapes = new Map<string, MessageShape>();
  readonly #facts: DescriptorFacts;

  constructor(definitions: PackageDefinition) {
    for (const [fullName, definition] of Object.entries(definitions)) {
      // proto-loader types descriptors as `object`; their form is fixed by descriptor.proto.
      if (isMessage(definition)) this.#index(fullName, definition.type as MessageDescriptor);
      if (isEnum(definition)) this.#enums.set(fullName, definition.type as EnumDescriptor);
    }
    // Every definition carries the descriptors of all files.
    const anyMessage = Object.values(definitions).find(isMessage);
    this.#facts = readFileDescriptors(anyMessage?.fileDescriptorProtos ?? []);
  }

  /** The shape of a message by full name; undefined when the contract has none of that name. */
  find(fullName: string): MessageShape | undefined {
    const known = this.#shapes.get(fullName);
    if (known !== undefined) return known;
    const descriptor = this.#messages.get(fullName);
    if (descriptor === undefined) return undefined;
    const fields = new Map<string, FieldShape>();
    const unsupported: string[] = [];
    const oneofOf = this.#facts.oneofMembers.get(fullName) ?? new Map<string, string>();
    const impliedOneofs = new Set([...oneofOf.values()].filter((oneof) => isImplied(oneof, oneofOf)));
    const oneofs = new Set([...oneofOf.values()].filter((oneof) => !impliedOneofs.has(oneof)));
    const shape: MessageShape = { fullName, fields, oneofOf, oneofs, impliedOneofs, unsupported };
    // Registered before its fields are read, so that a message may contain itself.
    this.#shapes.set(fullName, shape);
    for (const field of descriptor.field) {
      const read = this.#field(field, fullName);
      if (typeof read === "string") unsupported.push(`${fullName}.${field.name} ${read}`);
      else fields.set(field.name, read);
    }
    return shape;
  }

  /** The shapes of a method's request and answer, by its path. */
  ofMethod(path: string): { readonly request: MessageShape; readonly response: MessageShape } | undefined {
    const types = this.#facts.methodTypes.get(path);
    const request = types && this.find(types.request);
    const response = types && this.find(types.response);
    return request && response && { request, response };
  }

  #index(fullName: string, descriptor: MessageDescriptor): void {
    this.#messages.set(fullName, descriptor);
    for (const nested of descriptor.nestedType) this.#index(`${fullName}.${nested.name}`, nested);
    for (const nested of descriptor.enumType) this.#enums.set(`${fullName}.${nested.name}`, nested);
  }

  #field(field: FieldDescriptor, scope: string): FieldShape | string {
    const entry = this.#mapEntry(field, scope);
    if (entry !== undefined) return this.#map(entry, scope);
    const value = this.#value(field, scope);
    if (typeof value === "string") return value;
    return { label: field.label === "LABEL_REPEATED" ? "repeated" : "single", value };
  }

  #mapEntry(field: FieldDescriptor, scope: string): MessageDescriptor | undefined {
    if (field.label !== "LABEL_REPEATED" || field.type !== "TYPE_MESSAGE") return undefined;
    const nested = this.#messages.get(`${scope}.${field.typeName}`);
    return nested?.options?.mapEntry === true ? nested : undefined;
  }

  #map(entry: MessageDescriptor, scope: string): FieldShape | string {
    const [key, value] = entry.field;
    if (key === undefined || value === undefined) return "is a malformed map";
    // protobufjs keeps such keys as eight raw characters, which no JSON key can be compared with.
    if (SCALARS[key.type] === "int64") return "is a map with 64-bit keys, which this version cannot carry";
    const shape = this.#value(value, scope);
    return typeof shape === "string" ? shape : { label: "map", value: shape };
  }

  #value(field: FieldDescriptor, scope: string): ValueShape | string {
    const scalar = SCALARS[field.type];
    if (scalar !== undefined) return { kind: "scalar", scalar };
    const names = candidates(field.typeName, scope);
    if (field.type === "TYPE_ENUM") {
      const found = names.map((name) => this.#enums.get(name)).find((descriptor) => descriptor !== undefined);
      if (found === undefined) return `has the unknown enum type ${field.typeName}`;
      return { kind: "enum", numbers: new Map(found.value.map((value) => [value.name, value.number])) };
    }
    const message = names.map((name) => this.find(name)).find((shape) => shape !== undefined);
    return message === undefined ? `has the unknown type ${field.typeName}` : { kind: "message", message };
  }
}

function isImplied(oneof: string, oneofOf: ReadonlyMap<string, string>): boolean {
  return oneof.startsWith("_") && [...oneofOf.values()].filter((other) => other === oneof).length === 1;
}

function candidates(typeName: string, scope: string): readonly string[] {
  const parts = scope.split(".");
  return [...parts.map((_, index) => `${parts.slice(0, parts.length - index).join(".")}.${typeName}`), typeName];
}

/** Every message that can occur inside this one, itself included. */
export function reachable(shape: MessageShape): ReadonlySet<MessageShape> {
  const seen = new Set<MessageShape>([shape]);
  for (const message of seen) {
    for (const { value } of message.fields.values()) if (value.kind === "message") seen.add(value.message);
  }
  return seen;
}
