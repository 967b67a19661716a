import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { logIdIn } from "../../src/audit/chain/log-id.ts";
import { postgresExporter } from "../../src/audit/export/stores.ts";
import type { JournalLine } from "../../src/audit/journal/journal.ts";
import type { AuditStore } from "../../src/audit/store/audit-store.ts";
import { openAuditStore } from "../../src/audit/store/open-store.ts";
import { fleetState } from "../../src/core/api/audit.ts";
import { createServer } from "../../src/http/server.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { askedParams, exportLog, NOW, writeReplica } from "../support/stored-logs.ts";
import { agentsProfile, type Claims, goodClaims, issueToken, makeSigningKey } from "../support/tokens.ts";
import { endpointsWith, serverParts } from "./server-parts.ts";

/**
 * A service whose audit directory holds the logs of two replicas, and a store that holds the same two logs: both sources have the
 * same lines.
 */
const native = findPostgres();
const OPERATORS = { issuer: "https://operators.test", audience: "operators" } as const;
const operators = makeSigningKey("ES256", "operators-1");
const STATEMENT_MS = 400;
/** The story of an approval that was requested on one replica and decided on the other. */
const STORY = "/audit/0198e000-0000-7000-8001-000000000002";
const folder = mkdtempSync(join(tmpdir(), "stc-audit-fleet-"));
const dirs = [writeReplica(folder, 0, 1_500), writeReplica(folder, 1, 900)];
const auditDir = join(folder, "service");
const journal: JournalLine[] = [];
const reasons: string[] = [];
let server: PostgresServer;
let store: AuditStore;
let app: FastifyInstance;
let url: string;

async function listen(auditStore: AuditStore | undefined): Promise<FastifyInstance> {
  const parts = serverParts({
    auditDir,
    auditStore: () => auditStore,
    clock: () => NOW,
    journal: async (line) => void journal.push(line),
    logError: (error) => reasons.push(String(error)),
    callers: createCallerVerifier({
      issuers: [agentsProfile([operators], { ...OPERATORS, operators: true })],
      clock: () => NOW,
    }),
  });
  const opened = createServer(parts, await endpointsWith(parts));
  await opened.listen({ host: "127.0.0.1", port: 0 });
  return opened;
}

