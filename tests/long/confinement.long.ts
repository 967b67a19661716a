import { expect, test } from "bun:test";
import { rounds } from "../support/rounds.ts";
import { crossings } from "../targets/command/confinement/crossings.ts";
import { missing } from "../targets/command/confinement/stand.ts";
import { temporaryDirectory } from "../targets/command/temporary-directory.ts";

/** Sixteen run at once, under the two profiles by turns. */
const CALLS = rounds({ few: 500, many: 2_000 });
const TIMEOUT_MS = 600_000;

const folder = temporaryDirectory();

test.skipIf(missing !== undefined)(
  `${CALLS} calls under two profiles never see each other's file`,
  async () => {
    expect(await crossings(folder, CALLS)).toEqual([]);
  },
  TIMEOUT_MS,
);
