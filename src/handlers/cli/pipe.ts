export interface PipeLimits {
  /** Bytes that are kept; what comes after is read and dropped. */
  readonly keptBytesMax: number;
  /** Bytes that may come at all. */
  readonly bytesMax: number;
  /** Is handed everything as it comes. */
  readonly onChunk?: ((chunk: Uint8Array) => void) | undefined;
}

/** One output stream of a child, being read. */
export interface Pipe {
  /** Settles at the end of the stream, at its bound, or at an error; never rejects. */
  readonly ended: Promise<void>;
  /** What was kept so far. */
  text(): Uint8Array;
  /** Bytes seen so far. */
  bytes(): number;
  /** Lets go of the stream, whoever still holds its other end. */
  cancel(): void;
}

export type PipeFault = { readonly kind: "bound" } | { readonly kind: "error"; readonly cause: unknown };

/** Reads a stream to its end within limits of our own: Bun's `maxBuffer` kills the direct child only. */
export function readPipe(
  stream: ReadableStream<Uint8Array>,
  { keptBytesMax, bytesMax, onChunk }: PipeLimits,
  onFault: (fault: PipeFault) => void,
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
    try {
      while (bytes <= bytesMax) {
        const { done, value } = await reader.read();
        if (done) return;
        keep(value);
      }
      onFault({ kind: "bound" });
    } catch (cause) {
      if (!isCancelled) onFault({ kind: "error", cause });
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
