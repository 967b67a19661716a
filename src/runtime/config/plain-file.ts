import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from "node:fs";

/**
 * The bytes of a regular file. A pipe is refused: it would be waited for, and with it everything else. So is a device, which may
 * have no end.
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

/** Of what is not there nothing is said: whoever reads it meets that. */
export function isPipe(path: string): boolean {
  try {
    return statSync(path).isFIFO();
  } catch {
    return false;
  }
}
