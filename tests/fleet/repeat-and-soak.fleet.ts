import { expect, test } from "bun:test";
import { join } from "node:path";
import { environmentOf, STC } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** Ends a program that hangs. */
const HANG_MS = 4 * 3_600_000;

test.each([
  [
    "the quick suite passes 20 times: as root and as an ordinary user, idle and beside two busy loops",
    "tests/repeat.ts",
  ],
  ["ten minutes of soak have no unexplained finding", "tests/soak/soak.ts"],
])(
  "%s",
  async (_title, program) => {
    const [bun, ...options] = STC.slice(0, -1);
    const child = Bun.spawn([bun ?? "", ...options, join(PROJECT, program)], {
      // Without the seed of this run: the quick suite has its own.
      env: environmentOf({}),
      stdio: ["ignore", "inherit", "inherit"],
    });
    expect(await child.exited).toBe(0);
  },
  { timeout: HANG_MS },
);
