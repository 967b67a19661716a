import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";

const STARTS = 5;

export interface Footprint {
  /** From the start of the process to its first answer at `/readyz`, at the median. */
  readonly readyMs: number;
  /** Resident memory after that answer, at the median. */
  readonly idleRssMb: number;
}

/**
 * Measures the compiled binary as the image starts it: with a tool of each kind that needs no other service, before any call. The
 * tools are away from this project, whose installed Zod they would load next to the binary's own.
 */
export async function footprint(folder: string): Promise<Footprint> {
  const binary = join(folder, "stc");
  await finished(["build", ...compileOptions(), `--outfile=${binary}`, "src/cli/binary.ts"]);
  const state = join(folder, "footprint");
  mkdirSync(state);
  cpSync(join(import.meta.dir, "tools"), join(state, "tools"), { recursive: true });
  const starts: { readonly ms: number; readonly rssMb: number }[] = [];
  for (let start = 0; start < STARTS; start += 1) starts.push(await startOnce(binary, folder, join(state, `${start}`)));
  return { readyMs: median(starts.map(({ ms }) => ms)), idleRssMb: median(starts.map(({ rssMb }) => rssMb)) };
}

async function startOnce(binary: string, folder: string, state: string) {
  mkdirSync(state);
  const socket = join(state, "stc.sock");
  const config = join(state, "stc.json");
  writeFileSync(
    config,
    JSON.stringify({
      server: { socket },
      tools: [join(state, "..", "tools")],
      audit: { dir: join(state, "audit") },
      jwt: {
        issuers: [
          { issuer: "https://bench", audience: "bench", algorithms: ["ES256"], jwksFile: join(folder, "jwks.json") },
        ],
      },
      commands: { allowed: ["echo"] },
      log: { level: "silent" },
    }),
  );
  const from = performance.now();
  const child = Bun.spawn([binary, "serve", "--config", config], {
    env: { PATH: process.env["PATH"] ?? "", ...runtimeSettings() },
    stdio: ["ignore", "ignore", "inherit"],
  });
  try {
    while (!(await isReady(socket))) {
      if (child.exitCode !== null) throw new Error(`the service ended with ${child.exitCode}`);
      await Bun.sleep(2);
    }
    return { ms: performance.now() - from, rssMb: rssMb(child.pid) };
  } finally {
    child.kill();
    await child.exited;
  }
}

async function isReady(socket: string): Promise<boolean> {
  try {
    return (await fetch("http://localhost/readyz", { unix: socket })).ok;
  } catch {
    return false;
  }
}

/** Returns the settings of the JavaScript runtime in the image. */
export function runtimeSettings(): Readonly<Record<string, string>> {
  const image = readFileSync(join(PROJECT, "Dockerfile"), "utf8");
  return Object.fromEntries(
    [...image.matchAll(/\b(BUN_JSC_\w+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value]),
  );
}

/** Returns the resident memory of a process in MB. */
export function rssMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

function compileOptions(): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")) as {
    readonly scripts: { readonly compile: string };
  };
  return scripts.compile.split(" ").filter((word) => word.startsWith("--") && !word.startsWith("--outfile"));
}

async function finished(args: readonly string[]): Promise<void> {
  const child = Bun.spawn([process.execPath, ...args], { cwd: PROJECT, stdio: ["ignore", "ignore", "inherit"] });
  if ((await child.exited) !== 0) throw new Error(`bun ${args.join(" ")} failed`);
}

export function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[values.length >> 1] ?? Number.NaN;
}
