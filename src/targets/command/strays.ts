import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { CALL_MARKER } from "./environment.ts";

/** Rounds over the process table: a stray may fork while it is being looked for. */
const SWEEP_ROUNDS_MAX = 3;
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
    for (const [index, pid] of processes().entries()) {
      if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await setImmediate();
      if (carries(pid, needle)) strays.push(pid);
    }
    if (strays.length === 0) break;
    for (const pid of strays) {
      if (groupOf(pid) !== group) survivors.add(pid);
      kill(pid);
    }
  }
  return survivors.size;
}

/** The process group, from `pid (name) state ppid pgrp …`; a name may hold anything. One that is gone counts as its own. */
function groupOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ", 3)[2]);
  } catch {
    return pid;
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

function carries(pid: number, needle: Buffer): boolean {
  try {
    return Buffer.concat([Buffer.of(0), readFileSync(`/proc/${pid}/environ`)]).includes(needle);
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
