import protobuf from "protobufjs";

/** The library's own reader takes a text that ends after its message for one that ends with it. */
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
