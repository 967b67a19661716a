import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterFile, endFile } from "../../support/after-file.ts";

// For programs that are not run by `bun test`, whose preload calls it after each file.
process.once("exit", endFile);

/** Creates a directory and removes it after the test file, also when concurrent tests create it, or at the end of the program. */
export function temporaryDirectory(): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "stc-test-")));
  afterFile(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
