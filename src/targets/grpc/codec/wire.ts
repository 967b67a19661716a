import { VARINT_BYTES_MAX, WIRE, type WireCursor } from "../../../egress/grpc/wire-cursor.ts";
import type { ProtoScalar, ValueShape } from "../contract/declarations.ts";

export type ReadValue = (cursor: WireCursor) => unknown;

/** Writes a JSON value and returns its canonical form; `undefined`, and nothing written, if it does not fit. */
export type WriteValue = (writer: WireWriter, value: unknown) => unknown;

export interface WireScalar {
  readonly wireType: number;
  readonly read: ReadValue;
  readonly write: WriteValue;
  /** JSON form of a value that the wire omits. */
  readonly zero: unknown;
}

/** Returns a string for NaN and infinities, which JSON does not have, and 0 for minus zero. */
function finite(value: number): unknown {
  if (value === 0) return 0;
  return Number.isFinite(value) ? value : String(value);
}

const FIRST_BYTES = 256;

export class WireWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #end = 0;

  /** Nothing may be written afterwards. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }

  tag(field: number, wireType: number): void {
    this.uint32(((field << 3) | wireType) >>> 0);
  }

  uint32(value: number): void {
    this.#reserve(VARINT_BYTES_MAX);
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) this.#byte((rest & 0x7f) | 0x80);
    this.#byte(rest);
  }

  varint64(value: bigint): void {
    if (value >= 0n && value <= 0xffff_ffffn) {
      this.uint32(Number(value));
      return;
    }
    this.#reserve(VARINT_BYTES_MAX);
    let rest = BigInt.asUintN(64, value);
    for (; rest > 0x7fn; rest >>= 7n) this.#byte(Number(rest & 0x7fn) | 0x80);
    this.#byte(Number(rest));
  }

  fixed32(value: number): void {
    this.#reserve(4);
    this.#end = this.#bytes.writeInt32LE(value | 0, this.#end);
  }

  fixed64(value: bigint): void {
    this.#reserve(8);
    this.#end = this.#bytes.writeBigUInt64LE(BigInt.asUintN(64, value), this.#end);
  }

  float(value: number): void {
    this.#reserve(4);
    this.#end = this.#bytes.writeFloatLE(value, this.#end);
  }

  double(value: number): void {
    this.#reserve(8);
    this.#end = this.#bytes.writeDoubleLE(value, this.#end);
  }

  string(value: string): void {
    const length = Buffer.byteLength(value);
    this.uint32(length);
    this.#reserve(length);
    this.#end += this.#bytes.write(value, this.#end);
  }

  content(value: Uint8Array): void {
    this.uint32(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#end);
    this.#end += value.length;
  }

  /** Starts content of unknown length. Returns its start, for `close`. */
  open(): number {
    this.#reserve(1);
    this.#end += 1;
    return this.#end;
  }

  /** Ends the content. Moves it if its length needs more than the one byte that `open` has left. */
  close(start: number): void {
    this.#reserve(VARINT_BYTES_MAX);
    const length = this.#end - start;
    const more = Math.ceil((32 - Math.clz32(length | 1)) / 7) - 1;
    if (more > 0) this.#bytes.copyWithin(start + more, start, this.#end);
    this.#end = start - 1;
    this.uint32(length);
    this.#end += length;
  }

  #byte(value: number): void {
    this.#bytes[this.#end] = value;
    this.#end += 1;
  }

  #reserve(count: number): void {
    const needed = this.#end + count;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.#end);
    this.#bytes = larger;
  }
}

const INT_32 = [-(2 ** 31), 2 ** 31 - 1] as const;
const UINT_32 = [0, 2 ** 32 - 1] as const;
const INT_64 = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const UINT_64 = [0n, 2n ** 64n - 1n] as const;

type Write<Value> = (writer: WireWriter, value: Value) => void;

function int32([min, max]: readonly [number, number], write: Write<number>): WriteValue {
  return (writer, value) => {
    if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) return undefined;
    write(writer, value);
    // Turns minus zero into zero.
    return value + 0;
  };
}

const DECIMAL = /^(?:0|-?[1-9]\d{0,19})$/;

function int64([min, max]: readonly [bigint, bigint], write: Write<bigint>): WriteValue {
  return (writer, value) => {
    const text = Number.isSafeInteger(value) ? String(value) : value;
    if (typeof text !== "string" || !DECIMAL.test(text)) return undefined;
    const number = BigInt(text);
    if (number < min || number > max) return undefined;
    write(writer, number);
    return text;
  };
}

