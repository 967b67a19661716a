import { afterEach, beforeEach, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AuditLogError } from "../../../src/audit/audit-log-error.ts";
import { DirectoryInUse, lockDirectory } from "../../../src/audit/journal/directory-lock.ts";
import { createWorld } from "../support/open.ts";

const HOLDER = join(import.meta.dir, "../support/hold-lock.ts");

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(join(tmpdir(), "stc-lock-"));
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

test("a second process is refused with the holder's name until the first one ends", async () => {
  const first = startHolder();
  expect(await first.says()).toBe("locked");
  const second = startHolder();
  expect(await second.says()).toContain(`refused: ${dir} is already in use (by the other process)`);
  expect(() => lockDirectory(dir, "us")).toThrow("already in use");
  await first.stop();
  lockDirectory(dir, "us").release();
});

test.each([
  [false, "is already in use (by us): one audit directory has one writer; stop the other one or set another audit.dir"],
  [true, "is still in use (by us): that process is ending, and has not ended in time; start again when it has ended"],
])("the refusal tells whether the holder is ending: %p", (isEnding, message) => {
  const lock = lockDirectory(dir, "us");
  if (isEnding) lock.noteEnding();
  const refused = inUse();
  expect(refused.message).toBe(`${dir} ${message}`);
  expect(refused.holder).toEqual({ name: "us", isEnding });
  lock.release();
  lockDirectory(dir, "a longer name").release();
  const next = lockDirectory(dir, "next");
  // Once released, the lock is another holder's.
  lock.noteEnding();
  expect(inUse().holder).toEqual({ name: "next", isEnding: false });
  next.release();
});

test("text in the lock file is escaped in the refusal", () => {
  const lock = lockDirectory(dir, "us");
  fs.writeFileSync(join(dir, ".lock"), "\u001b[31mending\nending?");
  expect(inUse().holder.isEnding).toBe(false);
  expect(inUse().message).not.toContain("\u001b");
  lock.release();
});

test("kill -9 of the holder frees the directory", async () => {
  const holder = startHolder();
  expect(await holder.says()).toBe("locked");
  holder.process.kill("SIGKILL");
  await holder.process.exited;
  lockDirectory(dir, "us").release();
});

test("a second log in the same process is refused, until the first is closed", async () => {
  const world = createWorld(dir);
  const first = world.open();
  expect(() => world.open()).toThrow(AuditLogError);
  expect(() => world.open()).toThrow(
    /already in use \(by test, process \d+, since \S+Z\): one audit directory has one writer/,
  );
  await first.close();
  world.open();
  await world.end();
});

test.skipIf(process.platform !== "linux")("releasing works although a child has a copy of the descriptor", async () => {
  const lock = lockDirectory(dir, "us");
  const link = fs.readdirSync("/proc/self/fd").find((fd) => linkOf(fd) === join(dir, ".lock"));
  const child = Bun.spawn({ cmd: ["cat"], stdio: ["pipe", "pipe", "ignore", Number(link)] });
  // An echo shows that `cat` runs: before the exec, only root may read the descriptors of a child of this process.
  child.stdin.write("ready\n");
  child.stdin.flush();
  await child.stdout.getReader().read();
  expect(fs.readlinkSync(`/proc/${child.pid}/fd/3`)).toBe(join(dir, ".lock"));
  lock.release();
  lockDirectory(dir, "us").release();
  child.kill();
  await child.exited;
});

test.each<readonly [string, (path: string) => void]>([
  ["deleted", (path) => fs.rmSync(path)],
  ["replaced", (path) => fs.renameSync(swap(path), path)],
])("a lock file that was %s no longer counts", (_name, harm) => {
  const lock = lockDirectory(dir, "us");
  lock.check();
  harm(join(dir, ".lock"));
  expect(() => lock.check()).toThrow(AuditLogError);
  lock.release();
});

test("a link in the place of the lock file is not followed", () => {
  fs.writeFileSync(join(dir, "target"), "precious");
  fs.symlinkSync(join(dir, "target"), join(dir, ".lock"));
  expect(() => lockDirectory(dir, "us")).toThrow();
  expect(fs.readFileSync(join(dir, "target"), "utf8")).toBe("precious");
});

test("a directory that cannot be created is an AuditLogError that names it", () => {
  fs.writeFileSync(join(dir, "file"), "");
  expect(() => createWorld(join(dir, "file")).open()).toThrow(/cannot open the audit directory .*file/);
});

function inUse(): DirectoryInUse {
  try {
    lockDirectory(dir, "another");
  } catch (error) {
    if (error instanceof DirectoryInUse) return error;
  }
  throw new Error("the directory was not refused as in use");
}

function swap(path: string): string {
  fs.writeFileSync(`${path}.new`, "");
  return `${path}.new`;
}

function linkOf(fd: string): string | undefined {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}

function startHolder() {
  const child = Bun.spawn([process.execPath, "--no-env-file", "--no-install", HOLDER, dir], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  return {
    process: child,
    async says(): Promise<string> {
      const { value } = await child.stdout.getReader().read();
      return new TextDecoder().decode(value).trim();
    },
    async stop() {
      child.stdin.end();
      await child.exited;
    },
  };
}
