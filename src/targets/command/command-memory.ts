import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { cLibrary } from "./confinement/c-library.ts";
import { processIds } from "./confinement/session.ts";

const MEBIBYTE = 1_048_576;
/** Limit of one command where the configuration names none and no memory cgroup is smaller. */
export const COMMAND_BYTES_MAX = 2_048 * MEBIBYTE;
/** Smallest limit that is derived: less would end ordinary programs. */
const COMMAND_BYTES_MIN = 32 * MEBIBYTE;
/** Part of the memory cgroup that is kept free: when less is left, the largest command is ended. */
const GROUP_KEPT_FREE = 0.1;
/** Time between two measurements, at most and at least. */
const INTERVAL_MS_MAX = 100;
const INTERVAL_MS_MIN = 10;
/** Bytes that several processes together may allocate in a millisecond: how soon a limit can be reached. */
const BYTES_PER_MS = 8 * MEBIBYTE;
/** To wait for each process of the machine: to look at one takes a few microseconds. */
const PAUSE_MS_PER_PROCESS = 0.05;
/** To wait for each process whose shared pages were divided. */
const PAUSE_MS_PER_DIVIDED = 1;
/** Processes looked at between two turns of the event loop: about a millisecond. */
const PROCESSES_PER_TURN = 64;
/** How long shared pages of one command may be divided; what is left counts whole. */
const DIVIDING_MS_MAX = 2_000;

export interface CommandMemory {
  /** Limit of the next command: of the memory of all its processes together. */
  bytesMax(): number;
  /**
   * Measures the processes of a session until the returned function is called. `onExceeded` is called once, when they use more
   * than `bytesMax`, or when the service's memory cgroup is nearly full and no other command uses more.
   */
  watch(watched: Watched, onExceeded: () => void): () => void;
}

interface Watched {
  readonly session: number;
  /** Whether the first process of the session is a part of the command. */
  readonly isLeaderCounted: boolean;
  readonly bytesMax: number;
}

interface Watch extends Watched {
  readonly onExceeded: () => void;
  bytes: number;
  /** How many of its processes had their shared pages divided. */
  divided: number;
  /** Stays until nothing of the command is left: until then it holds memory. */
  isEnded: boolean;
}

/**
 * Measures commands while they run. A child cgroup would do it in the kernel, but in a pod cgroups cannot be written; RLIMIT_AS
 * would limit address space, which Node, Go and Java reserve by the gigabyte.
 *
 * @param configured bytes; without it, half of what the smallest memory cgroup around the service leaves beside it
 */
