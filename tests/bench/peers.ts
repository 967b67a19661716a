import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "../support/ports.ts";
import { createCustomerDatabase } from "./customer-database.ts";
import { median } from "./footprint.ts";
import type { Orders } from "./load.ts";
import { type BenchServer, cpuMs, load, type ServerProcess, startServer } from "./processes.ts";
import { issueBenchTokens } from "./token.ts";

/**
 * The same work through this service and through other products, on one machine in one run, in turns: `bun run bench:peers`. It
 * installs the products from npm and PyPI into a temporary folder; those that cannot be had are left out and named. Every
 * product runs as its documentation starts it for production, with its own authentication where it has one. What they do for a
 * call differs: docs/comparison.md says how.
 */
const ROUNDS = 5;
const CONNECTIONS = 32;
const WARMUP = 5_000;

const PACKAGES = {
  cerbos: "cerbos@0.51.0",
  toolbox: "@toolbox-sdk/server@1.12.0",
  toolkit: "@microsoft/agent-governance-sdk@4.0.0",
  contextForge: "mcp-contextforge-gateway==1.0.7.post20260921",
} as const;

const folder = mkdtempSync(join(tmpdir(), "stc-peers-"));
const children: Bun.Subprocess[] = [];
const rows: { readonly work: string; readonly peer: string; readonly perSecond: string; readonly cpu: string }[] = [];

async function ours(which: BenchServer, ...more: readonly string[]): Promise<ServerProcess> {
  const started = await startServer(which, folder, ...more);
  children.push(started.child);
  return started;
}

/** Starts another product's server and waits until `path` answers. */
async function peer(
  command: readonly string[],
  port: number,
  path: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ServerProcess> {
  const child = Bun.spawn([...command], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdout: "ignore",
    stderr: "ignore",
  });
  children.push(child);
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${command[0]} ended with ${child.exitCode}`);
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
    if (answer !== undefined) return { port, pid: child.pid };
    await Bun.sleep(100);
  }
}

interface Side {
  readonly server: ServerProcess;
  readonly orders: Omit<Orders, "port" | "connections" | "requests">;
}

async function finished(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { cwd: folder, stdout: "ignore", stderr: "inherit" });
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")} failed`);
}

/** Lets the two take turns, and adds the row with the medians of the ratios: above 1, ours makes more calls, or takes more time. */
async function compare(work: string, name: string, requests: number, ours: Side, theirs: Side): Promise<void> {
  const measure = async ({ server, orders }: Side, count: number) => {
    const before = cpuMs(server.pid);
    const { perSecond } = await load({ ...orders, port: server.port, connections: CONNECTIONS, requests: count });
    return { perSecond, cpu: (cpuMs(server.pid) - before) / count };
  };
  for (const side of [ours, theirs]) await measure(side, Math.min(WARMUP, requests * 2));
  const calls: number[] = [];
  const costs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const left = await measure(ours, requests);
    const right = await measure(theirs, requests);
    calls.push(left.perSecond / right.perSecond);
    costs.push(left.cpu / right.cpu);
  }
  rows.push({ work, peer: name, perSecond: median(calls).toFixed(2), cpu: median(costs).toFixed(2) });
}

function mcpCall(token: string, name: string, args: object): Side["orders"] {
  const version = "MCP-Protocol-Version: 2025-11-25";
  const params = { name, arguments: args };
  return {
    ...{ token, path: "/mcp", headers: ["Accept: application/json, text/event-stream", version] },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  };
}

async function cerbos(operator: string): Promise<void> {
  const policies = join(folder, "policies");
  mkdirSync(policies);
  writeFileSync(
    join(policies, "tool.yaml"),
    `apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: tool
  version: default
  rules:
    - actions: ["tools/call"]
      effect: EFFECT_ALLOW
      roles: ["agent"]
      condition: { match: { expr: '"bench:run" in request.principal.attr.permissions' } }
`,
  );
  const port = freePorts();
  const settings = [`server.httpListenAddr=127.0.0.1:${port}`, `server.grpcListenAddr=127.0.0.1:${freePorts()}`];
  const store = ["storage.driver=disk", `storage.disk.directory=${policies}`, "telemetry.disabled=true"];
  // The decisions are written to a file, as an operator who needs evidence configures it.
  const audit = ["audit.enabled=true", "audit.backend=file", `audit.file.path=${join(folder, "cerbos.log")}`];
  const options = [...settings, ...store, ...audit].map((setting) => `--set=${setting}`);
  const theirs = await peer(
    [
      join(folder, `node_modules/@cerbos/cerbos-linux-${process.arch}/cerbos-linux-${process.arch}`),
      "server",
      ...options,
      "--log-level=error",
    ],
    port,
    "/_cerbos/health",
  );
  const question = (properties: object): object => ({
    subject: { type: "user", id: "bench", properties },
    action: { name: "tools/call" },
    resource: { type: "tool", id: "bench_echo" },
    context: { arguments: { text: "hello", count: 3 } },
  });
  const path = "/access/v1/evaluation";
  const known = { "cerbos.roles": ["agent"], permissions: ["bench:run"] };
  await compare(
    "a decision over AuthZEN",
    PACKAGES.cerbos,
    5_000,
    { server: await ours("governedDecisions"), orders: { token: operator, path, body: JSON.stringify(question({})) } },
    { server: theirs, orders: { token: "none", path, body: JSON.stringify(question(known)) } },
  );
}

