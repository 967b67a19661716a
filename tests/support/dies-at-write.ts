import fs from "node:fs";

/**
 * A preload that kills its process at a write to a file, which `DIES_AT` names as JSON: the write that contains all of `texts`, before
 * it, with half of it written, after it, or once it is on disk.
 */
export interface DyingWrite {
  readonly texts: readonly string[];
  readonly when: "before" | "torn" | "written" | "synced";
}

const { texts, when } = JSON.parse(process.env["DIES_AT"] ?? '{"texts":["\\u0000never"]}') as DyingWrite;
const { writeSync, fdatasync } = fs;
let written: number | undefined;

function die(): void {
  process.kill(process.pid, "SIGKILL");
}

function isIt(bytes: unknown): bytes is Uint8Array {
  return bytes instanceof Uint8Array && texts.every((text) => Buffer.from(bytes).includes(text));
}

fs.writeSync = ((fd: number, bytes: Uint8Array, offset: number, ...rest: readonly number[]) => {
  if (!isIt(bytes)) return writeSync(fd, bytes, offset, ...rest);
  if (when === "before") die();
  if (when === "torn") {
    writeSync(fd, bytes, offset, Math.floor((bytes.length - offset) / 2));
    die();
  }
  const count = writeSync(fd, bytes, offset, ...rest);
  if (when === "written") die();
  written = fd;
  return count;
}) as typeof writeSync;

fs.fdatasync = ((fd: number, done: (error: Error | null) => void) => {
  const isOfWrite = fd === written;
  fdatasync(fd, (error) => {
    if (isOfWrite) die();
    done(error);
  });
}) as typeof fdatasync;
