import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "../../src/core/version.ts";
import { PROJECT } from "../support/world.ts";

/** Files that no build can fill in, with the text that names the version there. */
test.each([
  ["package.json", `"version": "${VERSION}"`],
  ["clients/typescript/package.json", `"version": "${VERSION}"`],
  ["clients/python/pyproject.toml", `\nversion = "${VERSION}"\n`],
  ["deploy/helm/safe-tool-call/Chart.yaml", `\nversion: ${VERSION}\nappVersion: ${VERSION}\n`],
  ["deploy/helm/examples/agent/Chart.yaml", `    version: ${VERSION}\n`],
  ["docs/clients.md", `safe-tool-call-client-${VERSION}.tgz`],
  ["CHANGELOG.md", `\n## ${VERSION}\n`],
])("%s names the version that src/core/version.ts has", (file, text) => {
  expect(readFileSync(join(PROJECT, file), "utf8")).toContain(text);
});

test("the changelog has at most 60 lines for each version", () => {
  const [, ...sections] = readFileSync(join(PROJECT, "CHANGELOG.md"), "utf8").split(/^## /m);
  const lengths = sections.map((section) => section.split("\n").filter((line) => line.trim() !== "").length);
  expect(Math.max(...lengths.slice(1))).toBeLessThanOrEqual(60);
});
