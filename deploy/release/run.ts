import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

interface Options {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
}

/**
 * Runs a program to its end and returns what it wrote.
 * @throws {Error} with what it wrote to stderr, when it fails
 */
export async function run(argv: readonly string[], { cwd = ".", env = {}, input = "" }: Options = {}): Promise<string> {
  const child = Bun.spawn([...argv], {
    cwd,
    env: { ...process.env, ...env },
    stdin: new Blob([input]),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`${argv.slice(0, 3).join(" ")} ended with ${code}: ${err || out}`);
  return out;
}

/** Gives a temporary folder to a function, and deletes it afterwards. */
export async function inTemporaryFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "stc-release-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
