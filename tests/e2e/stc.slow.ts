import { afterAll, beforeAll, expect } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { describe, test } from "../support/git-tests.ts";
import { freePorts } from "../support/ports.ts";
import { type Ended, RunningStc, runStc } from "../support/stc.ts";
import { openWorld, PROJECT, type World } from "../support/world.ts";

const ANSWERING = /listening/;
const READER = ["--sub", "agent-7", "--permission", "customer-data:read", "platform:git:read"];

let world: World;
let stc: RunningStc;
const port = freePorts();
const url = `http://127.0.0.1:${port}`;

beforeAll(async () => {
  world = await openWorld();
  stc = new RunningStc(["serve", "--dev"], {
    env: { STC_PORT: String(port), STC_AUDIT_DIR: join(world.folder, "audit") },
  });
  await stc.printed(ANSWERING);
});

afterAll(async () => {
  await stc?.end("SIGKILL");
  await world.close();
});

/** Of the platform's tools, those that this world has something to reach for. */
const GIT_TOOLS = ["diff-branches", "log", "show-file"].map((name) => join(PROJECT, `tools/platform/git-${name}.ts`));

/** A configuration that starts, in a folder of its own; `changes` replace its sections, `manifests` lie in its tools. */
function configFile(
  changes: Readonly<Record<string, unknown>> = {},
  manifests: Readonly<Record<string, string>> = {},
): string {
  const folder = realpathSync(mkdtempSync(join(world.folder, "config-")));
  mkdirSync(join(folder, "tools"));
  for (const [name, source] of Object.entries(manifests)) writeFileSync(join(folder, "tools", name), source);
  const config = {
    server: { port: 0 },
    tools: [
      join(PROJECT, "tools/customer-data"),
      ...GIT_TOOLS,
      ...Object.keys(manifests).map((name) => `./tools/${name}`),
    ],
    audit: { dir: "./audit" },
    jwt: { issuers: world.issuers.profiles() },
    ...world.targets,
    ...changes,
  };
  writeFileSync(join(folder, "stc.yaml"), stringify(config));
  return join(folder, "stc.yaml");
}

const goodTool = (name: string): string => `
  import { defineTool } from "safe-tool-call";
  import { z } from "zod";
  export const tool = defineTool({
    name: "${name}", description: "Say hello", classification: "read", permissions: { required: ["case:run"] },
    input: z.strictObject({ who: z.enum(["you", "me"]) }), handler: ({ who }) => ({ hello: who }),
    output: z.strictObject({ hello: z.string() }), outputPolicy: { hello: "allow" },
  });`;

function expectProblems({ code, out, err }: Ended, ...problems: readonly string[]): void {
  expect({ code, out }).toEqual({ code: 78, out: "" });
  for (const problem of problems) expect(err).toContain(problem);
  expect(err).not.toMatch(/\n\s+at /);
}

