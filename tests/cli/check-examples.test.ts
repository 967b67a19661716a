import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";
import { temporaryDirectory } from "../targets/command/temporary-directory.ts";

const manifest = (name: string, accepts: string): string => `
export const ${name} = defineTool({
  name: "${name}", description: "d", classification: "read", permissions: { required: ["a:b"] },
  input: z.strictObject({ phrase: freeText(20) }),
  target: { system: "s", cli: { command: "true", argsBuilder: ({ phrase }) => ["--", phrase] } },
  output: z.strictObject({ said: z.string() }), outputPolicy: { said: "allow" }, examples: { accepts: ${accepts} },
});
`;

test("stc check reports that a builder was never tried where a manifest has no example", async () => {
  const folder = temporaryDirectory();
  const imports = 'import { defineTool, freeText } from "safe-tool-call"; import { z } from "zod";\n';
  writeFileSync(join(folder, "tools.ts"), imports + manifest("tried", '[{ phrase: "x" }]') + manifest("untried", "[]"));
  const config = join(folder, "stc.yaml");
  writeFileSync(
    config,
    stringify({
      tools: ["./tools.ts"],
      audit: { dir: "./audit" },
      jwt: { issuers: new LiveIssuers().profiles() },
      commands: { allowed: ["true"], confinement: "off" },
    }),
  );
  const { code, out } = await runStc(["check", "--config", config]);
  expect(code).toBe(0);
  expect(out.split("\n").filter((line) => line.includes("never tried"))).toEqual([
    "note: tools.ts: tool untried: examples.accepts: is empty: the argv was never tried",
  ]);
});
