import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { systemCode } from "../../core/error-text.ts";
import { CALL_MARKER } from "./environment.ts";

/** Rounds over the process table: a stray may fork while it is being looked for. */
const SWEEP_ROUNDS_MAX = 3;
/** Until a process that became another program can be read. */
const UNCERTAIN_PAUSE_MS = 2;
/** Processes looked at in one round. */
const PROCESSES_MAX = 8_192;
/** Processes looked at between two turns of the event loop. */
const PROCESSES_PER_TURN = 128;

/** Kills the whole process group of a child that was started with a session of its own. */
export function killGroup(pid: number): void {
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  kill(-pid);
}

/**
 * Kills descendants that left the group with `setsid`, found by the marker in the environment they were started with, and
 * answers how many there were: those that are still in the group have been killed with it, and die at their own pace.
 * Linux only, and only processes of our own user: others' environments cannot be read.
 */
export async function killStrays(marker: string, group: number): Promise<number> {
  const needle = Buffer.from(`\0${CALL_MARKER}=${marker}\0`);
  const survivors = new Set<number>();
  for (let round = 0; round < SWEEP_ROUNDS_MAX; round += 1) {
    const strays: number[] = [];
    let isUncertain = false;
    for (const [index, pid] of processes().entries()) {
      if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await setImmediate();
      const belongs = carries(pid, needle);
      if (belongs === true) strays.push(pid);
      isUncertain ||= belongs === undefined;
    }
    for (const pid of strays) {
      const own = groupOf(pid);
      if (own !== undefined && own !== group) survivors.add(pid);
      kill(pid);
    }
    if (strays.length === 0 && !isUncertain) break;
    if (isUncertain) await Bun.sleep(UNCERTAIN_PAUSE_MS);
  }
  return survivors.size;
}

/** Returns the process group, from `pid (name) state ppid pgrp …`, where a name may hold anything; undefined when it has ended. */
function groupOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ", 3)[2]);
  } catch {
    return undefined;
  }
}

function processes(): readonly number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^[1-9][0-9]{0,9}$/.test(name))
      .slice(-PROCESSES_MAX)
      .map(Number)
      .filter((pid) => pid > 1 && pid !== process.pid);
  } catch {
    return [];
  }
}

/** Undefined when a process of our own user cannot be read: for a moment that is so while it becomes another program. */
function carries(pid: number, needle: Buffer): boolean | undefined {
  try {
    return Buffer.concat([Buffer.of(0), readFileSync(`/proc/${pid}/environ`)]).includes(needle);
  } catch (error) {
    return systemCode(error) === "EACCES" && isOurs(pid) ? undefined : false;
  }
}

/** Whether a process that runs belongs to our user. */
function isOurs(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    return new RegExp(`^Uid:\\t${process.getuid?.()}\\t`, "m").test(status) && !/^State:\t[ZX]/m.test(status);
  } catch {
    return false;
  }
}

function kill(target: number): void {
  try {
    process.kill(target, "SIGKILL");
  } catch {
    // Already gone, which is what was wanted.
  }
}
