import { readdirSync, readFileSync } from "node:fs";
import { median } from "./footprint.ts";
import type { Orders } from "./load.ts";
import { cpuMs, load, type ServerProcess } from "./processes.ts";

const ROUNDS = 5;
const CALLS = { warmup: 20_000, round: 20_000 } as const;
/** No more than one worker accepts calls of the tool at once: the system does not spread connections evenly. */
const CONNECTIONS = 32;

/**
 * Returns how much two workers can do, as a multiple of one process: the calls per core-second that the service uses, by two workers
 * to one process, times two. A machine with two cores has none left for a load generator, so that calls per second say nothing;
 * what two workers lose to each other and to their parent is processor time.
 */
export async function workersRatio(one: ServerProcess, two: ServerProcess, token: string): Promise<number> {
  const body = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } });
  const orders = { token, body, connections: CONNECTIONS };
  const perCoreSecond = async ({ port, pid }: ServerProcess): Promise<number> => {
    const before = treeCpuMs(pid);
    await load({ ...orders, port, requests: CALLS.round } satisfies Orders);
    return (CALLS.round * 1_000) / (treeCpuMs(pid) - before);
  };
  for (const { port } of [one, two]) await load({ ...orders, port, requests: CALLS.warmup } satisfies Orders);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const alone = await perCoreSecond(one);
    ratios.push((await perCoreSecond(two)) / alone);
  }
  return 2 * median(ratios);
}

/** Processor time of a process and its children. */
function treeCpuMs(pid: number): number {
  return [pid, ...childrenOf(pid)].reduce((sum, each) => sum + cpuMs(each), 0);
}

function childrenOf(pid: number): readonly number[] {
  const tasks = readdirSync(`/proc/${pid}/task`);
  return tasks.flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
}
