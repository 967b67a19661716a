import type { ProtoScalar, ValueShape } from "../contract/declarations.ts";

export const WIRE = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 } as const;

/** Maximum nesting depth, the same as in protoc's own parsers. */
export const NESTED_MAX = 100;

/** Up to this size, a message is decoded to one string, whose slices (the text fields) keep it alive. */
const SHARED_BYTES_MAX = 8_192;

const VARINT_BYTES_MAX = 10;
/** Maximum size of a tag or a length, the same as in protoc's own parsers. */
const SHORT_BYTES_MAX = 5;
/** A varint of at most this size is below 2⁴⁹, which a number represents exactly. */
const VARINT_EXACT_BYTES = 7;

/** Reads a message from its start. Throws when it ends too early or is invalid. */
export class WireCursor {
  position = 0;
  /** Wire type of the tag that was read last. */
  wireType: number = WIRE.varint;
  end: number;
  readonly #bytes: Buffer;
  #text: string | undefined;
  #depth = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.end = bytes.length;
  }

  tag(): number {
    const tag = this.#short();
    const field = tag >>> 3;
    if (field === 0) throw new RangeError("a field with the number 0");
    this.wireType = tag & 7;
    return field;
  }

  /** Reads an unsigned 32-bit value: the lower 32 bits of a longer varint. */
  uint32(): number {
    let value = 0;
    for (let count = 0; count < VARINT_BYTES_MAX; count += 1) {
      const byte = this.#byte();
      if (count < 5) value |= (byte & 0x7f) << (7 * count);
      if (byte < 0x80) return value >>> 0;
    }
    throw new RangeError("a varint of more than 64 bits");
  }

  sint32(): number {
    const value = this.uint32();
    return (value >>> 1) ^ -(value & 1);
  }

  bool(): boolean {
    const value = this.#varint();
    return typeof value === "number" ? value !== 0 : BigInt.asUintN(64, value) !== 0n;
  }

  int64(): string {
    const value = this.#varint();
    return String(typeof value === "number" ? value : BigInt.asIntN(64, value));
  }

  uint64(): string {
    const value = this.#varint();
    return String(typeof value === "number" ? value : BigInt.asUintN(64, value));
  }

  sint64(): string {
    const value = BigInt.asUintN(64, BigInt(this.#varint()));
    return String((value >> 1n) ^ -(value & 1n));
  }

  fixed64(): string {
    return String(this.#bytes.readBigUInt64LE(this.#step(8)));
  }

  sfixed64(): string {
    return String(this.#bytes.readBigInt64LE(this.#step(8)));
  }

  fixed32(): number {
    return this.#bytes.readUInt32LE(this.#step(4));
  }

  float(): number {
    return this.#bytes.readFloatLE(this.#step(4));
  }

  double(): number {
    return this.#bytes.readDoubleLE(this.#step(8));
  }

  base64(): string {
    const length = this.#short();
    const start = this.#step(length);
    return this.#bytes.toString("base64", start, start + length);
  }

  /** Reads a string; bytes that are not well-formed UTF-8 become U+FFFD. */
  string(): string {
    const length = this.#short();
    const start = this.#step(length);
    const bytes = this.#bytes;
    if (bytes.length > SHARED_BYTES_MAX) return bytes.toString("utf8", start, start + length);
    for (let at = start; at < start + length; at += 1) {
      if ((bytes[at] ?? 0) > 0x7f) return bytes.toString("utf8", start, start + length);
    }
    this.#text ??= bytes.toString("latin1");
    return this.#text.slice(start, start + length);
  }

  /** Reads a length and limits the cursor to it. Returns the previous end, for `leave`. */
  enter(): number {
    const length = this.#short();
    const before = this.end;
    if (length > before - this.position) throw tooShort();
    this.end = this.position + length;
    return before;
  }

  leave(before: number): void {
    if (this.position !== this.end) throw tooShort();
    this.end = before;
  }

  /** Counts the entry into a nested message or group, until `ascend`. */
  descend(): void {
    this.#depth += 1;
    if (this.#depth > NESTED_MAX) throw new RangeError(`more than ${NESTED_MAX} nested messages`);
  }

  ascend(): void {
    this.#depth -= 1;
  }

  skip(field: number): void {
    const { wireType } = this;
    if (wireType === WIRE.varint) this.#varint();
    else if (wireType === WIRE.fixed64) this.#step(8);
    else if (wireType === WIRE.bytes) this.#step(this.#short());
    else if (wireType === WIRE.fixed32) this.#step(4);
    else if (wireType === WIRE.groupStart) this.#skipGroup(field);
    else throw new RangeError("an unknown wire type");
  }

  #skipGroup(field: number): void {
    this.descend();
    let inner = this.tag();
    for (; this.wireType !== WIRE.groupEnd; inner = this.tag()) this.skip(inner);
    if (inner !== field) throw new RangeError("the end of another group");
    this.ascend();
  }

  /** Reads a tag or a length. It must fit 32 bits: without its upper bits it would be another tag. */
  #short(): number {
    const start = this.position;
    const first = this.#bytes[start] ?? 0x80;
    if (first < 0x80 && start < this.end) {
      this.position = start + 1;
      return first;
    }
    const second = this.#bytes[start + 1] ?? 0x80;
    if (second < 0x80 && start + 1 < this.end) {
      this.position = start + 2;
      return (first & 0x7f) | (second << 7);
    }
    const value = this.uint32();
    const bytes = this.position - start;
    const last = this.#bytes[this.position - 1] ?? 0;
    if (bytes > SHORT_BYTES_MAX || (bytes === SHORT_BYTES_MAX && last > 0x0f)) {
      throw new RangeError("a tag or a length of more than 32 bits");
    }
    return value;
  }

  #step(bytes: number): number {
    const start = this.position;
    if (bytes > this.end - start) throw tooShort();
    this.position = start + bytes;
    return start;
  }

  /** Reads a varint with all its bits: as a number if that is exact. */
  #varint(): number | bigint {
    let value = 0;
    let factor = 1;
    for (let count = 0; count < VARINT_EXACT_BYTES; count += 1) {
      const byte = this.#byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    let large = BigInt(value);
    for (let count = VARINT_EXACT_BYTES; count < VARINT_BYTES_MAX; count += 1) {
      const byte = this.#byte();
      large |= BigInt(byte & 0x7f) << BigInt(7 * count);
      if (byte < 0x80) return large;
    }
    throw new RangeError("a varint of more than 64 bits");
  }

  #byte(): number {
    if (this.position >= this.end) throw tooShort();
    const byte = this.#bytes[this.position] ?? 0;
    this.position += 1;
    return byte;
  }
}

function tooShort(): RangeError {
  return new RangeError("a message ends within a field");
}

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
