import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runtimeSettings } from "./footprint.ts";
import type { Findings, Orders } from "./load.ts";
import type { BenchServer } from "./servers.ts";

export type { BenchServer };

export interface ServerProcess {
  readonly port: number;
  readonly pid: number;
}

/** Starts a server of the bench as a process of its own, which says its port. */
export async function startServer(which: BenchServer, folder: string, ...more: readonly string[]) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "servers.ts"), which, folder, ...more], {
    env: { ...process.env, ...runtimeSettings() },
    stdout: "pipe",
    stderr: "inherit",
  });
  const { value } = await child.stdout.getReader().read();
  return { port: Number(new TextDecoder().decode(value).trim().split("\n").at(-1)), pid: child.pid, child };
}

/** Makes the calls from another process. All must succeed. */
export async function load(orders: Orders): Promise<Findings> {
  const findings = await attempt(orders);
  if (findings.failed > 0) throw new Error(`${findings.failed} calls failed`);
  return findings;
}

/** Makes the calls from another process, whatever their answers are. */
export async function attempt(orders: Orders): Promise<Findings> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "load.ts"), JSON.stringify(orders)], {
    stdout: "pipe",
  });
  return JSON.parse(await new Response(child.stdout).text()) as Findings;
}

export interface MeasuredLoad extends Pick<Findings, "perSecond"> {
  /** Processor time of the server for one call. */
  readonly cpuUs: number;
  /** Processor time of the load generator for one call. */
  readonly loadUs: number;
  /** Cores that the load generator used: near 1, it is what limits the calls per second. */
  readonly loadBusy: number;
}

/** Makes the calls from another process, and measures what they cost the server's process. */
export async function measure({ pid }: Pick<ServerProcess, "pid">, orders: Orders): Promise<MeasuredLoad> {
  const before = cpuMs(pid);
  const { perSecond, cpuUs: loadUs } = await load(orders);
  const cpuUs = ((cpuMs(pid) - before) * 1000) / orders.requests;
  return { perSecond, cpuUs, loadUs, loadBusy: (loadUs * perSecond) / 1e6 };
}

const TICK_MS = 10;

/** Processor time that a process has used, all threads together, in milliseconds. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // Fields 14 and 15 (proc_pid_stat(5)), counted from the end of the name, which may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
