import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Figure, missed } from "../bench/fleet/report.ts";
import { findPostgres } from "../support/postgres.ts";
import { PROJECT } from "../support/world.ts";

const SMALL = [
  "--members=2",
  "--idle-seconds=1",
  "--requests=20",
  "--halts=1",
  "--bundles=1",
  "--streams=10",
  "--disturbances=1",
];

/** The simulation in small, so that it is known to work. Times and memory are for an idle machine. */
test.skipIf(findPostgres() === undefined)(
  "a small fleet under kills and network cuts loses no change and no audit entry, and does nothing twice",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "stc-fleet-smoke-"));
    const json = join(folder, "figures.json");
    const script = join(PROJECT, "tests/bench/fleet.ts");
    const child = Bun.spawn([process.execPath, script, ...SMALL, `--json=${json}`], {
      stdout: "ignore",
      stderr: "pipe",
    });
    const err = await new Response(child.stderr).text();
    await child.exited;
    try {
      const { figures } = JSON.parse(readFileSync(json, "utf8")) as { readonly figures: readonly Figure[] };
      expect(missed(figures.filter(({ reach }) => reach === 0))).toEqual([]);
      const done = figures.find(({ what }) => what === "changes that were answered as done");
      expect(done?.value).toBeGreaterThan(0);
    } catch (cause) {
      throw new Error(err, { cause });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
