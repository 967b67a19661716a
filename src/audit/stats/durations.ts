/** Digits that are kept of a duration: percentiles are right to half a percent, whole numbers below a thousand exactly. */
const DIGITS = 3;
const DURATION_MS_MAX = 1e9;

/** Durations by how often each occurred. Rounding bounds it to some ten thousand different ones, however many come. */
export class Durations {
  readonly #counts = new Map<number, number>();
  total = 0;

  add(ms: number, count: number): void {
    const rounded = round(Math.min(ms, DURATION_MS_MAX));
    this.#counts.set(rounded, (this.#counts.get(rounded) ?? 0) + count);
    this.total += count;
  }

  /** The smallest duration that so many percent do not exceed (nearest rank); `undefined` when there is none. */
  percentiles<const P extends readonly number[]>(percents: P): { readonly [At in keyof P]: number | undefined } {
    const sorted = [...this.#counts].sort(([one], [other]) => one - other);
    const at = (percent: number): number | undefined => {
      const rank = Math.max(1, Math.ceil((percent / 100) * this.total));
      let passed = 0;
      for (const [ms, count] of sorted) {
        passed += count;
        if (passed >= rank) return ms;
      }
      return undefined;
    };
    return percents.map(at) as { readonly [At in keyof P]: number | undefined };
  }
}

function round(ms: number): number {
  if (ms < 0.001) return 0;
  const step = 10 ** (Math.floor(Math.log10(ms)) + 1 - DIGITS);
  // Divided at the end where it can be: 0.1 is no sum of tenths.
  return step < 1 ? Math.round(ms / step) / Math.round(1 / step) : Math.round(ms / step) * step;
}
