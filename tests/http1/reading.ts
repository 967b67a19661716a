import { Http1Error } from "../../src/http1/http1-error.ts";
import { type AfterHead, type MessageHandler, parserFactory } from "../../src/http1/parser.ts";

const parsers = await parserFactory();

interface ReadMessage {
  /** Method and target, or status code. */
  first: string;
  version: string;
  isUpgrade: boolean;
  keepsAlive: boolean;
  readonly headers: [name: string, value: string][];
  body: string;
  isComplete: boolean;
  hasExtension: boolean;
  hasTrailer: boolean;
}

interface Reading {
  readonly messages: readonly ReadMessage[];
  /** Code of the error that ended the reading. */
  readonly error: string | undefined;
}

/** Collects messages from their pieces. */
class Collector implements MessageHandler {
  readonly messages: ReadMessage[] = [];
  readonly #afterHead: AfterHead;
  #last: "name" | "value" = "value";

  constructor(afterHead: AfterHead) {
    this.#afterHead = afterHead;
  }

  get current(): ReadMessage {
    const current = this.messages.at(-1);
    if (current === undefined) throw new Error("no message has begun");
    return current;
  }

  onMessageBegin(): void {
    this.#last = "value";
    const flags = { isUpgrade: false, keepsAlive: false, isComplete: false, hasExtension: false, hasTrailer: false };
    this.messages.push({ first: "", version: "", headers: [], body: "", ...flags });
  }

  onTarget(bytes: Buffer, start: number, end: number): void {
    this.current.first += bytes.toString("latin1", start, end);
  }

  onHeaderName(bytes: Buffer, start: number, end: number): void {
    if (this.#last === "value") this.current.headers.push(["", ""]);
    this.#last = "name";
    this.#add(0, bytes.toString("latin1", start, end));
  }

  onHeaderValue(bytes: Buffer, start: number, end: number): void {
    this.#last = "value";
    this.#add(1, bytes.toString("latin1", start, end));
  }

  #add(index: 0 | 1, text: string): void {
    const header = this.current.headers.at(-1);
    if (header !== undefined) header[index] += text;
  }

  onHead(head: Parameters<MessageHandler["onHead"]>[0]): AfterHead {
    const { current } = this;
    current.first = head.method === "" ? String(head.statusCode) : `${head.method} ${current.first}`;
    current.version = `${head.httpMajor}.${head.httpMinor}`;
    current.isUpgrade = head.isUpgrade;
    current.keepsAlive = head.keepsAlive;
    return this.#afterHead;
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    this.current.body += bytes.toString("latin1", start, end);
  }

  onChunkExtension(): void {
    this.current.hasExtension = true;
  }

  onTrailer(): void {
    this.current.hasTrailer = true;
  }

  onMessageComplete(): "continue" {
    this.current.isComplete = true;
    return "continue";
  }
}

interface ReadOptions {
  readonly type?: "requests" | "responses";
  readonly afterHead?: AfterHead;
  /** The input's end is not told to the parser. */
  readonly isOpen?: boolean;
}

/** Parses the pieces, one `execute` each and one more after each pause. */
export function readPieces(
  pieces: readonly (string | Buffer)[],
  { type = "requests", afterHead = "body", isOpen = false }: ReadOptions = {},
): Reading {
  const collector = new Collector(afterHead);
  const parser = parsers[type](collector);
  try {
    for (const piece of pieces) {
      const bytes = typeof piece === "string" ? Buffer.from(piece, "latin1") : piece;
      let at = 0;
      while (at < bytes.length) at += parser.execute(bytes.subarray(at));
    }
    if (!isOpen) parser.finish();
    return { messages: collector.messages, error: undefined };
  } catch (error) {
    if (!(error instanceof Http1Error)) throw error;
    return { messages: collector.messages, error: error.code };
  } finally {
    parser.close();
  }
}

/** Returns the text cut at the positions. */
export function cut(text: string, positions: readonly number[]): readonly string[] {
  const at = [0, ...positions.map((position) => position % (text.length + 1)).sort((one, other) => one - other)];
  return at.map((start, index) => text.slice(start, at[index + 1] ?? text.length));
}
