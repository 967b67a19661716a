import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { MANY_ROUNDS } from "../support/rounds.ts";
import { PROJECT } from "../support/world.ts";

/** Ends a file that hangs. */
const HANG_MS = 3_600_000;

/** Files of the long suite whose random tests take their number of rounds from `support/rounds.ts`. */
const FILES = [...new Bun.Glob("tests/long/*.long.ts").scanSync(PROJECT)]
  .filter((path) => readFileSync(join(PROJECT, path), "utf8").includes("support/rounds.ts"))
  .toSorted();

test.each(FILES.map((path) => [path] as const))(
  "%s passes with many rounds",
  async (path) => {
    const child = Bun.spawn([process.execPath, join(PROJECT, "tests/run.ts"), "long", path], {
      env: { ...process.env, [MANY_ROUNDS]: "1" },
      stdio: ["ignore", "inherit", "inherit"],
    });
    expect(await child.exited).toBe(0);
  },
  HANG_MS,
);
