import type { StderrMeaning, TargetStatus } from "../../core/types.ts";

/** After this many bytes, at most `THROTTLED_BYTES` are read per pause, so that a flood cannot block the service. */
const THROTTLED_FROM_BYTES = 4_194_304;
const THROTTLED_BYTES = 262_144;
const PAUSE_MS = 1;

/** One output stream of a child, while it is read. */
export interface Pipe {
  /** Settles at the end of the stream or at an error; never rejects. */
  readonly ended: Promise<void>;
  /** Stops reading, even when a process still holds the other end. */
  cancel(): void;
}

type OnChunk = (chunk: Uint8Array) => void;

/**
 * Reads a stream to its end, although only a part is kept: a program with a closed or full pipe might not finish. Bun's
 * `maxBuffer` would kill the program.
 */
export function readPipe(
  stream: ReadableStream<Uint8Array>,
  onChunk: OnChunk,
  onError: (cause: unknown) => void,
): Pipe {
  const reader = stream.getReader();
  let isCancelled = false;

  async function read(): Promise<void> {
    let bytes = 0;
    let pauseAt = THROTTLED_FROM_BYTES;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        onChunk(value);
        bytes += value.byteLength;
        if (bytes < pauseAt) continue;
        pauseAt = bytes + THROTTLED_BYTES;
        await Bun.sleep(PAUSE_MS);
      }
    } catch (cause) {
      if (!isCancelled) onError(cause);
    }
  }

  return {
    ended: read(),
    cancel() {
      isCancelled = true;
      reader.cancel().catch(() => {});
    },
  };
}

/** The start of the output; later bytes are counted and dropped. */
export interface OutputHead {
  readonly add: OnChunk;
  kept(): Uint8Array;
  /** Number of all bytes. */
  bytes(): number;
}

export function outputHead(keptBytesMax: number): OutputHead {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  return {
    add(chunk) {
      if (bytes < keptBytesMax) chunks.push(chunk.subarray(0, keptBytesMax - bytes));
      bytes += chunk.byteLength;
    },
    kept: () => Buffer.concat(chunks),
    bytes: () => bytes,
  };
}

/** Bytes at the start of stderr that are compared with the manifest's literals. */
export const STDERR_HEAD_BYTES = 4_096;

/**
 * Returns the meaning of the first of the manifest's literals that matches: one that a line `starts` with, or that the
 * text `contains`. Literals instead of patterns keep matching fast for any text.
 */
export function statusOfStderr(head: Uint8Array, meanings: readonly StderrMeaning[]): TargetStatus | undefined {
  if (meanings.length === 0 || head.byteLength === 0) return undefined;
  const text = `\n${Buffer.from(head.buffer, head.byteOffset, head.byteLength).toString("latin1")}`;
  const found = meanings.find(({ starts, contains }) => {
    if (starts !== undefined) return text.includes(`\n${starts}`);
    return contains !== undefined && text.includes(contains);
  });
  return found?.means;
}

const LINE_FEED = 0x0a;

/** Bytes at the end of stderr that are kept: more than is released, so that filters see the text around it. */
const STDERR_TAIL_BYTES = 16_384;

interface Tail {
  readonly add: OnChunk;
  /** Returns the lines that were kept completely; none when the last line is longer than the kept bytes. */
  lines(): Uint8Array;
}

export function stderrTail(): Tail {
  const chunks: Uint8Array[] = [];
  let kept = 0;
  let isCut = false;
  return {
    add(chunk) {
      chunks.push(chunk);
      kept += chunk.byteLength;
      while (kept - (chunks[0]?.byteLength ?? 0) >= STDERR_TAIL_BYTES) {
        kept -= chunks.shift()?.byteLength ?? 0;
        isCut = true;
      }
    },
    lines() {
      const all = Buffer.concat(chunks);
      const cut = Math.max(0, all.byteLength - STDERR_TAIL_BYTES);
      if (cut === 0 && !isCut) return all;
      const end = all.indexOf(LINE_FEED, cut);
      return end === -1 ? new Uint8Array() : all.subarray(end + 1);
    },
  };
}