function writeString(writer: WireWriter, value: unknown): unknown {
  if (typeof value !== "string" || !value.isWellFormed()) return undefined;
  writer.string(value);
  return value;
}

function writeBytes(writer: WireWriter, value: unknown): unknown {
  if (typeof value !== "string") return undefined;
  const content = Buffer.from(value, "base64");
  // Accepts only standard base64 with padding.
  if (content.toString("base64") !== value) return undefined;
  writer.content(content);
  return value;
}

function writeBool(writer: WireWriter, value: unknown): unknown {
  if (typeof value !== "boolean") return undefined;
  writer.uint32(Number(value));
  return value;
}

/** Rounds to the precision of a float. */
function writeFloat(writer: WireWriter, value: unknown): unknown {
  const float = typeof value === "number" ? Math.fround(value) : Number.NaN;
  if (!Number.isFinite(float)) return undefined;
  writer.float(float);
  return float;
}

function writeDouble(writer: WireWriter, value: unknown): unknown {
  if (typeof value !== "number" || !Number.isFinite(value)) return undefined;
  writer.double(value);
  return value;
}

export function writeInt32(writer: WireWriter, value: number): void {
  // A negative value has ten bytes, so that it can be read as one of 64 bits.
  if (value < 0) writer.varint64(BigInt(value));
  else writer.uint32(value);
}

const uint32: Write<number> = (writer, value) => writer.uint32(value);
const fixed32: Write<number> = (writer, value) => writer.fixed32(value);
const varint64: Write<bigint> = (writer, value) => writer.varint64(value);
const fixed64: Write<bigint> = (writer, value) => writer.fixed64(value);
const zigZag32: Write<number> = (writer, value) => writer.uint32(((value << 1) ^ (value >> 31)) >>> 0);
const zigZag64: Write<bigint> = (writer, value) => writer.varint64((value << 1n) ^ (value >> 63n));

export const WIRE_SCALARS: Readonly<Record<ProtoScalar, WireScalar>> = {
  string: { wireType: WIRE.bytes, read: (from) => from.string(), write: writeString, zero: "" },
  bytes: { wireType: WIRE.bytes, read: (from) => from.base64(), write: writeBytes, zero: "" },
  bool: { wireType: WIRE.varint, read: (from) => from.bool(), write: writeBool, zero: false },
  int32: { wireType: WIRE.varint, read: (from) => from.uint32() | 0, write: int32(INT_32, writeInt32), zero: 0 },
  uint32: { wireType: WIRE.varint, read: (from) => from.uint32(), write: int32(UINT_32, uint32), zero: 0 },
  sint32: { wireType: WIRE.varint, read: (from) => from.sint32(), write: int32(INT_32, zigZag32), zero: 0 },
  fixed32: { wireType: WIRE.fixed32, read: (from) => from.fixed32(), write: int32(UINT_32, fixed32), zero: 0 },
  sfixed32: { wireType: WIRE.fixed32, read: (from) => from.fixed32() | 0, write: int32(INT_32, fixed32), zero: 0 },
  int64: { wireType: WIRE.varint, read: (from) => from.int64(), write: int64(INT_64, varint64), zero: "0" },
  uint64: { wireType: WIRE.varint, read: (from) => from.uint64(), write: int64(UINT_64, varint64), zero: "0" },
  sint64: { wireType: WIRE.varint, read: (from) => from.sint64(), write: int64(INT_64, zigZag64), zero: "0" },
  fixed64: { wireType: WIRE.fixed64, read: (from) => from.fixed64(), write: int64(UINT_64, fixed64), zero: "0" },
  sfixed64: { wireType: WIRE.fixed64, read: (from) => from.sfixed64(), write: int64(INT_64, fixed64), zero: "0" },
  float: { wireType: WIRE.fixed32, read: (from) => finite(from.float()), write: writeFloat, zero: 0 },
  double: { wireType: WIRE.fixed64, read: (from) => finite(from.double()), write: writeDouble, zero: 0 },
};

export function wireTypeOf(value: ValueShape): number {
  if (value.kind === "scalar") return WIRE_SCALARS[value.proto].wireType;
  return value.kind === "message" ? WIRE.bytes : WIRE.varint;
}
