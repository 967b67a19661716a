import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StartupError } from "../../../src/core/errors.ts";
import { assemble, readConfig } from "../../support/build.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-wiring-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, "a-file"), "short");

async function problemsOf(changes: Record<string, unknown>): Promise<readonly string[]> {
  const written = {
    tools: ["./nowhere"],
    audit: { dir: "./audit" },
    jwt: { issuers: [{ issuer: "https://idp", jwksFile: "./no-keys.json" }] },
    ...changes,
  } as never;
  const config = readConfig(written, { folder, environment: { PATH: "" }, origin: "test" });
  const error = await assemble(config).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(StartupError);
  return (error as StartupError).problems;
}

test("all problems in files are reported at once, each with its field", async () => {
  const problems = await problemsOf({
    audit: { dir: "./a-file", hashKeyFile: "./a-file" },
    commands: { allowed: ["no-such-program"] },
    systems: { git: { repositories: { gone: "./gone" } } },
  });
  for (const field of [
    "tools[0]",
    "audit.dir",
    "audit.hashKeyFile",
    "commands.allowed[0]",
    "systems.git.repositories.gone",
    "jwt.issuers[0].jwksFile",
  ]) {
    expect(problems.some((problem) => problem.startsWith(field))).toBe(true);
  }
});