describe.concurrent("stc check", () => {
  test("prints the number of tools", async () => {
    const { code, out, err } = await runStc(["check", "--config", configFile()]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(
      /^(?:note: .*\n)*ok: 10 tools\ncontract customer-master-service sha256:[0-9a-f]{64}\n(?:note: .*\n)*$/,
    );
  });

  test("reads the configuration from STC_CONFIG, and the development stand with --dev", async () => {
    expect((await runStc(["check"], { env: { STC_CONFIG: configFile() } })).code).toBe(0);
    expect((await runStc(["check", "--dev"])).out).toStartWith("ok: ");
    expectProblems(await runStc(["check"]), "no configuration");
  });

  test("has output for programs too", async () => {
    const { code, out } = await runStc(["check", "--json", "--config", configFile()]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ ok: true, problems: [], notRegistered: [] });
    const bad = await runStc(["check", "--json", "--config", configFile({ tools: ["./nowhere"] })]);
    expect(bad.code).toBe(78);
    expect(JSON.parse(bad.out)).toMatchObject({ ok: false, problems: [expect.stringContaining("tools[0]")] });
  });

  test("notes tools without a configured target", async () => {
    const systems = { ...world.targets.systems, git: { repositories: {} } };
    const { code, out } = await runStc(["check", "--config", configFile({ systems })]);
    expect(code).toBe(0);
    expect(out.match(/not registered: systems\.git\.repositories is empty/g)).toHaveLength(3);
    expect(out).toContain("ok: 7 tools");
  });

  test("reports five mistakes at once, each with file and field", async () => {
    const file = configFile({
      server: { port: 70_000, hostt: "0.0.0.0" },
      audit: { dir: "./audit", durability: "sometimes" },
      jwt: { issuers: [{ issuer: "https://idp.test", jwksUri: "http://idp.test/jwks.json" }] },
      limits: { concurrentCallsMax: 0 },
    });
    const ended = await runStc(["check", "--config", file]);
    const fields = [
      "server.port",
      "server.hostt",
      "audit.durability",
      "jwt.issuers[0].jwksUri",
      "limits.concurrentCallsMax",
    ];
    expectProblems(ended, ...fields.map((field) => `${file}: ${field}`));
  });

  test.each([
    ["that cannot be read", undefined, "cannot be read (ENOENT)"],
    ["that is no YAML", "server: [", "stc.yaml"],
    ["with a key that stands twice", "audit: {dir: a}\naudit: {dir: b}\n", "has the key audit twice"],
    ["that is empty", "", "(top level)"],
    ["that grows by aliases", "a: &a [x]\nb: *a\n", "stc.yaml"],
  ] as const)("a file %s", async (_, source, reason) => {
    const file = join(realpathSync(mkdtempSync(join(world.folder, "yaml-"))), "stc.yaml");
    if (source !== undefined) writeFileSync(file, source);
    expectProblems(await runStc(["check", "--config", file]), file, reason);
  });

  test("missing certificates and keys", async () => {
    const system = world.targets.systems["customer-master-service"] as { readonly tls: object };
    const systems = {
      ...world.targets.systems,
      "customer-master-service": { ...system, tls: { ...system.tls, rootCert: "./no-ca.pem" } },
    };
    const issuer = { issuer: "https://idp.test", jwksFile: "./no-keys.json" };
    expectProblems(
      await runStc(["check", "--config", configFile({ systems, jwt: { issuers: [issuer] } })]),
      "systems.customer-master-service.tls.rootCert: ./no-ca.pem cannot be read (ENOENT)",
      "jwt.issuers[0].jwksFile: ./no-keys.json cannot be read (ENOENT)",
    );
  });
});

describe.concurrent("manifests", () => {
  test("a broken one does not hide the next, and a valid one next to it does not help", async () => {
    const file = configFile(
      {},
      {
        "good.ts": goodTool("say_hello"),
        "broken.ts": goodTool("Say-Hello").replace('"read"', '"reed"'),
        "throws.ts": 'throw new Error("not today");',
        "twice.ts": goodTool("say_hello"),
        "syntax.ts": "export const x = {",
      },
    );
    expectProblems(
      await runStc(["check", "--config", file]),
      "tools/broken.ts: tool Say-Hello: name: must match",
      "tools/broken.ts: tool Say-Hello: classification: must be read, write or destructive",
      "tools/throws.ts: cannot be loaded: not today",
      "tools/twice.ts: tool say_hello: name: is already taken by tools/good.ts",
      "tools/syntax.ts: cannot be loaded: syntax.ts:1:18: Expected identifier but found end of file",
    );
  });

  test("a command that is not allowed", async () => {
    expectProblems(await runStc(["check", "--config", configFile({ commands: {} })]), "git_log", "git");
  });

  test("prevent the service's start, and nothing is left behind", async () => {
    const file = configFile({}, { "throws.ts": 'throw new Error("not today");' });
    expectProblems(await runStc(["serve", "--config", file]), "tools/throws.ts: cannot be loaded: not today");
    expect(readdirSync(join(file, ".."))).not.toContain("audit");
  });
});

