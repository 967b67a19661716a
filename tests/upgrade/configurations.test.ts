import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readConfigFile } from "../support/build.ts";

const FOLDER = join(import.meta.dir, "configurations");

/** Shipped or documented by earlier versions. A setting that is renamed or removed later is an error that says what to write. */
test.each(readdirSync(FOLDER))("the configuration %s is valid", (name) => {
  expect(() => readConfigFile(join(FOLDER, name), {})).not.toThrow();
});
