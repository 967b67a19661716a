import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import { EndingWorld } from "../support/ending-world.ts";
import { isRunning } from "../support/processes.ts";
import { manifest } from "../support/reload-service.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";
import { until } from "../support/until.ts";

/** One service with a parent and two workers, in real processes; the tests run in this order. */
const WORKERS = 2;
const SETTINGS = {
  instance: "payments",
  server: {
    port: 0,
    workers: WORKERS,
    operator: { port: 0 },
    console: { port: 0 },
    drainTimeoutMs: 10_000,
    shutdownDelayMs: 600_000,
  },
  reload: { perMinuteMax: 6_000, importTimeoutMs: 60_000 },
} as const;
const world = new EndingWorld(SETTINGS);
let consoleUrl: string;

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

const RUNS = 'await (await import("node:fs/promises")).appendFile("./runs", "x");';

beforeAll(async () => {
  const { world: files } = world;
  files.write("tools/who.ts", manifest({ name: "who", body: "return { said: String(process.pid) };" }));
  files.write("tools/says.ts", manifest({ name: "says", says: "first" }));
  files.write(
    "tools/once.ts",
    manifest({ name: "once", classification: "write", body: `${RUNS} return { said: "once" };` }).replace(
      "  permissions:",
      "  approval: { needsApproval: () => false },\n  permissions:",
    ),
  );
  await start();
});
afterAll(() => world.remove());

