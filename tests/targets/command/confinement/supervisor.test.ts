import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../../support/until.ts";
import { gone } from "../stand.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { COMMANDS, missing } from "./stand.ts";

const SUPERVISOR = join(import.meta.dir, "unscoped.ts");
const SERVICE = join(import.meta.dir, "small-service.ts");

const NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"];
/** Only root can create PID namespaces on every machine. */
const hasNamespace = process.getuid?.() === 0 && Bun.spawnSync([...NAMESPACE, "true"]).success;
const isSkipped = missing !== undefined || !COMMANDS.has("bash") || Bun.which("setsid") === null;

/** Starts one process in the program's group and one outside its group and session. Both write that they are alive. */
const SCRIPT = `setsid sh -c 'echo $$ > left; exec sleep 300' & sh -c 'echo $$ > stayed; exec sleep 300' & wait`;
const children: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
    await child.exited;
  }
});

/** Runs a supervisor and a bystander in a PID namespace. Returns the files of the processes that outlive the control. */
async function survivorsOf(how: "scoped" | "unscoped"): Promise<string> {
  const folder = temporaryDirectory();
  const alive = `for who in bystander left stayed; do [ -d /proc/$(cat $who) ] && ! grep -q '^State:.Z' /proc/$(cat $who)/status && echo $who; done`;
  const script = `sleep 300 & echo $! > bystander
    mkfifo control
    '${process.execPath}' '${SUPERVISOR}' ${how} "$1" < control & supervisor=$!
    exec 3> control
    until [ -s left ] && [ -s stayed ]; do sleep 0.01; done
    exec 3>&-
    wait $supervisor
    ${alive}`;
  const cmd = [...NAMESPACE, "bash", "-c", script, "bash", SCRIPT];
  const child = Bun.spawn({ cmd, cwd: folder, stdin: "ignore", stdout: "pipe", stderr: "inherit" });
  children.push(child);
  return child.stdout.text();
}

describe.skipIf(isSkipped || !hasNamespace)("the end of the control process", () => {
  test("ends everything that the program started, and nothing else", async () => {
    expect(await survivorsOf("scoped")).toBe("bystander\n");
  });

  test("without the signal scope, ends the program's own group, and nothing else", async () => {
    expect(await survivorsOf("unscoped")).toBe("bystander\nleft\n");
  });
});

test.skipIf(isSkipped || !hasNamespace)("a program keeps its exit code where pidfd_open is refused", async () => {
  const cmd = [...NAMESPACE, "bash", "-c", '"$@"; exit $?', "bash", process.execPath, SUPERVISOR, "no-pidfd", "exit 3"];
  const child = Bun.spawn({ cmd, stdin: "pipe", stdout: "ignore", stderr: "inherit" });
  children.push(child);
  expect(await child.exited).toBe(3);
});

test.skipIf(isSkipped)("processes of a command end with a service that is killed", async () => {
  const pids = temporaryDirectory();
  const job = "(exec sleep 300 > /dev/null 2>&1) & echo $!";
  const script = `set -m; { ${job}; ${job}; echo $$; } > pids; wait`;
  const child = Bun.spawn({
    cmd: [process.execPath, SERVICE, script],
    // The files that the killed service leaves are removed with this folder.
    env: { ...process.env, STC_TEST_WORKSPACE: pids, TMPDIR: temporaryDirectory() },
    stdout: "ignore",
    stderr: "inherit",
  });
  children.push(child);
  const file = join(pids, "pids");
  const started = await until("three processes", () => {
    const found = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").map(Number) : [];
    return found.length === 3 ? found : undefined;
  });
  child.kill("SIGKILL");
  await child.exited;
  for (const pid of started) await gone(pid);
});
