import { expect, test } from "bun:test";
import { CONFINEMENTS } from "./stand.ts";
import { storm } from "./storm.ts";

/** Attempts of each kind; the long suite makes more. */
const ROUNDS = 10;

test.each(CONFINEMENTS.map((kind) => [kind] as const))(
  "by %s, nothing outside is read or written while names are swapped",
  async (confinement) => {
    let rounds = 0;
    const found = await storm(confinement, () => {
      rounds += 1;
      return rounds <= ROUNDS;
    });
    expect(found.reads).toBeGreaterThan(0);
    expect(found.writes).toBeGreaterThan(0);
    expect(found.refused).toBeGreaterThan(0);
    expect(found.swaps).toBeGreaterThan(10);
  },
);
