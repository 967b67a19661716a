import { constants, fstatSync, openSync, writeSync } from "node:fs";

/** Where the lines of the log go. */
export interface Sink {
  write(line: string): void;
  /** Lines that found no room, since the start. */
  readonly dropped: number;
  /** Waits until what is queued is out, at most this long. */
  flush(timeoutMs: number): Promise<void>;
}

export interface SinkOptions {
  readonly queueBytesMax?: number;
  readonly retryEveryMs?: number;
  /** The line that stands where lines are missing. */
  readonly gap: (dropped: number) => string;
}

const QUEUE_BYTES_MAX = 1_048_576;
const RETRY_EVERY_MS = 50;

/**
 * Writes at once where there is room, so that no line is lost when the process ends. Where there is none, since nobody reads,
 * lines wait in a bounded queue and are then counted and gone: the log never holds up a call.
 */
export class DescriptorSink implements Sink {
  readonly #descriptor: number;
  readonly #options: Required<SinkOptions>;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #dropped = 0;
  /** Of them, those that no line tells of yet. */
  #untold = 0;
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
      this.#untold += 1;
      return;
    }
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.length;
    // While others wait it is not its turn.
    if (this.#queue.length === 1) this.#drain();
  }

  async flush(timeoutMs: number): Promise<void> {
    for (let waitedMs = 0; waitedMs < timeoutMs && !this.#drain(); waitedMs += RETRY_EVERY_MS) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_EVERY_MS));
    }
  }

  /** Whether everything is out. */
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
    this.#tellGap();
    return true;
  }

  /** Bytes that were taken; undefined when there is no room now. */
  #attempt(bytes: Uint8Array): number | undefined {
    try {
      return writeSync(this.#descriptor, bytes);
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EAGAIN") return undefined;
      // Nobody will ever read it, or the disk is full.
      this.#dropped += 1;
      return bytes.length;
    }
  }

  #retry(): ReturnType<typeof setInterval> {
    const timer = setInterval(() => this.#drain(), this.#options.retryEveryMs);
    timer.unref();
    return timer;
  }

  #tellGap(): void {
    if (this.#untold === 0) return;
    const line = this.#options.gap(this.#untold);
    this.#untold = 0;
    this.write(line);
  }
}

const STANDARD_OUTPUT = 1;

/**
 * Standard output as a descriptor that does not block. A pipe is opened anew, so that whoever else holds it notices nothing;
 * where that is not allowed, and for sockets, the runtime's own stream is asked for, which makes the shared one not block.
 * Files do not block, and a terminal belongs to somebody who looks at it.
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
