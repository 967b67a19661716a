import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { memoryGroup } from "../../../src/targets/command/command-memory.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
const V1 = "36 24 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n";
const V1_CONTAINER = "36 24 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
const OTHER = "37 24 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
const FILES_V2 = {
  "memory.current": "300\n",
  "memory.stat": "anon 200\nactive_file 30\ninactive_file 20\nslab_reclaimable 5\n",
};
const FILES_V1 = {
  "memory.usage_in_bytes": "300\n",
  "memory.stat": "active_file 1\ntotal_active_file 30\ntotal_inactive_file 20\n",
};

const place = (files: Readonly<Record<string, string>>): string => {
  const root = temporaryDirectory();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
};
const group = (folder: string, files: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`sys/fs/cgroup/${folder}${name}`, text]));

test.each([
  ["a pod: its own group is the top", "0::/\n", V2, group("", { "memory.max": "1000\n", ...FILES_V2 }), [1_000, 245]],
  [
    "the smallest of several, above its own",
    "0::/a/b\n",
    V2,
    {
      ...group("a/b/", { "memory.max": "max\n" }),
      ...group("a/", { "memory.max": "500\n", ...FILES_V2 }),
      ...group("", { "memory.max": "900\n" }),
    },
    [500, 245],
  ],
  [
    "version 1",
    "4:memory:/svc\n0::/\n",
    OTHER + V1,
    {
      ...group("memory/svc/", { "memory.limit_in_bytes": "800\n", ...FILES_V1 }),
      ...group("memory/", { "memory.limit_in_bytes": "9223372036854771712\n" }),
    },
    [800, 250],
  ],
  [
    "version 1 in a container that is told its path on the machine",
    "4:cpu,memory:/docker/abc/sub\n",
    V1_CONTAINER,
    group("memory/sub/", { "memory.limit_in_bytes": "700\n", ...FILES_V1 }),
    [700, 250],
  ],
] as const)("%s", (_title, own, mounts, files, [bytesMax, used]) => {
  const found = memoryGroup(place({ "proc/self/cgroup": own, "proc/self/mountinfo": mounts, ...files }));
  expect([found?.bytesMax, found?.usedBytes()]).toEqual([bytesMax, used]);
});

test.each([
  ["nothing is limited", "0::/\n", V2, group("", { "memory.max": "max\n" })],
  [
    "version 1 has no limit",
    "4:memory:/\n",
    V1,
    group("memory/", { "memory.limit_in_bytes": "9223372036854771712\n" }),
  ],
  ["no group of memory is mounted", "4:memory:/\n", OTHER, {}],
] as const)("%s: no group", (_title, own, mounts, files) => {
  expect(memoryGroup(place({ "proc/self/cgroup": own, "proc/self/mountinfo": mounts, ...files }))).toBeUndefined();
});

test("without /proc: no group", () => {
  expect(memoryGroup(temporaryDirectory())).toBeUndefined();
});
