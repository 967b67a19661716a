import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";

const FOLDER = join(PROJECT, "tests/fleet");
/** Ignored by git, kept between runs. */
const CACHE = join(PROJECT, "var/fleet");

/**
 * Returns a Python with exactly the packages of a requirements file, by default of this folder, from a virtual environment that is
 * made once for each version of the file.
 * @throws {Error} when this machine has no Python, or the packages cannot be installed
 */
export async function pythonWith(requirements: string, folder = FOLDER): Promise<string> {
  const file = join(folder, requirements);
  const python = Bun.which("python3");
  if (python === null) throw new Error("python3 is not on PATH: this suite needs Python 3.11 or later");
  const { stdout } = Bun.spawnSync([python, "-VV"]);
  const digest = createHash("sha256").update(stdout).update(readFileSync(file)).digest("hex");
  const environment = join(CACHE, `python-${digest.slice(0, 16)}`);
  const ready = join(environment, "ready");
  const own = join(environment, "bin/python3");
  if (existsSync(ready)) return own;
  rmSync(environment, { recursive: true, force: true });
  mkdirSync(CACHE, { recursive: true });
  await install([python, "-m", "venv", environment]);
  const options = ["--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes", "--only-binary=:all:"];
  await install([own, "-m", "pip", "install", ...options, "--requirement", file]);
  writeFileSync(ready, "");
  return own;
}

/** With the caller's environment: a machine's settings of pip may be there. */
async function install(argv: readonly string[]): Promise<void> {
  const child = Bun.spawn([...argv], { cwd: FOLDER, stdin: "ignore", stdout: "inherit", stderr: "pipe" });
  const [err, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  if (code !== 0) throw new Error(`${argv.slice(1, 4).join(" ")} ended with ${code}: ${err}`);
}
