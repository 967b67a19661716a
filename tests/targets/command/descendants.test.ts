import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { killGroup, killSession, killStrays } from "../../../src/targets/command/descendants.ts";
import { CALL_MARKER } from "../../../src/targets/command/environment.ts";
import { until } from "../../support/until.ts";
import { gone } from "./stand.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const CALLS = 20;
const isSkipped = process.platform !== "linux" || ["bash", "setsid"].some((name) => Bun.which(name) === null);

/** Starts one process in its own group, and one that left the session and whose parent has ended. */
const SCRIPT = `set -m
  sleep 300 & echo $! > "$1.group"
  (setsid bash -c 'echo $$ > "$1.new"; mv "$1.new" "$1.session"; exec sleep 300' bash "$1" &)
  wait`;

interface Call {
  readonly pid: number;
  readonly marker: string;
  /** In a group of its own, in the call's session. */
  readonly inSession: number;
  /** In a session of its own. */
  readonly outside: number;
}

const started: Bun.Subprocess[] = [];
const ids: number[] = [];
afterEach(async () => {
  for (const child of started.splice(0)) {
    child.kill("SIGKILL");
    await child.exited;
  }
  for (const pid of ids.splice(0)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // Already ended, as it should be.
    }
  }
});

async function start(folder: string, marker: string): Promise<Call> {
  const file = join(folder, marker);
  const child = Bun.spawn({
    cmd: ["bash", "-c", SCRIPT, "bash", file],
    env: { PATH: process.env["PATH"] ?? "", [CALL_MARKER]: marker },
    stdin: "ignore",
    detached: true,
  });
  started.push(child);
  const pidIn = (path: string): Promise<number> =>
    until(path, () => {
      const pid = existsSync(path) ? Number(readFileSync(path, "utf8")) : 0;
      return pid > 0 ? pid : undefined;
    });
  const call = {
    ...{ pid: child.pid, marker },
    ...{ inSession: await pidIn(`${file}.group`), outside: await pidIn(`${file}.session`) },
  };
  ids.push(call.inSession, call.outside);
  return call;
}

async function startAll(): Promise<readonly Call[]> {
  const folder = temporaryDirectory();
  return Promise.all(Array.from({ length: CALLS }, () => start(folder, crypto.randomUUID())));
}

/** Returns how many reads this process has made: the kernel counts them. */
function reads(): number {
  return Number(/^syscr: (\d+)$/m.exec(readFileSync("/proc/self/io", "latin1"))?.[1]);
}

async function readsOf(work: () => Promise<unknown>): Promise<number> {
  const before = reads();
  await work();
  return reads() - before;
}

/** Returns the turns of the event loop until the work is done. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const counting = (async () => {
    for (; !isDone; turns += 1) await setImmediate();
  })();
  await work();
  isDone = true;
  await counting;
  return turns;
}

describe.skipIf(isSkipped)("many calls that end at once", () => {
  test("every process that left its group or session is killed", async () => {
    const calls = await startAll();
    const survivors = await Promise.all(
      calls.map(({ pid, marker }) => {
        killGroup(pid);
        return killStrays(marker, pid);
      }),
    );
    // A shell that started one of them may still be ending.
    expect(Math.min(...survivors)).toBeGreaterThanOrEqual(2);
    for (const { inSession, outside } of calls) await Promise.all([gone(inSession), gone(outside)]);
  });

  test("every process of their sessions is killed, and none of another session", async () => {
    const calls = await startAll();
    const left = await Promise.all(
      calls.map(({ pid }) => {
        killGroup(pid);
        return killSession(pid, false);
      }),
    );
    expect(Math.min(...left)).toBeGreaterThanOrEqual(1);
    for (const { inSession } of calls) await gone(inSession);
    for (const { outside } of calls) expect(process.kill(outside, 0)).toBe(true);
  });

  test("a process of one call is not taken for another's", async () => {
    const [ended, running] = await startAll();
    if (ended === undefined || running === undefined) throw new Error("no calls");
    await Promise.all([killStrays(ended.marker, ended.pid), killStrays(running.marker.slice(0, -1), running.pid)]);
    await gone(ended.outside);
    expect(process.kill(running.outside, 0)).toBe(true);
  });

  // Other programs start and end processes meanwhile. With a scan for each call, these would be 40 times as many reads.
  test("the process table is read as often as for a few calls", async () => {
    const strays = (): Promise<unknown> => killStrays(crypto.randomUUID(), 1);
    const [one, many] = [
      await readsOf(strays),
      await readsOf(() => Promise.all(Array.from({ length: CALLS * 2 }, strays))),
    ];
    expect(one).toBeGreaterThan(0);
    expect(many).toBeLessThan(one * 10);
  });

  test("a large environment is read in several turns of the event loop, and until the time limit", async () => {
    const marker = crypto.randomUUID();
    const filler = Object.fromEntries(Array.from({ length: 15 }, (_, at) => [`FILLER_${at}`, "x".repeat(131_000)]));
    const spawn = (env: Readonly<Record<string, string>>): Bun.Subprocess => {
      const child = Bun.spawn({ cmd: ["sleep", "300"], env: { PATH: process.env["PATH"] ?? "", ...env } });
      started.push(child);
      return child;
    };
    const stray = spawn({ ...filler, [CALL_MARKER]: marker });
    const environment = (): string => readFileSync(`/proc/${stray.pid}/environ`, "latin1");
    await until("the program", () => (environment().length > 1_900_000 ? true : undefined));
    expect(await turnsOf(() => killStrays(crypto.randomUUID(), 1))).toBeGreaterThan(20);

    // Without turns in between, the limit would have no effect.
    expect(await killStrays(marker, 1, 0)).toBe(0);
    expect(stray.exitCode ?? stray.signalCode).toBeNull();
    expect(await killStrays(marker, 1, 60_000)).toBe(1);
    expect(await stray.exited).not.toBe(0);
  });

  test("the newest process ids are checked as often as for a few calls", async () => {
    // Larger than any process id: a session without members.
    const session = (): Promise<unknown> => killSession(2 ** 30, false);
    const [one, many] = [
      await readsOf(session),
      await readsOf(() => Promise.all(Array.from({ length: CALLS * 2 }, session))),
    ];
    expect(one).toBeGreaterThan(0);
    expect(many).toBeLessThan(one * 10);
  });
});
