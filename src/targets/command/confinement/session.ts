import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { cLibrary } from "./c-library.ts";

/** Rounds over the process table: who is being ended may start others. */
const ROUNDS_MAX = 8;
/** Looks at the newest processes in one round, and how many of them in a row must find nobody. */
const LOOKS_MAX = 512;
const QUIET_LOOKS = 8;
/** Numbers looked at, from before the last one that was given. */
const NEWEST_BEFORE = 32;
const NEWEST_AFTER = 64;
/** Looks and processes between two turns of the event loop: a few milliseconds. */
const LOOKS_PER_TURN = 32;
const PROCESSES_PER_TURN = 256;
/** The search ends then, whoever is left. */
const SEARCH_MS_MAX = 600;

interface Search {
  readonly session: number;
  readonly ended: Set<number>;
  /** How many had left the group of the child. */
  left: number;
  isOver: boolean;
}

/**
 * Ends everybody in the session of a child, and answers how many had left its group. A confined child cannot leave its session,
 * whatever it does to its environment. Bounded in time, and other work goes on meanwhile.
 */
export async function killSession(session: number, isLeaderGone: boolean): Promise<number> {
  if (!Number.isSafeInteger(session) || session <= 1) return 0;
  // While anybody is in the session its number is not given again: whoever has it now is somebody else.
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

/** The whole process table; nothing where there is no /proc. */
export function processIds(): readonly number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Those in the table. Who is dead and not collected yet is in it, too. */
async function killAll(search: Search): Promise<void> {
  for (const [index, pid] of processIds().entries()) {
    if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await setImmediate();
    if (search.isOver) return;
    if (isMember(search, pid)) end(search, pid, hasLeft(search.session, pid));
  }
}

/**
 * A process that only forks and ends is another one by the time that the table is read. Its number is among the newest, and
 * asking for those takes less time than a fork. Whoever comes after the first look has outlived the kill of the group.
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
