import type protobuf from "protobufjs";
import type { Json } from "../../../core/types.ts";
import type { FieldShape, MessageShape, Scalar, ValueShape } from "../contract/message-shape.ts";
import { specialOf, type WellKnown } from "../contract/well-known.ts";
import { mapKeyReader } from "./map-keys.ts";

type Fields = Record<string, unknown>;

/** Gives one value its JSON form. */
type Read = (value: unknown) => unknown;

/** One member of the JSON: what a decoded message says there; `undefined`: nothing. */
interface Member {
  readonly name: string;
  readonly of: (message: Fields) => unknown;
}

/** Unset fields are filled in: a proto3 sender leaves zeros out. What is not JSON, such as NaN, becomes a text. */
const TO_ANSWER = { longs: String, enums: String, bytes: String, oneofs: true, defaults: true, json: true } as const;

/** Of a 64-bit integer, as the decoder gives it. */
interface Halves {
  readonly high: number;
  readonly low: number;
  readonly unsigned: boolean;
  toString(): string;
}

/**
 * Turns decoded messages into their JSON form, in one walk: fields that are not set come as their zeros, 64-bit integers,
 * bytes and enums as texts, well-known messages as their own forms. The keys stand in the order of their UTF-16 units,
 * which is the order of the canonical text, so that nobody has to sort them again.
 */
export class AnswerReader {
  readonly #typeOf: (shape: MessageShape) => protobuf.Type;
  readonly #any: WellKnown | undefined;
  readonly #readers = new Map<MessageShape, Read>();

  /** @param any how a google.protobuf.Any is read; without it only its type's name is */
  constructor(typeOf: (shape: MessageShape) => protobuf.Type, any: WellKnown | undefined) {
    this.#typeOf = typeOf;
    this.#any = any;
  }

  read(message: object, shape: MessageShape): Json {
    return this.#readerOf(shape)(message) as Json;
  }

  #readerOf(shape: MessageShape): Read {
    const known = this.#readers.get(shape);
    if (known !== undefined) return known;
    const type = this.#typeOf(shape);
    const special = specialOf(shape, this.#any);
    const reader =
      special === undefined
        ? this.#fieldsReader(shape, type)
        : (message: unknown) => special.toJson(type.toObject(message as protobuf.Message, TO_ANSWER));
    this.#readers.set(shape, reader);
    return reader;
  }

  /** Its members are looked up at the first message: a message may contain itself. */
  #fieldsReader(shape: MessageShape, type: protobuf.Type): Read {
    let members: readonly Member[] | undefined;
    return (message) => {
      members ??= this.#membersOf(shape, type);
      const fields: Fields = {};
      for (const { name, of } of members) {
        const value = of(message as Fields);
        if (value !== undefined) fields[name] = value;
      }
      return fields;
    };
  }

  #membersOf(shape: MessageShape, type: protobuf.Type): readonly Member[] {
    const zeros = type.toObject(type.create(), TO_ANSWER);
    const fields = [...shape.fields].map(([name, field]) => this.#member(name, field, { type, zero: zeros[name] }));
    const oneofs = [...shape.oneofs].map((oneof) => oneofMember(oneof, shape));
    return [...fields, ...oneofs].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #member(
    name: string,
    { label, key, value }: FieldShape,
    { type, zero }: { readonly type: protobuf.Type; readonly zero: unknown },
  ): Member {
    const read = this.#valueReader(value, type.fields[name]);
    if (label === "repeated") {
      return { name, of: ({ [name]: items }) => (Array.isArray(items) ? items.map((item) => read(item)) : []) };
    }
    if (label === "map") {
      const keyOf = mapKeyReader(key);
      return { name, of: ({ [name]: entries }) => readMap(entries, read, keyOf) };
    }
    // What stands in the prototype is the zero of a field that is not set.
    const of = (message: Fields) =>
      Object.hasOwn(message, name) && message[name] != null ? read(message[name]) : zero;
    return { name, of };
  }

  #valueReader(value: ValueShape, field: protobuf.Field | undefined): Read {
    if (value.kind === "scalar") return SCALARS[value.scalar];
    if (value.kind === "message") {
      const { message } = value;
      return (inner) => this.#readerOf(message)(inner);
    }
    // Those of the decoder: where several names have one number, it has chosen.
    const names = (field?.resolvedType as protobuf.Enum | null | undefined)?.valuesById ?? {};
    // An unknown number stays a number.
    return (number) => names[number as number] ?? number;
  }
}

const asIs: Read = (value) => value;
const finite: Read = (value) => (Number.isFinite(value) ? value : String(value));

const SCALARS: Readonly<Record<Scalar, Read>> = {
  string: asIs,
  bool: asIs,
  int32: asIs,
  int64: (value) => (typeof value === "number" ? String(value) : decimal(value as Halves)),
  float: finite,
  double: finite,
  bytes: (value) => base64(value as Uint8Array),
};

const TWO_32 = 4_294_967_296;
const HIGH_EXACT_MAX = 0x1f_ffff;

/** Most are small enough for a number to hold them exactly. */
function decimal(value: Halves): string {
  const { high, low } = value;
  const isExact = high >= 0 && high <= HIGH_EXACT_MAX;
  return isExact ? String(high * TWO_32 + (low >>> 0)) : value.toString();
}

function base64({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("base64");
}

function readMap(entries: unknown, read: Read, keyOf: (key: string) => string): Fields {
  const fields: Fields = {};
  if (typeof entries !== "object" || entries === null) return fields;
  for (const [key, entry] of Object.entries(entries)) {
    const name = keyOf(key);
    const value = read(entry);
    if (name === "__proto__") {
      Object.defineProperty(fields, name, { value, writable: true, enumerable: true, configurable: true });
    } else fields[name] = value;
  }
  return fields;
}

/** The name of the member that is set; the wire may hold several, and the last by number counts. */
function oneofMember(oneof: string, { fields, oneofOf }: MessageShape): Member {
  const names = [...fields]
    .filter(([name]) => oneofOf.get(name) === oneof)
    .sort(([, a], [, b]) => b.number - a.number)
    .map(([name]) => name);
  return {
    name: oneof,
    of: (message) => names.find((name) => Object.hasOwn(message, name) && message[name] != null),
  };
}
