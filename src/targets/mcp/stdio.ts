import { Lines } from "../../core/lines.ts";
import type { ServerOutput, ServerProcess } from "../../core/server-process.ts";
import { secretsAmong, textWithout } from "../../egress/sent-secrets.ts";
import {
  type AssertedCall,
  type McpChannel,
  type MessageReceiver,
  type OpenMcpChannel,
  type OutgoingMessage,
  UpstreamError,
} from "./channel.ts";
import { LOGGED_CHARACTERS_MAX, LOGGED_LINES_MAX, messageReader } from "./messages.ts";

/** Messages as lines on a process's standard input and output. */

/** Bytes of standard error that are logged for each process. */
const STDERR_BYTES_MAX = 65_536;
/** Bytes that wait for the server to read them. */
const UNSENT_BYTES_MAX = 16_777_216;
/** Error that Python writes when it cannot read its own library. */
const NO_PYTHON_LIBRARY = "No module named 'encodings'";

export interface StdioOptions {
  /** Returns the folder in which the program is installed. */
  readonly installedIn: () => string;
  /** Starts the program. `environment`: its variables. */
  readonly start: (environment: Readonly<Record<string, string>>, output: ServerOutput) => ServerProcess;
  readonly env: Readonly<Record<string, string>>;
  /** Reads the variables with secrets. */
  readonly secretEnv: () => Readonly<Record<string, string>>;
  readonly messageBytesMax: number;
}

export function stdioChannel({ installedIn, start, env, secretEnv, messageBytesMax }: StdioOptions): OpenMcpChannel {
  return (receiver) => {
    const secret = secretEnv();
    const secrets = secretsAmong(Object.values(secret));
    const { promise: broken, resolve: breakOff } = Promise.withResolvers<string>();
    const end = (reason: string): void => {
      breakOff(reason);
      void process.kill();
    };
    const onTooLong = (): void => {
      receiver.tooLarge();
      end(`it sent a message of more than ${messageBytesMax} bytes`);
    };
    const read = messageReader(receiver, end);
    const stdout = new Lines({ bytesMax: messageBytesMax, onLine: (line) => read(line, secrets), onTooLong });
    const stderr = stderrLog(receiver, { secrets, installedIn });
    const process = start({ ...env, ...secret }, { stdout: (chunk) => stdout.add(chunk), stderr });
    return new StdioChannel(process, Promise.race([broken, process.ended]));
  };
}

class StdioChannel implements McpChannel {
  readonly ready: Promise<void>;
  readonly ended: Promise<string>;
  readonly #process: ServerProcess;
  #unsentBytes = 0;

  constructor(process: ServerProcess, ended: Promise<string>) {
    this.#process = process;
    this.ready = process.ready;
    this.ended = ended;
  }

  async send(message: OutgoingMessage, call?: AssertedCall): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`, "utf8");
    if (this.#unsentBytes + bytes.length > UNSENT_BYTES_MAX) {
      throw new UpstreamError("notSent", "the server does not read its input");
    }
    call?.begin?.();
    this.#unsentBytes += bytes.length;
    try {
      await this.#process.write(bytes);
    } finally {
      this.#unsentBytes -= bytes.length;
    }
  }

  close(isAtOnce = false): Promise<void> {
    return isAtOnce ? this.#process.kill() : this.#process.stop();
  }
}

interface StderrLog extends Pick<StdioOptions, "installedIn"> {
  readonly secrets: readonly string[];
}

function stderrLog({ log }: MessageReceiver, { secrets, installedIn }: StderrLog): (chunk: Uint8Array) => void {
  let bytes = 0;
  let count = 0;
  const onLine = (line: Uint8Array): void => {
    if (line.byteLength === 0) return;
    count += 1;
    if (count > LOGGED_LINES_MAX) return;
    const text = textWithout(Buffer.from(line).toString("utf8"), secrets);
    log("stderr", text);
    if (text.includes(NO_PYTHON_LIBRARY)) log("hint", `add Python's own folder to reads: ${installedIn()}`);
  };
  // The rest of a long line is not logged.
  const lines = new Lines({ bytesMax: LOGGED_CHARACTERS_MAX, onLine, onTooLong: onLine });
  return (chunk) => {
    if (bytes > STDERR_BYTES_MAX) return;
    bytes += chunk.byteLength;
    if (bytes <= STDERR_BYTES_MAX) lines.add(chunk);
    else log("stderr", "(more, which is not logged)");
  };
}
