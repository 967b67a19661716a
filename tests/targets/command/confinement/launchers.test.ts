import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { createLaunchers } from "../../../../src/targets/command/confinement/launchers.ts";
import { until } from "../../../support/until.ts";
import { missing } from "./stand.ts";

/** A thread that starts after RLIMIT_DATA is set cannot allocate, and glibc aborts the launcher. */
test.skipIf(missing !== undefined)("a waiting launcher has none of the runtime's working threads", async () => {
  const launchers = createLaunchers(1);
  try {
    // A launcher that has ended is replaced.
    const ended = launchers.launch({
      ...{ token: "token", parent: process.pid, grants: [], ports: [], cpuSeconds: 10, dataBytes: 1_073_741_824 },
      filter: { network: false, writes: false, groups: false },
      task: { kind: "program", command: "/", argv: [], cwd: "/", environment: {} },
    });
    expect(await ended.exited).not.toBe(0);
    const threads = await until("a launcher whose threads all sleep", () => {
      const [pid] = launchersOf(process.pid);
      const seen = pid === undefined ? [] : threadsOf(pid);
      return seen.length > 1 && seen.every(({ state }) => state === "S") ? seen : undefined;
    });
    expect(threads.map(({ name }) => name).filter((name) => /JIT|Pool|Heap|Collector/.test(name))).toEqual([]);
  } finally {
    launchers.close();
  }
});

function launchersOf(parent: number): readonly string[] {
  return readdirSync("/proc").filter((pid) => {
    const isChild = textOf(`/proc/${pid}/status`).includes(`\nPPid:\t${parent}\n`);
    return isChild && textOf(`/proc/${pid}/cmdline`).includes("launcher.ts");
  });
}

function threadsOf(pid: string): readonly { readonly name: string; readonly state: string }[] {
  return readdirSync(`/proc/${pid}/task`).map((thread) => {
    const stat = textOf(`/proc/${pid}/task/${thread}/stat`);
    const end = stat.lastIndexOf(")");
    return { name: stat.slice(stat.indexOf("(") + 1, end), state: stat[end + 2] ?? "" };
  });
}

/** Skips processes that have ended and entries that are not processes. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
