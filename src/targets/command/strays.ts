import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { systemCode } from "../../core/error-text.ts";
import { CALL_MARKER } from "./environment.ts";

/** Rounds over the process table: a stray process may fork during the search. */
const SWEEP_ROUNDS_MAX = 3;
/** Pause until a process that is becoming another program can be read. */
const UNCERTAIN_PAUSE_MS = 2;
/** Maximum number of processes checked in one round. */
const PROCESSES_MAX = 8_192;
/** Processes checked between two turns of the event loop. */
const PROCESSES_PER_TURN = 128;

/** Kills the whole process group of a child that was started in its own session. */
export function killGroup(pid: number): void {
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  kill(-pid);
}

/**
 * Kills descendants that left the group with `setsid`, found by the marker in the environment they were started with, and returns
 * their number. Does not count descendants still in the group: they were killed with it and may take a moment to end. Linux only,
 * and only processes of the service's user: the environments of other users' processes cannot be read.
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

/**
 * Returns the process group, from `pid (name) state ppid pgrp …`, where the name may contain any character; undefined when the
 * process has ended.
 */
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

/**
 * Returns whether a process carries the marker. Undefined when a process of the service's user cannot be read, as happens for a
 * moment while it becomes another program.
 */
function carries(pid: number, needle: Buffer): boolean | undefined {
  try {
    return Buffer.concat([Buffer.of(0), readFileSync(`/proc/${pid}/environ`)]).includes(needle);
  } catch (error) {
    return systemCode(error) === "EACCES" && isOurs(pid) ? undefined : false;
  }
}

/** Returns whether a process is alive and belongs to the service's user. */
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
    // Already ended.
  }
}
