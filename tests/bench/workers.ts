import { childrenOf } from "../support/processes.ts";
import { median } from "./footprint.ts";
import type { Orders } from "./load.ts";
import { cpuMs, load, type ServerProcess } from "./processes.ts";

const ROUNDS = 5;
const CALLS = { warmup: 20_000, round: 20_000 } as const;
/** For each process: the lines of calls that run at once share a sync. Uneven shares stay below the tool's limit of a worker, 32. */
const CONNECTIONS = 20;

/**
 * Returns how much two workers can do, as a multiple of one process: the calls per core-second that the service uses, by two workers
 * to one process, times two. A machine with two cores has none left for a load generator, so that calls per second say nothing;
 * what two workers lose to each other and to their parent is processor time.
 */
export async function workersRatio(one: ServerProcess, two: ServerProcess, token: string): Promise<number> {
  const body = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } });
  const ordersOf = (port: number, processes: number, requests: number): Orders => ({
    ...{ token, body, port },
    connections: CONNECTIONS * processes,
    requests: requests * processes,
  });
  const perCoreSecond = async ({ port, pid }: ServerProcess, processes: number): Promise<number> => {
    const before = treeCpuMs(pid);
    const orders = ordersOf(port, processes, CALLS.round);
    await load(orders);
    return (orders.requests * 1_000) / (treeCpuMs(pid) - before);
  };
  await load(ordersOf(one.port, 1, CALLS.warmup));
  await load(ordersOf(two.port, 2, CALLS.warmup));
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const alone = await perCoreSecond(one, 1);
    ratios.push((await perCoreSecond(two, 2)) / alone);
  }
  return 2 * median(ratios);
}

/** Processor time of a process and its children. */
function treeCpuMs(pid: number): number {
  return [pid, ...childrenOf(pid)].reduce((sum, each) => sum + cpuMs(each), 0);
}
