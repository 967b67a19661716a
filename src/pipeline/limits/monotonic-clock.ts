/**
 * The same clock; where it is set back, it goes on from where it was. What was to be waited for stays as far away as it was told,
 * and nobody is held to a future that is no more.
 */
export function steady(clock: () => number): () => number {
  let latest = Number.NEGATIVE_INFINITY;
  let setBack = 0;
  return () => {
    const now = clock();
    if (now < latest) setBack += latest - now;
    latest = now;
    return now + setBack;
  };
}