describe("stc serve with a configuration", () => {
  test("listens, logs it, and prints no welcome", async () => {
    const served = new RunningStc(["serve"], { env: { STC_CONFIG: configFile() } });
    await served.printed(ANSWERING);
    const ready = await fetch(`${/"url":"([^"]+)"/.exec(served.out)?.[1]}/readyz`);
    expect(await ready.json()).toEqual({ status: "ready" });
    expect(await served.end("SIGINT")).toBe(0);
    expect(served.out).not.toContain("TOKEN=");
    expect(served.err).toBe("");
  });
});

test("stc serve on a port in use names it", async () => {
  const ended = await runStc(["serve", "--config", configFile({ server: { port } })]);
  expect(ended.code).toBe(78);
  expect(ended.err).toBe(`cannot start:\n  - server.port: ${port} is in use\n`);
});

describe.concurrent("stc tools", () => {
  test("lists them for people", async () => {
    const { code, out } = await runStc(["tools", "--config", configFile()]);
    expect(code).toBe(0);
    expect(out).toMatch(/^TOOL +CLASSIFICATION +SYSTEM +APPROVAL +PERMISSIONS +ELEVATED\n/);
    expect(out).toMatch(/^git_log +read +git +no +platform:git:read +-$/m);
    expect(out).toMatch(/^create_customer +write +\S+ +by mode +customer-data:write +customer-data:create$/m);
  });

  test("and for programs", async () => {
    const { out } = await runStc(["tools", "--json", "--config", configFile()]);
    const { tools } = JSON.parse(out) as { readonly tools: readonly { readonly name: string }[] };
    expect(tools).toHaveLength(10);
    expect(tools.find(({ name }) => name === "get_customer")).toHaveProperty("inputSchema.properties.customerId");
  });
});

describe.concurrent("stc plan", () => {
  test("shows the argv and runs nothing", async () => {
    const args = '{"repo":"self","base":"main","head":"feature/x"}';
    const { code, out } = await runStc(["plan", "git_diff_branches", args, "--json", "--config", configFile()]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ kind: "cli" });
    expect(out).toContain(world.repository?.git("rev-parse", "feature/x") ?? "(no git)");
    expect(out.trim().split("\n")).toHaveLength(1);
  });

  test.each([
    ["an unknown tool", ["no_such_tool"], 64, "there is no tool no_such_tool"],
    ["arguments that do not fit", ["get_customer", '{"customerId":"1"}'], 1, "customerId: Invalid GUID"],
    ["arguments that are not JSON", ["get_customer", "{"], 64, "the arguments are not a JSON object: unexpected end"],
    [
      "a number that would be rounded",
      ["get_customer", '{"customerId":9007199254740993}'],
      64,
      "an integer beyond 2^53-1",
    ],
    ["what planning meets", ["git_log", '{"repo":"self","ref":"nowhere"}'], 1, "TARGET_REFUSED: "],
  ] as const)("refuses %s", async (_, args, exit, reason) => {
    const { code, out, err } = await runStc(["plan", ...args, "--config", configFile()]);
    expect({ code, out }).toEqual({ code: exit, out: "" });
    expect(err).toContain(reason);
  });
});

