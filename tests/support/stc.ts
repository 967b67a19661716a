import { join } from "node:path";
import { until } from "./until.ts";
import { PROJECT } from "./world.ts";

/** The project's own command line, as its scripts run it. */
export const STC = [
  process.execPath,
  "--no-env-file",
  `--config=${join(PROJECT, "bunfig.toml")}`,
  "--no-install",
  join(PROJECT, "src/cli/main.ts"),
] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/** Nothing of ours reaches the child but PATH and a home: `STC_*` of whoever runs the tests would change what they see. */
export function environmentOf(extra: Environment): Record<string, string> {
  const { PATH, HOME, TMPDIR } = process.env;
  const all = { PATH, HOME, TMPDIR, ...extra };
  return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly env?: Environment;
  readonly cwd?: string;
  readonly stdin?: string;
}

/** Runs `stc` to its end. */
export async function runStc(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return run([...STC, ...args], options);
}

export async function run(
  argv: readonly string[],
  { env = {}, cwd = PROJECT, stdin = "" }: RunOptions = {},
): Promise<Ended> {
  const child = Bun.spawn([...argv], {
    cwd,
    env: environmentOf(env),
    stdin: Buffer.from(stdin),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, out, err };
}

/** What `stc audit verify` ends with for a log without damage, when no key is given: its signatures are not checked. */
export const SIGNATURES_NOT_CHECKED = 6;

/** `stc` that goes on: what it has printed so far, and its end. */
export class RunningStc {
  readonly child: Bun.Subprocess<"ignore", "pipe", "pipe">;
  out = "";
  err = "";

  constructor(args: readonly string[], { env = {}, cwd = PROJECT }: RunOptions = {}) {
    this.child = Bun.spawn([...STC, ...args], {
      cwd,
      env: environmentOf(env),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    void this.#read(this.child.stdout, (text) => {
      this.out += text;
    });
    void this.#read(this.child.stderr, (text) => {
      this.err += text;
    });
  }

  /** Waits until it has printed this. */
  async printed(what: string | RegExp): Promise<string> {
    return until(`${what} in the output`, () => {
      if (typeof what === "string" ? this.out.includes(what) : what.test(this.out)) return this.out;
      if (this.child.exitCode !== null) throw new Error(`ended with ${this.child.exitCode}: ${this.err}`);
      return undefined;
    });
  }

  async end(signal: "SIGTERM" | "SIGINT" | "SIGKILL"): Promise<number | null> {
    this.child.kill(signal);
    return this.child.exited;
  }

  async #read(stream: ReadableStream<Uint8Array>, take: (text: string) => void): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of stream) take(decoder.decode(chunk, { stream: true }));
  }
}
