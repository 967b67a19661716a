import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "../../src/core/version.ts";
import { PROJECT } from "../support/world.ts";

test("the version is the package's", () => {
  expect(JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8"))).toMatchObject({ version: VERSION });
});
