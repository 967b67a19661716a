import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from "node:fs";

/**
 * Reads a regular file. Refuses a pipe, because reading it would block the whole process, and a device, because it may have no
 * end.
 *
 * @throws an error with a `code`
 */
export function readPlainFile(path: string): Buffer {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const found = fstatSync(descriptor);
    if (found.isFIFO()) throw Object.assign(new Error(`${path} is a pipe`), { code: "a pipe" });
    if (found.isCharacterDevice() || found.isBlockDevice()) {
      throw Object.assign(new Error(`${path} is a device`), { code: "a device" });
    }
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Returns whether the path is a pipe. A missing file is not: reading it reports the error. */
export function isPipe(path: string): boolean {
  try {
    return statSync(path).isFIFO();
  } catch {
    return false;
  }
}
