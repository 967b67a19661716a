import { expect, test } from "bun:test";
import { z } from "zod";
import { cliCommand, defineTool } from "../../src/index.ts";
import { cliTool } from "../../src/targets/command/manifest.ts";

test("a command that is not allowed is named, with the setting that would allow it", () => {
  const tool = defineTool({
    name: "now",
    description: "The time",
    classification: "read",
    permissions: { required: ["clock:read"] },
    input: z.strictObject({}),
    target: cliCommand({ command: "uptime", argsBuilder: () => [] }),
    output: z.object({ text: z.string() }),
    outputPolicy: { text: "allow" },
  });
  expect(() => cliTool(tool, new Map([["date", "/usr/bin/date"]]))).toThrow(
    "target.cli.command: uptime is not among the commands that the configuration allows (commands.allowed)",
  );
});
