import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import type { Findings, Orders } from "../bench/load.ts";
import { issueBenchTokens } from "../bench/token.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { processorMsOf } from "../support/processor-time.ts";
import { until } from "../support/until.ts";

/** Long: ten thousand connections, a loop that is really late, replicas over a real database. */
const IDLE_WANTED = 10_000;
/** Of this process, for everything else. */
const FILES_KEPT = 500;
const IDLE_BYTES_MAX = 40_000;
/** Processor time of a call with all of them open, against without. */
const SLOWER_MAX = 2;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-load-")));
const processes: Bun.Subprocess[] = [];
afterAll(() => {
  for (const child of processes) child.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function load(orders: Orders): Promise<Findings> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../bench/load.ts"), JSON.stringify(orders)], {
    stdout: "pipe",
  });
  return JSON.parse(await new Response(child.stdout).text()) as Findings;
}

function rssBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
}

function openFilesMax(): number {
  const [, soft] = /Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
  return Number(soft);
}

const HEALTH = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/** Opens so many connections that each ask once and then stay. */
async function stayIdle(port: number, count: number): Promise<readonly Socket[]> {
  let answered = 0;
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    for (let made = 0; made < 200 && sockets.length < count; made += 1) {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => {});
      socket.once("connect", () => socket.write(HEALTH));
      socket.once("data", () => {
        answered += 1;
      });
      sockets.push(socket);
    }
    await until("their answers", () => (answered === sockets.length ? true : undefined));
  }
  return sockets;
}

test("calls continue next to ten thousand idle connections, each of which uses little memory", async () => {
  const { agent: token } = await issueBenchTokens(folder);
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../bench/servers.ts"), "governed", folder], {
    stdout: "pipe",
  });
  processes.push(child);
  const { value } = await child.stdout.getReader().read();
  const port = Number(new TextDecoder().decode(value).trim());
  const body = JSON.stringify({ tool: "bench_echo", args: { text: "hello", count: 3 } });
  const measured = async (): Promise<number> => {
    // More than a second of processor time, which is counted in hundredths.
    const requests = 5_000;
    const before = processorMsOf(child.pid);
    const { failed } = await load({ port, token, body, connections: 64, requests });
    expect(failed).toBe(0);
    return (processorMsOf(child.pid) - before) / requests;
  };
  await measured();
  const alone = Math.min(await measured(), await measured());
  const count = Math.min(IDLE_WANTED, openFilesMax() - FILES_KEPT);
  const rssBefore = rssBytes(child.pid);
  const sockets = await stayIdle(port, count);
  const bytesEach = (rssBytes(child.pid) - rssBefore) / count;
  const beside = Math.min(await measured(), await measured());
  const stillOpen = sockets.filter(({ destroyed }) => !destroyed).length;
  for (const socket of sockets) socket.destroy();
  console.log(
    `${count} idle connections: ${Math.round(bytesEach)} bytes each, calls take ${(beside / alone).toFixed(2)} of before`,
  );
  expect(stillOpen).toBe(count);
  expect(bytesEach).toBeLessThan(IDLE_BYTES_MAX);
  expect(beside / alone).toBeLessThan(SLOWER_MAX);
  await measured();
});

const issuers = new LiveIssuers();

/** Takes the loop for itself for a while. */
const spin = defineTool({
  name: "load_spin",
  description: "Compute",
  classification: "read",
  permissions: { required: ["load:run"] },
  input: z.strictObject({}),
  handler: () => {
    const until = performance.now() + 3;
    while (performance.now() < until);
    return {};
  },
  output: z.strictObject({}),
  outputPolicy: {},
  limits: { concurrentCallsMax: 2_000 },
});

function start(name: string, sections: Readonly<Record<string, unknown>>): Promise<RunningService> {
  const place = join(folder, name);
  mkdirSync(place, { recursive: true });
  const written = {
    server: { port: 0 },
    tools: [spin],
    audit: { dir: "./audit", durability: "write" },
    jwt: { issuers: issuers.profiles() },
    log: { level: "silent" },
    ...sections,
  };
  return startService(readConfig(written, { folder: place, environment: {}, origin: name }));
}

const tokenOf = (sub: string): Promise<string> => issuers.token({ kind: "good", sub, permissions: ["load:run"] });
const CALL = '{"tool":"load_spin","args":{}}';

test("an overloaded event loop sheds calls, answers probes, and recovers afterwards", async () => {
  const service = await start("shedding", { limits: { concurrentCallsPerCallerMax: 1_024, loopDelayMsMax: 50 } });
  const token = await tokenOf("agent");
  const loading = load({
    port: Number(new URL(service.url).port),
    token,
    body: CALL,
    connections: 600,
    requests: 6_000,
  });
  const probes: number[] = [];
  let findings: Findings | undefined;
  const done = loading.then((found) => {
    findings = found;
  });
  while (findings === undefined) {
    for (const path of ["/healthz", "/readyz"]) probes.push((await fetch(`${service.url}${path}`)).status);
    await Promise.race([done, Bun.sleep(50)]);
  }
  expect(findings.failed).toBeGreaterThan(100);
  expect(findings.failed).toBeLessThan(6_000);
  expect(new Set(probes)).toEqual(new Set([200]));
  const metrics = await metricsOf(service);
  expect(Number(/stc_shed_total\{reason="loop_delay"\} (\d+)/.exec(metrics)?.[1])).toBeGreaterThan(100);
  let refusals: readonly number[] = [];
  // A neighbour that holds the loop up makes it shed again, rightly: then what matters is the time after that.
  await patiently("two hundred calls at once to be taken", async () => {
    await onTime(service);
    const answers = await Promise.all(Array.from({ length: 200 }, () => statusOf(service, token)));
    refusals = answers.filter((status) => status !== 200);
    return refusals.length === 0;
  });
  expect(refusals).toEqual([]);
  await service.drain();
});

