import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { SafeToolCall } from "../../src/index.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";
import { temporaryDirectory } from "../targets/command/temporary-directory.ts";

const issuers = new LiveIssuers();

const MANIFEST = `
import { defineTool, freeText, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
export const greet = defineTool({
  name: "greet", description: "Greet somebody", classification: "read", permissions: { required: ["greet:read"] },
  input: z.strictObject({ name: z.string().max(20) }),
  handler: async ({ name }) => ({ greeting: "hello " + name }),
  output: z.object({ greeting: z.string() }), outputPolicy: { greeting: "allow" },
});
export const say = defineTool((_config: ToolConfig) => ({
  name: "say", description: "Say it", classification: "read", permissions: { required: ["greet:read"] },
  input: z.strictObject({ words: freeText(50) }),
  target: { system: "echo", cli: { command: "echo", argsBuilder: ({ words }: { words: string }) => ["--", words] } },
  output: z.object({ text: z.string() }), outputPolicy: { text: "allow" },
}));
`;

/** A folder that no package of ours or of anybody's can be found from. */
function teamFolder(files: Readonly<Record<string, string>>): string {
  const folder = temporaryDirectory();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

test("a team's own folder needs no package install: `stc check`", async () => {
  const folder = teamFolder({
    "tools/greet.ts": MANIFEST,
    "jwks.json": JSON.stringify({ keys: [issuers.agents.jwk, { kty: "future", use: "sig" }] }),
    "stc.yaml": `# comments are fine
tools: [./tools]
audit: { dir: ./audit }
jwt: { issuers: [{ issuer: https://idp.test, jwksFile: ./jwks.json, algorithms: [ES256] }] }
commands: { allowed: [echo] }
log:
  # level: debug
`,
  });
  const { code, out, err } = await runStc(["check", "--config", "stc.yaml"], { cwd: folder });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toStartWith("ok: 2 tools\n");
});

test("neither does the library, given a path; the schemas are ours", async () => {
  const folder = teamFolder({ "greet.ts": MANIFEST });
  const [profile] = issuers.profiles() as [never];
  const stc = SafeToolCall.create({
    tools: ["greet.ts"],
    folder,
    audit: { dir: "audit" },
    jwt: profile,
    commands: { allowed: ["echo"] },
  });
  const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["greet:read"] });
  expect(await stc.call("greet", { name: "Ada" }, token)).toMatchObject({ result: { greeting: "hello Ada" } });
  expect(await stc.call("say", { words: "-n hi" }, token)).toMatchObject({ status: "success" });
  const module = (await import(join(folder, "greet.ts"))) as { greet: { input: unknown } };
  expect(module.greet.input).toBeInstanceOf(z.ZodObject);
  await stc.close();
});

test("a file without a tool is named, and so is an empty folder, which may be filled later", async () => {
  const folder = teamFolder({ "tools/README.md": "nothing yet", "value.ts": "export const tool = { name: 'x' };" });
  const lines = ["audit: { dir: ./audit }", "jwt: { issuers: [{ issuer: https://idp.test, jwksFile: ./jwks.json }] }"];
  writeFileSync(join(folder, "jwks.json"), JSON.stringify({ keys: [issuers.agents.jwk] }));
  const check = (tools: string) => {
    writeFileSync(join(folder, "stc.yaml"), ["log: { level: silent }", `tools: [${tools}]`, ...lines].join("\n"));
    return runStc(["check", "--config", join(folder, "stc.yaml")]);
  };
  const why = (path: string) => `${join(folder, path)} contains no tool: no export was made by defineTool`;
  const checked = await check("./tools");
  expect(checked).toMatchObject({
    code: 0,
    out: expect.stringContaining(`ok: 0 tools\nnote: tools[0]: ${why("tools")}\n`),
  });
  expect(await check("./value.ts")).toMatchObject({ code: 78, err: expect.stringContaining(why("value.ts")) });
});
