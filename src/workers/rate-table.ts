import type { RateTable, SharedCharge } from "../pipeline/limits/rates-shared.ts";

/** Buckets that drained are forgotten when there are more than this number. */
const BUCKETS_MAX = 100_000;

/** Creates the parent's buckets, in which its workers count calls together. `now`: milliseconds, never decreasing. */
export function memoryRateTable(now: () => number): Pick<RateTable, "add"> {
  const emptyAt = new Map<string, number>();
  const forgetDrained = (at: number): void => {
    for (const [bucket, end] of emptyAt) if (end <= at) emptyAt.delete(bucket);
  };
  const add = (at: number, { bucket, addedMs }: SharedCharge): number => {
    const end = Math.max(emptyAt.get(bucket) ?? at, at) + addedMs;
    emptyAt.set(bucket, end);
    return end - at;
  };
  return {
    async add(charges) {
      const at = now();
      if (emptyAt.size > BUCKETS_MAX) forgetDrained(at);
      return charges.map((charge) => add(at, charge));
    },
  };
}
