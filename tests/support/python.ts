import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "./world.ts";

/** Ignored by git, kept between runs. */
const CACHE = join(PROJECT, "var/python");

const NO_PYTHON =
  "these tests need Python 3.11 or later with venv and pip: on Debian, apt-get install python3-venv python3-pip";

/**
 * Returns a Python with exactly the packages of a requirements file, from a virtual environment that is made once for each version
 * of the file.
 * @throws {Error} when this machine has no Python, or the packages cannot be installed
 */
export async function pythonWith(file: string): Promise<string> {
  const python = Bun.which("python3");
  if (python === null) throw new Error(NO_PYTHON);
  const { stdout } = Bun.spawnSync([python, "-VV"]);
  const digest = createHash("sha256").update(stdout).update(readFileSync(file)).digest("hex");
  const environment = join(CACHE, `python-${digest.slice(0, 16)}`);
  const ready = join(environment, "ready");
  const own = join(environment, "bin/python3");
  if (existsSync(ready)) return own;
  rmSync(environment, { recursive: true, force: true });
  mkdirSync(CACHE, { recursive: true });
  await run([python, "-m", "venv", environment], NO_PYTHON);
  const options = ["--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes", "--only-binary=:all:"];
  // The file names every package. Without this, pip looks for the newest release of a package that another one needs with extras.
  await run([own, "-m", "pip", "install", ...options, "--no-deps", "--requirement", file]);
  writeFileSync(ready, "");
  return own;
}

/** With the caller's environment: a machine's settings of pip may be there. */
async function run(argv: readonly string[], hint = ""): Promise<void> {
  const child = Bun.spawn([...argv], { cwd: CACHE, stdin: "ignore", stdout: "inherit", stderr: "pipe" });
  const [err, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  if (code !== 0) throw new Error(`${argv.slice(1, 4).join(" ")} ended with ${code}: ${err}${hint}`);
}
