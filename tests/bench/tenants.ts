import { join } from "node:path";
import type { Measured } from "./figures.ts";
import type { FloodFindings, FloodOrders } from "./flood.ts";
import { median } from "./footprint.ts";
import type { Findings } from "./load.ts";
import type { Bench } from "./over-http.ts";
import { attempt, type ServerProcess } from "./processes.ts";

const ROUNDS = 3;
const CALLS = { warmup: 5_000, round: 2_000 } as const;
/** The quiet tenant: a few connections, each with a call now and then. */
const QUIET = { connections: 4, everyMs: 10 } as const;

interface Kind extends Pick<FloodOrders, "connections" | "body"> {
  readonly callers: number;
  /** Time from the first request until the flood is at its height. */
  readonly risesMs: number;
}

/** Far over what a process carries out at once: 1,024 calls. */
const FLOODS = {
  cheap: {
    body: JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } }),
    ...{ connections: 1_500, callers: 100, risesMs: 2_000 },
  },
  slow: {
    body: JSON.stringify({ tool: "bench_wait", args: { ms: 2_000 } }),
    ...{ connections: 3_000, callers: 100, risesMs: 3_000 },
  },
  approvals: {
    body: '{"tool":"bench_ask","args":{"asks":true,"what":#}}',
    ...{ connections: 64, callers: 100, risesMs: 3_000 },
  },
} as const satisfies Readonly<Record<string, Kind>>;

/** Starts a flood. Returns the function that ends it. */
async function flood({ port }: ServerProcess, { body, connections, tokens }: Omit<FloodOrders, "port">) {
  const orders: FloodOrders = { port, body, connections, tokens };
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "flood.ts"), JSON.stringify(orders)], {
    stdin: "pipe",
    stdout: "pipe",
  });
  const lines = child.stdout.pipeThrough(new TextDecoderStream() as never) as unknown as ReadableStream<string>;
  const reader = lines.getReader();
  await reader.read();
  return async (): Promise<FloodFindings> => {
    await child.stdin.end();
    const { value = "{}" } = await reader.read();
    await child.exited;
    return JSON.parse(value) as FloodFindings;
  };
}

interface Answers {
  readonly alone: Findings;
  readonly flooded: Findings;
}

/** What a tenant notices of another that sends far too much: its latency against the same calls while nobody else calls. */
async function rounds({ server, agentOf }: Bench, kind: Kind, which: "one" | "two"): Promise<readonly Answers[]> {
  const [noisy, quiet] = which === "one" ? ["both", "both"] : ["noisy", "quiet"];
  const service = await server("governedTenants", which);
  const tokens = await Promise.all(Array.from({ length: kind.callers }, (_, at) => agentOf(noisy, `noisy ${at}`)));
  const token = await agentOf(quiet, "quiet");
  const body = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } });
  const orders = { token, body, port: service.port, ...QUIET, requests: CALLS.round };
  await attempt({ ...orders, requests: CALLS.warmup, everyMs: 0 });
  const found: Answers[] = [];
  while (found.length < ROUNDS) {
    const alone = await attempt(orders);
    const end = await flood(service, { ...kind, tokens });
    await Bun.sleep(kind.risesMs);
    const flooded = await attempt(orders);
    const statuses = await end();
    if (process.env["STC_BENCH_SAYS"] !== undefined) console.error(which, alone, flooded, statuses);
    found.push({ alone, flooded });
    // The calls that the flood has left behind end.
    await Bun.sleep(kind.risesMs);
  }
  process.kill(service.pid);
  return found;
}

const ratioOf = (all: readonly Answers[], of: (found: Findings) => number): number =>
  median(all.map(({ alone, flooded }) => of(flooded) / of(alone)));

async function figuresOf(bench: Bench, kind: Kind) {
  const two = await rounds(bench, kind, "two");
  const one = await rounds(bench, kind, "one");
  return {
    p50: ratioOf(two, ({ medianUs }) => medianUs),
    p99: ratioOf(two, ({ p99Us }) => p99Us),
    refused: two.reduce((sum, { flooded }) => sum + flooded.failed, 0),
    one: ratioOf(one, ({ medianUs }) => medianUs),
  };
}

export async function tenants(bench: Bench): Promise<Measured> {
  const cheap = await figuresOf(bench, FLOODS.cheap);
  const slow = await figuresOf(bench, FLOODS.slow);
  const approvals = await figuresOf(bench, FLOODS.approvals);
  return {
    tenants_cheap_p50_ratio: cheap.p50,
    tenants_cheap_p99_ratio: cheap.p99,
    tenants_cheap_one_p50_ratio: cheap.one,
    tenants_cheap_refused: cheap.refused,
    tenants_slow_p50_ratio: slow.p50,
    tenants_slow_p99_ratio: slow.p99,
    tenants_slow_one_p50_ratio: slow.one,
    tenants_slow_refused: slow.refused,
    tenants_approvals_p50_ratio: approvals.p50,
    tenants_approvals_p99_ratio: approvals.p99,
    tenants_approvals_one_p50_ratio: approvals.one,
    tenants_approvals_refused: approvals.refused,
  };
}
