import { readFileSync } from "node:fs";
import { join } from "node:path";

/** What version 1 of cgroups says where there is no limit is just below this. */
const UNLIMITED = 2 ** 60;

/** The memory cgroup around the service with the smallest limit. */
export interface MemoryGroup {
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
