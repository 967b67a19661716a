import { readFileSync } from "node:fs";

/** Of processor time in microseconds, the least of so many rounds: what else the machine does counts little. */
export function microsecondsOf(work: () => unknown, rounds: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const from = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(from);
    least = Math.min(least, user + system);
  }
  return Math.max(1, least);
}

const LOOKS = [2, 4, 8, 16] as const;

/**
 * How many times as long one work takes as the other, by the first look that finds it below the bound, else the least of several
 * longer and longer ones: a busy machine measures too much once, what is slow is slow every time.
 */
export function timesAsLong(one: () => unknown, other: () => unknown, bound: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (const rounds of LOOKS) {
    least = Math.min(least, microsecondsOf(one, rounds) / microsecondsOf(other, rounds));
    if (least < bound) break;
  }
  return least;
}

const MS_PER_TICK = 10;

/** Returns the processor time that a running process has used, in milliseconds. */
export function processorMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}
