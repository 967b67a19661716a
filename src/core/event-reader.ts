import { GrowingBytes } from "./growing-bytes.ts";

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const NEW_LINE = Uint8Array.of(LINE_FEED);
const NOTHING = new Uint8Array();
/** An id is sent back in a header. Others are ignored, and so is an empty one, which would forget how far the stream was read. */
const ID = /^[\x21-\x7e]{1,256}$/;

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** One event of a stream in the server-sent events format of the HTML standard. */
export class StreamedEvent {
  readonly type: string;
  /** The data as it was sent, for readers that refuse what is not UTF-8. */
  readonly bytes: Uint8Array;

  constructor(type: string, bytes: Uint8Array) {
    this.type = type;
    this.bytes = bytes;
  }

  get data(): string {
    return utf8.decode(this.bytes);
  }
}

/**
 * Reads server-sent events from bytes that arrive in arbitrary pieces. Each byte is read once. Rejected: the package
 * `eventsource-parser`, which drops the id of an event without data, with which this service's heartbeats say how far a stream was
 * read, and which sees its limit only after a piece.
 */
export class EventReader {
  /** Id of the last complete event that had one, with which the stream is resumed; undefined before the first. */
  lastId: string | undefined;
  readonly #bytesMax: number;
  /** The beginning of a line. */
  readonly #line = new GrowingBytes();
  readonly #data = new GrowingBytes();
  #hasData = false;
  #type = "";
  #id: string | undefined;
  /** Bytes of the event's complete lines, without comments. */
  #bytes = 0;
  #isFirstLine = true;
  /** The last byte was a carriage return: a line feed that follows belongs to the same line end. */
  #isAfterReturn = false;

  /** @param bytesMax limit for the lines of one event */
  constructor(bytesMax: number, lastId?: string) {
    this.#bytesMax = bytesMax;
    this.lastId = lastId;
  }

  /**
   * Yields the events that are complete with this piece. Read all of them before the next piece.
   *
   * @throws {RangeError} when an event is too long, after the events before it
   */
  *read(piece: Uint8Array): Generator<StreamedEvent, void> {
    let from = this.#isAfterReturn && piece[0] === LINE_FEED ? 1 : 0;
    if (piece.length > 0) this.#isAfterReturn = piece.at(-1) === CARRIAGE_RETURN;
    let [feed, carriage] = [indexOf(piece, LINE_FEED, from), indexOf(piece, CARRIAGE_RETURN, from)];
    for (let end = Math.min(feed, carriage); end < piece.length; end = Math.min(feed, carriage)) {
      const event = this.#take(this.#ended(piece.subarray(from, end)));
      if (event !== undefined) yield event;
      from = end + (end === carriage && piece[end + 1] === LINE_FEED ? 2 : 1);
      if (feed < from) feed = indexOf(piece, LINE_FEED, from);
      if (carriage < from) carriage = indexOf(piece, CARRIAGE_RETURN, from);
    }
    const beginning = piece.subarray(from);
    this.#checkSize(beginning);
    this.#line.add(beginning);
  }

  /** Returns the line that ends with these bytes, without the stream's byte order mark. */
  #ended(end: Uint8Array): Uint8Array {
    this.#checkSize(end);
    let line = end;
    if (this.#line.length > 0) {
      this.#line.add(end);
      line = this.#line.take();
    }
    const isMarked = this.#isFirstLine && BYTE_ORDER_MARK.every((byte, index) => line[index] === byte);
    this.#isFirstLine = false;
    return isMarked ? line.subarray(BYTE_ORDER_MARK.length) : line;
  }

  #checkSize(part: Uint8Array): void {
    if (this.#bytes + this.#line.length + part.length > this.#bytesMax) throw new RangeError("an event is too long");
  }

  #take(line: Uint8Array): StreamedEvent | undefined {
    if (line.length === 0) return this.#dispatch();
    const colon = line.indexOf(COLON);
    if (colon === 0) return undefined;
    this.#bytes += line.length;
    const field = utf8.decode(colon === -1 ? line : line.subarray(0, colon));
    const value = colon === -1 ? NOTHING : line.subarray(line[colon + 1] === SPACE ? colon + 2 : colon + 1);
    if (field === "data") this.#addData(value);
    if (field === "event") this.#type = utf8.decode(value);
    if (field === "id") this.#setId(utf8.decode(value));
    return undefined;
  }

  #addData(value: Uint8Array): void {
    if (this.#hasData) this.#data.add(NEW_LINE);
    this.#data.add(value);
    this.#hasData = true;
  }

  #setId(id: string): void {
    if (ID.test(id)) this.#id = id;
  }

  #dispatch(): StreamedEvent | undefined {
    // A copy: the buffer is used again.
    const event = this.#hasData ? new StreamedEvent(this.#type || "message", this.#data.take().slice()) : undefined;
    this.lastId = this.#id ?? this.lastId;
    this.#hasData = false;
    this.#type = "";
    this.#id = undefined;
    this.#bytes = 0;
    return event;
  }
}

/** Returns the length for a byte that is not there. */
function indexOf(bytes: Uint8Array, byte: number, from: number): number {
  const found = bytes.indexOf(byte, from);
  return found === -1 ? bytes.length : found;
}