export function commandMemory(configured?: number | undefined, group = memoryGroup()): CommandMemory {
  const watches = new Set<Watch>();
  let timer: ReturnType<typeof setTimeout> | undefined;

  function bytesMax(): number {
    if (configured !== undefined) return configured;
    const left = group === undefined ? Number.POSITIVE_INFINITY : group.bytesMax - process.memoryUsage.rss();
    return Math.max(COMMAND_BYTES_MIN, Math.min(COMMAND_BYTES_MAX, Math.floor(left / 2)));
  }

  function schedule(delayMs: number): void {
    timer = setTimeout(() => void measure(), delayMs);
    timer.unref();
  }

  async function measure(): Promise<void> {
    const pids = processIds();
    const groupLeft = await check(pids);
    timer = undefined;
    if (watches.size === 0) return;
    const left = Math.min(groupLeft, ...[...watches].map((watch) => watch.bytesMax - watch.bytes));
    const divided = [...watches].reduce((sum, watch) => sum + watch.divided, 0);
    const pause = pids.length * PAUSE_MS_PER_PROCESS + divided * PAUSE_MS_PER_DIVIDED;
    schedule(Math.max(intervalFor(left), Math.min(INTERVAL_MS_MAX, pause)));
  }

  /** Ends what exceeds its limit. Returns the bytes that the memory cgroup has left. */
  async function check(everybody: readonly number[]): Promise<number> {
    try {
      const members = membersOf(everybody, new Set([...watches].map(({ session }) => session)));
      for (const watch of [...watches]) {
        const all = members.get(watch.session) ?? [];
        const pids = watch.isLeaderCounted ? all : all.filter((pid) => pid !== watch.session);
        const bytes = await residentBytes(pids);
        watch.divided = bytes > watch.bytesMax ? pids.length : 0;
        watch.bytes = watch.divided > 0 ? await proportionalBytes(pids) : bytes;
        if (watch.bytes > watch.bytesMax) end(watch);
      }
      return endLargestWhenFull(group);
    } catch {
      // Without /proc nothing can be measured.
      return Number.POSITIVE_INFINITY;
    }
  }

  function endLargestWhenFull(around: MemoryGroup | undefined): number {
    if (around === undefined) return Number.POSITIVE_INFINITY;
    const left = around.bytesMax * (1 - GROUP_KEPT_FREE) - around.usedBytes();
    const [largest] = [...watches].sort((a, b) => b.bytes - a.bytes);
    const isEnding = [...watches].some((watch) => watch.isEnded);
    if (left < 0 && !isEnding && largest !== undefined) end(largest);
    return left;
  }

  function end(watch: Watch): void {
    if (watch.isEnded || !watches.has(watch)) return;
    watch.isEnded = true;
    watch.onExceeded();
  }

  return {
    bytesMax,
    watch(watched, onExceeded) {
      const watch = { ...watched, onExceeded, bytes: 0, divided: 0, isEnded: false };
      watches.add(watch);
      if (timer === undefined) schedule(intervalFor(watched.bytesMax));
      return () => watches.delete(watch);
    },
  };
}

function intervalFor(bytesLeft: number): number {
  return Math.min(INTERVAL_MS_MAX, Math.max(INTERVAL_MS_MIN, bytesLeft / BYTES_PER_MS));
}

function membersOf(pids: readonly number[], sessions: ReadonlySet<number>): ReadonlyMap<number, readonly number[]> {
  const { getsid } = cLibrary();
  const members = new Map<number, number[]>();
  for (const pid of pids) {
    const session = getsid(pid);
    if (!sessions.has(session)) continue;
    const known = members.get(session);
    if (known === undefined) members.set(session, [pid]);
    else known.push(pid);
  }
  return members;
}

/** Quick to read. Counts a page that several processes share once for each. */
export async function residentBytes(pids: readonly number[]): Promise<number> {
  let bytes = 0;
  for (const [index, pid] of pids.entries()) {
    if (index % PROCESSES_PER_TURN === PROCESSES_PER_TURN - 1) await setImmediate();
    const status = statusOf(pid);
    bytes += residentIn(status) + pageTablesIn(status);
  }
  return bytes;
}

/**
 * Slower: the kernel walks the page tables, off the event loop. A shared page is divided among those who share it. One process
 * after the other, or the service's own files would wait until all are read.
 */
async function proportionalBytes(pids: readonly number[]): Promise<number> {
  const limit = { isOver: false };
  const timer = setTimeout(() => {
    limit.isOver = true;
  }, DIVIDING_MS_MAX);
  let bytes = 0;
  for (const pid of pids) {
    const status = statusOf(pid);
    const resident = residentIn(status);
    bytes += pageTablesIn(status) + (limit.isOver ? resident : await dividedBytesOf(pid, resident));
  }
  clearTimeout(timer);
  return bytes;
}

async function dividedBytesOf(pid: number, resident: number): Promise<number> {
  try {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "latin1");
    return kilobytes(rollup, "Pss_Anon") + kilobytes(rollup, "Pss_Shmem");
  } catch {
    // The command made itself unreadable, or the kernel is older.
    return resident;
  }
}

/** Nothing of a process that has ended. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "latin1");
  } catch {
    return "";
  }
}

function residentIn(status: string): number {
  return kilobytes(status, "RssAnon") + kilobytes(status, "RssShmem");
}

/** Of the kernel, for the process alone: it grows with the addresses that are read, even where nothing was ever written. */
function pageTablesIn(status: string): number {
  return kilobytes(status, "VmPTE");
}

