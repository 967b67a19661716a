import { afterAll, afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Reloaded } from "../../src/runtime/reload/types.ts";
import { type PoolEvent, type PoolLine, WorkerPool, type WorkerPoolOptions } from "../../src/workers/pool.ts";
import { until } from "../support/until.ts";

/** Small real processes in place of services: each does what its environment says. */
const folder = mkdtempSync(join(tmpdir(), "stc-pool-"));
const program = join(folder, "worker.ts");
/** Workers with this file have written calls. */
const called = join(folder, "called");
writeFileSync(
  program,
  `
import { existsSync, writeFileSync } from "node:fs";
import { joinParent } from ${JSON.stringify(join(import.meta.dir, "../../src/workers/member.ts"))};
const { STC_WORKER, FAILS, REFUSES, PORT, SLOW_END, JOINS_AND_ENDS, ENDS_EARLY, WAITS, ENDED, CALLED } = process.env;
if (FAILS === STC_WORKER) process.exit(78);
// Its reports are what it does every 500 ms.
if (process.env.SILENT === STC_WORKER) {
  const { setInterval: every } = globalThis;
  globalThis.setInterval = (work, ms) => every(ms === 500 ? () => {} : work, ms);
}
let reloads = 0;
let sha256 = "first";
const member = joinParent();
if (JOINS_AND_ENDS === STC_WORKER) {
  process.exitCode = 78;
} else {
if (WAITS === STC_WORKER) while (!existsSync(ENDED)) await Bun.sleep(10);
member.join({
  metrics: async () => [{ name: "made", help: "made", type: "counter", aggregator: "sum", values: [{ value: 1, labels: {} }] }],
  reload: async () => {
    reloads += 1;
    if (REFUSES === STC_WORKER || REFUSES === "all") return { outcome: "refused", problems: ["it does not load"] };
    if (reloads === 1) return { outcome: "busy", reason: "rate", retryAfterMs: 1 };
    sha256 = "second";
    return { outcome: "changed", generation: 2, sha256 };
  },
  report: () => {
    const origins = ["journal/" + STC_WORKER, "calls/" + STC_WORKER].slice(0, existsSync(CALLED) ? 2 : 1);
    const isReady = STC_WORKER !== "3" && !existsSync(CALLED + ".last");
    return { reasons: isReady ? [] : ["audit_unavailable"], sha256, origins };
  },
});
process.on("SIGTERM", () => { if (SLOW_END !== STC_WORKER) process.exit(0); });
setInterval(() => {}, 1_000);
await member.listening("http://127.0.0.1:" + (PORT ?? "4711"));
if (ENDS_EARLY === STC_WORKER && !existsSync(ENDED)) { writeFileSync(ENDED, ""); process.exit(1); }
}
`,
);

