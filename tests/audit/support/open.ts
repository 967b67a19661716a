import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AuditLog, type AuditLogOptions, openAuditLog } from "../../../src/audit/audit-log.ts";
import { type AuditEntry, type EntryDraft, UNSTAMPED } from "../../../src/audit/entry.ts";
import { diskFiles, type FileOperations } from "../../../src/audit/journal/file-operations.ts";

export const NOON = Date.parse("2026-02-16T12:00:00.000Z");
export const MIDNIGHT = Date.parse("2026-02-17T00:00:00.000Z");

export interface World {
  readonly dir: string;
  /** Milliseconds since 1970, moved by the test. */
  now: number;
  open(options?: Partial<AuditLogOptions>): AuditLog;
  lines(file: string): readonly Record<string, unknown>[];
  /** Closes what was opened, as before a restart. */
  stop(): Promise<void>;
  end(): Promise<void>;
}

/** A fresh directory, a clock that stands still, and the logs opened there. */
export function createWorld(dir = fs.mkdtempSync(join(tmpdir(), "stc-audit-"))): World {
  const opened: AuditLog[] = [];
  const world: World = {
    dir,
    now: NOON,
    open(options = {}) {
      const log = openAuditLog({
        dir,
        instance: "test",
        clock: () => world.now,
        durability: "fdatasync",
        queueEntriesMax: 1_000,
        ...options,
      });
      opened.push(log);
      return log;
    },
    lines: (file) => readLines(join(dir, file)),
    async stop() {
      await Promise.all(opened.splice(0).map((log) => log.close()));
    },
    async end() {
      await world.stop();
      fs.rmSync(dir, { recursive: true, force: true });
    },
  };
  return world;
}

export function readLines(path: string): readonly Record<string, unknown>[] {
  const text = fs.readFileSync(path, "utf8");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

export function draftOf(traceId: string, more: Partial<EntryDraft> = {}): EntryDraft {
  return {
    ...UNSTAMPED,
    traceId,
    caller: { sub: "agent-1", permissions: ["platform:git:read"], iss: "https://idp.example" },
    tool: { name: "git_diff_branches", classification: "read", targetSystem: "git" },
    request: { args: { repo: "self" }, argsHash: "00", hashAlg: "sha256" },
    decision: "ALLOWED",
    response: { filteredFields: [], outputHash: "11" },
    duration: 1.5,
    ...more,
  };
}

export function entryOf(more: Partial<AuditEntry> = {}): AuditEntry {
  return { ...draftOf("t-1"), timestamp: "2026-02-16T12:00:00.000Z", instance: "test", ...more };
}

/** The real disk, with some operations played by the test; `calls` names what was asked of it, in order. */
export function playDisk(faults: Partial<FileOperations>): { files: FileOperations; calls: string[] } {
  const calls: string[] = [];
  const names = new Map<number, string>();
  const disk = { ...diskFiles, ...faults };
  const note = (call: string, fd: number) => calls.push(`${call} ${names.get(fd) ?? "?"}`);
  const files: FileOperations = {
    ...disk,
    openAppend(path) {
      const fd = disk.openAppend(path);
      names.set(fd, path.split("/").slice(-2, -1)[0] === "journal" ? "journal" : "calls");
      return fd;
    },
    write(fd, bytes, offset) {
      note("write", fd);
      return disk.write(fd, bytes, offset);
    },
    fdatasync(fd) {
      note("sync", fd);
      return disk.fdatasync(fd);
    },
    truncate(fd, length) {
      note("truncate", fd);
      disk.truncate(fd, length);
    },
  };
  return { files, calls };
}

export function errorWith(code: string): Error {
  return Object.assign(new Error(`${code}: played by the test`), { code });
}

/** What became of some promises, by "ok" or the message. */
export async function outcomes(promises: readonly Promise<unknown>[]): Promise<readonly string[]> {
  const settled = await Promise.allSettled(promises);
  return settled.map((result) => (result.status === "fulfilled" ? "ok" : String(result.reason)));
}

/** A sync that waits until the test opens the gate. */
export function playGate() {
  let arrive = Promise.withResolvers<void>();
  let go = Promise.withResolvers<void>();
  return {
    async fdatasync(fd: number) {
      const turn = go;
      arrive.resolve();
      await turn.promise;
      await diskFiles.fdatasync(fd);
    },
    async reached() {
      await arrive.promise;
      arrive = Promise.withResolvers<void>();
    },
    open() {
      const turn = go;
      go = Promise.withResolvers<void>();
      turn.resolve();
    },
  };
}
