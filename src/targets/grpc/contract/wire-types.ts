import protobuf from "protobufjs";
import type { Json } from "../../../core/types.ts";
import { AnswerReader } from "../codec/answer-reader.ts";
import type { Serializer } from "../codec/codec.ts";
import { decimalKeys, hasAwkwardKeys, truthKeys } from "../codec/map-keys.ts";
import { StrictReader } from "../codec/strict-reader.ts";
import type { Declarations, EnumDeclaration, FieldDeclaration, MessageDeclaration } from "./declarations.ts";
import { type MessageShape, serializedOneof } from "./message-shape.ts";
import type { WellKnown } from "./well-known.ts";

const TO_OBJECT = { longs: String, enums: String, bytes: String, oneofs: true } as const;

export interface ResponseCodec {
  /** Throws when the bytes are no such message. */
  decode(bytes: Buffer): Json;
  /** Of a stream. What is too much for one message is too much for all of them. */
  decodeAll(messages: readonly Buffer[]): readonly Json[];
}

/**
 * The compiled codecs of a contract. Each message and enum has a number for a name there: code is made from these, and a
 * contract that came over the network must have no say in it.
 */
export class WireTypes {
  readonly #declarations: Declarations;
  readonly #names = new Map<string, string>();
  readonly #readers = new Map<WellKnown | undefined, AnswerReader>();
  #root: protobuf.Root | undefined;

  constructor(declarations: Declarations) {
    this.#declarations = declarations;
    for (const fullName of declarations.messages.keys()) this.#names.set(fullName, `M${this.#names.size}`);
    for (const fullName of declarations.enums.keys()) this.#names.set(fullName, `E${this.#names.size}`);
  }

  /** Leaves what is unset unset, both ways. */
  request(shape: MessageShape): Serializer {
    const type = this.#type(shape.fullName);
    const serialize = (message: object): Buffer => {
      const bytes = type.encode(type.fromObject(message)).finish();
      return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes);
    };
    const deserialize = (bytes: Buffer): object => type.toObject(type.decode(new StrictReader(bytes)), TO_OBJECT);
    if (!hasAwkwardKeys(shape)) return { serialize, deserialize };
    return {
      serialize: (message) => serialize(truthKeys(message, shape)),
      deserialize: (bytes) => decimalKeys(deserialize(bytes), shape),
    };
  }

  /** Reads an answer into its JSON form. What is unset is filled in, and unknown fields are ignored, as proto3 evolution wants. */
  response(shape: MessageShape, any?: WellKnown): ResponseCodec {
    const reader = this.#readerWith(any);
    return {
      decode: (bytes) => reader.read(bytes, shape),
      decodeAll: (messages) => reader.readAll(messages, shape),
    };
  }

  /** One for all answers, so that what an Any holds is counted with the answer that it is in. */
  #readerWith(any: WellKnown | undefined): AnswerReader {
    const known = this.#readers.get(any);
    if (known !== undefined) return known;
    const made = new AnswerReader(({ fullName }) => this.#type(fullName), any);
    this.#readers.set(any, made);
    return made;
  }

  #type(fullName: string): protobuf.Type {
    this.#root ??= this.#build();
    return this.#root.lookupType(this.#nameOf(fullName));
  }

  #nameOf(fullName: string): string {
    const name = this.#names.get(fullName);
    if (name === undefined) throw new Error(`${fullName} is not declared`);
    return name;
  }

  #build(): protobuf.Root {
    const { messages, enums } = this.#declarations;
    return protobuf.Root.fromJSON({
      nested: Object.fromEntries([
        ...[...messages.values()].map((message) => [this.#nameOf(message.fullName), this.#message(message)]),
        ...[...enums.values()].map((declared) => [this.#nameOf(declared.fullName), enumJson(declared)]),
      ]),
    });
  }

  #message({ fields }: MessageDeclaration): protobuf.IType & { readonly edition: string } {
    const carried = fields.filter(({ type }) => type.kind === "scalar" || this.#names.has(type.fullName));
    const oneofs = new Map<string, { readonly oneof: string[] }>();
    for (const field of carried) {
      const oneof = serializedOneof(field);
      if (oneof === undefined) continue;
      const members = oneofs.get(oneof) ?? { oneof: [] };
      members.oneof.push(field.name);
      oneofs.set(oneof, members);
    }
    return {
      // Every field says all that an edition would decide.
      edition: "2023",
      fields: Object.fromEntries(carried.map((field) => [field.name, this.#field(field)])),
      oneofs: Object.fromEntries(oneofs),
    };
  }

  #field({ number, label, key, type, presence, required, packed }: FieldDeclaration): protobuf.IField {
    const hasPresence = presence || type.kind === "message";
    const whenRequired = required ? "LEGACY_REQUIRED" : undefined;
    return {
      id: number,
      // With the dot, so that a field of such a name is not taken for the type.
      type: type.kind === "scalar" ? type.scalar : `.${this.#nameOf(type.fullName)}`,
      ...(label === "repeated" && { rule: "repeated" }),
      ...(key !== undefined && { keyType: key }),
      options: {
        features: {
          field_presence: whenRequired ?? (hasPresence ? "EXPLICIT" : "IMPLICIT"),
          repeated_field_encoding: packed ? "PACKED" : "EXPANDED",
        },
      },
    };
  }
}

/** Of several names for one number the first is printed: protobufjs keeps the last that it is given. */
function enumJson({ values }: EnumDeclaration): protobuf.IEnum & { readonly edition: string } {
  const names = new Map<number, string[]>();
  for (const [name, number] of values) names.set(number, [name, ...(names.get(number) ?? [])]);
  const entries = [...names].flatMap(([number, all]) => all.map((name) => [name, number] as const));
  return { edition: "2023", values: Object.fromEntries(entries) };
}
