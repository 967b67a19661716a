import { join } from "node:path";
import type { Measured } from "./figures.ts";
import type { FloodOrders } from "./flood.ts";
import { median } from "./footprint.ts";
import type { Findings } from "./load.ts";
import type { Bench } from "./over-http.ts";
import { attempt, type ServerProcess } from "./processes.ts";

const ROUNDS = 3;
const CALLS = { warmup: 5_000, round: 500 } as const;
/** The quiet tenant: a few connections, each with a call now and then. */
const QUIET = { connections: 4, everyMs: 10 } as const;
const ECHO = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } });

interface Kind extends Pick<FloodOrders, "connections" | "bodies"> {
  /** Time from the first request until the flood is at its height, and from its end until nothing of it is left. */
  readonly risesMs: number;
}

/** Floods of one tenant. A process carries out 1,024 calls at once. */
const FLOODS = {
  cheap: { connections: 1_500, bodies: [ECHO], risesMs: 2_000 },
  slow: {
    ...{ connections: 3_000, risesMs: 3_000 },
    bodies: [JSON.stringify({ tool: "bench_wait", args: { ms: 2_000 } })],
  },
  approvals: {
    ...{ connections: 64, risesMs: 5_000 },
    bodies: [true, false].map((asks) => `{"tool":"bench_ask","args":{"asks":${asks},"what":#}}`),
  },
} as const satisfies Readonly<Record<string, Kind>>;
const FLOODING_CALLERS = 100;

/** Starts a flood. Returns the function that ends it. */
async function flood({ port }: ServerProcess, { bodies, connections }: Kind, tokens: readonly string[]) {
  const orders: FloodOrders = { port, bodies, connections, tokens };
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "flood.ts"), JSON.stringify(orders)], {
    stdin: "pipe",
    stdout: "pipe",
  });
  await child.stdout.getReader().read();
  return async (): Promise<void> => {
    await child.stdin.end();
    await child.exited;
  };
}

interface Answers {
  readonly alone: Findings;
  readonly flooded: Findings;
}

/**
 * Measures what a tenant, or another caller of the same tenant, notices of one that sends far too much: its latency against the same
 * calls while nobody else calls.
 */
async function rounds({ server, agentOf }: Bench, kind: Kind, isDivided: boolean): Promise<readonly Answers[]> {
  const [noisy, quiet] = isDivided ? ["noisy", "quiet"] : ["both", "both"];
  const service = await server("governedTenants", noisy, quiet);
  const signing = Array.from({ length: FLOODING_CALLERS }, (_, at) => agentOf(noisy, `noisy ${at}`));
  const tokens = await Promise.all(signing);
  const orders = { token: await agentOf(quiet, "quiet"), body: ECHO, port: service.port, ...QUIET };
  await attempt({ ...orders, requests: CALLS.warmup, everyMs: 0 });
  const found: Answers[] = [];
  while (found.length < ROUNDS) {
    const alone = await attempt({ ...orders, requests: CALLS.round });
    const end = await flood(service, kind, tokens);
    await Bun.sleep(kind.risesMs);
    const flooded = await attempt({ ...orders, requests: CALLS.round });
    await end();
    found.push({ alone, flooded });
    await Bun.sleep(kind.risesMs);
  }
  process.kill(service.pid);
  return found;
}

function over(all: readonly Answers[], of: (answers: Answers) => number): number {
  return median(all.map(of));
}

const ratios = (all: readonly Answers[]) => ({
  p50: over(all, ({ alone, flooded }) => flooded.medianUs / alone.medianUs),
  p99: over(all, ({ alone, flooded }) => flooded.p99Us / alone.p99Us),
  refused: all.reduce((sum, { flooded }) => sum + flooded.failed, 0),
});

const medianUs = (all: readonly Answers[]): number => over(all, ({ flooded }) => flooded.medianUs);

export async function tenants(bench: Bench): Promise<Measured> {
  const { cheap, slow, approvals } = FLOODS;
  const [divided, undivided] = [await rounds(bench, cheap, true), await rounds(bench, cheap, false)];
  const underCheap = ratios(divided);
  const underSlow = ratios(await rounds(bench, slow, true));
  const alike = ratios(await rounds(bench, slow, false));
  const underApprovals = ratios(await rounds(bench, approvals, true));
  return {
    tenants_cheap_p50_ratio: underCheap.p50,
    tenants_cheap_p99_ratio: underCheap.p99,
    tenants_cheap_undivided_ratio: medianUs(divided) / medianUs(undivided),
    tenants_slow_p50_ratio: underSlow.p50,
    tenants_slow_p99_ratio: underSlow.p99,
    tenants_slow_undivided_refused: alike.refused / (ROUNDS * CALLS.round),
    tenants_approvals_p50_ratio: underApprovals.p50,
    tenants_approvals_p99_ratio: underApprovals.p99,
    tenants_refused: underCheap.refused + underSlow.refused + underApprovals.refused,
  };
}
