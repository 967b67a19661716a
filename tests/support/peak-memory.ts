import { readFileSync, writeFileSync } from "node:fs";

const CALLS = 9;
/** Written to it, this resets the kernel's record of a process's peak: proc_pid_clear_refs(5). */
const RESET = "5";

/**
 * Returns how much more memory this process has at the peak of a call than before it, in MB: the second highest of several calls after
 * a first one. The compiler and the garbage collector, which no call controls, may make one of them larger.
 */
export async function peakMbOf(call: () => Promise<unknown>): Promise<number> {
  await call();
  const peaks: number[] = [];
  for (let count = 0; count < CALLS; count += 1) {
    Bun.gc(true);
    writeFileSync("/proc/self/clear_refs", RESET);
    const before = bytesOf("VmRSS");
    await call();
    peaks.push((bytesOf("VmHWM") - before) / 1e6);
  }
  return peaks.toSorted((a, b) => b - a)[1] ?? Number.NaN;
}

function bytesOf(name: "VmRSS" | "VmHWM"): number {
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1_024;
}
