/**
 * Repeats `round`, which returns its milliseconds, until `rounds` of them took less than the limit. A busy machine delays a round now and
 * then; a product that is too slow is late in most rounds. Fails when `rounds` of them were late, or three if that is more.
 */
export async function inTime(rounds: number, limitMs: number, round: () => Promise<number>): Promise<void> {
  const late: number[] = [];
  for (let good = 0; good < rounds; ) {
    const ms = await round();
    if (ms < limitMs) good += 1;
    else late.push(Math.round(ms));
    if (late.length >= Math.max(3, rounds)) throw new Error(`not within ${limitMs} ms: ${late.join(", ")} ms`);
  }
}
