import { expect, test } from "bun:test";
import { CONFINEMENTS } from "../handlers/fs/stand.ts";
import { storm } from "../handlers/fs/storm.ts";

/** Long: names are swapped for links out for this long while files are read and written. */
const STORM_MS = 10_000;

test.each(CONFINEMENTS.map((kind) => [kind] as const))(
  "by %s, nothing outside is read or written for ten seconds of swapping",
  async (confinement) => {
    const until = performance.now() + STORM_MS;
    const found = await storm(confinement, () => performance.now() < until);
    expect(found.swaps).toBeGreaterThan(1_000);
    expect(found.reads).toBeGreaterThan(100);
    // A write waits for the disk, which others may keep busy.
    expect(found.writes).toBeGreaterThan(10);
  },
  60_000,
);
