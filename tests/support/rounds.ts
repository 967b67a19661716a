/** Set by `fleet/many-rounds.fleet.ts`. */
export const MANY_ROUNDS = "STC_TEST_MANY_ROUNDS";

/**
 * Returns how many random rounds a test of the long suite makes: few with its fixed seed in each run of the gate, each kind of case among
 * them, and many in the fleet. A long file that calls this is run by the fleet, too.
 */
export function rounds(count: { readonly few: number; readonly many: number }): number {
  return process.env[MANY_ROUNDS] === "1" ? count.many : count.few;
}
