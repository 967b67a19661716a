/** Set by `fleet/many-rounds.fleet.ts`. */
export const MANY_ROUNDS = "STC_TEST_MANY_ROUNDS";

/**
 * Returns how many random rounds a test of the long suite makes: `few` in `bun run test:all`, enough for each kind of case, and `many` in
 * `bun run test:fleet`, which also runs each long file that imports this one.
 */
export function rounds(count: { readonly few: number; readonly many: number }): number {
  return process.env[MANY_ROUNDS] === "1" ? count.many : count.few;
}
