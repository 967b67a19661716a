const POLL_MS = 5;
const POLLS_MAX = 2_000;

/** Looks again and again until there is something to see, at most about ten seconds; then says what was missing. */
export async function until<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (let polls = 0; polls < POLLS_MAX; polls += 1) {
    const seen = await look();
    if (seen !== undefined) return seen;
    await Bun.sleep(POLL_MS);
  }
  throw new Error(`waited in vain for ${what}`);
}
