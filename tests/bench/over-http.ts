import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Measured } from "./figures.ts";
import { median, rssMb } from "./footprint.ts";
import type { Orders } from "./load.ts";
import { load, type MeasuredLoad, measure, type ServerProcess } from "./processes.ts";
import type { BenchServer } from "./servers.ts";

/**
 * The parts of the bench whose service, bare routes and load generator are processes of their own. All sides of a part get
 * the same number of calls to warm up, and then take turns.
 */
export interface Bench {
  readonly folder: string;
  readonly token: string;
  /** Signs the token of an agent of a tenant. */
  agentOf(tenant: string, subject: string): Promise<string>;
  server(which: BenchServer, ...more: readonly string[]): Promise<ServerProcess>;
}

const ROUNDS = 5;
const CALLS = { warmup: 30_000, many: 20_000, one: 3_000, through: 6_000, memory: 100_000, sync: 100 } as const;
const CONNECTIONS = 64;
const THROUGH_CONNECTIONS = 32;

const MODERN = "2026-07-28";
const CLIENT = { name: "bench", version: "1" };
const ARGUMENTS = { text: "hello", count: 3 };

type Request = Pick<Orders, "path" | "headers" | "body">;

const CALL: Request = { body: JSON.stringify({ tool: "bench_echo", args: ARGUMENTS }) };

function mcpRequest(method: string, params: object, headers: readonly string[]): Request {
  return { path: "/mcp", headers, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) };
}

/** A call of 2026-07-28. */
function mcpCall(name: string, args: object): Request {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
  };
  const headers = [`MCP-Protocol-Version: ${MODERN}`, "Mcp-Method: tools/call", `Mcp-Name: ${name}`];
  return mcpRequest("tools/call", { name, arguments: args, _meta }, headers);
}

const MCP_CALL = mcpCall("bench_echo", ARGUMENTS);

/** The three requests that make a session of 2025-11-25. */
const MCP_SESSION = [
  { method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: CLIENT } },
  { method: "tools/list", params: {} },
  { method: "tools/call", params: { name: "bench_echo", arguments: ARGUMENTS } },
].map(({ method, params }) => mcpRequest(method, params, ["MCP-Protocol-Version: 2025-11-25"]));

/** One side of a comparison: a server, and the request that it gets. */
class Side {
  readonly server: ServerProcess;
  readonly #orders: Request & Pick<Orders, "token" | "port">;

  constructor(token: string, server: ServerProcess, request: Request) {
    this.server = server;
    this.#orders = { ...request, token, port: server.port };
  }

