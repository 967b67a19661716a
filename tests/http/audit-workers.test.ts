import { afterAll, beforeAll, expect, test } from "bun:test";
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { logIdIn } from "../../src/audit/chain/log-id.ts";
import { createServer } from "../../src/http/server.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { keys, linesOf, writeWorkersLogs } from "../audit/support/chained-log.ts";
import { entryLine } from "../support/audit-lines.ts";
import { agentsProfile, goodClaims, issueToken, makeSigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { endpointsWith, serverParts } from "./server-parts.ts";

/** The audit of a service with two workers: three logs of 15 calls, the workers' with the trace ids of the first. */
const OPERATORS = { issuer: "https://operators.test", audience: "operators" } as const;
const operators = makeSigningKey("ES256", "operators-1");
const CALLS = 45;
const dir = mkdtempSync(join(tmpdir(), "stc-audit-workers-"));
const NOW = Date.parse("2026-02-19T13:00:00.000Z");
let app: FastifyInstance;
let url: string;
let token: string;

beforeAll(async () => {
  await writeWorkersLogs(dir);
  const parts = serverParts({
    auditDir: dir,
    clock: () => NOW,
    checkpointKey: keys.publicKey,
    journal: async () => {},
    callers: createCallerVerifier({
      issuers: [agentsProfile([operators], { ...OPERATORS, operators: true })],
      clock: () => NOW,
    }),
  });
  app = createServer(parts, await endpointsWith(parts));
  url = await app.listen({ host: "127.0.0.1", port: 0 });
  const times = { iat: NOW / 1000 - 60, nbf: NOW / 1000 - 60, exp: NOW / 1000 + 600 };
  const claims = { iss: OPERATORS.issuer, aud: OPERATORS.audience, permissions: ["audit:read"], ...times };
  token = await issueToken(operators, goodClaims(claims));
});
afterAll(async () => {
  await app.close();
  rmSync(dir, { recursive: true, force: true });
});

type Loose = ReturnType<typeof JSON.parse>;

async function get(path: string): Promise<{ readonly status: number; readonly json: Loose; readonly text: string }> {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
  const text = await response.text();
  return { status: response.status, text, json: path.includes("export") ? undefined : JSON.parse(text) };
}

test("a query pages through the logs of all workers", async () => {
  const ids: string[] = [];
  for (let cursor = ""; ; ) {
    const { status, json } = await get(`/audit?limit=7${cursor === "" ? "" : `&cursor=${cursor}`}`);
    expect(status).toBe(200);
    ids.push(...json.entries.map(({ traceId }: { traceId: string }) => traceId));
    if (json.more !== true) break;
    ({ cursor } = json);
  }
  expect(ids).toHaveLength(CALLS);
  expect(new Set(ids).size).toBe(CALLS / 3);
  expect([ids[0], ids.at(-1)]).toEqual(["t-2-4", "t-0-0"]);
});

test("statistics, a call's history and the export hold what every worker wrote", async () => {
  expect((await get("/audit/stats?from=2026-02-01")).json.calls).toBe(CALLS);
  const { json } = await get("/audit/t-1-1");
  expect([json.entries.length, json.journal.length]).toEqual([3, 3]);
  expect((await get("/audit/export?format=jsonl")).text.trim().split("\n")).toHaveLength(CALLS);
});

test("each line's log is named as in its checkpoints, and the lines stay as they are stored", async () => {
  const names = ["", "worker-1", "worker-2"];
  const ids = names.map((name) => logIdIn(join(dir, name), "calls"));
  const { json, text } = await get("/audit?limit=16");
  expect(new Set(ids).size).toBe(3);
  expect(json.logs.entries).toEqual(
    json.entries.map(
      ({ instance }: { instance: string }) => ids[names.indexOf(instance.replace(/^test-?/, "worker-"))] ?? ids[0],
    ),
  );
  const [newest] = linesOf(join(dir, "2026-02-19.jsonl")).slice(-1);
  expect(text).toContain(newest ?? "no line");
  const { json: call } = await get("/audit/t-1-1");
  expect(new Set(call.logs.entries)).toEqual(new Set(ids));
  expect(new Set(call.logs.journal)).toEqual(new Set(names.map((name) => logIdIn(join(dir, name), "journal"))));
});

test("a call in a worker's log is proved by that log", async () => {
  const only = join(dir, "worker-3");
  cpSync(join(dir, "worker-1"), only, { recursive: true });
  const file = join(only, "2026-02-19.jsonl");
  writeFileSync(file, (await Bun.file(file).text()).replaceAll("t-2-4", "only-here"));
  // The changed line is found, in that log alone, whose proof fails.
  expect((await get("/audit/only-here/proof")).status).not.toBe(404);
  rmSync(only, { recursive: true });
  expect((await get("/audit/only-here/proof")).status).toBe(404);
  expect((await get("/audit/t-2-4/proof")).status).toBe(200);
});

async function verified(): Promise<Loose> {
  return until("a complete reading", async () => {
    const { json } = await get("/audit/verify");
    return json.more === false ? json : undefined;
  });
}

test("each log is verified by itself, and the report names the one that was changed", async () => {
  expect(await verified()).toMatchObject({
    ok: true,
    logProblems: [],
    workers: [
      { log: "worker-1", ok: true },
      { log: "worker-2", ok: true },
    ],
  });
  const file = join(dir, "worker-2", "2026-02-17.jsonl");
  const text = await Bun.file(file).text();
  writeFileSync(file, text.replace("t-1-2", "t-9-9"));
  const changed = await until("a reading of the changed log", async () => {
    const { json } = await get("/audit/verify");
    return json.ok === false ? json : undefined;
  });
  writeFileSync(file, text);
  expect(changed.workers).toMatchObject([
    { log: "worker-1", ok: true },
    { log: "worker-2", ok: false },
  ]);
  expect(changed.workers[1].streams[0].damage.file).toBe("2026-02-17.jsonl");
});

test("a folder that is gone, or holds another log, is found", async () => {
  const [one, other] = [join(dir, "worker-1"), join(dir, "worker-3")];
  renameSync(one, other);
  const wrong = { kind: "wrong log", log: "worker-3", message: "holds the log of worker-1" };
  expect(await verified()).toMatchObject({ ok: false, logProblems: [wrong] });
  renameSync(other, join(dir, "elsewhere"));
  expect(await verified()).toMatchObject({ ok: false, logProblems: [{ kind: "missing log", log: "worker-1" }] });
  renameSync(join(dir, "elsewhere"), one);
  expect((await verified()).logProblems).toEqual([]);
});

test("the tail sends new lines of every worker", async () => {
  const controller = new AbortController();
  const response = await fetch(`${url}/audit/tail`, {
    headers: { authorization: `Bearer ${token}` },
    signal: controller.signal,
  });
  let text = "";
  const reading = (async () => {
    for await (const chunk of response.body ?? []) text += new TextDecoder().decode(chunk);
  })().catch(() => {});
  await until("the stream's opening", () => (text.includes(": open") ? true : undefined));
  for (const folder of ["", "worker-1", "worker-2"]) {
    const line = entryLine("2026-02-19T12:30:00.000Z", { traceId: `new${folder}` });
    appendFileSync(join(dir, folder, "2026-02-19.jsonl"), `${line}\n`);
  }
  await until("the lines of all logs", () => (text.match(/"traceId":"new/g)?.length === 3 ? true : undefined));
  const late = join(dir, "worker-3");
  mkdirSync(late);
  const first = entryLine("2026-02-19T12:31:00.000Z", { traceId: "late" });
  writeFileSync(join(late, "2026-02-19.jsonl"), `${first}\n`);
  await until("the log of a worker that starts now", () => (text.includes('"traceId":"late"') ? true : undefined));
  controller.abort();
  await reading;
  rmSync(late, { recursive: true });
  expect(text).toMatch(/^id: 2026-02-19:\d+,worker-1:2026-02-19:\d+,worker-2:2026-02-19:\d+$/m);
  expect(text).toMatch(/^id: .*,worker-3:2026-02-19:\d+$/m);
});
