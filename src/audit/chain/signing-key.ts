import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import fs from "node:fs";
import { dirname } from "node:path";
import { makeDirectory, syncDirectory, withFile } from "../journal/file-operations.ts";
import { readSavedPosition } from "../journal/saved-position.ts";
import { readLastNotes } from "./checkpoint.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = fs.constants;
const NEW_FILE = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;

/**
 * Creates an Ed25519 key that signs checkpoints, in a file that only this user may read, and its folder if that is missing. The
 * file appears whole, and an existing one is never replaced: the log that it signed could not be continued. Returns the public
 * key.
 *
 * @throws an error with the code `EEXIST` when the file exists; another process may have created it at the same moment.
 */
export function createSigningKey(path: string): KeyObject {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const folder = dirname(path);
  makeDirectory(folder);
  const draft = `${path}.${randomUUID()}.new`;
  try {
    withFile(draft, NEW_FILE, (fd) => {
      fs.writeFileSync(fd, privateKey.export({ type: "pkcs8", format: "pem" }));
      fs.fsyncSync(fd);
    });
    // A rename would replace a file that is there.
    fs.linkSync(draft, path);
  } finally {
    fs.rmSync(draft, { force: true });
  }
  syncDirectory(folder);
  return publicKey;
}

/** Returns whether a key has signed the log: by its checkpoints, or, if they were deleted, by the saved position. */
export function isSignedLog(dir: string): boolean {
  const { calls, journal } = readSavedPosition(dir)?.streams ?? {};
  if (calls?.note !== undefined || journal?.note !== undefined) return true;
  try {
    return readLastNotes(dir).length > 0;
  } catch {
    // Opening the log reports the problem.
    return false;
  }
}
