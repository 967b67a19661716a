import { readdirSync, readFileSync } from "node:fs";
import { cLibrary } from "./c-library.ts";

/** Rounds over the process table: who is being ended may start others. */
const ROUNDS_MAX = 8;
/** Looks at the newest processes in one round, and how many of them in a row must find nobody. */
const LOOKS_MAX = 512;
const QUIET_LOOKS = 8;
/** Numbers looked at, from before the last one that was given. */
const NEWEST_BEFORE = 32;
const NEWEST_AFTER = 64;

/**
 * Ends everybody in the session of a child, and answers how many had left its group. A confined child cannot leave its session,
 * whatever it does to its environment.
 */
export function killSession(session: number): number {
  if (!Number.isSafeInteger(session) || session <= 1) return 0;
  const ended = new Set<number>();
  let left = 0;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const before = ended.size;
    left += killNewest(session, ended) + killAll(session, ended);
    if (ended.size === before) break;
  }
  return left;
}

/** The whole process table; nothing where there is no /proc. */
export function processIds(): readonly number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Those in the table. Who is dead and not collected yet is in it, too. */
function killAll(session: number, ended: Set<number>): number {
  const { getsid } = cLibrary();
  let left = 0;
  for (const pid of processIds()) {
    if (ended.has(pid) || getsid(pid) !== session) continue;
    if (hasLeft(session, pid)) left += 1;
    kill(pid);
    ended.add(pid);
  }
  return left;
}

/**
 * A process that only forks and ends is another one by the time that the table is read. Its number is among the newest, and
 * asking for those takes less time than a fork. Whoever comes after the first look has outlived the kill of the group.
 */
function killNewest(session: number, ended: Set<number>): number {
  const { getsid } = cLibrary();
  let left = 0;
  for (let look = 0, quiet = 0; look < LOOKS_MAX && quiet < QUIET_LOOKS; look += 1, quiet += 1) {
    const last = newestPid();
    for (let pid = Math.max(2, last - NEWEST_BEFORE); pid <= last + NEWEST_AFTER; pid += 1) {
      if (ended.has(pid) || getsid(pid) !== session) continue;
      if (look > 0 || hasLeft(session, pid)) left += 1;
      kill(pid);
      ended.add(pid);
      quiet = 0;
    }
  }
  return left;
}

function hasLeft(session: number, pid: number): boolean {
  return cLibrary().getpgid(pid) !== session && isAlive(pid);
}

/** The last field of the load: the number that was given last. */
function newestPid(): number {
  return Number(readFileSync("/proc/loadavg", "latin1").trim().split(" ").at(-1));
}

function isAlive(pid: number): boolean {
  try {
    // `pid (name) state …`; a name may hold anything.
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}
