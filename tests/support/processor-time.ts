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
