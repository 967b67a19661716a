import * as bunTest from "bun:test";
import { writeSync } from "node:fs";

/** Whether there is a git to test with. */
export const hasGit = Bun.which("git") !== null;

if (!hasGit) writeSync(2, "git is not on the PATH: the tests that need it are skipped\n");

/** For tests of repositories: skipped on a machine without git. */
export const describe: typeof bunTest.describe = hasGit ? bunTest.describe : bunTest.describe.skip;
export const test: typeof bunTest.test = hasGit ? bunTest.test : bunTest.test.skip;
