const POLL_MS = 5;
/** Only what never happens takes this long (about two minutes): a busy machine may be slow. */
const POLLS_MAX = 24_000;

/** Looks again and again until there is something to see; in the end says what was missing. */
export async function until<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (let polls = 0; polls < POLLS_MAX; polls += 1) {
    const seen = await look();
    if (seen !== undefined) return seen;
    await Bun.sleep(POLL_MS);
  }
  throw new Error(`waited in vain for ${what}`);
}

/** Waits for more turns of the event loop than the work of one process in a test takes. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 500; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