/** So many looks in a row that were not late end the shedding; one more was under way. */
const CALM_LOOKS = 21;
const PATIENCE_MS = 100_000;
const POLL_MS = 20;

async function patiently(what: string, look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await Bun.sleep(POLL_MS);
  }
}

/** Until the loop was on time at so many looks in a row that nothing is shed any more. */
async function onTime(service: RunningService): Promise<void> {
  let begun = looksIn(await metricsOf(service));
  await patiently("the loop to be on time for a while", async () => {
    const now = looksIn(await metricsOf(service));
    if (now.all - begun.all > now.calm - begun.calm) begun = now;
    return now.all - begun.all >= CALM_LOOKS;
  });
}

async function metricsOf({ url }: RunningService): Promise<string> {
  const operator = await issuers.token({ kind: "operator", sub: "o", permissions: ["metrics:read"] });
  return (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${operator}` } })).text();
}

/** Returns how often the loop was measured, and how often its delay was less than half of the limit. */
function looksIn(metrics: string): { readonly all: number; readonly calm: number } {
  const count = (name: string): number =>
    Number(new RegExp(`^stc_event_loop_delay_seconds_${name} (\\d+)`, "m").exec(metrics)?.[1]);
  return { all: count("count"), calm: count('bucket\\{le="0\\.025"\\}') };
}

async function statusOf({ url }: RunningService, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return (await fetch(`${url}/call`, { method: "POST", headers, body: CALL })).status;
}

const native = findPostgres();

test.skipIf(native === undefined)("replicas with a database count together, and continue without it", async () => {
  const server: PostgresServer = await startPostgres(native ?? "");
  const url = await server.createDatabase("rates");
  writeFileSync(join(folder, "url"), `${url}\n`, { mode: 0o600 });
  const limits = { shared: true, rates: { caller: { calls: 60, seconds: 3_600 } } };
  const approvals = { storeUrlFile: join(folder, "url") };
  const replicas = [await start("one", { limits, approvals }), await start("two", { limits, approvals })] as const;
  try {
    const counted = () => callsCounted(server);
    expect((await served(replicas, await tokenOf("first"), counted)).count).toBeWithin(60, 70);
    server.freeze();
    const alone = await served(replicas, await tokenOf("second"));
    expect(alone.count).toBe(120);
    // A call that waited for the database, which does not answer, would take longer.
    expect(alone.msPerCall).toBeLessThan(100);
    server.thaw();
    const third = await tokenOf("third");
    await until("the replicas to hear of each other", async () => {
      const caller = await tokenOf(`probe ${crypto.randomUUID()}`);
      return (await served(replicas, caller, counted)).count < 70 ? true : undefined;
    });
    expect((await served(replicas, third, counted)).count).toBeWithin(60, 70);
  } finally {
    await Promise.all(replicas.map((replica) => replica.drain()));
    await server.end();
  }
});

/** Each call of an hour's sixty fills its bucket by a minute, which drains. Returns the calls in the database's buckets. */
async function callsCounted(server: PostgresServer): Promise<number> {
  const minutes = "GREATEST(0, empty_at / 60e6 - extract(epoch FROM clock_timestamp()) / 60)";
  const [row] = await server.send(`SELECT sum(${minutes})::float8 AS calls FROM call_rates`, "rates").catch(() => []);
  return Number(row?.["calls"] ?? 0);
}

/** Longest wait for the database to have the calls of a turn: it never gets those of a statement without an answer in a second. */
const COUNTED_MS_MAX = 2_000;

/**
 * Calls both replicas in turns until both refuse. Each turn begins when the database has counted the calls of the turn before: replicas
 * that count together serve at most two turns more than the limit, however fast the machine and its database are.
 */
async function served(replicas: readonly RunningService[], token: string, counted?: () => Promise<number>) {
  const before = (await counted?.()) ?? 0;
  const begun = performance.now();
  let [count, calls, pausedMs] = [0, 0, 0];
  for (let isOver = false; !isOver; ) {
    const answers = await Promise.all([0, 1, 2].flatMap(() => replicas.map((replica) => statusOf(replica, token))));
    const taken = answers.filter((status) => status === 200).length;
    [count, calls, isOver] = [count + taken, calls + answers.length, taken === 0];
    const pausedAt = performance.now();
    const paused = (): number => performance.now() - pausedAt;
    // Less than one call drains meanwhile.
    while (!isOver && counted !== undefined && (await counted()) < before + count - 0.5 && paused() < COUNTED_MS_MAX) {
      await Bun.sleep(5);
    }
    pausedMs += paused();
  }
  return { count, msPerCall: (performance.now() - begun - pausedMs) / calls };
}