function kilobytes(text: string, name: string): number {
  const [, digits] = new RegExp(`^${name}:\\s+([0-9]{1,15}) kB$`, "m").exec(text) ?? [];
  return Number(digits ?? 0) * 1_024;
}

/** What version 1 of cgroups says where there is no limit is just below this. */
const UNLIMITED = 2 ** 60;

/** The memory cgroup around the service with the smallest limit. */
interface MemoryGroup {
  readonly bytesMax: number;
  /** Bytes that the kernel cannot take back by dropping copies of files. */
  usedBytes(): number;
}

interface Version {
  readonly limit: string;
  readonly usage: string;
  /** Names in `memory.stat` of what can be taken back. */
  readonly reclaimable: readonly string[];
}

const VERSION_1: Version = {
  limit: "memory.limit_in_bytes",
  usage: "memory.usage_in_bytes",
  reclaimable: ["total_active_file", "total_inactive_file"],
};
const VERSION_2: Version = {
  limit: "memory.max",
  usage: "memory.current",
  reclaimable: ["active_file", "inactive_file", "slab_reclaimable"],
};

/** Undefined where nothing limits the memory, or where that cannot be known. */
export function memoryGroup(root = ""): MemoryGroup | undefined {
  try {
    const groups = foldersAround(root).flatMap(({ folder, version }) => {
      const bytesMax = Number.parseInt(read(join(folder, version.limit)) ?? "", 10);
      return bytesMax < UNLIMITED ? [{ folder, version, bytesMax }] : [];
    });
    const [smallest] = groups.sort((a, b) => a.bytesMax - b.bytesMax);
    if (smallest === undefined) return undefined;
    return { bytesMax: smallest.bytesMax, usedBytes: () => usedBytes(smallest) };
  } catch {
    return undefined;
  }
}

interface GroupFolder {
  readonly folder: string;
  readonly version: Version;
}

/** The folder of our own group and of every group that it is in, as far as they are mounted here. */
function foldersAround(root: string): readonly GroupFolder[] {
  const own = readFileSync(`${root}/proc/self/cgroup`, "latin1");
  return readFileSync(`${root}/proc/self/mountinfo`, "latin1")
    .split("\n")
    .flatMap((line) => {
      // `id parent device root mountpoint options … - type source superoptions`
      const [before = "", after = ""] = line.split(" - ");
      const [, , , mountedGroup = "/", mountPoint = ""] = before.split(" ");
      const [type, , options = ""] = after.split(" ");
      const isFirst = type === "cgroup" && options.split(",").includes("memory");
      if (!isFirst && type !== "cgroup2") return [];
      const version = isFirst ? VERSION_1 : VERSION_2;
      const path = (isFirst ? /^[0-9]+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(.*)$/m : /^0::(.*)$/m).exec(own)?.[1];
      if (path === undefined) return [];
      const top = join(root, mountPoint);
      return upwards(below(path, mountedGroup)).map((part) => ({ folder: join(top, part), version }));
    });
}

/** A container sees its own group as the top of what is mounted, and may be told its path on the machine. */
function below(path: string, mountedGroup: string): string {
  if (mountedGroup === "/") return path;
  return path === mountedGroup || path.startsWith(`${mountedGroup}/`) ? path.slice(mountedGroup.length) : "";
}

function upwards(path: string): readonly string[] {
  const parts = path.split("/").filter((part) => part !== "" && part !== "..");
  return [...parts.keys(), parts.length].map((count) => parts.slice(0, count).join("/"));
}

function usedBytes({ folder, version }: GroupFolder): number {
  const usage = Number.parseInt(read(join(folder, version.usage)) ?? "0", 10);
  const statistics = (read(join(folder, "memory.stat")) ?? "").split("\n").map((line) => line.split(" "));
  return statistics.reduce(
    (bytes, [name = "", value]) => (version.reclaimable.includes(name) ? bytes - Number(value) : bytes),
    usage,
  );
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return undefined;
  }
}
