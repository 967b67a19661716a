import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { cLibrary } from "./confinement/c-library.ts";
import { processIds } from "./confinement/session.ts";
import { type MemoryGroup, memoryGroup } from "./memory-group.ts";

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

export interface CommandMemory {
  /** Limit of the next command: of the memory of all its processes together. */
  bytesMax(): number;
  /**
   * Measures the processes of a session until the returned function is called. `onExceeded` is called once, when they use more
   * than `bytesMax`, or when the service's memory cgroup is nearly full and no other command uses more.
   */
  watch(watched: Watched, onExceeded: () => void): () => void;
}

export interface Watched {
  readonly session: number;
  /** Whether the first process of the session is a part of the command. */
  readonly isLeaderCounted: boolean;
  readonly bytesMax: number;
}

interface Watch extends Watched {
  readonly onExceeded: () => void;
  bytes: number;
}

/**
 * Measures commands while they run. A child cgroup would do it in the kernel, but in a pod cgroups cannot be written; RLIMIT_AS
 * would limit address space, which Node, Go and Java reserve by the gigabyte.
 *
 * @param configured bytes; without it, half of what the smallest memory cgroup around the service leaves beside it
 */
export function commandMemory(configured?: number | undefined): CommandMemory {
  const group = memoryGroup();
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
    schedule(Math.max(intervalFor(left), Math.min(INTERVAL_MS_MAX, pids.length * PAUSE_MS_PER_PROCESS)));
  }

  /** Ends what exceeds its limit. Returns the bytes that the memory cgroup has left. */
  async function check(everybody: readonly number[]): Promise<number> {
    try {
      const members = membersOf(everybody, new Set([...watches].map(({ session }) => session)));
      for (const watch of [...watches]) {
        const all = members.get(watch.session) ?? [];
        const pids = watch.isLeaderCounted ? all : all.filter((pid) => pid !== watch.session);
        watch.bytes = residentBytes(pids);
        if (watch.bytes > watch.bytesMax) watch.bytes = await proportionalBytes(pids);
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
    if (left < 0 && largest !== undefined) end(largest);
    return left;
  }

  function end(watch: Watch): void {
    if (watches.delete(watch)) watch.onExceeded();
  }

  return {
    bytesMax,
    watch(watched, onExceeded) {
      const watch = { ...watched, onExceeded, bytes: 0 };
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
function residentBytes(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + residentBytesOf(pid), 0);
}

function residentBytesOf(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    return kilobytes(status, "RssAnon") + kilobytes(status, "RssShmem");
  } catch {
    return 0;
  }
}

/** Slower: the kernel walks the page tables, off the event loop. A shared page is divided among those who share it. */
async function proportionalBytes(pids: readonly number[]): Promise<number> {
  const each = await Promise.all(
    pids.map(async (pid) => {
      try {
        const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "latin1");
        return kilobytes(rollup, "Pss_Anon") + kilobytes(rollup, "Pss_Shmem");
      } catch {
        // The command made itself unreadable, or the kernel is older.
        return residentBytesOf(pid);
      }
    }),
  );
  return each.reduce((sum, bytes) => sum + bytes, 0);
}

function kilobytes(text: string, name: string): number {
  const [, digits] = new RegExp(`^${name}:\\s+([0-9]{1,15}) kB$`, "m").exec(text) ?? [];
  return Number(digits ?? 0) * 1_024;
}
