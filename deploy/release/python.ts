import { cpSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { inTemporaryFolder, run } from "./run.ts";
import { ROOT, sourceOf } from "./source.ts";

export const BUILD_REQUIREMENTS = join(import.meta.dir, "python-build.txt");

/** Builds the wheel and the source distribution of the Python client. Returns their paths. */
export function python(folder: string): Promise<readonly string[]> {
  return inTemporaryFolder(async (staged) => {
    const { epochSeconds } = await sourceOf();
    return buildPython(folder, { python: await builder(join(staged, "environment")), root: ROOT, epochSeconds });
  });
}

/** Makes an environment with exactly the packages of `python-build.txt`. Returns its Python. */
async function builder(environment: string): Promise<string> {
  await run(["python3", "-m", "venv", environment]);
  const own = join(environment, "bin/python3");
  const exact = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement", BUILD_REQUIREMENTS];
  await run([own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...exact]);
  return own;
}

interface PythonBuild {
  /** A Python with the packages of `python-build.txt`. */
  readonly python: string;
  /** The checkout to build. */
  readonly root: string;
  readonly epochSeconds: number;
}

/** The same source gives the same bytes. */
export function buildPython(folder: string, build: PythonBuild): Promise<readonly string[]> {
  return inTemporaryFolder(async (staged) => {
    const { python: interpreter, root, epochSeconds } = build;
    const env = { SOURCE_DATE_EPOCH: String(epochSeconds) };
    // Outside the repository, whose `.gitignore` would become a part of the source distribution.
    const copy = join(staged, "source");
    cpSync(join(root, "clients/python"), copy, { recursive: true });
    const built = join(staged, "built");
    await run([interpreter, "-m", "hatchling", "build", "--directory", built], { cwd: copy, env });
    mkdirSync(folder, { recursive: true });
    const names = readdirSync(built).toSorted();
    for (const name of names) cpSync(join(built, name), join(folder, name));
    return names.map((name) => join(folder, name));
  });
}
