import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { credentials } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { z } from "zod";
import { DEVELOPMENT_SERVER_NAME, developmentCertificates } from "../../src/cli/development/certificates.ts";
import { CUSTOMER_MASTER_PROTO_FOLDER } from "../../src/cli/development/customer-master.ts";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import { defineTool, mcpTool, SafeToolCall } from "../../src/index.ts";
import { auditReadingFindings } from "./audit-reading.ts";
import { footprint, median, rssMb } from "./footprint.ts";
import { gateFindings } from "./gate.ts";
import type { Orders } from "./load.ts";
import { type BenchServer, cpuMs, load, type ServerProcess, startServer } from "./processes.ts";
import { issueBenchTokens } from "./token.ts";
import { echo } from "./tools/echo.ts";

/**
 * What the governing costs, as ratios against the same work ungoverned, both measured in this run. Absolute figures of a
 * shared machine mean nothing; neither do single runs, so every pair alternates and the medians are compared.
 */
const ROUNDS = 5;
const CALLS = {
  warmup: 30_000,
  c64: 20_000,
  c1: 3_000,
  memory: 100_000,
  library: 20_000,
  quotas: 4_000,
  grpc: 6_000,
  upstream: 6_000,
  api: 10_000,
  cli: 300,
  sync: 500,
} as const;

const folder = mkdtempSync(join(tmpdir(), "stc-bench-"));
const processes: Bun.Subprocess[] = [];

async function server(which: BenchServer, ...more: readonly string[]): Promise<ServerProcess> {
  const started = await startServer(which, folder, ...more);
  processes.push(started.child);
  return started;
}

interface HttpFindings {
  readonly c64: number;
  readonly cpu: number;
  readonly cpuAgainstBun: number;
  readonly c1AddedUs: number;
  readonly mcpC64: number;
  /** Over `POST /call`. */
  readonly mcpAddedUs: number;
  readonly mcpSessionsPerSecond: number;
  readonly rssMb: number;
  readonly rssGrowth: number;
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

async function http(token: string): Promise<HttpFindings> {
  const bare = await server("bare");
  const bareBun = await server("bareBun");
  const governed = await server("governed");
  const body = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } });
  const orders = (port: number, connections: number, requests: number): Orders => ({
    port,
    token,
    body,
    connections,
    requests,
  });
  for (const { port } of [bare, bareBun, governed]) await load(orders(port, 64, CALLS.warmup));
  const at64 = async ({ port, pid }: ServerProcess): Promise<{ perSecond: number; cpuMs: number }> => {
    const before = cpuMs(pid);
    const { perSecond } = await load(orders(port, 64, CALLS.c64));
    return { perSecond, cpuMs: cpuMs(pid) - before };
  };
  await load(asMcp(orders(governed.port, 64, CALLS.warmup), MCP.call));
  const mcpRatios: number[] = [];
  const mcpAdded: number[] = [];
  const ratios: number[] = [];
  const costs: number[] = [];
  const costsAgainstBun: number[] = [];
  const added: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const plain = await at64(bare);
    const plainBun = await at64(bareBun);
    const ours = await at64(governed);
    ratios.push(ours.perSecond / plain.perSecond);
    costs.push(plain.cpuMs / ours.cpuMs);
    costsAgainstBun.push(plainBun.cpuMs / ours.cpuMs);
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
    c64: median(ratios),
    cpu: median(costs),
    cpuAgainstBun: median(costsAgainstBun),
    c1AddedUs: median(added),
    rssMb: whole,
    rssGrowth: whole / half,
    ...{ mcpC64: median(mcpRatios), mcpAddedUs: median(mcpAdded), mcpSessionsPerSecond: 1 / sessionSeconds },
  };
}

/** Returns the processor time of a process with all its threads: it moves less than throughput when others use the machine. */
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
  options: Pick<Parameters<typeof SafeToolCall.create>[0], "tools" | "systems" | "commands" | "limits">,
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

/**
 * Processor time of a library call, in microseconds, and its ratio to what every caller of the function needs: parse the JSON of
 * the arguments, check them and the answer with Zod, and write the answer as JSON.
 */
async function libraryCost(token: string): Promise<{ readonly us: number; readonly ratio: number }> {
  const ours = await library(token, { tools: [echo] });
  const sent = JSON.stringify({ text: "hello", count: 3 });
  const governed = (): Promise<void> => ours.call("bench_echo", JSON.parse(sent));
  const plain = async (): Promise<unknown> => {
    const { text, count } = echo.input.parse(JSON.parse(sent));
    return JSON.stringify(echo.output.parse({ text, count, email: "somebody@example.org" }));
  };
  const costs: number[] = [];
  const ratios: number[] = [];
  // The first round only warms up the code.
  for (let round = 0; round <= ROUNDS; round += 1) {
    const bare = await cpuUs(() => throughput(64, CALLS.library, plain));
    const guarded = await cpuUs(() => throughput(64, CALLS.library, governed));
    if (round === 0) continue;
    costs.push(guarded.us / CALLS.library);
    ratios.push(guarded.us / bare.us);
  }
  await ours.close();
  return { us: median(costs), ratio: median(ratios) };
}

