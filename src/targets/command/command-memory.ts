import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { cLibrary } from "./confinement/c-library.ts";
import { processIds } from "./descendants.ts";

const MEBIBYTE = 1_048_576;
/** Limit of one command when the configuration sets none and no memory cgroup is smaller. */
export const COMMAND_BYTES_MAX = 2_048 * MEBIBYTE;
/** Smallest derived limit. With less, ordinary programs would be ended. */
const COMMAND_BYTES_MIN = 32 * MEBIBYTE;
/** Fraction of the memory cgroup that is kept free. When less is left, the largest command is ended. */
const GROUP_KEPT_FREE = 0.1;
const INTERVAL_MS_MAX = 100;
const INTERVAL_MS_MIN = 10;
/** Bytes that several processes together can allocate in a millisecond. Limits the time between measurements. */
const BYTES_PER_MS = 8 * MEBIBYTE;
/** Pause for each process on the machine: checking one takes a few microseconds. */
const PAUSE_MS_PER_PROCESS = 0.05;
/** Pause for each process whose shared pages were divided. */
const PAUSE_MS_PER_DIVIDED = 1;
/** Processes checked between two turns of the event loop: about a millisecond. */
const PROCESSES_PER_TURN = 64;
/** Longest time for dividing the shared pages of one command. After it, shared pages count in full. */
const DIVIDING_MS_MAX = 2_000;

export interface CommandMemory {
  /** Returns the limit of the next command, for the memory of all its processes together. */
  bytesMax(): number;
  /**
   * Measures the processes of a session until the returned function is called. Calls `onExceeded` once, when they use
   * more than `bytesMax`, or when the service's memory cgroup is nearly full and no other command uses more.
   */
  watch(watched: Watched, onExceeded: () => void): () => void;
}

interface Watched {
  readonly session: number;
  /** True when the session's first process belongs to the command. */
  readonly isLeaderCounted: boolean;
  readonly bytesMax: number;
}

interface Watch extends Watched {
  readonly onExceeded: () => void;
  bytes: number;
  divided: number;
  /** True once the command is being ended. Its processes hold memory until they have ended, so the watch continues. */
  isEnded: boolean;
}

/**
 * Measures commands while they run. Rejected: a child cgroup, because a pod cannot write cgroups; RLIMIT_AS, which
 * limits address space, of which Node, Go and Java reserve gigabytes.
 *
 * @param configured bytes; by default, half of what the service leaves in the smallest memory cgroup around it
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

  /** Ends commands that exceed their limits. Returns the bytes that are left in the memory cgroup. */
  async function check(allPids: readonly number[]): Promise<number> {
    try {
      const members = membersOf(allPids, new Set([...watches].map(({ session }) => session)));
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

  function endLargestWhenFull(enclosing: MemoryGroup | undefined): number {
    if (enclosing === undefined) return Number.POSITIVE_INFINITY;
    const left = enclosing.bytesMax * (1 - GROUP_KEPT_FREE) - enclosing.usedBytes();
    const [largest] = [...watches].sort((a, b) => b.bytes - a.bytes);
    const isAnyEnding = [...watches].some((watch) => watch.isEnded);
    if (left < 0 && !isAnyEnding && largest !== undefined) end(largest);
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

/** Returns the resident bytes of processes. Fast, but counts shared pages once for each process. */
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
 * Returns the bytes of processes, with shared pages divided among the processes that share them. Slower: the kernel
 * walks the page tables, off the event loop. Reads one process at a time, because file reads of the service would wait
 * otherwise.
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
    // The command made itself unreadable, or the kernel is too old.
    return resident;
  }
}

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

/** Returns the memory of the process's page tables, which grows even when pages are only read. */
function pageTablesIn(status: string): number {
  return kilobytes(status, "VmPTE");
}

function kilobytes(text: string, name: string): number {
  const [, digits] = new RegExp(`^${name}:\\s+([0-9]{1,15}) kB$`, "m").exec(text) ?? [];
  return Number(digits ?? 0) * 1_024;
}

/** Smallest value that means "no limit": version 1 of cgroups reports a number this large. */
const UNLIMITED = 2 ** 60;

/** The memory cgroup with the smallest limit around the service. */
interface MemoryGroup {
  readonly bytesMax: number;
  /** Returns the bytes that the kernel cannot reclaim by dropping copies of files. */
  usedBytes(): number;
}

interface Version {
  readonly limit: string;
  readonly usage: string;
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

/** Returns the memory cgroup; undefined when nothing limits the memory, or that cannot be determined. */
export function memoryGroup(root = ""): MemoryGroup | undefined {
  try {
    const groups = enclosingGroups(root).flatMap(({ folder, version }) => {
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

/** Returns the mounted folders of the service's own group and of the groups around it. */
function enclosingGroups(root: string): readonly GroupFolder[] {
  const own = readFileSync(`${root}/proc/self/cgroup`, "latin1");
  return readFileSync(`${root}/proc/self/mountinfo`, "latin1")
    .split("\n")
    .flatMap((line) => {
      // `id parent device root mountpoint options … - type source superoptions`
      const [before = "", after = ""] = line.split(" - ");
      const [, , , mountedGroup = "/", mountPoint = ""] = before.split(" ");
      const [type, , options = ""] = after.split(" ");
      const isVersion1 = type === "cgroup" && options.split(",").includes("memory");
      if (!isVersion1 && type !== "cgroup2") return [];
      const version = isVersion1 ? VERSION_1 : VERSION_2;
      const path = (isVersion1 ? /^[0-9]+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(.*)$/m : /^0::(.*)$/m).exec(own)?.[1];
      if (path === undefined) return [];
      const top = join(root, mountPoint);
      return upwards(below(path, mountedGroup)).map((part) => ({ folder: join(top, part), version }));
    });
}

/** Returns a group's path below the mounted group. In a container, the kernel may report it from the machine's root. */
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
