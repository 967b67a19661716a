import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditEntry } from "../../src/audit/entry.ts";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import type { ToolCallResult } from "../../src/core/call-result.ts";
import { auditEntries, parseLines } from "../support/audit-files.ts";
import { blockNamed } from "../support/documented.ts";
import { hasGit } from "../support/git-tests.ts";
import { freePorts } from "../support/ports.ts";
import { RunningStc, run, runStc } from "../support/stc.ts";
import { StdioClient } from "../support/stdio-client.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-newcomer-")));
const auditDir = join(folder, "audit");
const port = freePorts();
const env = { STC_PORT: String(port), STC_AUDIT_DIR: auditDir };

let stc: RunningStc;

async function start(): Promise<RunningStc> {
  const started = new RunningStc(["serve", "--dev"], { env });
  await started.printed("Ctrl-C stops the service.");
  return started;
}

beforeAll(async () => {
  stc = await start();
});

afterAll(async () => {
  await stc?.end("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** The commands that the welcome prints, as lines to run; a newcomer's `npx` would fetch the Bun that runs here. */
function printedCommands(): readonly string[] {
  return stc.out
    .split("\n")
    .filter((line) => /^ {2}(TOKEN=|curl |(?:STC_\w+=\S+ )*npx )/.test(line))
    .map((line) => line.trim().replaceAll("npx -y bun@1.4.5", process.execPath));
}

async function paste(...lines: readonly string[]): Promise<string> {
  const { code, out, err } = await run(["sh", "-c", lines.join("\n")], { env });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return out;
}

describe("the console", () => {
  const consoleUrl = `http://localhost:${port + 1}`;
  const link = (text: string) => new RegExp(`^ *${consoleUrl}/console#link=([\\w-]{43})$`, "m").exec(text)?.[1];

  async function signIn(text: string): Promise<unknown> {
    const headers = { "content-type": "application/json", origin: consoleUrl, "sec-fetch-site": "same-origin" };
    const body = JSON.stringify({ link: link(text) });
    const response = await fetch(`${consoleUrl}/console/session`, { method: "POST", headers, body });
    return response.json();
  }

  test("is opened by the link that the welcome prints, and by that of `stc console --dev`", async () => {
    expect(await signIn(stc.out)).toMatchObject({ sub: "me" });
    const command = blockNamed("docs/console.md: npx -y bun@1.4.5 run --silent stc console --dev").text;
    const out = await paste(command.replaceAll("npx -y bun@1.4.5", process.execPath));
    const session = { sub: "me", permissions: expect.arrayContaining(["approvals:decide", "audit:read"]) };
    expect(await signIn(out)).toMatchObject(session);
    expect(await signIn(out)).toMatchObject({ error: { code: "UNAUTHENTICATED" } });
  });

  test("is reported when nothing answers there", async () => {
    const elsewhere = { ...env, STC_PORT: String(freePorts()) };
    const { code, err } = await runStc(["console", "--dev"], { env: elsewhere });
    expect(code).toBe(2);
    expect(err).toContain(`no answer from http://127.0.0.1:${Number(elsewhere.STC_PORT) + 1}`);
  });

  test.each([
    [{ console: {} }, 0, "http://127.0.0.1:8788/console\n"],
    [{ console: { publicUrl: "https://console.example" } }, 0, "https://console.example/console\n"],
    [{}, 78, ""],
  ])("of the configuration with server: %j", async (server, code, out) => {
    const file = join(folder, "console.yaml");
    writeFileSync(file, JSON.stringify({ server }));
    const ended = await runStc(["console", "--config", file]);
    expect([ended.code, ended.out]).toEqual([code, out]);
  });
});

// An archive of the project is no repository; the welcome then leaves out what would show one.
const canPaste = existsSync(join(PROJECT, ".git/HEAD")) && hasGit && Bun.which("curl") !== null;
describe.skipIf(!canPaste)("the commands that the welcome prints", () => {
  const answers: ToolCallResult[] = [];
  let tail: readonly string[] = [];

  beforeAll(async () => {
    const [token = "", ...rest] = printedCommands();
    for (const call of rest.filter((line) => line.startsWith("curl "))) {
      answers.push(JSON.parse(await paste(token, call)) as ToolCallResult);
    }
    tail = (await paste(printedCommands().at(-1) ?? "")).trimEnd().split("\n").slice(-5);
  });

  test("are a token, five calls and an audit query", () => {
    expect(printedCommands().map((line) => line.replace(/^(?:STC_\w+=\S+ )+/, "").split(/[ =]/)[0])).toEqual([
      ...["TOKEN", "curl", "curl", "curl", "curl", "curl"],
      process.execPath,
    ]);
  });

  test("show a customer with personal data masked or removed", () => {
    expect(answers[0]).toMatchObject({ status: "success", result: { customer: { fullName: "J*** S****" } } });
    expect(answers[0]).not.toHaveProperty("result.customer.email");
    expect(answers[0]).toHaveProperty("filteredFields");
    expect(JSON.stringify(answers[0])).not.toMatch(/john\.smith|QQ000001C|Station Road/i);
  });

  test("show the rows of a database, with the address masked", () => {
    const newest = { id: "105", status: "open", total: "149.50", placed_at: "2026-11-27" };
    expect(answers[1]).toHaveProperty("result.rows[0]", { ...newest, contact: "j*********@m***.example" });
    expect(answers[1]).toHaveProperty("filteredFields", ["rows[].contact"]);
  });

  test("show the history of this repository", () => {
    expect(answers[2]).toMatchObject({ status: "success", tool: "git_log", filteredFields: [] });
    expect(answers[2]).toHaveProperty("result.commits[0].id");
  });

  test("are refused without the token's permission", () => {
    expect(answers[3]).toMatchObject({
      status: "denied",
      error: { code: "PERMISSION_DENIED", details: { missingPermissions: ["customer-data:write"] } },
    });
  });

  test("are refused an option in a branch's place", () => {
    expect(answers[4]).toMatchObject({ status: "denied", error: { code: "INVALID_INPUT", stage: "VALIDATION" } });
  });

  test("show each call's line in the audit", () => {
    expect(tail.map((line) => line.split(/ {2,}/)[1])).toEqual([
      ...["ALLOWED", "ALLOWED", "ALLOWED", "DENIED PERMISSION_DENIED", "DENIED INVALID_INPUT"],
    ]);
    expect(tail.map((line) => / ([0-9a-f-]{36})\b/.exec(line)?.[1])).toEqual(answers.map(({ traceId }) => traceId));
  });
});

test("the .mcp.json that the welcome prints connects a client, which needs no token", async () => {
  const line = stc.out.split("\n").find((each) => each.startsWith('  {"mcpServers"')) ?? "";
  const { command, args } = JSON.parse(line).mcpServers["safe-tool-call"];
  expect(args.join(" ")).not.toMatch(/eyJ|token/);
  const client = new StdioClient(args, { command: [command] });
  const { result } = await client.request(1, "tools/list");
  expect(result.tools.map(({ name }: { readonly name: string }) => name)).toContain("get_customer");
  const called = await client.call(2, "get_customer", { customerId: KNOWN_CUSTOMERS.johnSmith });
  expect(called.result.structuredContent).toMatchObject({ customer: { fullName: "J*** S****" } });
  expect(await client.end()).toBe(0);
});

describe("a second start", () => {
  test("on the same port names the port", async () => {
    const { code, err } = await runStc(["serve", "--dev"], { env: { ...env, STC_AUDIT_DIR: join(folder, "other") } });
    expect(code).toBe(78);
    expect(err).toContain("is in use");
    expect(err).not.toMatch(/\n\s+at /);
    expect(err.trim().split("\n").length).toBeLessThanOrEqual(2);
  });

  test("on the same audit directory names the holder", async () => {
    const { code, err } = await runStc(["serve", "--dev"], { env: { ...env, STC_PORT: String(freePorts()) } });
    expect(code).toBe(78);
    expect(err).toContain(`audit.dir: ${auditDir} is already in use`);
    expect(err).toContain(`process ${stc.child.pid}`);
    expect(err).not.toMatch(/\n\s+at /);
  });

  test("leaves the first service unchanged", async () => {
    const ready = await fetch(`http://127.0.0.1:${port}/readyz`);
    expect(await ready.json()).toEqual({ status: "ready" });
  });
});

describe("the end", () => {
  test("SIGTERM drains: calls in progress are answered, the exit is clean, and the next start is immediate", async () => {
    const [token = "", call = ""] = printedCommands();
    const before = auditEntries(auditDir).length;
    const answering = paste(token, call);
    await until("the call", () => auditEntries(auditDir)[before]);
    expect(await stc.end("SIGTERM")).toBe(0);
    expect(JSON.parse(await answering)).toMatchObject({ status: "success" });
    stc = await start();
    const ready = await fetch(`http://127.0.0.1:${port}/readyz`);
    expect(ready.status).toBe(200);
  });

  test("kill -9 in the middle of load: every answered call is in the audit", async () => {
    const token = (await runStc(["token", "--sub", "load", "--permission", "customer-data:read"])).out.trim();
    const answered: string[] = [];
    const lanes = Array.from({ length: 8 }, () => callUntilRefused(token, answered));
    await until("a hundred answers", () => (answered.length >= 100 ? true : undefined));
    await stc.end("SIGKILL");
    await Promise.all(lanes);
    stc = await start();
    const recorded = new Set(auditEntries(auditDir).map(({ traceId }) => traceId));
    expect(answered.filter((traceId) => !recorded.has(traceId))).toEqual([]);
    const json = await runStc(["audit", "tail", "--json", "-n", "100000"], { env });
    expect((parseLines(json.out) as readonly AuditEntry[]).length).toBe(auditEntries(auditDir).length);
  });
});

/** Calls until the service is gone; keeps the trace ids of the answers that came whole. */
async function callUntilRefused(token: string, answered: string[]): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = '{"tool":"get_customer","args":{"customerId":"3f0c9a52-6b1e-4c77-9d3a-000000000001"}}';
  for (;;) {
    try {
      const response = await fetch(`http://127.0.0.1:${port}/call`, { method: "POST", headers, body });
      answered.push(((await response.json()) as ToolCallResult).traceId);
    } catch {
      return;
    }
  }
}

describe.concurrent("forbidden environment variables", () => {
  test.each([
    ["no configuration", ["serve"], {}, "no configuration"],
    ["STC_CONFIG beside --dev", ["serve", "--dev"], { STC_CONFIG: join(PROJECT, "x.yaml") }, "STC_CONFIG is set"],
    // Bun reads the variable too: this value changes nothing.
    ["BUN_OPTIONS", ["serve", "--dev"], { BUN_OPTIONS: "--no-deprecation" }, "BUN_OPTIONS is set"],
    [
      "an address that others reach",
      ["serve", "--dev"],
      { STC_HOST: "0.0.0.0" },
      "development listens on loopback only",
    ],
    ["a port that is none", ["serve", "--dev"], { STC_PORT: "http" }, "server.port"],
  ] as const)("%s ends the start with 78", async (_, args, extra, reason) => {
    const { code, out, err } = await runStc([...args], { env: { STC_AUDIT_DIR: join(folder, "never"), ...extra } });
    expect({ code, out }).toEqual({ code: 78, out: "" });
    expect(err).toContain(reason);
    expect(err).not.toMatch(/\n\s+at /);
  });
});