describe.concurrent("stc token and stc call", () => {
  test("a token of the development keys calls the stand", async () => {
    const token = await runStc(["token", ...READER]);
    expect(token.out).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const args = '{"customerId":"3f0c9a52-6b1e-4c77-9d3a-000000000001"}';
    const called = await runStc(["call", "get_customer", args, "--url", url, "--token-file", "-"], {
      stdin: token.out,
    });
    expect(called.code).toBe(0);
    expect(JSON.parse(called.out)).toMatchObject({
      status: "success",
      result: { customer: { fullName: "J*** S****" } },
    });
    expect(called.out.split("\n").length).toBeGreaterThan(3);
  });

  test("a refusal is exit 1, and --json one line", async () => {
    const file = join(world.folder, "token");
    writeFileSync(file, (await runStc(["token", "--sub", "agent-7", "--ttl", "30s"])).out, { mode: 0o600 });
    const { code, out } = await runStc(["call", "git_log", "--json"], { env: { STC_URL: url, STC_TOKEN_FILE: file } });
    expect(code).toBe(1);
    expect(out.trim().split("\n")).toHaveLength(1);
    expect(JSON.parse(out)).toMatchObject({ status: "denied", error: { code: "PERMISSION_DENIED" } });
  });

  test("an operator's token calls nothing, and other services accept no development token", async () => {
    const operator = (await runStc(["token", "--operator", "--sub", "human-1"])).out;
    const refused = await runStc(["call", "git_log", "--url", url, "--token-file", "-"], { stdin: operator });
    expect(JSON.parse(refused.out)).toMatchObject({ error: { code: "UNAUTHENTICATED" } });
    const served = new RunningStc(["serve", "--config", configFile()]);
    await served.printed(ANSWERING);
    const other = /"url":"([^"]+)"/.exec(served.out)?.[1] ?? "";
    const agent = (await runStc(["token", ...READER])).out;
    const elsewhere = await runStc(["call", "git_log", "--url", other, "--token-file", "-"], { stdin: agent });
    expect(JSON.parse(elsewhere.out)).toMatchObject({ error: { code: "UNAUTHENTICATED" } });
    expect(await served.end("SIGTERM")).toBe(0);
  });

  test.each([
    ["arguments that are a list", ["get_customer", "[]", "--token-file", "-"], 64, "not a JSON object"],
    ["arguments that are not JSON", ["get_customer", "{", "--token-file", "-"], 64, "not a JSON object"],
    ["no token", ["get_customer"], 64, "no token"],
    [
      "a token file that is not there",
      ["get_customer", "--token-file", "/nowhere"],
      64,
      "/nowhere is empty or cannot be read",
    ],
    ["an address that is none", ["get_customer", "--url", "localhost:80", "--token-file", "-"], 64, "not the address"],
    [
      "an address that cannot be read",
      ["get_customer", "--url", "http://[", "--token-file", "-"],
      64,
      "not the address",
    ],
    [
      "a service that is not there",
      ["get_customer", "--url", "http://127.0.0.1:9", "--token-file", "-"],
      2,
      "no answer",
    ],
  ] as const)("%s", async (_, args, code, reason) => {
    const ended = await runStc(["call", ...args], { stdin: "x.y.z" });
    expect({ code: ended.code, out: ended.out }).toEqual({ code, out: "" });
    expect(ended.err).toContain(reason);
  });

  test.each([
    ["token without a subject", ["token"], "--sub"],
    ["a time that is none", ["token", "--sub", "a", "--ttl", "soon"], "write it as 30s, 15m or 1h"],
    ["a time that no service grants", ["token", "--sub", "a", "--ttl", "2h"], "more than 1h"],
    ["an unknown command", ["destroy"], "unknown command"],
    ["an unknown option", ["check", "--fast"], "unknown option"],
    ["a count that is none", ["audit", "tail", "-n", "-1"], "whole number"],
    ["the health of an address that is none", ["health", "--url", "junk"], "not the address of a service"],
    ["an option where 1 would say tampered", ["audit", "verify", "--kee", "x"], "unknown option"],
    ["a subject that no service takes", ["token", "--sub", "anonymous"], "no service would accept"],
    ["a subject that is empty", ["token", "--sub", ""], "no service would accept"],
    ["a permission with a space", ["token", "--sub", "a", "--permission", "a b"], "no service would accept"],
  ] as const)("wrong usage: %s", async (_, args, reason) => {
    const { code, err } = await runStc([...args]);
    expect(code).toBe(64);
    expect(err).toContain(reason);
  });
});
