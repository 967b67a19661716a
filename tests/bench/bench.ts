import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { credentials } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { DEVELOPMENT_SERVER_NAME, developmentCertificates } from "../../src/cli/development/certificates.ts";
import { CUSTOMER_MASTER_PROTO_FOLDER } from "../../src/cli/development/customer-master.ts";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import { SafeToolCall } from "../../src/index.ts";
import { auditReadingFindings } from "./audit-reading.ts";
import { fingerprintRatio, flowCosts } from "./data-flow.ts";
import { figureLines, type Measured } from "./figures.ts";
import { footprint, median, rssMb } from "./footprint.ts";
import { gateFindings } from "./gate.ts";
import type { Orders } from "./load.ts";
import { upstreamEcho, upstreamSystem } from "./mcp-tool.ts";
import { type Bench, http, mcp, mcpThrough, memory } from "./over-http.ts";
import { type BenchServer, cpuMs, load, type ServerProcess, startServer } from "./processes.ts";
import { FIND_ORDERS, MANY_ROWS, openOrders } from "./sql.ts";
import { tenants } from "./tenants.ts";
import { issueBenchTokens } from "./token.ts";
import { echo } from "./tools/echo.ts";
import { workersRatio } from "./workers.ts";

/**
 * What the governing costs, as ratios against the same work ungoverned, both measured in this run. Absolute figures of a
 * shared machine mean nothing; neither do single runs, so every pair alternates and the medians are compared.
 */
const ROUNDS = 5;
const CALLS = {
  warmup: 30_000,
  library: 20_000,
  quotas: 4_000,
  grpc: 6_000,
  upstream: 6_000,
  api: 10_000,
  cli: 300,
  sql: 3_000,
} as const;

const folder = mkdtempSync(join(tmpdir(), "stc-bench-"));
const processes: Bun.Subprocess[] = [];

async function server(which: BenchServer, ...more: readonly string[]): Promise<ServerProcess> {
  const started = await startServer(which, folder, ...more);
  processes.push(started.child);
  return started;
}

const CLIENT = { name: "bench", version: "1" };

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

/** The same server behind the service and behind the official client. */
async function upstreamRatios(token: string): Promise<{ readonly speed: number; readonly cpu: number }> {
  const { port } = await server("mcp");
  const systems = upstreamSystem(port);
  const direct = new Client(CLIENT);
  await direct.connect(new StreamableHTTPClientTransport(new URL(systems.bench.mcp.url)));
  const ours = await library(token, { tools: [upstreamEcho], systems });
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

/**
 * A governed query against the same transaction by the driver alone, also while another program writes, and what a result of ten
 * million rows adds to the memory.
 */
async function sqlFindings(
  token: string,
): Promise<{ speed: number; cpu: number; speedWhileWritten: number; manyRowsMb: number }> {
  const orders = await openOrders();
  const ours = await library(token, orders.settings);
  const plain = (): Promise<void> => orders.alone(orders.next().customer);
  const governed = (): Promise<void> => ours.call(FIND_ORDERS, orders.next());
  for (const call of [plain, governed]) await throughput(32, CALLS.warmup, call);
  const costs: number[] = [];
  const rounds = async (): Promise<number> => {
    const speeds: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const bare = await cpuUs(() => throughput(32, CALLS.sql, plain));
      const guarded = await cpuUs(() => throughput(32, CALLS.sql, governed));
      speeds.push(guarded.done / bare.done);
      costs.push(bare.us / guarded.us);
    }
    return median(speeds);
  };
  const speed = await rounds();
  const cpu = median(costs);
  const stopWriting = orders.write();
  const speedWhileWritten = await rounds();
  await stopWriting();
  const before = rssMb(process.pid);
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, rssMb(process.pid));
  }, 5);
  await ours.call(MANY_ROWS, {});
  clearInterval(watch);
  await ours.close();
  await orders.close();
  return { speed, cpu, speedWhileWritten, manyRowsMb: most - before };
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

