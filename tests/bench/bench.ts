import { closeSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { credentials } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { developmentCertificates } from "../../src/cli/development/certificates.ts";
import { CUSTOMER_MASTER_PROTO_FOLDER } from "../../src/cli/development/customer-master.ts";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import { DEVELOPMENT_SERVER_NAME } from "../../src/cli/development/make-certificates.ts";
import { SafeToolCall } from "../../src/index.ts";
import { gateFindings } from "./gate.ts";
import type { Findings, Orders } from "./load.ts";
import { issueBenchToken } from "./token.ts";

/**
 * What the governing costs, as ratios against the same work ungoverned, both measured in this run. Absolute figures of a
 * shared machine mean nothing; neither do single runs, so every pair alternates and the medians are compared.
 */
const ROUNDS = 5;
const CALLS = { c64: 20_000, c1: 3_000, memory: 100_000, grpc: 6_000, cli: 300, sync: 500 } as const;

const folder = mkdtempSync(join(tmpdir(), "stc-bench-"));
const processes: Bun.Subprocess[] = [];

async function server(which: string): Promise<{ readonly port: number; readonly pid: number }> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "servers.ts"), which, folder], {
    stdout: "pipe",
    stderr: "inherit",
  });
  processes.push(child);
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  return { port: Number(new TextDecoder().decode(value).trim().split("\n").at(-1)), pid: child.pid };
}

async function load(orders: Orders): Promise<Findings> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "load.ts"), JSON.stringify(orders)], {
    stdout: "pipe",
  });
  const findings = JSON.parse(await new Response(child.stdout).text()) as Findings;
  if (findings.failed > 0) throw new Error(`${findings.failed} calls failed`);
  return findings;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

const MODERN = "2026-07-28";
const CLIENT = { name: "bench", version: "1" };
const CALLED = { name: "bench_echo", arguments: { text: "hello", count: 3 } };

/** Requests of MCP: a call of 2026-07-28, and the three that make a session of 2025-11-25. */
const MCP = {
  call: {
    method: "tools/call",
    params: {
      ...CALLED,
      _meta: {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": CLIENT,
      },
    },
    headers: [`MCP-Protocol-Version: ${MODERN}`, "Mcp-Method: tools/call", "Mcp-Name: bench_echo"],
  },
  session: [
    { method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: CLIENT } },
    { method: "tools/list", params: {} },
    { method: "tools/call", params: CALLED },
  ].map((request) => ({ ...request, headers: ["MCP-Protocol-Version: 2025-11-25"] })),
} as const;

interface McpRequest {
  readonly method: string;
  readonly params: object;
  readonly headers: readonly string[];
}

function asMcp(orders: Orders, { method, params, headers }: McpRequest): Orders {
  return { ...orders, path: "/mcp", headers, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) };
}

interface HttpFindings {
  readonly c64: number;
  readonly c1AddedUs: number;
  readonly mcpC64: number;
  /** Over `POST /call`. */
  readonly mcpAddedUs: number;
  readonly mcpSessionsPerSecond: number;
  readonly rssMb: number;
  readonly rssGrowth: number;
}

async function http(token: string): Promise<HttpFindings> {
  const bare = await server("bare");
  const governed = await server("governed");
  const body = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } });
  const orders = (port: number, connections: number, requests: number): Orders => ({
    port,
    token,
    body,
    connections,
    requests,
  });
  for (const { port } of [bare, governed]) await load(orders(port, 64, 10_000));
  await load(asMcp(orders(governed.port, 64, 10_000), MCP.call));
  const mcpRatios: number[] = [];
  const mcpAdded: number[] = [];
  const ratios: number[] = [];
  const added: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const plain = await load(orders(bare.port, 64, CALLS.c64));
    const ours = await load(orders(governed.port, 64, CALLS.c64));
    ratios.push(ours.perSecond / plain.perSecond);
    const plainOne = await load(orders(bare.port, 1, CALLS.c1));
    const oursOne = await load(orders(governed.port, 1, CALLS.c1));
    added.push(oursOne.medianUs - plainOne.medianUs);
    const mcp = await load(asMcp(orders(governed.port, 64, CALLS.c64), MCP.call));
    mcpRatios.push(mcp.perSecond / plain.perSecond);
    const mcpOne = await load(asMcp(orders(governed.port, 1, CALLS.c1), MCP.call));
    mcpAdded.push(mcpOne.medianUs - oursOne.medianUs);
  }
  let sessionSeconds = 0;
  for (const request of MCP.session) {
    sessionSeconds += 1 / (await load(asMcp(orders(governed.port, 64, CALLS.c64), request))).perSecond;
  }
  await load(orders(governed.port, 64, CALLS.memory / 2));
  const half = rssMb(governed.pid);
  await load(orders(governed.port, 64, CALLS.memory / 2));
  const whole = rssMb(governed.pid);
  return {
    ...{ c64: median(ratios), c1AddedUs: median(added), rssMb: whole, rssGrowth: whole / half },
    ...{ mcpC64: median(mcpRatios), mcpAddedUs: median(mcpAdded), mcpSessionsPerSecond: 1 / sessionSeconds },
  };
}

function rssMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

function fdatasyncUs(): number {
  const descriptor = openSync(join(folder, "sync"), "a");
  const line = "x".repeat(699).concat("\n");
  const times = Array.from({ length: CALLS.sync }, () => {
    const at = performance.now();
    writeSync(descriptor, line);
    fdatasyncSync(descriptor);
    return (performance.now() - at) * 1000;
  });
  closeSync(descriptor);
  return median(times);
}

/** Runs `call` `count` times with `lanes` under way; calls per second. */
async function throughput(lanes: number, count: number, call: () => Promise<unknown>): Promise<number> {
  let left = count;
  const at = performance.now();
  const lane = async (): Promise<void> => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return count / ((performance.now() - at) / 1000);
}

async function library(
  token: string,
  options: Pick<Parameters<typeof SafeToolCall.create>[0], "tools" | "systems" | "commands">,
) {
  const stc = SafeToolCall.create({
    ...options,
    audit: { dir: mkdtempSync(join(folder, "audit-")) },
    jwt: { issuer: "https://bench", audience: "bench", algorithms: ["ES256"], jwksFile: join(folder, "jwks.json") },
  });
  await stc.ready();
  const call = async (tool: string, args: unknown): Promise<void> => {
    const result = await stc.call(tool, args, token);
    if (result.status !== "success") throw new Error(JSON.stringify(result));
  };
  return { call, close: () => stc.close() };
}

/** Processor time of this process for `work`, in microseconds: on a shared machine it says more than the clock. */
async function cpuUs<T>(work: () => Promise<T>): Promise<{ readonly done: T; readonly us: number }> {
  const before = process.cpuUsage();
  const done = await work();
  const { user, system } = process.cpuUsage(before);
  return { done, us: user + system };
}

async function grpcRatios(token: string): Promise<{ readonly speed: number; readonly cpu: number }> {
  const { port } = await server("grpc");
  const certificates = await developmentCertificates(folder, Date.now());
  const definition = loadSync(join(CUSTOMER_MASTER_PROTO_FOLDER, "customer_master_service.proto"), {
    longs: String,
    enums: String,
  });
  const loaded = grpc.loadPackageDefinition(definition) as unknown as Record<string, never>;
  const path = "org.finca.threesixone.customerdata.customermasterservice.proto.v1.CustomerMasterService".split(".");
  const Client = path.reduce<Record<string, never>>(
    (scope, name) => scope[name] as never,
    loaded,
  ) as unknown as grpc.ServiceClientConstructor;
  const { rootCert, client } = certificates;
  const direct = new Client(`127.0.0.1:${port}`, credentials.createSsl(rootCert, client.key, client.cert), {
    "grpc.ssl_target_name_override": DEVELOPMENT_SERVER_NAME,
  }) as unknown as { GetCustomer(request: unknown, done: (error: unknown) => void): void; close(): void };
  const plain = (): Promise<void> =>
    new Promise((resolve, reject) =>
      direct.GetCustomer({ customerId: KNOWN_CUSTOMERS.johnSmith }, (error) => (error ? reject(error) : resolve())),
    );
  const { paths } = certificates;
  const ours = await library(token, {
    tools: [join(import.meta.dir, "../../tools/customer-data")],
    systems: {
      "customer-master-service": {
        endpoint: `127.0.0.1:${port}`,
        proto: CUSTOMER_MASTER_PROTO_FOLDER,
        tls: {
          rootCert: paths.rootCert,
          clientCert: paths.clientCert,
          clientKey: paths.clientKey,
          serverName: DEVELOPMENT_SERVER_NAME,
        },
      },
    },
  });
  const governed = (): Promise<void> => ours.call("get_customer", { customerId: KNOWN_CUSTOMERS.johnSmith });
  await throughput(32, CALLS.grpc, plain);
  await throughput(32, CALLS.grpc, governed);
  const speeds: number[] = [];
  const costs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const bare = await cpuUs(() => throughput(32, CALLS.grpc, plain));
    const guarded = await cpuUs(() => throughput(32, CALLS.grpc, governed));
    speeds.push(guarded.done / bare.done);
    costs.push(bare.us / guarded.us);
  }
  direct.close();
  await ours.close();
  return { speed: median(speeds), cpu: median(costs) };
}

