import type { ProtoScalar } from "../contract/declarations.ts";

/** Wire types of the protobuf encoding. */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 } as const;

/** Maximum nesting depth, the same as in protoc's own parsers. */
const NESTED_MAX = 100;

/**
 * Up to this size, a message is decoded to one string and its text fields are slices of it; each slice keeps the whole string
 * alive.
 */
const SHARED_BYTES_MAX = 8_192;

const VARINT_BYTES_MAX = 10;
/** Maximum size of a tag or a length, the same as in protoc's own parsers. */
const SHORT_BYTES_MAX = 5;
const TWO_32 = 4_294_967_296;
const HIGH_EXACT_MAX = 0x1f_ffff;

/** Reads a message's bytes from the front. Throws when they end too early or are invalid. */
export class WireCursor {
  position = 0;
  /** Wire type of the tag that was read last. */
  wireType: number = WIRE.varint;
  /** Position at which the current message ends. */
  end: number;
  readonly #bytes: Buffer;
  #text: string | undefined;
  /** Current nesting depth of messages and groups. */
  #depth = 0;
  /** Halves of the 64-bit value that was read last. */
  #low = 0;
  #high = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.end = bytes.length;
  }

  /** Reads a tag and returns its field number. */
  tag(): number {
    const tag = this.#short();
    const field = tag >>> 3;
    if (field === 0) throw new RangeError("a field of the number 0");
    this.wireType = tag & 7;
    return field;
  }

  /** Reads an unsigned 32-bit value: the lower 32 bits of a longer varint. */
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

  /** Reads a 64-bit value and returns it in decimal. */
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

  /** Reads a length and narrows the cursor to it. Returns the previous end, for `leave`. */
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

  /** Counts entering a nested message or group, until `ascend`. */
  descend(): void {
    this.#depth += 1;
    if (this.#depth > NESTED_MAX) throw new RangeError(`more than ${NESTED_MAX} messages inside one another`);
  }

  ascend(): void {
    this.#depth -= 1;
  }

  /** Skips the value of the field whose tag was read last. */
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

  /** Reads a tag or a length. Unlike a value, it must not exceed 32 bits: the lower ones would be another tag. */
  #short(): number {
    const start = this.position;
    const first = this.#bytes[start] ?? 0x80;
    // Most tags and lengths have one byte or two.
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

  /** Advances by this many bytes and returns where they start. */
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

/** Returns the JSON form of the value at the cursor. */
export type ReadValue = (cursor: WireCursor) => unknown;

export interface WireScalar {
  readonly wireType: number;
  readonly read: ReadValue;
  /** JSON form of a value that the wire omits. */
  readonly zero: unknown;
}

/** Returns a string for a number that JSON does not have, and 0 for minus zero. */
function finite(value: number): unknown {
  if (value === 0) return 0;
  return Number.isFinite(value) ? value : String(value);
}

const { varint, fixed32, fixed64, bytes } = WIRE;

/** Wire type, reader and JSON zero of each scalar type of the proto language. */
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
