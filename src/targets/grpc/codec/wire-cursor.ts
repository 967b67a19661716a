import type { ProtoScalar } from "../contract/declarations.ts";

/** Wire types of the protobuf encoding. */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 } as const;

/** As protoc's own parsers have it. */
const NESTED_MAX = 100;

/** A text of a message is a part of the message's, read at once; a longer message would be kept alive by each of them. */
const SHARED_BYTES_MAX = 8_192;

const VARINT_BYTES_MAX = 10;
/** Of a tag or a length, as protoc's own parsers have it. */
const SHORT_BYTES_MAX = 5;
const TWO_32 = 4_294_967_296;
const HIGH_EXACT_MAX = 0x1f_ffff;

/** Reads a message's bytes from the front. Throws where they end too early or mean nothing. */
export class WireCursor {
  position = 0;
  /** Of the field whose tag was read last. */
  wireType: number = WIRE.varint;
  /** Where the message that is being read ends. */
  end: number;
  readonly #bytes: Buffer;
  #text: string | undefined;
  /** Messages and groups inside one another, here. */
  #depth = 0;
  /** Of the 64 bits that were read last. */
  #low = 0;
  #high = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.end = bytes.length;
  }

  /** The number of the field that begins here. */
  tag(): number {
    const tag = this.#short();
    const field = tag >>> 3;
    if (field === 0) throw new RangeError("a field of the number 0");
    this.wireType = tag & 7;
    return field;
  }

  /** Reads an unsigned value of 32 bits: the lower ones of a longer varint. */
  uint32(): number {
    const bytes = this.#bytes;
    let value = 0;
    for (let count = 0; count < VARINT_BYTES_MAX; count += 1) {
      if (this.position >= this.end) throw tooShort();
      const byte = bytes[this.position] ?? 0;
      this.position += 1;
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
    this.#varint64();
    return (this.#low | this.#high) !== 0;
  }

  /** In decimal. */
  int64(): string {
    this.#varint64();
    return this.#signed();
  }

  uint64(): string {
    this.#varint64();
    return this.#unsigned();
  }

  sint64(): string {
    this.#varint64();
    const sign = -(this.#low & 1);
    this.#low = ((this.#low >>> 1) | (this.#high << 31)) ^ sign;
    this.#high = (this.#high >>> 1) ^ sign;
    return this.#signed();
  }

  fixed64(): string {
    this.#fixed64();
    return this.#unsigned();
  }

  sfixed64(): string {
    this.#fixed64();
    return this.#signed();
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

  /** What is not well-formed becomes U+FFFD. */
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

  /** Narrows the cursor to what the length that stands here bounds; answers where that ended before, for `leave`. */
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

  /** Into a message or group inside another, until `ascend`. */
  descend(): void {
    this.#depth += 1;
    if (this.#depth > NESTED_MAX) throw new RangeError(`more than ${NESTED_MAX} messages inside one another`);
  }

  ascend(): void {
    this.#depth -= 1;
  }

  /** Skips the value of the field, whose tag was read last. */
  skip(field: number): void {
    const { wireType } = this;
    if (wireType === WIRE.varint) this.#varint64();
    else if (wireType === WIRE.fixed64) this.#step(8);
    else if (wireType === WIRE.bytes) this.#step(this.#short());
    else if (wireType === WIRE.fixed32) this.#step(4);
    else if (wireType === WIRE.groupStart) this.#skipGroup(field);
    else throw new RangeError("a wire type that does not exist");
  }

  #skipGroup(field: number): void {
    this.descend();
    let inner = this.tag();
    for (; this.wireType !== WIRE.groupEnd; inner = this.tag()) this.skip(inner);
    if (inner !== field) throw new RangeError("the end of another group");
    this.ascend();
  }

  /** Reads a tag or a length. Unlike a value it may not have more than 32 bits: the lower ones would be another tag. */
  #short(): number {
    const start = this.position;
    const first = this.#bytes[start] ?? 0x80;
    // Most have one byte or two.
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

  /** Passes so many bytes; answers where they begin. */
  #step(bytes: number): number {
    const start = this.position;
    if (bytes > this.end - start) throw tooShort();
    this.position = start + bytes;
    return start;
  }

  #fixed64(): void {
    const start = this.#step(8);
    this.#low = this.#bytes.readInt32LE(start);
    this.#high = this.#bytes.readInt32LE(start + 4);
  }

  #varint64(): void {
    const bytes = this.#bytes;
    this.#low = 0;
    this.#high = 0;
    for (let count = 0; count < VARINT_BYTES_MAX; count += 1) {
      if (this.position >= this.end) throw tooShort();
      const byte = bytes[this.position] ?? 0;
      this.position += 1;
      const bits = byte & 0x7f;
      const shift = 7 * count;
      if (shift < 32) this.#low |= bits << shift;
      // The fifth byte belongs to both halves.
      if (shift > 28) this.#high |= bits << (shift - 32);
      else if (shift === 28) this.#high |= bits >>> 4;
      if (byte < 0x80) return;
    }
    throw new RangeError("a varint of more than 64 bits");
  }

  #signed(): string {
    const low = this.#low >>> 0;
    const isSmall = this.#high >= 0 && this.#high <= HIGH_EXACT_MAX;
    return isSmall ? String(this.#high * TWO_32 + low) : String((BigInt(this.#high) << 32n) | BigInt(low));
  }

  #unsigned(): string {
    const low = this.#low >>> 0;
    const high = this.#high >>> 0;
    return high <= HIGH_EXACT_MAX ? String(high * TWO_32 + low) : String((BigInt(high) << 32n) | BigInt(low));
  }
}

