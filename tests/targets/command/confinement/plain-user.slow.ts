import { expect, test } from "bun:test";
import { join } from "node:path";
import { missing } from "./stand.ts";

const PROJECT = join(import.meta.dir, "../../../..");
const NOBODY = 65_534;
const TIMEOUT_MS = 60_000;
const FILES = ["attacks", "bash", "git", "temporary-directory"].map((name) => join(import.meta.dir, `${name}.test.ts`));

const options = {
  cwd: PROJECT,
  env: { PATH: process.env["PATH"] ?? "", TMPDIR: "/tmp", BUN_RUNTIME_TRANSPILER_CACHE_PATH: "0" },
  uid: NOBODY,
  gid: NOBODY,
  stdin: "ignore",
  stdout: "pipe",
  stderr: "pipe",
} as const;

/** Only root can become another user, and that user needs access to the project and the runtime. */
function mayBecomeNobody(): boolean {
  if (process.getuid?.() !== 0) return false;
  try {
    return Bun.spawnSync([process.execPath, "-e", `require(${JSON.stringify(join(PROJECT, "package.json"))})`], options)
      .success;
  } catch {
    return false;
  }
}

test.skipIf(missing !== undefined || !mayBecomeNobody())(
  "an ordinary user's commands are confined in the same way",
  async () => {
    const child = Bun.spawn([process.execPath, "test", ...FILES], options);
    const [, said] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    expect(said).toMatch(/\n +[1-9][0-9]{1,3} pass\n/);
    expect(said).not.toMatch(/\n +[1-9][0-9]* skip\n/);
    expect({ exitCode: await child.exited, said: said.match(/\(fail\).*/g) }).toEqual({ exitCode: 0, said: null });
  },
  TIMEOUT_MS,
);
