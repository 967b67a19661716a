import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** JavaScript runtimes that the client is tested on, as the packages that carry their programs for this machine. */
const RUNTIMES = {
  node20: { name: "node", version: "20.20.2" },
  node24: { name: "node", version: "24.21.0" },
} as const;

/** Returns the path of a runtime's program. The first use installs it below `var/`. */
export async function runtimePath(runtime: keyof typeof RUNTIMES): Promise<string> {
  const { name, version } = RUNTIMES[runtime];
  const folder = join(resolve(import.meta.dir, "../.."), "var/runtimes", `${name}-${version}`);
  const platform = `${name}-${process.platform}-${process.arch}`;
  const program = join(folder, "node_modules", platform, "bin/node");
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, dependencies: { [platform]: version } }));
  await runProgram(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"], {
    cwd: folder,
  });
  return program;
}

interface Run {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Returns what a program writes. */
export async function runProgram(command: readonly string[], { cwd, env = {} }: Run): Promise<string> {
  const child = Bun.spawn([...command], {
    cwd,
    env: { ...process.env, npm_config_update_notifier: "false", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, error, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}: ${out}${error}`);
  return out;
}
