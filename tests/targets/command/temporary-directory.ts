import { afterAll } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A fresh directory, gone when the test (or, made outside of one, the file or the program) is over. */
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
