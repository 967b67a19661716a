import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
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
/** Bytes of environments that are read between two turns of the event loop: about a millisecond. */
const ENVIRONMENT_BYTES_PER_TURN = 65_536;
/** Bytes that a process counts for at least: it is opened and closed. */
const PROCESS_BYTES = 512;
/** Maximum number of processes whose environment is read in one round. */
const ENVIRONMENTS_MAX = 8_192;
/** Longest environment that Linux starts a program with. A running process may declare any of its memory as its environment. */
const ENVIRONMENT_BYTES_MAX = 6_291_456;
/** Bytes of environments that one scan reads. Processes may be left then. */
const SCAN_BYTES_MAX = 134_217_728;
/** Longest marker with its name, in bytes. */
const MARKER_BYTES_MAX = 512;
/** Time limits for the searches of a session and of strays. Processes may be left then. */
const SEARCH_MS_MAX = 600;
const STRAYS_MS_MAX = 5_000;
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

/** A search that is limited in time and lets other work continue. */
interface Search {
  readonly killed: Set<number>;
  /** Number of processes that had left the child's group. */
  left: number;
  isOver: boolean;
}

interface SessionSearch extends Search {
  readonly session: number;
}

/**
 * Kills all processes in a child's session and returns how many had left its group. A confined child cannot leave its
 * session.
 */
export async function killSession(session: number, hasLeaderEnded: boolean): Promise<number> {
  if (!Number.isSafeInteger(session) || session <= 1) return 0;
  // The id is not reused while the session has members: a new process with this id means that the session is empty.
  if (hasLeaderEnded && cLibrary().getsid(session) !== -1) return 0;
  return searchFor(SEARCH_MS_MAX, (search) => killInRounds(Object.assign(search, { session })));
}

/** Returns how many of the processes that a search has killed within the time limit had left the child's group. */
async function searchFor(limitMs: number, kill: (search: Search) => Promise<void>): Promise<number> {
  const search: Search = { killed: new Set(), left: 0, isOver: false };
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, limitMs);
  await Promise.race([kill(search), over]);
  clearTimeout(timer);
  search.isOver = true;
  return search.left;
}

async function killInRounds(search: SessionSearch): Promise<void> {
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
async function killNewest(search: SessionSearch): Promise<void> {
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
export function killStrays(marker: string, group: number, limitMs = STRAYS_MS_MAX): Promise<number> {
  return searchFor(limitMs, async (search) => {
    for (let round = 0; round < STRAY_ROUNDS_MAX && !search.isOver; round += 1) {
      const before = search.killed.size;
      const isUncertain = await markerScan.search(marker, (pid) => killMember(search, pid, isOutside(group, pid)));
      if (search.killed.size === before && !isUncertain) break;
      if (isUncertain) await Bun.sleep(UNCERTAIN_PAUSE_MS);
    }
  });
}

function isOutside(group: number, pid: number): boolean {
  const stat = statOf(pid);
  return stat !== undefined && Number(stat[2]) !== group;
}

/** Counts the bytes that are read, and lets other work continue when a turn has read enough. */
class Turns {
  #left = ENVIRONMENT_BYTES_PER_TURN;
  #total = 0;

  get isOver(): boolean {
    return this.#total > SCAN_BYTES_MAX;
  }

  async count(bytes: number): Promise<void> {
    this.#total += bytes;
    this.#left -= bytes;
    if (this.#left > 0) return;
    this.#left = ENVIRONMENT_BYTES_PER_TURN;
    await setImmediate();
  }
}

/** Reports the markers of processes. Returns whether a process could not be read. */
const markerScan = new SharedScan<string, boolean>(async (found) => {
  const turns = new Turns();
  let isUncertain = false;
  for (const pid of processIds().slice(-ENVIRONMENTS_MAX)) {
    if (pid <= 1 || pid === process.pid) continue;
    if (turns.isOver) break;
    const isRead = await reportMarkers(pid, turns, (marker) => found(marker, pid));
    isUncertain ||= !isRead;
  }
  return isUncertain;
});

const MARKER = new RegExp(`(?<=\\0)${CALL_MARKER}=([^\\0]*)(?=\\0)`, "g");
const block = Buffer.alloc(ENVIRONMENT_BYTES_PER_TURN);

/** Reports the markers in a process's environment. Returns false while it becomes another program and cannot be read. */
async function reportMarkers(pid: number, turns: Turns, found: (marker: string) => void): Promise<boolean> {
  await turns.count(PROCESS_BYTES);
  let file: number | undefined;
  try {
    file = openSync(`/proc/${pid}/environ`, "r");
    let end = "\0";
    for (let read = 0, count = 1; count > 0 && read < ENVIRONMENT_BYTES_MAX; read += count) {
      count = readSync(file, block);
      const text = end + block.toString("latin1", 0, count);
      for (const [, marker = ""] of text.matchAll(MARKER)) found(marker);
      // The next block may continue the last variable of this one.
      end = text.slice(Math.max(text.lastIndexOf("\0"), text.length - MARKER_BYTES_MAX));
      await turns.count(count);
    }
    return true;
  } catch (error) {
    return systemCode(error) !== "EACCES" || !isOurs(pid);
  } finally {
    if (file !== undefined) closeSync(file);
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