const QUOTAS_MAX = 1_000_000_000;

/** What three quotas add to a library call while leases are at hand: processor time, in microseconds. */
async function quotasAddedUs(token: string): Promise<number> {
  const quotas = [
    { name: "own", per: ["caller" as const], calls: QUOTAS_MAX, window: "day" as const },
    { name: "of-tool", per: ["caller" as const, "tool" as const], calls: QUOTAS_MAX, window: "hour" as const },
    { name: "of-all", per: [], calls: QUOTAS_MAX, window: "month" as const },
  ];
  const bare = await library(token, { tools: [echo] });
  const limited = await library(token, { tools: [echo], limits: { quotas } });
  const cost = async ({ call }: Awaited<ReturnType<typeof library>>): Promise<number> => {
    const spent = () => throughput(64, CALLS.quotas, () => call("bench_echo", { text: "hello", count: 3 }));
    return (await cpuUs(spent)).us / CALLS.quotas;
  };
  const added: number[] = [];
  // Many short rounds: the difference is small. The first ones only warm up the code, and take the leases.
  for (let round = 0; round <= ROUNDS * 6; round += 1) {
    const without = await cost(bare);
    const withQuotas = await cost(limited);
    if (round > 5) added.push(withQuotas - without);
  }
  await Promise.all([bare.close(), limited.close()]);
  return median(added);
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
  const ServiceClient = path.reduce<Record<string, never>>(
    (scope, name) => scope[name] as never,
    loaded,
  ) as unknown as grpc.ServiceClientConstructor;
  const { rootCert, client } = certificates;
  const direct = new ServiceClient(`127.0.0.1:${port}`, credentials.createSsl(rootCert, client.key, client.cert), {
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

const upstreamEcho = defineTool({
  name: "bench_upstream",
  description: "Answer what was asked",
  classification: "read",
  permissions: { required: ["bench:run"] },
  input: z.strictObject({ text: z.string().max(200) }),
  output: z.strictObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
  target: mcpTool("bench", "echo"),
});

/** The same server behind the service and behind the official client. */
async function upstreamRatios(token: string): Promise<{ readonly speed: number; readonly cpu: number }> {
  const { port } = await server("mcp");
  const url = `http://127.0.0.1:${port}/mcp`;
  const direct = new Client(CLIENT);
  await direct.connect(new StreamableHTTPClientTransport(new URL(url)));
  const ours = await library(token, {
    tools: [upstreamEcho],
    systems: { bench: { mcp: { url, plaintext: true, addresses: ["loopback"] } } },
  });
  const plain = (): Promise<unknown> => direct.callTool({ name: "echo", arguments: { text: "hello" } });
  const governed = (): Promise<void> => ours.call("bench_upstream", { text: "hello" });
  await throughput(32, CALLS.warmup, plain);
  await throughput(32, CALLS.warmup, governed);
  const speeds: number[] = [];
  const costs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const bare = await cpuUs(() => throughput(32, CALLS.upstream, plain));
    const guarded = await cpuUs(() => throughput(32, CALLS.upstream, governed));
    speeds.push(guarded.done / bare.done);
    costs.push(bare.us / guarded.us);
  }
  await direct.close();
  await ours.close();
  return { speed: median(speeds), cpu: median(costs) };
}

/**
 * The same request to an HTTP service through `POST /call` and by the agent itself. `cpu`: processor time of the service, to that
 * of the service and the proxy.
 */
async function apiRatios(token: string): Promise<{ readonly speed: number; readonly cpu: number }> {
  const api = await server("api");
  const proxy = await server("governedApi", String(api.port));
  const common = { token, connections: 32, requests: CALLS.api };
  const direct: Orders = { ...common, port: api.port, method: "GET", path: "/v1/customers/C-1001", body: "" };
  const body = JSON.stringify({ tool: "bench_customer", args: { id: "C-1001" } });
  const governed: Orders = { ...common, port: proxy.port, body };
  const timed = async (orders: Orders): Promise<{ perSecond: number; cpuMs: number }> => {
    const usedMs = (): number => cpuMs(api.pid) + cpuMs(proxy.pid);
    const before = usedMs();
    const { perSecond } = await load(orders);
    return { perSecond, cpuMs: usedMs() - before };
  };
  const speeds: number[] = [];
  const costs: number[] = [];
  for (const orders of [direct, governed]) await load({ ...orders, requests: CALLS.warmup });
  for (let round = 0; round < ROUNDS; round += 1) {
    const plain = await timed(direct);
    const ours = await timed(governed);
    speeds.push(ours.perSecond / plain.perSecond);
    costs.push(plain.cpuMs / ours.cpuMs);
  }
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

type Unit = "" | "µs" | "ms" | "MB";

const DIGITS: Readonly<Record<Unit, number>> = { "": 2, µs: 1, ms: 2, MB: 0 };

interface Figure {
  readonly key: string;
  readonly about: string;
  readonly value: number;
  readonly unit: Unit;
  readonly goal: string;
}

function figure(key: string, value: number, about: string, goal = "", unit: Unit = ""): Figure {
  return { key, about, value, unit, goal };
}

async function main(): Promise<void> {
  const { agent: token } = await issueBenchTokens(folder);
  const calls = await http(token);
  const gate = await gateFindings(folder);
  const libraryCall = await libraryCost(token);
  const quotasUs = await quotasAddedUs(token);
  const grpcCalls = await grpcRatios(token);
  const upstream = await upstreamRatios(token);
  const api = await apiRatios(token);
  const reading = auditReadingFindings(folder);
  const sync = fdatasyncUs();
  const { readyMs, idleRssMb } = await footprint(folder);
  const figures = [
    figure("http_c64_ratio", calls.c64, "governed POST /call against a bare fastify route, 64 connections", "≥ 0.55"),
    figure("http_cpu_ratio", calls.cpu, "the same in processor time of the server process", "≥ 0.50"),
    figure("http_cpu_bun_serve_ratio", calls.cpuAgainstBun, "processor time against a bare Bun.serve route"),
    figure(
      "http_c1_added_us",
      calls.c1AddedUs,
      "1 connection: added to the bare fastify route, at the median",
      `≤ ${(sync + 120).toFixed(0)} µs`,
      "µs",
    ),
    figure("mcp_c64_ratio", calls.mcpC64, "governed MCP tools/call against the bare route, 64 connections", "≥ 0.40"),
    figure("mcp_added_us", calls.mcpAddedUs, "MCP against POST /call at 1 connection, at the median", "≤ 60 µs", "µs"),
    figure("mcp_sessions_per_second", calls.mcpSessionsPerSecond, "MCP sessions of 2025-11-25: initialize, list, call"),
    figure("fdatasync_us", sync, "one write + fdatasync here", "", "µs"),
    figure("library_us", libraryCall.us, "library call, 64 in flight: processor time of this process", "≤ 12 µs", "µs"),
    figure("library_ratio", libraryCall.ratio, "the same against JSON and Zod of the same function alone"),
    figure("quotas_added_us", quotasUs, "added by three quotas to a library call, with leases", "≤ 3 µs", "µs"),
    figure("grpc_ratio", grpcCalls.speed, "governed gRPC call against grpc-js alone, 32 in flight", "≥ 0.62"),
    figure(
      "mcp_upstream_ratio",
      upstream.speed,
      "governed tool of an MCP server against the official client",
      "≥ 0.60",
    ),
    figure("mcp_upstream_cpu_ratio", upstream.cpu, "the same in processor time of this process"),
    figure(
      "http_target_ratio",
      api.speed,
      "governed request to an HTTP service against the request alone, 32 in flight",
      "≥ 0.50",
    ),
    figure("http_target_cpu_ratio", api.cpu, "the same in processor time of the servers"),
    figure("grpc_cpu_ratio", grpcCalls.cpu, "the same in processor time of this process"),
    figure(
      "cli_added_ms",
      await cliAddedMs(token),
      "governed command against Bun.spawn alone, added",
      "≤ 0.6 ms",
      "ms",
    ),
    figure("gate_pass_us", gate.passUs, "approval gate, for a change that asks nobody", "≤ 20 µs", "µs"),
    figure(
      "gate_grant_us",
      gate.grantUs,
      "approval gate, for a call that a session's approval covers",
      "≤ 1000 µs",
      "µs",
    ),
    figure("rss_mb", calls.rssMb, "memory after 100,000 calls, settings of the image", "≤ 140 MB", "MB"),
    figure("rss_second_half_ratio", calls.rssGrowth, "memory, second half against first", "≤ 1.02"),
    figure("idle_rss_mb", idleRssMb, "memory of the binary that is ready, before any call", "≤ 90 MB", "MB"),
    figure("ready_ms", readyMs, "start of the binary until it is ready", "≤ 250 ms", "ms"),
    figure("audit_stats_ratio", reading.statsRatio, "audit stats over a million calls (1 GB) against DuckDB", "≤ 2"),
    figure("audit_first_stats_ratio", reading.firstStatsRatio, "the same the first time, when the index is built"),
    figure("audit_trace_ms", reading.traceMs, "one trace id in that day", "≤ 150 ms", "ms"),
    figure("audit_plain_trace_ms", reading.plainTraceMs, "the same without the index", "", "ms"),
  ];
  if (process.argv.includes("--json")) {
    console.log(JSON.stringify(Object.fromEntries(figures.map(({ key, value }) => [key, value]))));
    return;
  }
  for (const { about, value, unit, goal } of figures) {
    console.log(`${about.padEnd(68)}${`${value.toFixed(DIGITS[unit])} ${unit}`.padStart(10)}   ${goal}`);
  }
}

try {
  await main();
} finally {
  for (const child of processes) child.kill();
  rmSync(folder, { recursive: true, force: true });
}
