import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";

const MANIFESTS = `
  import { cliCommand, defineTool, grpcMethod } from "safe-tool-call";
  import { z } from "zod";
  const common = {
    description: "Answers", classification: "read", permissions: { required: ["do"] },
    input: z.strictObject({ text: z.enum(["a", "b"]) }),
    output: z.object({ text: z.string().max(20) }), outputPolicy: { text: "allow" },
  } as const;
  export const echo = defineTool({ ...common, name: "echo", handler: ({ text }) => ({ text }) });
  export const far = defineTool({ ...common, name: "far", target: grpcMethod("ledger", "a.v1.A", "B") });
  export const near = defineTool({
    ...common, name: "near", target: cliCommand({ command: "no-such-program", argsBuilder: ({ text }) => ["--", text] }),
  });
`;

let folder: string;
const issuers = new LiveIssuers();
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-places-")));
  writeFileSync(join(folder, "afile"), "x");
  writeFileSync(join(folder, "tools.ts"), MANIFESTS);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function configFile(name: string, more: Record<string, unknown>): string {
  const path = join(folder, `${name}.yaml`);
  const config = { tools: ["./tools.ts"], audit: { dir: "./audit" }, jwt: { issuers: issuers.profiles() }, ...more };
  writeFileSync(path, stringify(config));
  return path;
}

/** Of what `tools.ts` reaches nothing is whole, each with the one message that is true of it. */
const BROKEN = {
  systems: { ledger: { endpoint: "ledger.test:1", proto: "./protos", tls: { rootCert: "./none.pem" } } },
  commands: { allowed: ["no-such-program"] },
};

test.each(["check", "serve"])("%s names every unavailable path, and no other", async (command) => {
  const path = configFile(command, {
    ...BROKEN,
    audit: { dir: "./afile/audit" },
    approvals: { storeUrlFile: "/nowhere/secret" },
    server: { port: "off", socket: "./nodir/s.sock" },
  });
  const { code, err } = await runStc([command, "--config", path]);
  const problems = err.split("\n").flatMap((line) => (line.trim().startsWith("- ") ? [line.trim().slice(2)] : []));
  expect(code).toBe(78);
  expect(problems.toSorted()).toEqual([
    "approvals.storeUrlFile: /nowhere/secret cannot be read (ENOENT)",
    "audit.checkpointKeyFile: afile/audit.key cannot be read (ENOTDIR)",
    `audit.dir: ${folder}/afile/audit cannot be read (ENOTDIR)`,
    "commands.allowed[0]: no program no-such-program was found on the service's PATH",
    `server.socket: ${folder}/nodir is not a folder: create it first`,
    "systems.ledger.tls.rootCert: ./none.pem cannot be read (ENOENT)",
  ]);
  expect(existsSync(join(folder, "nodir"))).toBe(false);
});

test("a rule about an undeclared tool", async () => {
  const tools = join(folder, "one.ts");
  const rules = [{ name: "r", when: { tool: "ehco", args: { text: ["x"] } }, verdict: "deny" }];
  writeFileSync(tools, MANIFESTS.slice(0, MANIFESTS.indexOf("export const far")));
  const { code, err } = await runStc([
    "check",
    "--config",
    configFile("rule", { tools: [tools], approvals: { rules } }),
  ]);
  expect(err).toContain("approvals.rules[0].when.tool: no tool is called ehco; did you mean echo?");
  expect(code).toBe(78);
});

test("proto files below a regular file", async () => {
  const systems = { ledger: { endpoint: "ledger.test:1", proto: "./afile/protos", plaintext: true } };
  const { code, err } = await runStc(["check", "--config", configFile("proto", { systems })]);
  expect(err).toMatch(/^ *- systems\.ledger\.proto.*ENOTDIR/m);
  expect(code).toBe(78);
});