beforeAll(async () => {
  if (native === undefined) return;
  for (const [at, dir] of dirs.entries())
    cpSync(dir, join(auditDir, at === 0 ? "" : `worker-${at}`), { recursive: true });
  server = await startPostgres(native);
  const storeUrl = await server.createDatabase("fleet");
  const urlFile = join(folder, "url");
  writeFileSync(urlFile, storeUrl);
  const receiver = postgresExporter.open(
    { urlFile },
    { path: (path) => path, clock: Date.now, problem: (_, message) => reasons.push(message) },
  );
  if (receiver === undefined) throw new Error(reasons.join());
  for (const dir of dirs) await exportLog(dir, receiver);
  await receiver.close?.();
  store = await openAuditStore(storeUrl, { statementMs: STATEMENT_MS, scope: "all" });
  app = await listen(store);
  url = `http://127.0.0.1:${(app.server.address() as { readonly port: number }).port}`;
});
afterAll(async () => {
  await app?.close();
  await store?.close();
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

type Loose = ReturnType<typeof JSON.parse>;

async function get(path: string, { at = url, claims = {} }: { at?: string; claims?: Claims } = {}) {
  const times = { iat: NOW / 1000 - 60, nbf: NOW / 1000 - 60, exp: NOW / 1000 + 600 };
  const all = { iss: OPERATORS.issuer, aud: OPERATORS.audience, permissions: ["audit:read"], ...times, ...claims };
  const authorization = `Bearer ${await issueToken(operators, goodClaims(all))}`;
  const response = await fetch(at + path, { headers: { authorization } });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  return { status: response.status, headers: response.headers, text, json: (isJson ? JSON.parse(text) : {}) as Loose };
}

const queryOf = (params: Readonly<Record<string, string | undefined>>): string =>
  new URLSearchParams(params as Record<string, string>).toString();

/** Reads all pages. Returns the text of each line with the id of its log. */
async function linesOf(params: Readonly<Record<string, string | undefined>>): Promise<readonly string[]> {
  const found: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const { status, json, text } = await get(`/audit?${queryOf({ ...params, ...(cursor && { cursor }) })}`);
    if (status !== 200) throw new Error(text);
    expect(json.source).toBe(params["source"] ?? "fleet");
    found.push(...json.entries.map((line: object, at: number) => `${json.logs.entries[at]} ${JSON.stringify(line)}`));
    if (json.more !== true) return found;
    ({ cursor } = json);
  }
}

/** One after the other: a caller may have one export. */
async function bothSources<T>(ask: (source: string) => Promise<T>): Promise<readonly [fleet: T, files: T]> {
  return [await ask("fleet"), await ask("replica")];
}

/** A URL holds no lone surrogates. */
const ASKED = askedParams().filter((params) => Object.values(params).every((value) => value?.isWellFormed() !== false));

describe.skipIf(native === undefined)("the same logs in the store and in files", () => {
  test("GET /audit finds the same lines by every filter, over all pages, in both orders", async () => {
    let answered = 0;
    for (const [at, params] of ASKED.filter((asked) => Object.keys(asked).length < 2).entries()) {
      const order = at % 2 === 0 ? "newest" : "oldest";
      const [fleet, files] = await bothSources((source) => linesOf({ ...params, order, limit: "700", source }));
      expect({ params, lines: fleet }).toEqual({ params, lines: files });
      if (fleet.length > 0) answered += 1;
    }
    expect(answered).toBeGreaterThan(20);
  });

  test("statistics, alone and compared with an earlier range, recent activity and stories are the same", async () => {
    for (const query of ["from=2026-02-15", "from=12h&compare=24h", "from=2026-02-15&tool=bash&decision=DENIED"]) {
      const [fleet, files] = await bothSources(async (source) => {
        const { status, json } = await get(`/audit/stats?${query}&source=${source}`);
        const { source: named, fleet: _, ...figures } = json;
        expect([status, named]).toEqual([200, source]);
        return figures;
      });
      expect(fleet).toEqual(files);
    }
    for (const query of ["", "tool=bash&", "sub=nobody&"]) {
      const [stored, own] = await bothSources(async (source) => {
        const { status, json } = await get(`/audit/activity?${query}source=${source}`);
        expect(status).toBe(200);
        const { source: _, fleet: __, ...figures } = json;
        const sorted = (rows: readonly Loose[]) => rows.map((row) => JSON.stringify(row)).sort();
        const { callers, tools, codes, ...rest } = figures;
        return { ...rest, callers: sorted(callers), tools: sorted(tools), codes: sorted(codes) };
      });
      expect(stored).toEqual(own);
      expect(own.callers.length > 0).toBe(query !== "sub=nobody&");
    }
    const [fleet, files] = await bothSources(async (source) => (await get(`${STORY}?source=${source}`)).json);
    expect(fleet.entries.length * fleet.journal.length).toBeGreaterThan(0);
    expect([fleet.entries, fleet.journal, fleet.logs]).toEqual([files.entries, files.journal, files.logs]);
  });

  test.each(["jsonl", "csv", "ocsf"])(
    "an export as %s is the same, and its head says where it is from",
    async (format) => {
      const [fleet, files] = await bothSources((source) => get(`/audit/export?format=${format}&source=${source}`));
      expect(fleet.text === files.text).toBe(true);
      expect(fleet.text.split("\n").length).toBeGreaterThan(2_400);
      expect(files.headers.get("stc-audit-source")).toBe("replica");
      expect(Object.fromEntries([...fleet.headers].filter(([name]) => name.startsWith("stc-")))).toEqual({
        "stc-audit-source": "fleet",
        "stc-audit-complete-until": "unknown",
        "stc-audit-logs-behind": "2",
      });
    },
  );
});

describe.skipIf(native === undefined)("an answer of the store", () => {
  test("comes without asking for it, and says who wrote each log and until when it is complete", async () => {
    const ids = dirs.map((dir) => logIdIn(dir, "calls"));
    const { json } = await get("/audit?limit=3");
    expect(json.fleet.logs.map(({ log }: Loose) => log).sort()).toEqual([...ids].sort());
    expect(json.fleet).toMatchObject({ completeUntil: null, logsLeftOut: 0 });
    for (const { instance, log, stream, nextSeq, newestAt, completeUntil, isBehind } of json.fleet.logs) {
      const replica = ids.indexOf(log);
      const newest = (await get(`/audit?text=replica-${replica}&limit=1`)).json.entries[0].timestamp;
      expect({ instance, stream, nextSeq }).toEqual({
        instance: `replica-${replica}`,
        stream: "calls",
        nextSeq: replica === 0 ? 1_500 : 900,
      });
      expect([newestAt, completeUntil, isBehind]).toEqual([newest, newest, true]);
    }
    const { json: story } = await get(`/audit/${json.entries[0].traceId}`);
    expect(story.fleet.logs.map(({ stream }: Loose) => stream).sort()).toEqual([
      "calls",
      "calls",
      "journal",
      "journal",
    ]);
  });

  test("is whole for a time before the newest lines", async () => {
    const { json } = await get("/audit?to=2026-02-16T12:00:00Z&limit=1");
    expect(json.fleet.logs.map(({ isBehind }: Loose) => isBehind)).toEqual([false, false]);
    expect(json.fleet.completeUntil).toStartWith("2026-02-16T23:");
  });

  test("is recorded before it is sent, and is for operators with audit:read alone", async () => {
    journal.length = 0;
    await get("/audit?tool=bash&limit=1");
    await get("/audit?tool=bash&limit=1&source=replica");
    const recorded = { type: "audit.queried", route: "query", filters: { tool: "bash", limit: "1" } };
    expect(journal).toMatchObject([{ ...recorded, source: "fleet" }, recorded]);
    expect(journal[1]).not.toHaveProperty("source");
    const { status, json } = await get("/audit", { claims: { permissions: ["approvals:decide"] } });
    expect([status, json.error.code]).toEqual([403, "PERMISSION_DENIED"]);
    expect(journal).toHaveLength(2);
  });

  test("without the id says that lines arrive later, and is recorded", async () => {
    journal.length = 0;
    const { status, json } = await get("/audit/none");
    expect([status, json.error.code]).toEqual([404, "ENTRY_NOT_FOUND"]);
    expect(json.error.message).toContain("source=replica");
    expect(journal).toMatchObject([{ route: "show", source: "fleet", filters: { id: "none" } }]);
  });

  test("is refused with the cursor of the other source, and any other source too", async () => {
    const [fleet, files] = await bothSources(
      async (source) => (await get(`/audit?limit=1&source=${source}`)).json.cursor,
    );
    for (const query of [`cursor=${fleet}&source=replica`, `cursor=${files}&source=fleet`, "source=store", "source="]) {
      const { status, json } = await get(`/audit?limit=1&${query}`);
      expect([query, status, json.error.code]).toEqual([query, 400, "MALFORMED_REQUEST"]);
    }
  });

  test("is refused where no store is configured; without a source, the files answer", async () => {
    const alone = await listen(undefined);
    const at = `http://127.0.0.1:${(alone.server.address() as { readonly port: number }).port}`;
    const { status, json } = await get("/audit?source=fleet", { at });
    expect([status, json.error.code]).toEqual([400, "MALFORMED_REQUEST"]);
    expect(json.error.details.issues[0].message).toContain("audit.storeUrlFile");
    const { json: own } = await get("/audit?limit=1", { at });
    expect([own.source, own.entries.length, own.fleet]).toEqual(["replica", 1, undefined]);
    await alone.close();
  });
});

describe.skipIf(native === undefined)("whoever can write to the store", () => {
  const PATHS = ["/audit", "/audit?order=oldest", "/audit/stats", "/audit/activity", STORY, "/audit/export?format=csv"];
  const FAR = "9223372036854775807";
  const entryAt = (text: string): string => `{"timestamp":"2026-02-16T12:00:00.000Z","tool":"${text}"}`;

  /** Puts in rows that no exporter writes, asks, and takes them out. */
  async function withRows(rows: readonly string[], ask: () => Promise<void>): Promise<void> {
    try {
      for (const row of rows) await server.send(row, "fleet");
      await ask();
    } finally {
      await server.send("DELETE FROM audit_lines WHERE instance = 'forged'", "fleet");
      await server.send("DELETE FROM audit_logs WHERE next_seq > 1000000 OR next_seq < 0", "fleet");
    }
  }

  function line(text: string, { log = "", seq = "-1", timeMs = "1771243200000", hash = "00" } = {}): string {
    const values = [log, "calls", seq, "2026-02-16", hash, timeMs, text, "forged"].map((one) => `'${one}'`);
    return `INSERT INTO audit_lines (log, stream, seq, day, hash, time_ms, line, instance, ids, count)
      VALUES (${values.join(", ")}, '{}', '${FAR}')`;
  }

  test("cannot prevent answers with times and numbers beyond those of a log", async () => {
    const rows = [FAR, `-${FAR}`, "8640000000000001"].flatMap((far, at) => [
      `INSERT INTO audit_logs VALUES ('<b>${at}', 'calls', E'\\x1b[31m', ${far.startsWith("-") ? far : FAR}, ${far}, ${far})`,
      `INSERT INTO audit_logs VALUES ('${at}', 'journal', '', ${far.startsWith("-") ? far : FAR}, ${far}, NULL)`,
      line(entryAt("far"), { timeMs: far, seq: far, log: "<b>" }),
    ]);
    await withRows(rows, async () => {
      for (const path of PATHS) expect([path, (await get(path)).status]).toEqual([path, 200]);
      const { fleet } = (await get("/audit?limit=1")).json;
      expect(fleetState.parse(fleet)).toEqual(fleet);
      expect(fleet.logs.filter(({ log }: Loose) => log.startsWith("<b>"))).toMatchObject(
        Array(3).fill({ newestAt: null, completeUntil: null, isBehind: true }),
      );
    });
  });

  test("cannot end the pages with lines of no log, nor with lines that are none", async () => {
    const wanted = await linesOf({ from: "2026-02-16T11:00:00Z", to: "2026-02-16T13:00:00Z", limit: "5" });
    const rows = ["none", "[]", '{"a":1}', "{", "null"].flatMap((text, at) => [
      line(text, { log: "<b>", seq: String(at) }),
      line(text, { hash: "not hex", seq: String(at) }),
    ]);
    await withRows(rows, async () => {
      const found = await linesOf({ from: "2026-02-16T11:00:00Z", to: "2026-02-16T13:00:00Z", limit: "5" });
      expect(found).toEqual(wanted);
    });
  });
});

test.skipIf(native === undefined)("times that no line has are answered: by filters, and by a cursor", async () => {
  for (const query of ["from=0000-01-01", "to=0000-01-02", "from=9999-12-31", "to=0000-01-01T00:00:00+14:00"]) {
    const [fleet, files] = await bothSources(async (source) => {
      const { status, json } = await get(`/audit?limit=3&${query}&source=${source}`);
      return [query, status, json.entries];
    });
    expect(fleet).toEqual(files);
  }
  const { json } = await get("/audit?limit=1");
  const members = JSON.parse(Buffer.from(json.cursor, "base64url").toString());
  for (const far of [8.64e15, -8.64e15]) {
    for (const place of [2, 6, 7]) {
      const forged = Buffer.from(JSON.stringify(members.with(place, far))).toString("base64url");
      expect([place, far, (await get(`/audit?limit=1&cursor=${forged}`)).status]).toEqual([place, far, 200]);
    }
  }
});

describe.skipIf(native === undefined)("a store that gives no answer", () => {
  const PATHS = ["/audit", "/audit/stats", "/audit/activity", STORY, "/audit/export?format=csv"];

  /** Every route refuses, records nothing, logs the reason, and answers from this replica's files. */
  async function refuses(
    wanted: readonly [status: number, code: string],
    reason: RegExp,
    paths = PATHS,
  ): Promise<void> {
    for (const path of paths) {
      [journal.length, reasons.length] = [0, 0];
      const { status, json, headers } = await get(path);
      expect([path, status, json.error?.code]).toEqual([path, ...wanted]);
      expect(json.error).toMatchObject({
        details: { source: "fleet" },
        message: expect.stringContaining("source=replica"),
      });
      expect(headers.get("content-disposition")).toBeNull();
      expect(JSON.stringify(json)).not.toMatch(/127\.0\.0\.1|SQLSTATE|audit_l|tester/);
      expect(journal).toEqual([]);
      expect(reasons.join("\n")).toMatch(reason);
      expect(reasons.join("\n")).not.toMatch(/secret/);
    }
    expect((await get("/audit?limit=1&source=replica")).json.entries).toHaveLength(1);
  }

  test("because it takes too long", async () => {
    await server.send("ALTER TABLE audit_lines RENAME TO stored", "fleet");
    await server.send(
      "CREATE VIEW audit_lines AS SELECT stored.* FROM stored, LATERAL (SELECT pg_sleep(30 + seq % 2)) AS slow",
      "fleet",
    );
    try {
      await refuses([504, "DEADLINE_EXCEEDED"], /SlowStatement: .* needs more than 400 ms/);
    } finally {
      await server.send("DROP VIEW audit_lines", "fleet");
    }
  });

  test("because it refuses", async () => {
    try {
      await refuses([503, "TARGET_UNAVAILABLE"], /the audit store does not answer: .*audit_lines/);
    } finally {
      await server.send("ALTER TABLE stored RENAME TO audit_lines", "fleet");
    }
  });

  test("because it hangs", async () => {
    server.freeze();
    try {
      await refuses([503, "TARGET_UNAVAILABLE"], /the audit store does not answer: .*(?:does not answer|timeout)/, [
        "/audit",
      ]);
    } finally {
      server.thaw();
    }
  });

  test("because it is away; it answers again when it is back", async () => {
    await server.stop();
    await refuses([503, "TARGET_UNAVAILABLE"], /the audit store does not answer/);
    await server.start();
    expect((await get("/audit?limit=1")).json).toMatchObject({ source: "fleet", more: true });
  });
});
