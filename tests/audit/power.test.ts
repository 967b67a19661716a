import { expect, test } from "bun:test";
import { afterPowerCut, ENDINGS } from "./support/power.ts";

/** More than one run of the work has. */
const OPERATIONS_MAX = 300;

test.each(ENDINGS)(
  "an end at any operation, %s it: nothing acknowledged is lost, and the log continues",
  async (ending) => {
    const faults: string[] = [];
    let points = 0;
    for (let at = 1; at <= OPERATIONS_MAX; at += 1) {
      const after = await afterPowerCut(at, ending, 1);
      if (after.isOver) break;
      points += 1;
      faults.push(...after.faults.map((fault) => `operation ${at}: ${fault}`));
    }
    expect(faults).toEqual([]);
    expect(points).toBeGreaterThan(20);
  },
);
