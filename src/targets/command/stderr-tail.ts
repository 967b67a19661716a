const LINE_FEED = 0x0a;

/** Bytes of stderr that are kept, from its end: several times what is let out, so that a filter sees what stands around it. */
const STDERR_TAIL_BYTES = 16_384;

/** The end of a stream, as it comes. */
export interface Tail {
  add(chunk: Uint8Array): void;
  /** The lines that were kept whole. Nothing, when the last line is longer than what is kept. */
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