async function cliAddedMs(token: string): Promise<number> {
  const ours = await library(token, { tools: [join(import.meta.dir, "tools")], commands: { allowed: ["echo"] } });
  const echo = Bun.which("echo") ?? "/bin/echo";
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const at = performance.now();
    await work();
    return performance.now() - at;
  };
  const bare = async (): Promise<void> => {
    const child = Bun.spawn([echo, "hello there"], { stdout: "pipe", stderr: "pipe", stdin: "ignore", env: {} });
    await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  };
  const governed = (): Promise<void> => ours.call("bench_tiny", { text: "hello there" });
  const plain: number[] = [];
  const guarded: number[] = [];
  for (let round = 0; round < CALLS.cli; round += 1) {
    plain.push(await timed(bare));
    guarded.push(await timed(governed));
  }
  await ours.close();
  return median(guarded) - median(plain);
}

async function main(): Promise<void> {
  const token = await issueBenchToken(folder);
  const { c64, c1AddedUs, mcpC64, mcpAddedUs, mcpSessionsPerSecond, rssMb: rss, rssGrowth } = await http(token);
  const gate = await gateFindings(folder);
  const grpcCalls = await grpcRatios(token);
  const findings = {
    http_c64_ratio: c64,
    http_c1_added_us: c1AddedUs,
    mcp_c64_ratio: mcpC64,
    mcp_added_us: mcpAddedUs,
    mcp_sessions_per_second: mcpSessionsPerSecond,
    fdatasync_us: fdatasyncUs(),
    grpc_ratio: grpcCalls.speed,
    grpc_cpu_ratio: grpcCalls.cpu,
    cli_added_ms: await cliAddedMs(token),
    gate_pass_us: gate.passUs,
    gate_grant_us: gate.grantUs,
    rss_mb: rss,
    rss_second_half_ratio: rssGrowth,
  };
  if (process.argv.includes("--json")) {
    console.log(JSON.stringify(findings));
    return;
  }
  const rows = [
    ["governed POST /call against a bare fastify route, 64 connections", c64.toFixed(2), "≥ 0.5"],
    [
      "the same at 1 connection, added at the median",
      `${c1AddedUs.toFixed(0)} µs`,
      `≤ ${(findings.fdatasync_us + 150).toFixed(0)} µs`,
    ],
    ["governed MCP tools/call against the bare route, 64 connections", mcpC64.toFixed(2), "≥ 0.4"],
    ["MCP against POST /call at 1 connection, added at the median", `${mcpAddedUs.toFixed(0)} µs`, "≤ 60 µs"],
    ["MCP sessions of 2025-11-25: initialize, list, call", `${mcpSessionsPerSecond.toFixed(0)}/s`, ""],
    ["one write + fdatasync here", `${findings.fdatasync_us.toFixed(0)} µs`, ""],
    ["governed gRPC call against grpc-js alone, 32 in flight", findings.grpc_ratio.toFixed(2), "≥ 0.6"],
    ["the same in processor time of this process", findings.grpc_cpu_ratio.toFixed(2), ""],
    ["governed command against Bun.spawn alone, added", `${findings.cli_added_ms.toFixed(2)} ms`, "≤ 1.5 ms"],
    ["the gate, for a change that asks nobody", `${gate.passUs.toFixed(1)} µs`, "≤ 20 µs"],
    ["the gate, for a call that a session's approval covers", `${gate.grantUs.toFixed(0)} µs`, "≤ 1000 µs"],
    ["memory after 100,000 calls", `${rss.toFixed(0)} MB`, "≤ 150 MB"],
    ["memory, second half against first", rssGrowth.toFixed(2), "flat"],
  ];
  for (const [what = "", figure = "", wanted = ""] of rows)
    console.log(`${what.padEnd(68)}${figure.padStart(10)}   ${wanted}`);
}

try {
  await main();
} finally {
  for (const child of processes) child.kill();
  rmSync(folder, { recursive: true, force: true });
}
