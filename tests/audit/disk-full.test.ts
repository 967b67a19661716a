import { expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { found, temporaryDirectory, writeLines } from "./support/chained-log.ts";

const FILL = join(import.meta.dir, "support/fill-disk.ts");
/** Runs a command where a file system of 8 MiB, of its own, lies at the mount point. */
function onSmallDisk(command: string): { readonly exitCode: number; readonly stdout: string; readonly stderr: string } {
  const mountPoint = fs.mkdtempSync(join(tmpdir(), "stc-full-"));
  try {
    const script = `mount -t tmpfs -o size=8m stc "$1" && mkdir "$1/log" && ${command}`;
    const child = Bun.spawnSync(["unshare", "-m", "sh", "-c", script, "sh", mountPoint, process.execPath, FILL]);
    return { exitCode: child.exitCode, stdout: child.stdout.toString(), stderr: child.stderr.toString() };
  } finally {
    // The file system went with the namespace of its mounts.
    fs.rmdirSync(mountPoint);
  }
}

const canMount = process.platform === "linux" && Bun.which("unshare") !== null && onSmallDisk("true").exitCode === 0;
if (!canMount)
  console.log("not run: a small file system needs the right to mount (root); tests/audit/journal plays it");

test.skipIf(!canMount)(
  "a file system that fills up: refusals until the last byte, then none, and calls again when space is freed",
  () => {
    const { exitCode, stdout, stderr } = onSmallDisk('"$2" --no-env-file "$3" "$1/log"');
    expect([exitCode, stderr]).toEqual([0, ""]);
    const { files, taken, ...seen } = JSON.parse(stdout) as {
      readonly files: readonly string[];
      readonly taken: number;
    };
    expect(seen).toEqual({
      roomWhenLow: false,
      healthWhenFull: { status: "failing", reason: expect.stringContaining("ENOSPC") },
      roomWhenFull: false,
    } as never);
    // The reserve file of 128 KiB has room for refusals of four kilobytes each.
    expect(taken).toBeGreaterThan(20);
    const [calls = [], journal = []] = files.map((text) => text.split("\n").slice(0, -1));
    expect(calls).toHaveLength(taken + 2);
    expect(calls.at(-1)).toContain('"t-last"');
    expect(journal.join()).toContain('"type":"audit.resumed"');
    const copy = temporaryDirectory();
    fs.mkdirSync(join(copy, "journal"));
    writeLines(join(copy, "2026-02-16.jsonl"), calls);
    writeLines(join(copy, "journal/2026-02-16.jsonl"), journal);
    const verdict = found(copy, []);
    fs.rmSync(copy, { recursive: true });
    expect(verdict).toBe("sound");
  },
);
