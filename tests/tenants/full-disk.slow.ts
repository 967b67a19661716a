import { expect, test } from "bun:test";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Slow: the service looks at the free space of a disk once a second. */

function inNamespace(...command: readonly string[]) {
  const { exitCode, stdout, stderr } = Bun.spawnSync(["unshare", "-m", ...command]);
  return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
}

const canMount =
  process.platform === "linux" &&
  Bun.which("unshare") !== null &&
  inNamespace("mount", "-t", "tmpfs", "-o", "size=8m", "stc", tmpdir()).exitCode === 0;
if (!canMount) console.log("not run: a small file system needs the right to mount (root); audit.test.ts plays it");

test.skipIf(!canMount)("the full disk of a tenant's log stops that tenant's calls alone, until there is room", () => {
  const { stderr, stdout } = inNamespace(process.execPath, "--no-env-file", join(import.meta.dir, "full-disk.ts"));
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual({
    before: "service acme globex",
    full: "service AUDIT_UNAVAILABLE globex",
    readyWhenFull: [200, 503, 200],
    after: "service acme globex",
    readyAfter: [200, 200, 200],
  });
});
