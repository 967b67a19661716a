import { afterAll } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Creates a directory and removes it after the test, or, outside a test, after the file or the program. */
export function temporaryDirectory(): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "stc-test-")));
  const remove = () => rmSync(directory, { recursive: true, force: true });
  try {
    afterAll(remove);
  } catch {
    process.on("exit", remove);
  }
  return directory;
}
