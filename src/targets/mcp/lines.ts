import { parseStrictJson } from "../../core/strict-json.ts";
import type { MessageReceiver } from "./channel.ts";

/** Lines and messages in what a server sends, both bounded. */

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** Bytes that are not messages, after which a connection is ended. */
const STRAY_BYTES_MAX = 65_536;
export const LOGGED_CHARACTERS_MAX = 1_024;
/** Lines of one connection that are logged: a server can send thousands of lines of one character. */
export const LOGGED_LINES_MAX = 1_000;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Returns a reader of texts that passes on messages, and counts and logs everything else. */
export function messageReader(receiver: MessageReceiver, end: (reason: string) => void): (line: Uint8Array) => void {
  let strayBytes = 0;
  let logged = 0;
  let hasEnded = false;
  return (line) => {
    if (hasEnded) return;
    const text = line.byteLength === 0 ? "" : textOf(line);
    const value = text === undefined || text === "" ? undefined : parsed(text);
    const source = { bytes: line.byteLength, isExact: () => isExact(line, text) };
    if (value !== undefined && receiver.message(value, source)) return;
    if (line.byteLength > 0 && logged < LOGGED_LINES_MAX) {
      logged += 1;
      receiver.log("not a message", (text ?? "(not UTF-8)").slice(0, LOGGED_CHARACTERS_MAX));
    }
    strayBytes += line.byteLength + 1;
    if (strayBytes <= STRAY_BYTES_MAX) return;
    hasEnded = true;
    end("it sends too much that is not a message");
  };
}

function textOf(line: Uint8Array): string | undefined {
  try {
    return utf8.decode(line);
  } catch {
    return undefined;
  }
}

const LONG_NUMBER = /\d{16}/;
const STRICT_LIMITS = { depthMax: 64, keysMax: 1_000_000, elementsMax: 1_000_000 } as const;

/** Returns whether JavaScript keeps the numbers of a message: `JSON.parse` would round an id beyond 2^53 to another one. */
function isExact(line: Uint8Array, text = ""): boolean {
  if (!LONG_NUMBER.test(text)) return true;
  try {
    parseStrictJson(line, STRICT_LIMITS);
    return true;
  } catch {
    return false;
  }
}

/** Returns undefined for a text that is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

interface LinesOptions {
  readonly bytesMax: number;
  readonly onLine: (line: Uint8Array) => void;
  /** Called once for a line over the limit. Lines after it are read only with `isSkipping`. */
  readonly onTooLong: () => void;
  readonly isSkipping?: boolean;
}

const BUFFER_BYTES_MIN = 4_096;
/** A larger buffer is released after its line. */
const RETAINED_BYTES_MAX = 65_536;

/** Splits bytes into lines. One growing buffer holds the incomplete line, however small the pieces are. */
export class Lines {
  readonly #options: LinesOptions;
  #buffer = Buffer.alloc(0);
  #bytes = 0;
  #isTooLong = false;

  constructor(options: LinesOptions) {
    this.#options = options;
  }

  add(chunk: Uint8Array): void {
    const { bytesMax, onTooLong, isSkipping = false } = this.#options;
    for (let from = 0; from < chunk.byteLength; ) {
      if (this.#isTooLong && !isSkipping) return;
      const found = chunk.indexOf(LINE_FEED, from);
      const end = found === -1 ? chunk.byteLength : found;
      if (!this.#isTooLong) {
        const left = bytesMax - this.#bytes;
        this.#keep(chunk.subarray(from, Math.min(end, from + left)));
        if (end - from > left) {
          this.#isTooLong = true;
          onTooLong();
          if (isSkipping) this.#emit();
        }
      }
      if (found !== -1) {
        if (!this.#isTooLong) this.#emit();
        else if (isSkipping) this.#isTooLong = false;
      }
      from = end + 1;
    }
  }

  #keep(part: Uint8Array): void {
    const bytes = this.#bytes + part.byteLength;
    if (bytes > this.#buffer.byteLength) {
      const grown = Buffer.allocUnsafe(Math.max(BUFFER_BYTES_MIN, bytes, 2 * this.#buffer.byteLength));
      this.#buffer.copy(grown, 0, 0, this.#bytes);
      this.#buffer = grown;
    }
    this.#buffer.set(part, this.#bytes);
    this.#bytes = bytes;
  }

  #emit(): void {
    const line = this.#buffer.subarray(0, this.#bytes);
    this.#bytes = 0;
    this.#options.onLine(line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line);
    if (this.#buffer.byteLength > RETAINED_BYTES_MAX) this.#buffer = Buffer.alloc(0);
  }
}
