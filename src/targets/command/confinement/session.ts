import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { cLibrary } from "./c-library.ts";

/** Rounds over the process table: a process that is being ended may start others. */
const ROUNDS_MAX = 8;
/** Maximum looks at the newest processes in one round, and the number of looks in a row that must find none. */
const LOOKS_MAX = 512;
const QUIET_LOOKS = 8;
/** Process ids checked before and after the last one that was assigned. */
const NEWEST_BEFORE = 32;
const NEWEST_AFTER = 64;
/** Looks and processes between two turns of the event loop: a few milliseconds. */
const LOOKS_PER_TURN = 32;
const PROCESSES_PER_TURN = 256;
/** The search stops after this time, even when processes are left. */
const SEARCH_MS_MAX = 600;

interface Search {
  readonly session: number;
  readonly ended: Set<number>;
  /** Number of processes that had left the child's group. */
  left: number;
  isOver: boolean;
}

/**
 * Kills all processes in a child's session and returns how many had left its group. A confined child cannot leave its session,
 * whatever it does to its environment. The search is limited in time and lets other work continue.
 */
export async function killSession(session: number, isLeaderGone: boolean): Promise<number> {
  if (!Number.isSafeInteger(session) || session <= 1) return 0;
  // The kernel does not reuse a session's id while the session has members: when a process has this id again, the session is
  // empty.
  if (isLeaderGone && cLibrary().getsid(session) !== -1) return 0;
  const search: Search = { session, ended: new Set(), left: 0, isOver: false };
  const timer = setTimeout(() => {
    search.isOver = true;
  }, SEARCH_MS_MAX);
  for (let round = 0; round < ROUNDS_MAX && !search.isOver; round += 1) {
    const before = search.ended.size;
    await killNewest(search);
    await killAll(search);
    if (search.ended.size === before) break;
  }
  clearTimeout(timer);
  return search.left;
}

/** Returns all process ids; none when there is no /proc. */
export function processIds(): readonly number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Kills the members in the process table. The table also contains dead processes that have not been reaped. */
async function killAll(search: Search): Promise<void> {
  for (const [index, pid] of processIds().entries()) {
    if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await setImmediate();
    if (search.isOver) return;
    if (isMember(search, pid)) end(search, pid, hasLeft(search.session, pid));
  }
}

/**
 * Kills the members among the newest processes. A process that only forks and ends has another id by the time the process table
 * is read. That id is among the newest, and checking those takes less time than a fork. A process that is found after the first
 * look has survived the kill of the group.
 */
async function killNewest(search: Search): Promise<void> {
  for (let look = 0, quiet = 0; look < LOOKS_MAX && quiet < QUIET_LOOKS; look += 1, quiet += 1) {
    if (look % LOOKS_PER_TURN === LOOKS_PER_TURN - 1) await setImmediate();
    if (search.isOver) return;
    const last = newestPid();
    for (let pid = Math.max(2, last - NEWEST_BEFORE); pid <= last + NEWEST_AFTER; pid += 1) {
      if (!isMember(search, pid)) continue;
      end(search, pid, look > 0 || hasLeft(search.session, pid));
      quiet = 0;
    }
  }
}

function isMember({ session, ended }: Search, pid: number): boolean {
  return !ended.has(pid) && cLibrary().getsid(pid) === session;
}

function end(search: Search, pid: number, hadLeft: boolean): void {
  if (hadLeft) search.left += 1;
  kill(pid);
  search.ended.add(pid);
}

function hasLeft(session: number, pid: number): boolean {
  return cLibrary().getpgid(pid) !== session && isAlive(pid);
}

/** Returns the process id that was assigned last: the last field of /proc/loadavg. */
function newestPid(): number {
  return Number(readFileSync("/proc/loadavg", "latin1").trim().split(" ").at(-1));
}

function isAlive(pid: number): boolean {
  try {
    // The format is `pid (name) state …`; the name may contain any character.
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
    // Already ended.
  }
}