  async calls(connections: number, requests: number): Promise<MeasuredLoad> {
    return await measure(this.server, { ...this.#orders, connections, requests });
  }

  async one(): Promise<number> {
    return (await load({ ...this.#orders, connections: 1, requests: CALLS.one })).medianUs;
  }
}

async function warmUp(connections: number, sides: readonly Side[]): Promise<void> {
  for (const side of sides) await side.calls(connections, CALLS.warmup);
}

async function everyRound<T>(round: () => Promise<T>): Promise<readonly T[]> {
  const found: T[] = [];
  while (found.length < ROUNDS) found.push(await round());
  return found;
}

/** What the load generator itself used, when it used most. */
function ofLoad(loads: readonly MeasuredLoad[]): { readonly us: number; readonly busy: number } {
  const most = (value: (found: MeasuredLoad) => number): number => Math.max(...loads.map(value));
  return { us: most(({ loadUs }) => loadUs), busy: most(({ loadBusy }) => loadBusy) };
}

export async function http({ folder, token, server }: Bench): Promise<Measured> {
  const bare = new Side(token, await server("bare"), CALL);
  const bareBun = new Side(token, await server("bareBun"), CALL);
  const governed = new Side(token, await server("governed"), CALL);
  await warmUp(CONNECTIONS, [bare, bareBun, governed]);
  const rounds = await everyRound(async () => {
    const plain = await bare.calls(CONNECTIONS, CALLS.many);
    const plainBun = await bareBun.calls(CONNECTIONS, CALLS.many);
    const ours = await governed.calls(CONNECTIONS, CALLS.many);
    const addedUs = -(await bare.one()) + (await governed.one());
    return { plain, plainBun, ours, addedUs, syncUs: fdatasyncUs(join(folder, "sync")) };
  });
  const over = (value: (round: (typeof rounds)[number]) => number): number => median(rounds.map(value));
  // Of the route of Bun.serve, only the processor time is compared: the load generator may limit its calls per second.
  const generator = ofLoad(rounds.flatMap(({ plain, ours }) => [plain, ours]));
  return {
    http_c64_ratio: over(({ plain, ours }) => ours.perSecond / plain.perSecond),
    http_cpu_ratio: over(({ plain, ours }) => plain.cpuUs / ours.cpuUs),
    http_cpu_bun_serve_ratio: over(({ plainBun, ours }) => plainBun.cpuUs / ours.cpuUs),
    http_c1_added_us: over(({ addedUs }) => addedUs),
    http_c1_own_us: over(({ addedUs, syncUs }) => addedUs - syncUs),
    fdatasync_us: over(({ syncUs }) => syncUs),
    http_load_us: generator.us,
    http_load_busy: generator.busy,
  };
}

export async function mcp({ token, server }: Bench): Promise<Measured> {
  const bare = new Side(token, await server("bare"), CALL);
  const service = await server("governed");
  const call = new Side(token, service, CALL);
  const governed = new Side(token, service, MCP_CALL);
  await warmUp(CONNECTIONS, [bare, call, governed]);
  const rounds = await everyRound(async () => {
    const plain = await bare.calls(CONNECTIONS, CALLS.many);
    const ours = await governed.calls(CONNECTIONS, CALLS.many);
    return { plain, ours, addedUs: -(await call.one()) + (await governed.one()) };
  });
  let sessionSeconds = 0;
  for (const request of MCP_SESSION) {
    sessionSeconds += 1 / (await new Side(token, service, request).calls(CONNECTIONS, CALLS.many)).perSecond;
  }
  const generator = ofLoad(rounds.flatMap(({ plain, ours }) => [plain, ours]));
  return {
    mcp_c64_ratio: median(rounds.map(({ plain, ours }) => ours.perSecond / plain.perSecond)),
    mcp_added_us: median(rounds.map(({ addedUs }) => addedUs)),
    mcp_sessions_per_second: 1 / sessionSeconds,
    mcp_load_us: generator.us,
    mcp_load_busy: generator.busy,
  };
}

/** MCP client → service → MCP server, each a process of its own; only the service's process is measured. */
export async function mcpThrough({ token, server }: Bench): Promise<Measured> {
  const upstream = await server("mcp");
  const bare = new Side(token, await server("bare"), CALL);
  const service = await server("governedMcp", String(upstream.port));
  const governed = new Side(token, service, mcpCall("bench_upstream", { text: "hello" }));
  await warmUp(THROUGH_CONNECTIONS, [bare, governed]);
  const rounds = await everyRound(async () => ({
    plain: await bare.calls(THROUGH_CONNECTIONS, CALLS.many),
    ours: await governed.calls(THROUGH_CONNECTIONS, CALLS.through),
  }));
  const generator = ofLoad(rounds.flatMap(({ plain, ours }) => [plain, ours]));
  return {
    mcp_through_cpu_ratio: median(rounds.map(({ plain, ours }) => ours.cpuUs / plain.cpuUs)),
    mcp_through_cpu_us: median(rounds.map(({ ours }) => ours.cpuUs)),
    mcp_through_load_us: generator.us,
    mcp_through_load_busy: generator.busy,
  };
}

export async function memory({ token, server }: Bench): Promise<Measured> {
  const service = await server("governed");
  const call = new Side(token, service, CALL);
  await warmUp(CONNECTIONS, [call, new Side(token, service, MCP_CALL)]);
  await call.calls(CONNECTIONS, CALLS.memory / 2);
  const half = rssMb(service.pid);
  await call.calls(CONNECTIONS, CALLS.memory / 2);
  const whole = rssMb(service.pid);
  return { rss_mb: whole, rss_second_half_ratio: whole / half };
}

/** Returns the time of one write and `fdatasync`, at the median. */
function fdatasyncUs(file: string): number {
  const descriptor = openSync(file, "a");
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
