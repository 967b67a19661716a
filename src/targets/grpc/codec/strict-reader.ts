import protobuf from "protobufjs";

/** Rejects a string that extends past the end of its message; the library's own reader accepts it, cut off at the end. */
export class StrictReader extends protobuf.BufferReader {
  constructor(bytes: Uint8Array) {
    super(Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
  }

  override string(): string {
    const length = this.uint32();
    const start = this.pos;
    if (start + length > this.len) throw new RangeError("a text ends after its message");
    this.pos = start + length;
    return Buffer.prototype.toString.call(this.buf, "utf8", start, this.pos);
  }
}
