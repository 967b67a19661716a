import { expect, test } from "bun:test";
import { rounds } from "../support/rounds.ts";
import { CONFINEMENTS } from "../targets/files/stand.ts";
import { storm } from "../targets/files/storm.ts";

/** Long: names are swapped for links out for this long while files are read and written, */
const STORM_MS = rounds({ few: 3_000, many: 10_000 });
/** and on until there was so much of each: a write waits for the disk, and a swap for the processor, which others may keep busy. */
const WANTED = { reads: 1_000, writes: 100, swaps: 1_000 } as const;
const STORM_MS_MAX = 180_000;

test.each(CONFINEMENTS.map((kind) => [kind] as const))(
  "by %s, nothing outside is read or written while names are swapped for seconds",
  async (confinement) => {
    const begun = performance.now();
    const { reads, writes, swaps } = await storm(confinement, (found) => {
      const elapsedMs = performance.now() - begun;
      const isEnough = found.reads >= WANTED.reads && found.writes >= WANTED.writes && found.swaps >= WANTED.swaps;
      return elapsedMs < STORM_MS || (!isEnough && elapsedMs < STORM_MS_MAX);
    });
    expect(reads).toBeGreaterThanOrEqual(WANTED.reads);
    expect(writes).toBeGreaterThanOrEqual(WANTED.writes);
    expect(swaps).toBeGreaterThanOrEqual(WANTED.swaps);
  },
  STORM_MS_MAX + 60_000,
);
