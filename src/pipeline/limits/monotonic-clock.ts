/**
 * Wraps a clock so that it never goes back: when the clock is set back, the result continues from the last time. Waiting times
 * that were already reported stay correct, and nobody waits for a time that the clock has left.
 */
export function monotonic(clock: () => number): () => number {
  let latest = Number.NEGATIVE_INFINITY;
  let setBack = 0;
  return () => {
    const now = clock();
    if (now < latest) setBack += latest - now;
    latest = now;
    return now + setBack;
  };
}
