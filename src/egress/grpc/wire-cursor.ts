export const WIRE = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 } as const;

/** Maximum nesting depth, the same as in protoc's own parsers. */
export const NESTED_MAX = 100;

/** Up to this size, a message is decoded to one string, whose slices (the text fields) keep it alive. */
const SHARED_BYTES_MAX = 8_192;

export const VARINT_BYTES_MAX = 10;
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
