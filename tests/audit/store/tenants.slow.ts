import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { checkProof, prove } from "../../../src/audit/chain/proof.ts";
import { readBatch } from "../../../src/audit/export/batch.ts";
import type { Receiver } from "../../../src/audit/export/receiver.ts";
import { postgresExporter } from "../../../src/audit/export/stores.ts";
import { historyIn, readCallHistory } from "../../../src/audit/query/call-history.ts";
import { activityRange, readActivity } from "../../../src/audit/stats/activity.ts";
import type { AuditStore } from "../../../src/audit/store/audit-store.ts";
import { openAuditStore } from "../../../src/audit/store/open-store.ts";
import type { StoreScope } from "../../../src/audit/store/scope.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { runStc } from "../../support/stc.ts";
import {
  askedParams,
  compareLines,
  compareStatistics,
  exportLog,
  NOW,
  storeQuery,
  writeReplica,
} from "../../support/stored-logs.ts";
import { auditDirOf, type TenantName, TenantService } from "../../support/tenant-service.ts";
import { until } from "../../support/until.ts";
import { keys, writeLog } from "../support/chained-log.ts";

/** One store that the logs of a service and of its tenants fill. A reader that is bound to one of them gets nothing of the others. */

const native = findPostgres();
const folder = mkdtempSync(join(tmpdir(), "stc-store-tenants-"));
const TENANTS = [undefined, "acme", "globex"] as const;
let server: PostgresServer;
let url: string;
const closing: (() => Promise<unknown>)[] = [];

const receiver = (): Receiver => receiverAt(url, join(folder, "url"));

function logOf({ folder: home }: TenantService, tenant: TenantName): string {
  return auditDirOf(home, tenant);
}

interface Retaining {
  readonly retentionDays?: number;
  readonly tenant?: string | undefined;
}

function receiverAt(
  address: string,
  urlFile = join(mkdtempSync(join(folder, "url-")), "url"),
  { retentionDays, tenant }: Retaining = {},
): Receiver {
  writeFileSync(urlFile, `${address}\n`);
  const problem = (setting: string, message: string) => {
    throw new Error(`${setting}: ${message}`);
  };
  const opened = postgresExporter.open(
    { urlFile, retentionDays },
    { path: (path) => path, clock: Date.now, problem, tenant },
  );
  if (opened === undefined) throw new Error("no receiver");
  closing.push(async () => opened.close?.());
  return opened;
}

async function storeOf(scope: StoreScope): Promise<AuditStore> {
  const store = await openAuditStore(url, { statementMs: 10_000, scope });
  closing.push(() => store.close());
  return store;
}

