import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { systemCode } from "../../core/error-text.ts";
import { cLibrary } from "./confinement/c-library.ts";
import { CALL_MARKER } from "./environment.ts";
import { SharedScan } from "./shared-scan.ts";

/** Finds and kills a program's processes: by process group, by session, and by the marker of the call. */

/** Maximum rounds over the process table: processes that are being ended may start others. */
const SESSION_ROUNDS_MAX = 8;
const STRAY_ROUNDS_MAX = 3;
/** Maximum scans of the newest processes in one round, and the number of consecutive scans that must find none. */
const SCANS_MAX = 512;
const QUIET_SCANS = 8;
/** Process ids to check before and after the last one that was assigned. */
const NEWEST_BEFORE = 32;
const NEWEST_AFTER = 64;
/** Scans and processes between two turns of the event loop: a few milliseconds. */
const SCANS_PER_TURN = 32;
const PROCESSES_PER_TURN = 64;
/** Processes whose environment is read between two turns of the event loop. */
const ENVIRONMENTS_PER_TURN = 128;
/** Maximum number of processes whose environment is read in one round. */
const ENVIRONMENTS_MAX = 8_192;
/** Time limit for the search of a session. Processes may be left then. */
const SEARCH_MS_MAX = 600;
/** Pause until a process can be read that is just becoming another program. */
const UNCERTAIN_PAUSE_MS = 2;

/** Returns all process ids; none when there is no /proc. */
export function processIds(): readonly number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Sends a signal to the process group of a child that was started in its own session. */
export function killGroup(pid: number, signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): void {
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  kill(-pid, signal);
}

interface Search {
  readonly session: number;
  readonly killed: Set<number>;
  /** Number of processes that had left the child's group. */
  left: number;
  isOver: boolean;
}

/**
 * Kills all processes in a child's session and returns how many had left its group. A confined child cannot leave its
 * session. The search is limited in time and lets other work continue.
 */
export async function killSession(session: number, hasLeaderEnded: boolean): Promise<number> {
  if (!Number.isSafeInteger(session) || session <= 1) return 0;
  // The id is not reused while the session has members: a new process with this id means that the session is empty.
  if (hasLeaderEnded && cLibrary().getsid(session) !== -1) return 0;
  const search: Search = { session, killed: new Set(), left: 0, isOver: false };
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, SEARCH_MS_MAX);
  await Promise.race([killInRounds(search), over]);
  clearTimeout(timer);
  search.isOver = true;
  return search.left;
}

async function killInRounds(search: Search): Promise<void> {
  for (let round = 0; round < SESSION_ROUNDS_MAX && !search.isOver; round += 1) {
    const before = search.killed.size;
    await killNewest(search);
    await sessionScan.search(search.session, (pid) => killMember(search, pid, hasLeft(search.session, pid)));
    if (search.killed.size === before) break;
  }
}

/**
 * Kills the session's members among the newest processes. A process that only forks and exits has another id when the
 * process table has been read; that id is among the newest, and checking these is faster than a fork. A process found
 * after the first scan has survived the kill of the group.
 */
async function killNewest(search: Search): Promise<void> {
  for (let scan = 0, quiet = 0; scan < SCANS_MAX && quiet < QUIET_SCANS && !search.isOver; scan += 1) {
    const before = search.killed.size;
    await newestScan.search(search.session, (pid) => killMember(search, pid, scan > 0 || hasLeft(search.session, pid)));
    quiet = search.killed.size === before ? quiet + 1 : 0;
  }
}

/** Reports the sessions in the process table, which also lists dead processes that have not been reaped. */
const sessionScan = new SharedScan<number>(async (found) => {
  for (const [index, pid] of processIds().entries()) {
    if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await setImmediate();
    found(cLibrary().getsid(pid), pid);
  }
});

let newestScans = 0;

/** Reports the sessions of the newest processes. */
const newestScan = new SharedScan<number>(async (found) => {
  newestScans += 1;
  if (newestScans % SCANS_PER_TURN === 0) await setImmediate();
  const last = newestPid();
  for (let pid = Math.max(2, last - NEWEST_BEFORE); pid <= last + NEWEST_AFTER; pid += 1) {
    found(cLibrary().getsid(pid), pid);
  }
});

function killMember(search: Search, pid: number, hadLeft: boolean): void {
  if (search.isOver || search.killed.has(pid)) return;
  if (hadLeft) search.left += 1;
  kill(pid);
  search.killed.add(pid);
}

function hasLeft(session: number, pid: number): boolean {
  return cLibrary().getpgid(pid) !== session && !/^[ZX]/.test(statOf(pid)?.[0] ?? "Z");
}

/** Returns the process id that was assigned last: the last field of /proc/loadavg. */
function newestPid(): number {
  return Number(readFileSync("/proc/loadavg", "latin1").trim().split(" ").at(-1));
}

/**
 * Kills descendants that left the group with `setsid`, and returns their number. Finds them by the marker in their
 * environment. Descendants in the group were killed with it and are not counted. Linux only, and only for processes of
 * the service's user, whose environments can be read.
 */
export async function killStrays(marker: string, group: number): Promise<number> {
  const survivors = new Set<number>();
  for (let round = 0; round < STRAY_ROUNDS_MAX; round += 1) {
    const strays: number[] = [];
    const isUncertain = await markerScan.search(marker, (pid) => strays.push(pid));
    for (const pid of strays) {
      const stat = statOf(pid);
      if (stat !== undefined && Number(stat[2]) !== group) survivors.add(pid);
      kill(pid);
    }
    if (strays.length === 0 && !isUncertain) break;
    if (isUncertain) await Bun.sleep(UNCERTAIN_PAUSE_MS);
  }
  return survivors.size;
}

/** Reports the markers of processes. Returns whether a process could not be read. */
const markerScan = new SharedScan<string, boolean>(async (found) => {
  let isUncertain = false;
  const candidates = processIds().slice(-ENVIRONMENTS_MAX);
  for (const [index, pid] of candidates.filter((other) => other > 1 && other !== process.pid).entries()) {
    if (index % ENVIRONMENTS_PER_TURN === ENVIRONMENTS_PER_TURN - 1) await setImmediate();
    const markers = markersOf(pid);
    for (const marker of markers ?? []) found(marker, pid);
    isUncertain ||= markers === undefined;
  }
  return isUncertain;
});

const MARKER = new RegExp(`(?<=\\0)${CALL_MARKER}=([^\\0]*)(?=\\0)`, "g");

/** Returns the markers in a process's environment; undefined while it becomes another program and cannot be read. */
function markersOf(pid: number): ReadonlySet<string> | undefined {
  try {
    const environment = `\0${readFileSync(`/proc/${pid}/environ`, "latin1")}`;
    return new Set([...environment.matchAll(MARKER)].map(([, marker = ""]) => marker));
  } catch (error) {
    return systemCode(error) === "EACCES" && isOurs(pid) ? undefined : new Set();
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

/** Returns the state, parent and group from `pid (name) state ppid pgrp …`. The name may contain any character. */
function statOf(pid: number): readonly string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ", 3);
  } catch {
    return undefined;
  }
}

function kill(target: number, signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): void {
  try {
    process.kill(target, signal);
  } catch {
    // Already ended.
  }
}
