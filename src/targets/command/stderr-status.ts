import type { StderrMeaning, TargetStatus } from "../../core/types.ts";

/** Bytes of stderr that are looked at, from its beginning. */
export const STDERR_HEAD_BYTES = 4_096;

/**
 * What a program's stderr means by the manifest's literals, the first that matches; nothing else of the text is used. A literal
 * that `starts` a line, or that the text `contains`, as it is: no pattern, so that no text can make it slow.
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