/** What can be measured alone: `bun run bench mcp-through library`. */
const PARTS: Readonly<Record<string, (bench: Bench) => Promise<Measured>>> = {
  http,
  mcp,
  "mcp-through": mcpThrough,
  memory,
  workers: async ({ token }) => ({
    workers_ratio: await workersRatio(
      await server("governedWorkers", "1"),
      await server("governedWorkers", "2"),
      token,
    ),
  }),
  tenants,
  gate: async () => {
    const { passUs, grantUs } = await gateFindings(folder);
    return { gate_pass_us: passUs, gate_grant_us: grantUs };
  },
  library: async ({ token }) => {
    const { us, ratio } = await libraryCost(token);
    return { library_us: us, library_ratio: ratio };
  },
  quotas: async ({ token }) => ({ quotas_added_us: await quotasAddedUs(token) }),
  "data-flow": async () => {
    const { read, send } = await flowCosts(folder);
    return {
      data_flow_prose_ratio: fingerprintRatio("prose"),
      data_flow_addresses_ratio: fingerprintRatio("addresses"),
      data_flow_codes_ratio: fingerprintRatio("codes"),
      data_flow_read_us: read.p50,
      data_flow_read_p99_us: read.p99,
      data_flow_send_us: send.p50,
      data_flow_send_p99_us: send.p99,
    };
  },
  grpc: async ({ token }) => {
    const { speed, cpu } = await grpcRatios(token);
    return { grpc_ratio: speed, grpc_cpu_ratio: cpu };
  },
  "mcp-upstream": async ({ token }) => {
    const { speed, cpu } = await upstreamRatios(token);
    return { mcp_upstream_ratio: speed, mcp_upstream_cpu_ratio: cpu };
  },
  "http-target": async ({ token }) => {
    const { speed, cpu } = await apiRatios(token);
    return { http_target_ratio: speed, http_target_cpu_ratio: cpu };
  },
  sql: async ({ token }) => {
    const { speed, cpu, speedWhileWritten, manyRowsMb } = await sqlFindings(token);
    return {
      sql_ratio: speed,
      sql_cpu_ratio: cpu,
      sql_while_written_ratio: speedWhileWritten,
      sql_many_rows_mb: manyRowsMb,
    };
  },
  command: async ({ token }) => ({ cli_added_ms: await cliAddedMs(token) }),
  binary: async () => {
    const { readyMs, idleRssMb } = await footprint(folder);
    return { idle_rss_mb: idleRssMb, ready_ms: readyMs };
  },
  audit: async () => {
    const { statsRatio, firstStatsRatio, traceMs, plainTraceMs } = auditReadingFindings(folder);
    const stats = { audit_stats_ratio: statsRatio, audit_first_stats_ratio: firstStatsRatio };
    return { ...stats, audit_trace_ms: traceMs, audit_plain_trace_ms: plainTraceMs };
  },
};

/** The servers of a part end with it, so that they do not take time from the next. */
async function measurePart(
  part: (bench: Bench) => Promise<Measured>,
  tokens: Pick<Bench, "token" | "agentOf">,
): Promise<Measured> {
  try {
    return await part({ folder, server, ...tokens });
  } finally {
    for (const child of processes.splice(0)) {
      child.kill();
      await child.exited;
    }
  }
}

async function main(args: readonly string[]): Promise<void> {
  const named = args.filter((arg) => arg !== "--json");
  const unknown = named.filter((name) => !Object.hasOwn(PARTS, name));
  if (unknown.length > 0) {
    throw new Error(`unknown part: ${unknown.join(", ")}. Parts: ${Object.keys(PARTS).join(", ")}`);
  }
  const { agent: token, agentOf } = await issueBenchTokens(folder);
  let measured: Measured = {};
  for (const [name, part] of Object.entries(PARTS)) {
    if (named.length > 0 && !named.includes(name)) continue;
    measured = { ...measured, ...(await measurePart(part, { token, agentOf })) };
  }
  console.log(args.includes("--json") ? JSON.stringify(measured) : figureLines(measured).join("\n"));
}

try {
  await main(process.argv.slice(2));
} finally {
  for (const child of processes) child.kill();
  rmSync(folder, { recursive: true, force: true });
}