function tooShort(): RangeError {
  return new RangeError("a message ends in the midst of a field");
}

/** Gives the JSON form of the value at which the cursor stands. */
export type ReadValue = (cursor: WireCursor) => unknown;

export interface WireScalar {
  readonly wireType: number;
  readonly read: ReadValue;
  /** Its JSON form where the wire does not say. */
  readonly zero: unknown;
}

/** What JSON has no number for becomes a text; and it has no minus zero. */
function finite(value: number): unknown {
  if (value === 0) return 0;
  return Number.isFinite(value) ? value : String(value);
}

const { varint, fixed32, fixed64, bytes } = WIRE;

/** How each scalar type of the proto language stands on the wire, and what it is in JSON. */
export const WIRE_SCALARS: Readonly<Record<ProtoScalar, WireScalar>> = {
  string: { wireType: bytes, read: (cursor) => cursor.string(), zero: "" },
  bytes: { wireType: bytes, read: (cursor) => cursor.base64(), zero: "" },
  bool: { wireType: varint, read: (cursor) => cursor.bool(), zero: false },
  int32: { wireType: varint, read: (cursor) => cursor.uint32() | 0, zero: 0 },
  uint32: { wireType: varint, read: (cursor) => cursor.uint32(), zero: 0 },
  sint32: { wireType: varint, read: (cursor) => cursor.sint32(), zero: 0 },
  fixed32: { wireType: fixed32, read: (cursor) => cursor.fixed32(), zero: 0 },
  sfixed32: { wireType: fixed32, read: (cursor) => cursor.fixed32() | 0, zero: 0 },
  int64: { wireType: varint, read: (cursor) => cursor.int64(), zero: "0" },
  uint64: { wireType: varint, read: (cursor) => cursor.uint64(), zero: "0" },
  sint64: { wireType: varint, read: (cursor) => cursor.sint64(), zero: "0" },
  fixed64: { wireType: fixed64, read: (cursor) => cursor.fixed64(), zero: "0" },
  sfixed64: { wireType: fixed64, read: (cursor) => cursor.sfixed64(), zero: "0" },
  float: { wireType: fixed32, read: (cursor) => finite(cursor.float()), zero: 0 },
  double: { wireType: fixed64, read: (cursor) => finite(cursor.double()), zero: 0 },
};
