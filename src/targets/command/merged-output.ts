/** Two streams as one text, in the order in which they came; what is over the bound is dropped, and counts as truncated. */
export interface MergedOutput {
  readonly add: (chunk: Uint8Array) => void;
  bytes(): Uint8Array;
  isTruncated(): boolean;
}

export function mergedOutput(bytesMax: number): MergedOutput {
  const chunks: Uint8Array[] = [];
  let room = bytesMax;
  let isTruncated = false;
  return {
    add(chunk) {
      isTruncated ||= chunk.byteLength > room;
      if (room > 0) chunks.push(chunk.subarray(0, room));
      room -= Math.min(room, chunk.byteLength);
    },
    bytes: () => Buffer.concat(chunks),
    isTruncated: () => isTruncated,
  };
}
