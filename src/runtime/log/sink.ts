import { constants, fstatSync, openSync, writeSync } from "node:fs";

export interface Sink {
  write(line: string): void;
  /** Number of lines dropped since the start: the queue was full, or the write failed. */
  readonly dropped: number;
  /** Waits until the queue is written, up to this time. */
  flush(timeoutMs: number): Promise<void>;
}

interface SinkOptions {
  readonly queueBytesMax?: number;
  readonly retryEveryMs?: number;
  readonly gap: (dropped: number) => string;
}

const QUEUE_BYTES_MAX = 1_048_576;
const RETRY_EVERY_MS = 50;

/**
 * Writes immediately when possible, so that no line is lost when the process ends. While nobody reads, lines wait in a bounded
 * queue; lines beyond it are counted and dropped: the log never delays a call.
 */
export class DescriptorSink implements Sink {
  readonly #descriptor: number;
  readonly #options: Required<SinkOptions>;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #dropped = 0;
  /** Dropped lines that no gap line has reported yet. */
  #unreported = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** The descriptor must not block; see `logDescriptor`. */
  constructor(descriptor: number, options: SinkOptions) {
    this.#descriptor = descriptor;
    this.#options = { queueBytesMax: QUEUE_BYTES_MAX, retryEveryMs: RETRY_EVERY_MS, ...options };
  }

  get dropped(): number {
    return this.#dropped;
  }

  write(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#queuedBytes + bytes.length > this.#options.queueBytesMax) {
      this.#dropped += 1;
      this.#unreported += 1;
      return;
    }
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.length;
    // Earlier lines are still waiting.
    if (this.#queue.length === 1) this.#drain();
  }

  async flush(timeoutMs: number): Promise<void> {
    for (let waitedMs = 0; waitedMs < timeoutMs && !this.#drain(); waitedMs += RETRY_EVERY_MS) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_EVERY_MS));
    }
  }

  /** Writes the queue. Returns whether it is empty. */
  #drain(): boolean {
    for (let head = this.#queue[0]; head !== undefined; head = this.#queue[0]) {
      const written = this.#attempt(head);
      if (written === undefined) {
        this.#timer ??= this.#retry();
        return false;
      }
      this.#queuedBytes -= written;
      if (written === head.length) this.#queue.shift();
      else this.#queue[0] = head.subarray(written);
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#writeGap();
    return true;
  }

  /** Returns the number of bytes written; undefined when the descriptor would block. */
  #attempt(bytes: Uint8Array): number | undefined {
    try {
      return writeSync(this.#descriptor, bytes);
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EAGAIN") return undefined;
      // The reader has closed the descriptor, or the disk is full.
      this.#dropped += 1;
      return bytes.length;
    }
  }

  #retry(): ReturnType<typeof setInterval> {
    const timer = setInterval(() => this.#drain(), this.#options.retryEveryMs);
    timer.unref();
    return timer;
  }

  #writeGap(): void {
    if (this.#unreported === 0) return;
    const line = this.#options.gap(this.#unreported);
    this.#unreported = 0;
    this.write(line);
  }
}

const STANDARD_OUTPUT = 1;

/**
 * Returns standard output as a descriptor that does not block. A pipe is opened again, so that other holders of it are not
 * affected. When that is not allowed, and for sockets, the runtime's own stream is used, which makes the shared descriptor
 * non-blocking. Files do not block, and a terminal has a reader.
 */
export function logDescriptor(): number {
  const kind = fstatSync(STANDARD_OUTPUT);
  if (kind.isFIFO()) {
    try {
      return openSync("/proc/self/fd/1", constants.O_WRONLY | constants.O_NONBLOCK);
    } catch {
      return process.stdout.fd;
    }
  }
  return kind.isSocket() ? process.stdout.fd : STANDARD_OUTPUT;
}
