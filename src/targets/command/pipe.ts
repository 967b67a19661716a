/** From here on a stream is read no faster than this many bytes per pause: a flood must not keep the service busy. */
const PACED_FROM_BYTES = 4_194_304;
const PACED_BYTES = 262_144;
const PAUSE_MS = 1;

export interface PipeLimits {
  /** Bytes that are kept; what comes after is read and dropped. */
  readonly keptBytesMax: number;
  /** Is handed everything as it comes. */
  readonly onChunk?: ((chunk: Uint8Array) => void) | undefined;
}

/** One output stream of a child, being read. */
export interface Pipe {
  /** Settles at the end of the stream or at an error; never rejects. */
  readonly ended: Promise<void>;
  /** What was kept so far. */
  text(): Uint8Array;
  /** Bytes seen so far. */
  bytes(): number;
  /** Lets go of the stream, whoever still holds its other end. */
  cancel(): void;
}

/**
 * Reads a stream to its end, whatever of it is kept: a program that meets a closed or full pipe might not finish its work. Bun's
 * `maxBuffer` would kill it.
 */
export function readPipe(
  stream: ReadableStream<Uint8Array>,
  { keptBytesMax, onChunk }: PipeLimits,
  onError: (cause: unknown) => void,
): Pipe {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  let isCancelled = false;

  function keep(chunk: Uint8Array): void {
    const room = keptBytesMax - bytes;
    if (room > 0) chunks.push(chunk.byteLength > room ? chunk.subarray(0, room) : chunk);
    bytes += chunk.byteLength;
    onChunk?.(chunk);
  }

  async function read(): Promise<void> {
    let pauseAt = PACED_FROM_BYTES;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        keep(value);
        if (bytes < pauseAt) continue;
        pauseAt = bytes + PACED_BYTES;
        await Bun.sleep(PAUSE_MS);
      }
    } catch (cause) {
      if (!isCancelled) onError(cause);
    }
  }

  return {
    ended: read(),
    text: () => Buffer.concat(chunks),
    bytes: () => bytes,
    cancel() {
      isCancelled = true;
      reader.cancel().catch(() => {});
    },
  };
}