beforeAll(async () => {
  if (native === undefined) return;
  server = await startPostgres(native);
  url = await server.createDatabase("tenants");
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

describe.skipIf(native === undefined)("a store that several tenants share", () => {
  const dirs = TENANTS.map((tenant) => writeReplica(mkdtempSync(join(folder, "log-")), 0, 400, tenant));
  const evidence = TENANTS.map(() => mkdtempSync(join(folder, "evidence-")));
  const scopes = TENANTS.map((tenant, at) => [tenant ?? "the service itself", tenant, at] as const);

  beforeAll(async () => {
    for (const [at, tenant] of TENANTS.entries()) await writeLog(evidence[at] ?? "", keys.privateKey, { tenant });
    for (const dir of [...dirs, ...evidence]) await exportLog(dir, receiver());
  });

  test.each(scopes)(
    "%s gets the lines of its own logs for every filter, and counts them alone",
    async (_, tenant, at) => {
      const store = await storeOf({ tenant });
      const own = [dirs[at] ?? "", evidence[at] ?? ""];
      expect(await compareLines(store, own, askedParams().slice(0, 120))).toBeGreaterThan(30);
      const alone = askedParams().filter((params) => Object.keys(params).length < 2);
      await compareStatistics(store, own, alone.slice(0, 20));
      expect(await compareLines(store, own, [{ tenant: "acme" }, { tenant: "globex" }])).toBe(
        tenant === undefined ? 0 : 1,
      );
    },
  );

  test.each(scopes)("%s gets its own story of a trace id that others have, too", async (_, tenant, at) => {
    const logs = [{ dir: evidence[at] ?? "" }];
    const [stored, files] = [
      await readCallHistory(await storeOf({ tenant }), "t-1-1"),
      await readCallHistory(historyIn({ logs }), "t-1-1"),
    ];
    expect(stored.lines.map(({ line }) => line)).toEqual(files.lines.map(({ line }) => line));
    expect(stored.lines).toHaveLength(2);
  });

  test.each(scopes)("%s is told about its own logs alone, also by a verification", async (_, tenant, at) => {
    const store = await storeOf({ tenant });
    const own = [dirs[at] ?? "", evidence[at] ?? ""].flatMap((dir) => [logIdIn(dir, "calls"), logIdIn(dir, "journal")]);
    expect((await store.logs()).map(({ log }) => log).sort()).toEqual(own.map(String).sort());
    const reports = await Array.fromAsync(
      store.verify({ keys: [keys.publicKey], expected: [], pause: async () => {} }),
    );
    expect(reports.map(({ log }) => log).sort()).toEqual(own.map(String).sort());
  });

  test.each(scopes)("%s can prove its own lines and no others", async (_, tenant, at) => {
    const store = await storeOf({ tenant });
    expect(checkProof(await store.prove("t-2-3"), [keys.publicKey]).ok).toBe(true);
    expect((await store.prove("t-2-3")).line).toBe(prove(evidence[at] ?? "", "t-2-3").line);
    for (const [other, dir] of evidence.entries()) {
      const proof = store.prove(`${logIdIn(dir, "calls")}:3`);
      if (other === at) expect((await proof).index).toBe(3);
      else await expect(proof).rejects.toThrow("the store holds no line of seq 3");
    }
  });

  test.each(scopes)("%s gets its own recent activity", async (_, tenant, at) => {
    const range = activityRange({ exact: {}, toMs: NOW }, NOW);
    const logs = [dirs[at] ?? "", evidence[at] ?? ""].map((dir) => ({ dir }));
    const { all } = await (await storeOf({ tenant })).activity(range);
    expect(all).toEqual((await readActivity(range, { logs })).all);
    expect(all.day["ALLOWED"]).toBeGreaterThan(5);
  });

  test("a page that begins after another tenant's line has none of its lines", async () => {
    const acme = await storeOf({ tenant: "acme" });
    const first = await acme.page(storeQuery({}, 7), 1e9);
    const other = (await (await storeOf({ tenant: "globex" })).page(storeQuery({}, 7), 1e9)).after;
    const { found } = await acme.page({ ...storeQuery({}, 700), after: other }, 1e9);
    expect([...first.found, ...found].every(({ line }) => line.includes('"tenant":"acme"'))).toBe(true);
  });

  test("the command line reads all of a store, or one tenant's part of it", async () => {
    const from = ["--from-store", join(folder, "url")];
    const all = await runStc(["audit", "show", "t-1-1", ...from, "--json"]);
    const acme = await runStc(["audit", "show", "t-1-1", ...from, "--tenant", "acme", "--json"]);
    expect(all.out.trim().split("\n")).toHaveLength(6);
    expect(
      acme.out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).tenant),
    ).toEqual(["acme", "acme"]);
    const queried = await runStc(["audit", "query", ...from, "--tenant", "globex", "--limit", "1000", "--json"]);
    expect(
      new Set(
        queried.out
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line).tenant),
      ),
    ).toEqual(new Set(["globex"]));
  });

  describe("and that a real service fills and asks", () => {
    const service = new TenantService();
    const ids = new Map<TenantName, string>();
    let shared: string;
    beforeAll(async () => {
      shared = await server.createDatabase("shared");
      writeFileSync(join(service.folder, "store.url"), shared, { mode: 0o600 });
      const audit = { storeUrlFile: "./store.url", export: [{ type: "postgres", urlFile: "./store.url" }] };
      await service.start({ audit: { dir: "audit", ...audit } }, { acme: { audit }, globex: { audit } });
      for (const tenant of TENANTS) {
        const { body } = await service.callTo(tenant, "do_read");
        ids.set(tenant, body.traceId);
      }
      const query = "SELECT count(*)::int AS calls FROM audit_lines WHERE stream = 'calls'";
      await until("all lines", async () => {
        // The exporters create the table.
        const [row] = await server.send(query, "shared").catch(() => []);
        return row?.["calls"] === 3 ? true : undefined;
      });
    });
    afterAll(() => service.end());

    test.each(TENANTS.map((tenant) => [tenant ?? "the service", tenant] as const))(
      "operators of %s are answered from its own lines",
      async (_, tenant) => {
        const token = await service.operatorOf(tenant, ["audit:read"]);
        const ask = (path: string) => service.send("GET", path, { token });
        const { body } = await ask("/audit");
        expect([body.source, body.entries.map((entry: { traceId: string }) => entry.traceId)]).toEqual([
          "fleet",
          [ids.get(tenant)],
        ]);
        const own = [logIdIn(logOf(service, tenant), "calls"), logIdIn(logOf(service, tenant), "journal")];
        for (const { log } of body.fleet.logs) expect(own).toContain(log);
        expect((await ask(`/audit/stats?from=1h`)).body.calls).toBe(1);
        for (const other of TENANTS) {
          expect((await ask(`/audit?tenant=${other ?? "none"}`)).body.entries).toHaveLength(
            other === tenant && other !== undefined ? 1 : 0,
          );
          expect((await ask(`/audit/${ids.get(other)}`)).http).toBe(other === tenant ? 200 : 404);
          // The hash of a log's first line begins with the log's id.
          const log = logIdIn(logOf(service, other), "calls");
          expect((await ask(`/audit?text=${log}`)).body.entries).toHaveLength(other === tenant ? 1 : 0);
        }
      },
    );

    test("a service whose tenants were removed, or that never had any, is answered from no tenant's lines", async () => {
      const plain = new TenantService();
      writeFileSync(join(plain.folder, "store.url"), shared, { mode: 0o600 });
      const issuers = plain.tokens.profiles().filter((issuer) => !("tenants" in issuer));
      const audit = { dir: "audit", storeUrlFile: "./store.url" };
      try {
        await plain.start({ audit, jwt: { issuers }, tenants: undefined });
        const token = await plain.operatorOf(undefined, ["audit:read"]);
        const { body } = await plain.send("GET", "/audit", { token });
        expect([body.source, body.entries.map((entry: { traceId: string }) => entry.traceId)]).toEqual([
          "fleet",
          [ids.get(undefined)],
        ]);
        expect((await plain.send("GET", `/audit/${ids.get("acme")}`, { token })).http).toBe(404);
      } finally {
        await plain.end();
      }
    });
  });

  test("retention of one tenant deletes no line and no checkpoint of another, and the last one drops the days", async () => {
    const shared = await server.createDatabase("retention");
    const written = TENANTS.map(() => mkdtempSync(join(folder, "retained-")));
    for (const [at, tenant] of TENANTS.entries()) await writeLog(written[at] ?? "", keys.privateKey, { tenant });
    for (const dir of written) await exportLog(dir, receiverAt(shared));
    const counts = async () => {
      const [lines, checkpoints] = await Promise.all(
        [
          "SELECT coalesce(tenant, '') AS of, count(*)::int AS rows FROM audit_lines GROUP BY 1 ORDER BY 1",
          "SELECT tenant AS of, count(*)::int AS rows FROM audit_checkpoints JOIN audit_logs USING (log, stream) GROUP BY 1 ORDER BY 1",
        ].map((query) => server.send(query, "retention")),
      );
      return [lines, checkpoints].map((rows) => Object.fromEntries((rows ?? []).map(({ of, rows: all }) => [of, all])));
    };
    const days = async () => {
      const query = "SELECT count(*)::int AS days FROM pg_inherits WHERE inhparent = 'audit_lines'::regclass";
      const [found] = await server.send(query, "retention");
      return Number(found?.["days"]);
    };
    await server.send("UPDATE audit_checkpoints SET seen_ms = 0", "retention");
    const [before, notes] = await counts();
    expect([before, await days()]).toEqual([{ "": 27, acme: 27, globex: 27 }, 4]);
    /** Exports one more line of the tenant's log, which deletes its old days. */
    const retain = async (tenant: TenantName, at: number) => {
      const dir = written[at] ?? "";
      const log = logIdIn(dir, "calls");
      const lines = readBatch({ dir, stream: "calls", from: undefined, log })?.lines ?? [];
      const exporter = receiverAt(shared, undefined, { retentionDays: 1, tenant });
      expect(await exporter.deliver(lines.slice(-1), AbortSignal.timeout(20_000))).toMatchObject({ kind: "taken" });
      expect(exporter.upkeep?.()).toEqual({ failures: 0, problem: undefined });
    };
    await retain("acme", 1);
    const [lines, kept] = await counts();
    expect(lines).toEqual({ "": 27, globex: 27 });
    expect(kept).toEqual({ ...notes, acme: 2 });
    await retain(undefined, 0);
    expect((await counts())[0]).toEqual({ globex: 27 });
    await retain("globex", 2);
    expect((await counts())[0]).toEqual({});
    expect(await days()).toBe(1);
  });
});
