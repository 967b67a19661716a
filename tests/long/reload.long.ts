import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { environmentOf, run, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** Long: hundreds of reloads of one process, from the sources and as the single binary; neither descriptors, children nor memory may grow. */
const ROUNDS = 500;
/** Memory that is taken once, at a time that differs between machines, counts less with each round; memory that every round keeps does not. */
const ROUNDS_MAX = 1_000;
/** Until the heap has the size that this work wants. */
const WARM_ROUNDS = 150;
/** Noise, and what the runtime keeps of the text of a module that is gone: about two and a half times its bytes. */
const KIB_PER_ROUND_MAX = 80;
/** The memory is the least of so many rounds: what is in use after a collection, and not what waits for one. */
const WINDOW_ROUNDS = 50;
const WORDS_BYTES = 2_000;
/** That wait in the generation in use; its own come a moment after it, and those of the former one go. */
const LAUNCHERS = 2;

const folder = mkdtempSync(join(tmpdir(), "stc-reload-long-"));
const binary = join(folder, "stc");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Sight {
  readonly residentKib: number;
  readonly descriptors: number;
  readonly children: number;
}

function look(pid: number): Sight {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).length;
  return {
    residentKib: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    children,
  };
}

function settled(sight: Sight): Sight | undefined {
  return sight.children === LAUNCHERS ? sight : undefined;
}

interface Reloads {
  readonly rounds: number;
  readonly warm: Sight;
  readonly end: Sight;
  readonly grownPerRound: number;
}

async function reloads(argv: readonly string[]): Promise<Reloads> {
  const world = new ReloadService({ log: { level: "info" }, commands: { allowed: ["echo"] } });
  world.write(
    "tools/say.ts",
    `import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const say = defineTool(() => ({
  name: "say", description: "Say it", classification: "read", permissions: { required: ["hello:say"] },
  input: z.strictObject({}),
  target: { system: "echo", cli: { command: "echo", argsBuilder: () => ["hello"], confinement: { runs: "command" } } },
  output: z.object({ text: z.string() }), outputPolicy: { text: "allow" },
}));
`,
  );
  const child = Bun.spawn([...argv, "serve", "--config", world.file], {
    env: environmentOf({}),
    stdout: Bun.file(join(world.folder, "log")),
    stderr: "inherit",
  });
  let readBytes = 0;
  const logged = async (words: string): Promise<true | undefined> => {
    const log = await Bun.file(join(world.folder, "log")).slice(readBytes).text();
    if (!log.includes(words)) return undefined;
    readBytes += Buffer.byteLength(log);
    return true;
  };
  try {
    await until("the service", () => logged('"listening"'));
    const before = 'import { words } from "./words.ts";';
    let round = 1;
    let residents: readonly number[] = [];
    const least = (sight: Sight): Sight => ({ ...sight, residentKib: Math.min(sight.residentKib, ...residents) });
    const reload = async (): Promise<void> => {
      round += 1;
      world.write("tools/words.ts", `export const words = ${JSON.stringify(`${round} `.padEnd(WORDS_BYTES, "x"))};\n`);
      world.write("tools/hello.ts", manifest({ before, body: `return { said: words.slice(0, ${round}) };` }));
      child.kill("SIGHUP");
      await until(`generation ${round}`, () => logged(`"generation":${round},"msg":"configuration.changed"`));
      residents = [...residents, look(child.pid).residentKib].slice(-WINDOW_ROUNDS);
    };
    while (round < WARM_ROUNDS) await reload();
    const warm = least(await until("the launchers", () => settled(look(child.pid))));
    const grownPerRound = (): number => (Math.min(...residents) - warm.residentKib) / (round - WARM_ROUNDS);
    while (round < ROUNDS || (grownPerRound() > KIB_PER_ROUND_MAX && round < ROUNDS_MAX)) await reload();
    const end = await until("the last former generation to end", () => {
      const now = settled(look(child.pid));
      return now !== undefined && now.descriptors <= warm.descriptors + 2 ? now : undefined;
    });
    return { rounds: round, warm, end, grownPerRound: grownPerRound() };
  } finally {
    child.kill("SIGTERM");
    await child.exited;
    await world.end();
  }
}

describe.each(["sources", "binary"] as const)("from the %s", (form) => {
  test("nothing grows from reload to reload", async () => {
    if (form === "binary") {
      mkdirSync(folder, { recursive: true });
      const compile = readFileSync(join(PROJECT, "package.json"), "utf8");
      const command = (JSON.parse(compile) as { readonly scripts: { readonly compile: string } }).scripts.compile;
      const argv = command.replace("--outfile=dist/stc", `--outfile=${binary}`).split(" ").slice(1);
      expect((await run([process.execPath, ...argv], { cwd: PROJECT })).code).toBe(0);
    }
    const seen = await reloads(form === "binary" ? [binary] : STC);
    process.stdout.write(`${form}: ${JSON.stringify(seen)}\n`);
    expect(seen.grownPerRound).toBeLessThanOrEqual(KIB_PER_ROUND_MAX);
  });
});
