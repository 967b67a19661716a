import { readdirSync, readFileSync } from "node:fs";

/** What a process holds at one moment. */
export interface Sample {
  readonly rssMb: number;
  readonly descriptors: number;
}

export function sample(pid: number): Sample {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return {
    rssMb: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

export interface Trend {
  /**
   * Least memory and median of descriptors, in the second quarter of the run, after its start, and in the last quarter. The least memory
   * is what is in use after a collection: more would include what waits for the next one.
   */
  readonly early: Sample;
  readonly late: Sample;
}

export function trendOf(samples: readonly Sample[]): Trend {
  const quarter = Math.floor(samples.length / 4);
  const middle = (part: readonly Sample[]): Sample => ({
    rssMb: Math.min(...part.map(({ rssMb }) => rssMb)),
    descriptors: median(part.map(({ descriptors }) => descriptors)),
  });
  return { early: middle(samples.slice(quarter, 2 * quarter)), late: middle(samples.slice(3 * quarter)) };
}
