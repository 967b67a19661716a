import { describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../../src/runtime/config/config.ts";
import { resolveCommands } from "../../../src/targets/command/kind.ts";
import { readConfig } from "../../support/build.ts";
import { loadFor } from "../../support/kinds.ts";
import { temporaryDirectory } from "../../targets/command/temporary-directory.ts";

const TOOLS = join(import.meta.dir, "../../../tools/workspace/bash.ts");

function configOf(commands: object, workspace: object, folder: string): Config {
  const jwt = { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] };
  const written = { tools: [TOOLS], audit: { dir: "audit" }, jwt, commands, workspace };
  return readConfig(written, { folder, environment: { PATH: process.env["PATH"] }, origin: "config" });
}

describe("whether bash is registered", () => {
  const folder = temporaryDirectory();
  mkdirSync(join(folder, "project"));
  const allowed = ["bash"];

  test.each([
    ["nothing is to be confined", { allowed, confinement: "off" }, { project: "project" }, "commands.unconfinedBash"],
    ["no workspace is named", { allowed, unconfinedBash: true }, {}, "workspace.project is not set"],
  ])("%s: not, and the start says why", async (_title, commands, workspace, why) => {
    const { tools, notRegistered, problems } = await loadFor(configOf(commands, workspace, folder));
    expect({ tools, problems }).toEqual({ tools: [], problems: [] });
    expect(notRegistered).toHaveLength(1);
    expect(notRegistered[0]).toContain(why);
  });

  test("bash is reported as available and as always asking", async () => {
    const config = configOf({ allowed, unconfinedBash: true }, { project: "project" }, folder);
    const { tools, problems } = await loadFor(config);
    expect(problems).toEqual([]);
    expect(tools.map(({ name, category, approval }) => [name, category, approval.required])).toEqual([
      ["bash", "command", true],
    ]);
  });

  test("a missing workspace is an error", async () => {
    const config = configOf({ allowed, unconfinedBash: true }, { project: "missing" }, folder);
    const { problems } = await loadFor(config);
    expect(problems.join("\n")).toContain("workspace.project: there is no directory missing");
  });

  test.each([
    [false, []],
    [true, ["bash"]],
  ])("with unconfinedBash %s the command is available: %j", (unconfinedBash, want) => {
    const problems: string[] = [];
    const config = configOf({ allowed, confinement: "off", unconfinedBash }, {}, folder);
    const { commands } = resolveCommands({ config, problems });
    expect([[...commands.keys()], problems]).toEqual([want, []]);
  });
});
