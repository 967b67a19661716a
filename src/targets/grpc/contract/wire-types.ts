import protobuf from "protobufjs";
import { isTable } from "../../../core/json.ts";
import type { Json } from "../../../core/types.ts";
import { AnswerReader } from "../codec/answer-reader.ts";
import type { Serializer } from "../codec/codec.ts";
import { StrictReader } from "../codec/strict-reader.ts";
import type {
  Declarations,
  EnumDeclaration,
  FieldDeclaration,
  MessageDeclaration,
  ProtoScalar,
} from "./declarations.ts";
import { type FieldShape, type MessageShape, reachable, scalarOf, serializedOneof } from "./message-shape.ts";
import type { WellKnown } from "./well-known.ts";

const TO_OBJECT = { longs: String, enums: String, bytes: String, oneofs: true } as const;

export interface ResponseCodec {
  /** Throws when the bytes are not a valid message of the type. */
  decode(bytes: Buffer): Json;
  /** Decodes the messages of a stream. The limits of one message apply to all of them together. */
  decodeAll(messages: readonly Buffer[]): readonly Json[];
}

/**
 * The compiled codecs of a contract. Each message and enum has a generated name here: protobufjs generates code from these
 * names, and a contract that came over the network must not influence that code.
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

  /** Returns a codec that leaves unset fields unset in both directions. */
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

  /**
   * Returns a codec that reads an answer into its JSON form. Unset fields are filled in, and unknown fields are ignored, as
   * proto3 evolution requires.
   */
  response(shape: MessageShape, any?: WellKnown): ResponseCodec {
    const reader = this.#readerWith(any);
    return {
      decode: (bytes) => reader.read(bytes, shape),
      decodeAll: (messages) => reader.readAll(messages, shape),
    };
  }

  /** Returns one reader for all answers, so that the content of an Any is counted with the answer that contains it. */
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
      // Every field states explicitly what an edition would decide.
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
      // With a leading dot, so that a field of the same name is not taken for the type.
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

/**
 * Orders the names so that the first of several names for one number is printed: protobufjs keeps the last one that it is
 * given.
 */
function enumJson({ values }: EnumDeclaration): protobuf.IEnum & { readonly edition: string } {
  const names = new Map<number, string[]>();
  for (const [name, number] of values) names.set(number, [name, ...(names.get(number) ?? [])]);
  const entries = [...names].flatMap(([number, all]) => all.map((name) => [name, number] as const));
  return { edition: "2023", values: Object.fromEntries(entries) };
}

type Fields = Readonly<Record<string, unknown>>;

const HASH_CHARS = 8;
const UNSIGNED: ReadonlySet<ProtoScalar> = new Set(["uint64", "fixed64"]);

/** Returns true when some map in the message has keys for which protobufjs uses a form of its own. */
function hasAwkwardKeys(shape: MessageShape): boolean {
  return [...reachable(shape)].some((message) => [...message.fields.values()].some(isAwkward));
}

function isAwkward({ key }: FieldShape): boolean {
  return key === "bool" || (key !== undefined && scalarOf(key) === "int64");
}

/** Renames boolean keys for the encoder, which takes any key but the empty one for true. */
function truthKeys(message: object, shape: MessageShape): object {
  return walk(message as Fields, shape, (key, type) => (type === "bool" && key === "false" ? "" : key));
}

/** Converts map keys from the decoder's form to their JSON form. */
function decimalKeys(message: object, shape: MessageShape): object {
  return walk(message as Fields, shape, (key, type) => mapKeyReader(type)(key));
}

/**
 * Returns a function that converts a decoded map key to JSON: the decoder returns 64-bit keys as eight characters, one per
 * byte.
 */
function mapKeyReader(type: ProtoScalar | undefined): (key: string) => string {
  if (type === undefined || scalarOf(type) !== "int64") return (key) => key;
  const isUnsigned = UNSIGNED.has(type);
  return (key) => {
    if (key.length !== HASH_CHARS) return key;
    const bytes = Buffer.from(key, "latin1");
    return String(isUnsigned ? bytes.readBigUInt64LE() : bytes.readBigInt64LE());
  };
}

type Rename = (key: string, type: ProtoScalar) => string;

function walk(message: Fields, shape: MessageShape, rename: Rename): Record<string, unknown> {
  const entries = Object.entries(message).map(([name, value]): [string, unknown] => {
    const field = shape.fields.get(name);
    return [name, field === undefined ? value : walkField(value, field, rename)];
  });
  return Object.fromEntries(entries);
}

function walkField(value: unknown, field: FieldShape, rename: Rename): unknown {
  const { value: inner, label, key: keyType } = field;
  const each = (item: unknown): unknown =>
    inner.kind === "message" && isTable(item) ? walk(item, inner.message, rename) : item;
  if (label === "repeated") return Array.isArray(value) ? value.map(each) : value;
  if (label === "single") return each(value);
  if (!isTable(value) || keyType === undefined) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [rename(key, keyType), each(item)]));
}
