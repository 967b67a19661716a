import { readSync, writeSync } from "node:fs";
import { lockDirectory } from "../../../src/audit/journal/directory-lock.ts";
import { errorText } from "../../../src/core/error-text.ts";

// Locks the directory of its first argument, says so, and holds it until its input ends.
try {
  const lock = lockDirectory(process.argv[2] ?? "", "the other process");
  writeSync(1, "locked\n");
  readSync(0, new Uint8Array(1));
  lock.release();
} catch (error) {
  writeSync(1, `refused: ${errorText(error)}\n`);
}