let pool: WorkerPool | undefined;
afterEach(async () => {
  await pool?.stop(0);
  pool = undefined;
  for (const file of [called, `${called}.last`]) rmSync(file, { force: true });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface World {
  readonly pool: WorkerPool;
  readonly events: PoolEvent[];
  readonly journal: PoolLine[];
}

function open(variables: Readonly<Record<string, string>> = {}, more: Partial<WorkerPoolOptions> = {}): World {
  const events: PoolEvent[] = [];
  const journal: PoolLine[] = [];
  let now = 0;
  const opened = new WorkerPool({
    workers: 2,
    argv: [process.execPath, program],
    environment: (number, port) => ({
      PATH: process.env["PATH"],
      ...{ STC_WORKER: String(number), PORT: port, ENDED: join(folder, "ended"), CALLED: called, ...variables },
    }),
    rateTable: { add: async (charges) => charges.map(() => 0) },
    metrics: async () => [],
    reload: async (): Promise<Reloaded> => ({ outcome: "changed", generation: 1, sha256: "second" }),
    sha256: () => "first",
    monotonic: () => {
      now += 60_000;
      return now;
    },
    onEvent: (event) => events.push(event),
    journal: async (line) => void journal.push(line),
    ...more,
  });
  pool = opened;
  return { pool: opened, events, journal };
}

const kinds = (events: readonly (PoolEvent | PoolLine)[]): readonly string[] =>
  events.map(({ type, worker }) => `${type} ${worker}`);

test("all workers start, the later ones at the port of the first, and are journaled", async () => {
  const { pool: started, journal } = open();
  expect(await started.start()).toBe("http://127.0.0.1:4711");
  expect(started.states()).toMatchObject([
    { worker: 1, status: "ready", sha256: "first" },
    { worker: 2, status: "ready", sha256: "first" },
  ]);
  expect([started.ready, started.isReady]).toEqual([2, true]);
  expect(kinds(journal)).toEqual(["worker.started 1", "worker.log 1", "worker.started 2", "worker.log 2"]);
  const { pid } = started.states()[1] ?? {};
  expect(journal.at(-1)).toEqual({ type: "worker.log", worker: 2, pid: pid ?? 0, origins: ["journal/2"] });
});

const logsOf = (journal: readonly PoolLine[]) =>
  journal.flatMap(({ type, origins }) => (type === "worker.log" ? [origins] : []));

test("the origin of the calls is journaled as soon as there are some, and each origin once", async () => {
  const { pool: started, journal } = open({}, { workers: 1 });
  await started.start();
  writeFileSync(called, "");
  await until("the second origin", () => (logsOf(journal).length === 2 ? true : undefined));
  writeFileSync(`${called}.last`, "");
  await until("a further report", () => (started.ready === 0 ? true : undefined));
  expect(logsOf(journal)).toEqual([["journal/1"], ["journal/1", "calls/1"]]);
});

test("a line that cannot be journaled is logged; the workers start, and their logs are recorded later", async () => {
  const written: PoolLine[] = [];
  let isDiskFull = true;
  const journal = async (line: PoolLine): Promise<void> => {
    if (isDiskFull) throw new Error("the disk is full");
    written.push(line);
  };
  const { pool: started, events } = open({}, { journal });
  await started.start();
  expect(started.ready).toBe(2);
  const problems = events.filter(({ type }) => type === "worker.not_journaled");
  expect(problems).toEqual(
    [1, 2].flatMap((worker) =>
      ["worker.started", "worker.log"].map((line) => ({
        ...{ type: "worker.not_journaled", worker, line, problem: "the disk is full" },
      })),
    ),
  );
  isDiskFull = false;
  await until("both records", () => (written.length === 2 ? true : undefined));
  expect(logsOf(written).toSorted()).toEqual([["journal/1"], ["journal/2"]]);
});

test("a worker that does not start ends the others, and the problem names it", async () => {
  const { pool: started, events } = open({ FAILS: "2" });
  await expect(started.start()).rejects.toThrow("server.workers: worker 2 has ended (78) before it listened");
  await until("the end of the first", () => (kinds(events).includes("worker.ended 1") ? true : undefined));
  expect(started.states().map(({ status }) => status)).toEqual(["ended", "ended"]);
});

test("ready are the workers that accept calls: half of them are enough", async () => {
  const { pool: started } = open({}, { workers: 3 });
  await started.start();
  expect([started.ready, started.isReady]).toEqual([2, true]);
  expect(started.states()[2]).toMatchObject({ status: "not_ready", reasons: ["audit_unavailable"] });
  process.kill(started.states()[0]?.pid ?? 0, "SIGKILL");
  await until("one that is gone", () => (started.ready === 1 ? true : undefined));
  expect(started.isReady).toBe(false);
});

test("a worker that dies is replaced and counted, and what it has counted is kept", async () => {
  const { pool: started, events } = open();
  await started.start();
  expect(await started.metrics()).toContain("\nmade 2\n");
  const { pid } = started.states()[1] ?? {};
  process.kill(pid ?? 0, "SIGKILL");
  await until("its replacement", () => (started.ready === 2 && started.states()[1]?.pid !== pid ? true : undefined));
  expect(started.replaced).toBe(1);
  expect(events.find(({ type }) => type === "worker.ended")).toMatchObject({ worker: 2, pid });
  expect(await started.metrics()).toContain("\nmade 3\n");
});

test("a reload reaches one worker after the other; one that is busy is asked again", async () => {
  const { pool: started } = open({}, { sha256: () => "second" });
  await started.start();
  expect(await started.roll("signal")).toEqual([]);
  expect(started.states().map(({ sha256 }) => sha256)).toEqual(["second", "second"]);
});

test("a worker that cannot adopt what the parent has adopted is restarted, the others keep it", async () => {
  const { pool: started, events } = open({ REFUSES: "1" }, { sha256: () => "second" });
  await started.start();
  const before = started.states();
  expect(await started.roll("signal")).toEqual(["worker 1: it does not load"]);
  expect(events).toContainEqual({ type: "worker.reload_failed", worker: 1, problems: ["it does not load"] });
  await until("another process", () =>
    started.ready === 2 && started.states()[0]?.pid !== before[0]?.pid ? true : undefined,
  );
  expect(started.states()[1]).toMatchObject({ pid: before[1]?.pid, sha256: "second" });
});

test("workers that all refuse stay: the service goes on with the configuration that they have", async () => {
  const { pool: started, events } = open({ REFUSES: "all" }, { sha256: () => "second" });
  await started.start();
  const before = started.states();
  expect(await started.roll("signal")).toEqual(["worker 1: it does not load", "worker 2: it does not load"]);
  expect(started.states()).toEqual(before);
  expect(kinds(events).filter((kind) => kind.startsWith("worker.ended"))).toEqual([]);
});

test("a worker that reads other files than the parent is a problem of the reload", async () => {
  const { pool: started } = open({}, { sha256: () => "third" });
  await started.start();
  const other = "the files have changed since the parent read them: all processes reload again";
  expect(await started.roll("signal")).toEqual([`worker 1: ${other}`, `worker 2: ${other}`]);
  expect(started.ready).toBe(2);
});

test("workers that go on with another configuration are noticed, and all processes reload", async () => {
  let files = "first";
  const { pool: started, events } = open(
    {},
    {
      sha256: () => files,
      checkEveryMs: 100,
      reload: async () => ({ outcome: "unchanged", generation: 1, sha256: files }),
    },
  );
  await started.start();
  files = "second";
  await until("the same configuration", () =>
    started.states().every(({ sha256 }) => sha256 === "second") ? true : undefined,
  );
  expect(kinds(events)).toContain("worker.differs 1");
}, 30_000);

test("a worker that is refused after it has joined its parent ends", async () => {
  const { pool: started } = open({ JOINS_AND_ENDS: "2" });
  await expect(started.start()).rejects.toThrow("server.workers: worker 2 has ended (78) before it listened");
});

test("a worker that ends while others are starting is replaced", async () => {
  const { pool: started, events } = open({ ENDS_EARLY: "1", WAITS: "2" });
  await started.start();
  await until("its end", () => (kinds(events).includes("worker.ended 1") ? true : undefined));
  await until("its replacement", () => (started.ready === 2 ? true : undefined));
  expect(started.replaced).toBe(1);
});

test("a worker that reports nothing is killed, and its end says why", async () => {
  const { pool: started, events } = open({ SILENT: "2" }, { checkEveryMs: 20 });
  await started.start();
  const ended = await until("its end", () =>
    events.find(({ type, worker }) => type === "worker.ended" && worker === 2),
  );
  expect(ended).toMatchObject({ worker: 2, signal: "SIGKILL", reason: "reported nothing for too long" });
  expect(kinds(events)).toContain("worker.hangs 2");
});

test("a stop ends all workers in the given time, and kills those that do not end", async () => {
  const { pool: started, events } = open({ SLOW_END: "2" });
  await started.start();
  await started.stop(50);
  const ends = events.filter(({ type }) => type === "worker.ended");
  expect(ends).toMatchObject([
    { worker: 1, code: 0, signal: null },
    { worker: 2, signal: "SIGKILL", reason: "had not ended 50 ms after it was asked to" },
  ]);
  expect(ends[0]?.["reason"]).toBeUndefined();
  expect(started.replaced).toBe(0);
});
