import {
  type McpChannel,
  type MessageReceiver,
  type OpenMcpChannel,
  type OutgoingMessage,
  UpstreamError,
} from "./channel.ts";

/** Messages as lines on a process's standard input and output. */

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** Bytes on standard output that are not messages, after which the server is ended. */
const STRAY_BYTES_MAX = 65_536;
/** Bytes of standard error that are logged for each process. */
const STDERR_BYTES_MAX = 65_536;
const LOGGED_CHARACTERS_MAX = 1_024;
/** Bytes that wait for the server to read them. */
const UNSENT_BYTES_MAX = 16_777_216;

/** The part of a confined process that a channel uses. */
export interface StdioProcess {
  readonly ready: Promise<void>;
  readonly ended: Promise<string>;
  write(bytes: Uint8Array): Promise<void>;
  kill(): Promise<void>;
}

export interface StdioOptions {
  readonly start: (output: {
    readonly stdout: (chunk: Uint8Array) => void;
    readonly stderr: (chunk: Uint8Array) => void;
  }) => StdioProcess;
  readonly messageBytesMax: number;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

export function stdioChannel({ start, messageBytesMax }: StdioOptions): OpenMcpChannel {
  return (receiver) => {
    const { promise: broken, resolve: breakOff } = Promise.withResolvers<string>();
    const end = (reason: string): void => {
      breakOff(reason);
      void process.kill();
    };
    const onTooLong = (): void => {
      receiver.tooLarge();
      end(`it sent a message of more than ${messageBytesMax} bytes`);
    };
    const stdout = new Lines({ bytesMax: messageBytesMax, onLine: lineReader(receiver, end), onTooLong });
    const stderr = stderrLog(receiver);
    const process = start({ stdout: (chunk) => stdout.add(chunk), stderr });
    return new StdioChannel(process, Promise.race([broken, process.ended]));
  };
}

class StdioChannel implements McpChannel {
  readonly ready: Promise<void>;
  readonly ended: Promise<string>;
  readonly #process: StdioProcess;
  #unsentBytes = 0;

  constructor(process: StdioProcess, ended: Promise<string>) {
    this.#process = process;
    this.ready = process.ready;
    this.ended = ended;
  }

  async send(message: OutgoingMessage): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`, "utf8");
    if (this.#unsentBytes + bytes.length > UNSENT_BYTES_MAX) {
      throw new UpstreamError("notSent", "the server does not read its input");
    }
    this.#unsentBytes += bytes.length;
    try {
      await this.#process.write(bytes);
    } finally {
      this.#unsentBytes -= bytes.length;
    }
  }

  close(): Promise<void> {
    return this.#process.kill();
  }
}

/** Returns a reader of lines that passes on messages, and counts and logs everything else. */
function lineReader(receiver: MessageReceiver, end: (reason: string) => void): (line: Uint8Array) => void {
  let strayBytes = 0;
  let hasEnded = false;
  return (line) => {
    if (hasEnded) return;
    const text = line.byteLength === 0 ? "" : textOf(line);
    if (text !== undefined && text !== "" && receiver.message(parsed(text))) return;
    if (line.byteLength > 0) receiver.log("not a message", (text ?? "(not UTF-8)").slice(0, LOGGED_CHARACTERS_MAX));
    strayBytes += line.byteLength + 1;
    if (strayBytes <= STRAY_BYTES_MAX) return;
    hasEnded = true;
    end("its standard output has too much that is not a message");
  };
}

function textOf(line: Uint8Array): string | undefined {
  try {
    return utf8.decode(line);
  } catch {
    return undefined;
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

function stderrLog({ log }: MessageReceiver): (chunk: Uint8Array) => void {
  let bytes = 0;
  const lines = new Lines({
    bytesMax: LOGGED_CHARACTERS_MAX,
    onLine: (line) => {
      if (line.byteLength > 0) log("stderr", Buffer.from(line).toString("utf8"));
    },
    // The rest of a long line is not logged.
    onTooLong: () => {},
    isSkipping: true,
  });
  return (chunk) => {
    if (bytes > STDERR_BYTES_MAX) return;
    bytes += chunk.byteLength;
    if (bytes <= STDERR_BYTES_MAX) lines.add(chunk);
    else log("stderr", "(more, which is not logged)");
  };
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
class Lines {
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
