import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runChild } from "../../src/targets/command/child.ts";
import { type ChildConfinement, openConfinement } from "../../src/targets/command/confinement/confinement.ts";
import type { Confined } from "../../src/targets/command/confinement/profile.ts";
import { standTool } from "../targets/command/stand.ts";

/** Measures what confining a command costs, with a launcher that waits: run by itself, `bun tests/bench/confinement.ts`. */
const ROUNDS = 60;
const ADDED_MS_MAX = 4;
const SETTLE_MS = 40;

const command = realpathSync(Bun.which("true") ?? "/bin/true");
const folder = mkdtempSync(join(tmpdir(), "stc-bench-"));
const tool = standTool({ command: "true", argsBuilder: () => [], confinement: { runs: "command" } });
const newId = (): string => crypto.randomUUID();
const confinement = await openConfinement([tool], {
  ...{ mode: "require", unconfinedShell: false, launchersMax: 2, systemAccess: new Map(), newId },
  commands: new Map([["true", command]]),
});

async function once(held: ChildConfinement | undefined): Promise<number> {
  const confined = held?.planned(tool, {}) as Confined | undefined;
  const at = performance.now();
  const { ending } = await runChild({
    ...{ command, argv: [], options: [], cwd: folder, environment: {}, marker: newId(), stdoutBytesMax: 64 },
    ...{ stderrMeans: [], timeoutMs: 10_000, signals: [] },
    sandbox: confined && held?.sandbox(tool, confined),
  });
  if (ending.kind !== "exit" || ending.code !== 0) throw new Error(JSON.stringify(ending));
  return performance.now() - at;
}

const quantile = (times: readonly number[], part: number): number =>
  [...times].sort((a, b) => a - b)[Math.floor(times.length * part)] ?? Number.NaN;

const plain: number[] = [];
const held: number[] = [];
for (let round = 0; round < ROUNDS; round += 1) {
  plain.push(await once(undefined));
  held.push(await once(confinement));
  // The next launcher starts when this one has ended; the pool is measured warm.
  await Bun.sleep(SETTLE_MS);
}
confinement.close();
rmSync(folder, { recursive: true });
const added = quantile(held, 0.5) - quantile(plain, 0.5);
const shown = (times: readonly number[]): string =>
  `${quantile(times, 0.5).toFixed(2)} ms (p95 ${quantile(times, 0.95).toFixed(2)})`;
process.stdout.write(
  `unconfined ${shown(plain)}, confined ${shown(held)}: ${added.toFixed(2)} ms more, at most ${ADDED_MS_MAX}\n`,
);
process.exit(added <= ADDED_MS_MAX ? 0 : 1);