async function toolbox(token: string): Promise<void> {
  const database = join(folder, "customers.db");
  createCustomerDatabase(database);
  writeFileSync(
    join(folder, "toolbox.yaml"),
    `kind: source
name: customers
type: sqlite
database: ${database}
---
kind: tool
name: find_customer
type: sqlite-sql
source: customers
description: Find a customer
statement: SELECT id, name FROM customers WHERE id = ?
parameters:
  - { name: id, type: string, description: id }
`,
  );
  const port = freePorts();
  const flags = ["--config=toolbox.yaml", `--port=${port}`, "--disable-version-check", "--log-level=ERROR"];
  const theirs = await peer(
    [join(folder, `node_modules/@toolbox-sdk/server-linux-${process.arch}/bin/toolbox`), ...flags],
    port,
    "/",
  );
  const orders = mcpCall(token, "find_customer", { id: "c7" });
  const mine = await ours("governedDatabase", database);
  await compare(
    "a query of SQLite as a tool of MCP",
    PACKAGES.toolbox,
    5_000,
    { server: mine, orders },
    { server: theirs, orders },
  );
}

async function contextForge(token: string): Promise<void> {
  const environment = join(folder, "venv");
  await finished(["python3", "-m", "venv", environment]);
  await finished([join(environment, "bin/pip"), "install", "--quiet", PACKAGES.contextForge]);
  const port = freePorts();
  const secret = "a-key-of-this-run-with-32-characters-or-more";
  const admin = { email: "admin@example.org", password: "Bench-Password-1!" };
  const settings = {
    ...{ DATABASE_URL: `sqlite:///${join(folder, "gateway.db")}`, CACHE_TYPE: "memory", LOG_LEVEL: "ERROR" },
    ...{ JWT_SECRET_KEY: secret, AUTH_ENCRYPTION_SECRET: secret, BASIC_AUTH_PASSWORD: admin.password },
    ...{ PLATFORM_ADMIN_EMAIL: admin.email, PLATFORM_ADMIN_PASSWORD: admin.password, MCPGATEWAY_UI_ENABLED: "false" },
    ...{ SSRF_ALLOW_LOCALHOST: "true", SSRF_ALLOW_PRIVATE_NETWORKS: "true", REQUIRE_TOKEN_EXPIRATION: "false" },
    RATE_LIMITING_ENABLED: "false",
  };
  const gateway = await peer(
    [join(environment, "bin/mcpgateway"), "--host", "127.0.0.1", "--port", `${port}`],
    port,
    "/health",
    settings,
  );
  const make = ["-m", "mcpgateway.utils.create_jwt_token", "--username", admin.email, "--exp", "0", "--secret", secret];
  const issued = Bun.spawnSync([join(environment, "bin/python"), ...make], {
    env: { ...process.env, ...settings },
    stderr: "ignore",
  });
  const theirToken = issued.stdout.toString().trim().split("\n").at(-1) ?? "";
  const api = await ours("api");
  const registered = await fetch(`http://127.0.0.1:${port}/tools`, {
    method: "POST",
    headers: { Authorization: `Bearer ${theirToken}`, "Content-Type": "application/json" },
    body: JSON.stringify({
      tool: {
        ...{ name: "bench_customer", description: "Read a customer", integration_type: "REST", request_type: "GET" },
        url: `http://127.0.0.1:${api.port}/v1/customers/{id}`,
        input_schema: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
      },
    }),
  });
  if (!registered.ok) throw new Error(`the tool was not registered: ${registered.status}`);
  const args = { id: "c7" };
  const theirs = { ...mcpCall(theirToken, "bench-customer", args), path: "/rpc" };
  await compare(
    "a request to an HTTP service as a tool",
    PACKAGES.contextForge,
    400,
    { server: await ours("governedApi", `${api.port}`), orders: mcpCall(token, "bench_customer", args) },
    { server: gateway, orders: theirs },
  );
}

/** Calls inside one process: its processor time for a call, ours against theirs, in processes of their own. */
async function toolkit(token: string): Promise<void> {
  const costs: number[] = [];
  const us = async (which: string): Promise<number> => {
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "in-process.ts"), which, folder, token], {
      stdout: "pipe",
      stderr: "inherit",
    });
    return Number(await new Response(child.stdout).text());
  };
  for (let round = 0; round < ROUNDS; round += 1) costs.push((await us("ours")) / (await us("toolkit")));
  rows.push({
    work: "a function called inside the program",
    peer: PACKAGES.toolkit,
    ...{ perSecond: "", cpu: median(costs).toFixed(2) },
  });
}

try {
  const { agent, operator } = await issueBenchTokens(folder);
  writeFileSync(join(folder, "package.json"), "{}");
  const { cerbos: first, toolbox: second, toolkit: third } = PACKAGES;
  await finished([process.execPath, "add", "--ignore-scripts", first, second, third]);
  const comparisons = { cerbos: () => cerbos(operator), toolbox: () => toolbox(agent), toolkit: () => toolkit(agent) };
  for (const [name, run] of Object.entries({ ...comparisons, contextForge: () => contextForge(agent) })) {
    try {
      await run();
    } catch (error) {
      console.error(`${name}: not measured: ${error instanceof Error ? error.message : String(error)}`);
      process.exitCode = 1;
    }
    for (const child of children.splice(0)) child.kill();
  }
  console.table(rows);
} finally {
  for (const child of children) child.kill();
  rmSync(folder, { recursive: true, force: true });
}
