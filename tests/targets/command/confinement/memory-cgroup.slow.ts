import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../../support/until.ts";
import { COMMANDS, missing } from "./stand.ts";

const SERVICE = join(import.meta.dir, "small-service.ts");
const BYTES_MAX = 536_870_912;
const TIMEOUT_MS = 120_000;
const JOBS = "for i in $(seq 16); do perl -e '$x = \"x\" x 33554432; sleep 20' & done; wait";
const TOO_MUCH = { code: "OUTCOME_UNKNOWN", details: { limit: "memory", memoryBytesMax: expect.any(Number) } };
const whole = (output: string) => ({ output, exitCode: 0, truncated: false });

/**
 * Creates a memory cgroup of 512 MiB below our own, or returns why it cannot. Version 2 ends all its processes at once, as a
 * kubelet configures it.
 */
function makeGroup(): { readonly folder: string } | { readonly why: string } {
  if (process.getuid?.() !== 0) return { why: "only root makes cgroups" };
  const own = readFileSync("/proc/self/cgroup", "latin1");
  const first = /^[0-9]+:memory:(.*)$/m.exec(own)?.[1];
  const second = /^0::(.*)$/m.exec(own)?.[1] ?? "/";
  const [top, limit] =
    first === undefined
      ? [join("/sys/fs/cgroup", second, ".."), "memory.max"]
      : [join("/sys/fs/cgroup/memory", first), "memory.limit_in_bytes"];
  const folder = join(top, `stc-test-${crypto.randomUUID()}`);
  try {
    mkdirSync(folder);
    writeFileSync(join(folder, limit), `${BYTES_MAX}`);
    if (first === undefined) writeFileSync(join(folder, "memory.oom.group"), "1");
    return { folder };
  } catch (error) {
    if (existsSync(folder)) rmdirSync(folder);
    return { why: `no memory cgroup can be made: ${String(error)}` };
  }
}

const hasPrograms = COMMANDS.has("bash") && Bun.which("perl") !== null;
const made = missing === undefined && hasPrograms ? makeGroup() : { why: missing ?? "bash or perl is missing" };
const why = "why" in made ? made.why : undefined;
const group = "folder" in made ? made.folder : "";
if (why !== undefined) console.log(`skipped: ${why}`);

afterAll(async () => {
  if (group === "") return;
  await until("the cgroup to be empty", () => readFileSync(join(group, "cgroup.procs"), "latin1") === "" || undefined);
  rmdirSync(group);
});

describe.skipIf(why !== undefined)("in a memory cgroup of 512 MiB", () => {
  test.each([
    ["sixteen jobs of 32 MB in the background", JOBS, TOO_MUCH],
    ["the same in groups of their own", `set -m; ${JOBS}`, TOO_MUCH],
    // Nothing reads the pipe, so that the memory stays in use until the call is ended.
    ["one process that allocates quickly", "dd if=/dev/zero bs=450M count=1 | sleep 20", TOO_MUCH],
    ["less than the limit", `perl -e '$x = "x" x 80000000; print length $x'`, whole("80000000")],
    [
      "files, which the kernel can drop",
      "head -c 700M /dev/zero > $TMPDIR/x && wc -c < $TMPDIR/x",
      whole("734003200\n"),
    ],
  ])(
    "%s: the service survives",
    async (_title, script, answer) => {
      const enter = `echo $$ > ${join(group, "cgroup.procs")} && exec "$@"`;
      const cmd = ["sh", "-c", enter, "sh", process.execPath, SERVICE, "echo before", script, "echo after"];
      const child = Bun.spawn({ cmd, stdout: "pipe", stderr: "inherit" });
      const lines = (await child.stdout.text()).trim().split("\n");
      expect(lines.map((line): unknown => JSON.parse(line))).toEqual([whole("before\n"), answer, whole("after\n")]);
      expect(await child.exited).toBe(0);
    },
    TIMEOUT_MS,
  );
});