async function start(): Promise<void> {
  await world.start();
  const [, atConsole = "", atOperators = ""] = /"consoleUrl":"([^"]+)","operatorUrl":"([^"]+)"/.exec(world.log()) ?? [];
  consoleUrl = atConsole;
  world.operatorUrl = atOperators;
}

interface Sent {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly base?: string;
}

/** Sends a request on a connection of its own, so that the system chooses a worker for each. */
async function send(path: string, token: string, { body, headers = {}, base = world.url }: Sent = {}): Promise<Loose> {
  const response = await fetch(base + path, {
    method: body === undefined ? "GET" : "POST",
    keepalive: false,
    headers: {
      authorization: `Bearer ${token}`,
      connection: "close",
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { http: response.status, text, body: text.startsWith("{") ? JSON.parse(text) : undefined };
}

const agent = (): Promise<string> => world.world.agent();
const operator = (): Promise<string> =>
  world.world.operator([
    "service:reload",
    "metrics:read",
    "approvals:decide",
    "approvals:read",
    "halts:write",
    "audit:read",
  ]);

async function call(tool: string, more: Readonly<Record<string, unknown>> = {}, headers = {}): Promise<Loose> {
  return (await send("/call", await agent(), { body: { tool, args: {}, ...more }, headers })).body;
}

/** The processes that answer, as soon as there are two. */
async function workersThatAnswer(): Promise<ReadonlySet<number>> {
  const seen = new Set<number>();
  return until("answers of two workers", async () => {
    const { result } = await call("who");
    if (result !== undefined) seen.add(Number(result.said));
    return seen.size === WORKERS ? seen : undefined;
  });
}

async function states(): Promise<Loose> {
  return (await send("/readyz", await operator(), { base: world.operatorUrl })).body;
}

const counted = (text: string, name: string): number =>
  [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))].reduce(
    (sum, [, value]) => sum + Number(value),
    0,
  );

async function metrics(base = world.operatorUrl): Promise<string> {
  return (await send("/metrics", await operator(), { base })).text;
}

const logOf = (worker: number): string => join(world.auditDir, `worker-${worker}`);

test("both workers answer on one port, each an instance with a log of its own", async () => {
  const pids = await workersThatAnswer();
  const { workers } = await states();
  expect(workers.map(({ status }: { status: string }) => status)).toEqual(["ready", "ready"]);
  expect(new Set(workers.map(({ pid }: { pid: number }) => pid))).toEqual(new Set(pids));
  for (const worker of [1, 2]) {
    expect(new Set(auditEntries(logOf(worker)).map(({ instance }) => instance))).toEqual(
      new Set([`payments-${worker}`]),
    );
  }
  expect(auditEntries(world.auditDir)).toEqual([]);
  expect(new Set(journalEntries(world.auditDir).map(({ instance }) => instance))).toEqual(new Set(["payments"]));
});

test("metrics are those of all processes, at the operators' port and at any worker", async () => {
  const lines = [1, 2].flatMap((worker) => auditEntries(logOf(worker)));
  const calls = lines.filter(({ tool }) => tool.name === "who").length;
  for (const text of [await metrics(), await metrics(world.url)]) {
    const [, who = ""] = /^stc_calls_total\{tool="who",decision="ALLOWED",code="OK"\} (\d+)$/m.exec(text) ?? [];
    expect(Number(who)).toBe(calls);
    expect(counted(text, "stc_workers_ready")).toBe(WORKERS);
  }
});

test("an approval that one worker has asked for is given at the parent and used at any worker", async () => {
  const asked = await call("asking");
  expect(asked.status).toBe("pending");
  const { id } = asked.approval;
  const decided = await send(`/approvals/${id}/decisions`, await operator(), {
    base: consoleUrl,
    body: { decision: "approve" },
  });
  expect(decided.http).toBe(200);
  const done = await call("asking", { approval: { id } });
  expect(done).toMatchObject({ status: "success", result: { said: "asked" } });
  expect((await call("asking", { approval: { id } })).status).not.toBe("success");
});

test("calls with one Idempotency-Key, at both workers at once, run once", async () => {
  const key = { "idempotency-key": "key-of-this-test-1" };
  const answers = await Promise.all(Array.from({ length: 24 }, () => call("once", {}, key)));
  const codes = new Set(answers.map(({ status, error }) => error?.code ?? status));
  expect([...codes].filter((code) => code !== "success" && code !== "CALL_IN_PROGRESS")).toEqual([]);
  expect(codes.has("success")).toBe(true);
  expect(readFileSync(join(world.world.folder, "runs"), "utf8")).toBe("x");
  const workers = [1, 2].filter((worker) => auditEntries(logOf(worker)).some(({ tool }) => tool.name === "once"));
  expect(workers).toEqual([1, 2]);
});

test("a halt that is set at the parent stops the tool in all workers", async () => {
  const halted = await send("/halts", await operator(), {
    base: consoleUrl,
    body: { kind: "tool", tool: "who", reason: "drill" },
  });
  expect(halted.http).toBe(201);
  await until("a second without an answer", async () => {
    const codes = await Promise.all(Array.from({ length: 12 }, async () => (await call("who")).error?.code));
    return codes.every((code) => code === "HALTED") ? true : undefined;
  });
  const { id } = halted.body.halt;
  const lifted = await fetch(`${consoleUrl}/halts/${id}`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${await operator()}` },
  });
  expect(lifted.ok).toBe(true);
  await workersThatAnswer();
});

const saysOfAll = async (): Promise<ReadonlySet<string>> =>
  new Set(await Promise.all(Array.from({ length: 16 }, async () => (await call("says")).result?.said)));

test("a reload at any process changes all of them; a configuration that does not load changes none", async () => {
  world.world.write("tools/says.ts", manifest({ name: "says", says: "second" }));
  expect((await send("/reload", await operator(), { body: {} })).body).toMatchObject({ status: "changed" });
  expect(await saysOfAll()).toEqual(new Set(["second"]));
  world.world.write(
    "tools/says.ts",
    manifest({ name: "says", says: "third" }).replace("defineTool({", "defineTool({ x: 1,"),
  );
  expect((await send("/reload", await operator(), { base: consoleUrl, body: {} })).http).toBe(422);
  expect(await saysOfAll()).toEqual(new Set(["second"]));
  world.world.write("tools/says.ts", manifest({ name: "says", says: "fourth" }));
  world.child.kill("SIGHUP");
  await until("the answers of all workers", async () => {
    const said = await saysOfAll();
    return said.size === 1 && said.has("fourth") ? true : undefined;
  });
  const { workers, configuration } = await states();
  expect(workers.map(({ sha256 }: { sha256: string }) => sha256)).toEqual([configuration.sha256, configuration.sha256]);
});

test("a worker that dies is replaced, its calls are still counted, and its log continues", async () => {
  const before = counted(await metrics(), "stc_calls_total");
  const { workers } = await states();
  const { pid } = workers[0];
  process.kill(pid, "SIGKILL");
  const after = await until("another process of worker 1", async () => {
    const { workers: now } = await states();
    return now[0].status === "ready" && now[0].pid !== pid ? now : undefined;
  });
  expect(after[1]).toEqual(workers[1]);
  const text = await metrics();
  expect(counted(text, "stc_workers_replaced_total")).toBe(1);
  expect(counted(text, "stc_calls_total")).toBeGreaterThanOrEqual(before);
  await workersThatAnswer();
  const ended = journalEntries(world.auditDir).filter(({ type }) => type === "worker.ended");
  expect(ended).toMatchObject([{ worker: 1, pid, signal: expect.anything() }]);
});

/** Sends SIGTERM until the parent drains: the first one begins the shutdown delay, and a later one ends it. */
async function insist(): Promise<number | null> {
  const insisting = setInterval(() => {
    if (!world.log().includes('"draining"')) world.child.kill("SIGTERM");
  }, 100);
  await world.child.exited;
  clearInterval(insisting);
  return world.child.exitCode;
}

test("a stop lets all workers serve for the delay, answers their calls, ends them, and leaves logs that verify", async () => {
  const { workers } = await states();
  world.child.kill("SIGTERM");
  await until("all workers to shut down", async () => {
    const { status, reasons, workers: now } = await states();
    expect(now.map(({ status }: { status: string }) => status)).not.toContain("ended");
    return status === "not_ready" && reasons.includes("shutting_down") && now[1].status === "ending" ? true : undefined;
  });
  await workersThatAnswer();
  expect((await send("/reload", await operator(), { body: {} })).http).toBe(503);
  const slow = Array.from({ length: 6 }, () => call("slow_write"));
  await until("all calls", async () => (counted(await metrics(), "stc_calls_in_flight") === 6 ? true : undefined));
  expect(await insist()).toBe(0);
  expect((await Promise.all(slow)).map(({ status }) => status)).toEqual(slow.map(() => "success"));
  for (const { pid } of workers) expect(isRunning(pid)).toBe(false);
  const { code: verified, out } = await runStc(["audit", "verify", "--dir", world.auditDir]);
  expect(verified).toBe(SIGNATURES_NOT_CHECKED);
  expect(out).toContain("\nworker-2:\n");
});

async function problemsFound(): Promise<readonly string[]> {
  const { code, out } = await runStc(["audit", "verify", "--json", "--dir", world.auditDir]);
  const { logProblems } = JSON.parse(out) as Loose;
  expect(code).toBe(logProblems.length === 0 ? SIGNATURES_NOT_CHECKED : 3);
  return logProblems.map(({ kind, log }: { kind: string; log: string }) => `${kind}: ${log}`);
}

test("the journal has recorded both logs of each worker, also of the one that was replaced", async () => {
  expect(await problemsFound()).toEqual([]);
  const logs = journalEntries(world.auditDir).filter(({ type }) => type === "worker.log");
  for (const worker of [1, 2]) {
    const origins = new Set(logs.filter((line) => line["worker"] === worker).flatMap((line) => line["origins"]));
    expect([...origins]).toEqual([expect.stringContaining("/journal/"), expect.stringContaining("/calls/")]);
  }
});

test("a worker's folder that is gone, replaced by a copy of another's, or made again by a start is found", async () => {
  const hidden = join(world.world.folder, "hidden");
  renameSync(logOf(2), hidden);
  expect(await problemsFound()).toEqual(["missing log: worker-2"]);
  cpSync(logOf(1), logOf(2), { recursive: true });
  expect(await problemsFound()).toEqual(["duplicate log: worker-2", "wrong log: worker-2", "missing log: worker-2"]);
  rmSync(logOf(2), { recursive: true });
  await start();
  await workersThatAnswer();
  expect((await world.end("SIGINT")).code).toBe(0);
  expect(await problemsFound()).toEqual(["missing log: worker-2"]);
  rmSync(logOf(2), { recursive: true });
  renameSync(hidden, logOf(2));
  expect(await problemsFound()).toEqual(["missing log: worker-2"]);
});

test("workers end when their parent is killed, and the port is free", async () => {
  await start();
  const { workers } = await states();
  await world.end("SIGKILL");
  await until("the workers' end", () =>
    workers.every(({ pid }: { pid: number }) => !isRunning(pid)) ? true : undefined,
  );
  const server = Bun.listen({ hostname: "127.0.0.1", port: Number(new URL(world.url).port), socket: { data() {} } });
  server.stop(true);
});

test("a start while the workers of a killed parent drain waits for their logs", async () => {
  world.world.configure({ server: { ...SETTINGS.server, drainTimeoutMs: 4_000 } });
  await start();
  const { workers } = await states();
  const stuck = call("stuck_write");
  await until("the change to run", () =>
    [1, 2].some((worker) => journalEntries(logOf(worker)).at(-1)?.["tool"] === "stuck_write") ? true : undefined,
  );
  await world.end("SIGKILL");
  await start();
  expect(workers.filter(({ pid }: { pid: number }) => isRunning(pid))).toEqual([]);
  expect((await stuck).error.code).toBe("OUTCOME_UNKNOWN");
  expect((await world.end("SIGINT")).code).toBe(0);
});

test("a start with fewer workers ends the interrupted calls of those that are gone, or that end while it waits", async () => {
  await start();
  const intentsOf = (worker: number) => journalEntries(logOf(worker)).filter(({ tool }) => tool === "stuck_write");
  const before = [1, 2].map((worker) => intentsOf(worker).length);
  const stuck = Array.from({ length: 12 }, () => call("stuck_write").catch(() => undefined));
  await until("intents of both workers", () => {
    const made = [1, 2].map((worker, at) => intentsOf(worker).length - (before[at] ?? 0));
    const sum = made.reduce((total, count) => total + count, 0);
    return !made.includes(0) && sum === stuck.length ? true : undefined;
  });
  const { workers } = await states();
  // The parent first: it would replace them.
  await world.end("SIGKILL");
  const [gone, ending] = workers.map(({ pid }: { pid: number }) => pid);
  process.kill(gone, "SIGKILL");
  const { workers: _, ...server } = SETTINGS.server;
  world.world.configure({ server });
  const starting = start();
  await until("the start to wait", () => (world.log().includes("waiting until the process") ? true : undefined));
  process.kill(ending, "SIGKILL");
  await Promise.all([starting, ...stuck]);
  for (const worker of [1, 2]) {
    const codes = auditEntries(logOf(worker)).flatMap(({ tool, error }) =>
      tool.name === "stuck_write" ? [error?.code] : [],
    );
    expect(codes).toEqual(intentsOf(worker).map(() => "OUTCOME_UNKNOWN"));
  }
  expect((await call("says")).result.said).toBe("fourth");
  expect((await world.end("SIGINT")).code).toBe(0);
});
