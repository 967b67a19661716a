/** A message of a stream of server-sent events. */
export interface ServerMessage {
  readonly type: string;
  readonly data: string;
}

/** Longest message that is kept, in UTF-16 units. A stream that exceeds it is broken. */
const MESSAGE_CHARACTERS_MAX = 4_194_304;
const LINE_END = /\r\n|\n|\r/;
const ID = /^[^\0]{1,256}$/;

/** Reads server-sent events from text that arrives in arbitrary pieces. */
export class EventParser {
  /** Id of the last message, with which a stream is resumed; empty when there was none. */
  lastEventId: string;
  #buffer = "";
  #type = "";
  #data: string[] = [];
  #size = 0;
  #isStart = true;

  constructor(lastEventId = "") {
    this.lastEventId = lastEventId;
  }

  /**
   * Returns the messages that are complete with this piece.
   *
   * @throws {RangeError} when a message is too long
   */
  push(piece: string): readonly ServerMessage[] {
    this.#buffer += this.#isStart && piece !== "" ? piece.replace(/^\uFEFF/, "") : piece;
    if (piece !== "") this.#isStart = false;
    const messages: ServerMessage[] = [];
    for (let line = this.#nextLine(); line !== undefined; line = this.#nextLine()) {
      const message = this.#readLine(line);
      if (message !== undefined) messages.push(message);
    }
    if (this.#size + this.#buffer.length > MESSAGE_CHARACTERS_MAX) throw new RangeError("a message is too long");
    return messages;
  }

  /** A CR at the end of the buffer may be the first half of a CR LF, so it waits for the next piece. */
  #nextLine(): string | undefined {
    const found = LINE_END.exec(this.#buffer);
    if (found === null || (found[0] === "\r" && found.index === this.#buffer.length - 1)) return undefined;
    const line = this.#buffer.slice(0, found.index);
    this.#buffer = this.#buffer.slice(found.index + found[0].length);
    return line;
  }

  #readLine(line: string): ServerMessage | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#type = value;
    if (field === "id" && ID.test(value)) this.lastEventId = value;
    if (field === "data") {
      this.#data.push(value);
      this.#size += value.length + 1;
      if (this.#size > MESSAGE_CHARACTERS_MAX) throw new RangeError("a message is too long");
    }
    return undefined;
  }

  #dispatch(): ServerMessage | undefined {
    const message = { type: this.#type || "message", data: this.#data.join("\n") };
    const isEmpty = this.#data.length === 0;
    this.#type = "";
    this.#data = [];
    this.#size = 0;
    return isEmpty ? undefined : message;
  }
}

const FIRST_DELAY_MS = 400;
const DELAY_MS_MAX = 20_000;

/**
 * Returns how long to wait before the next attempt to connect: doubles with each failure, and half of it is random so that
 * many consoles do not return at once.
 *
 * @param random from 0 to 1
 */
export function backoffMs(failures: number, random: number): number {
  const ceiling = Math.min(DELAY_MS_MAX, FIRST_DELAY_MS * 2 ** Math.min(failures, 16));
  return Math.round(ceiling / 2 + (ceiling / 2) * random);
}
