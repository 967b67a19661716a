import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { eachNote, readCheckpoint, signCheckpoint } from "../../../src/audit/chain/checkpoint.ts";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { leafHash, MerkleTree } from "../../../src/audit/chain/merkle-tree.ts";
import { checkProof, prove } from "../../../src/audit/chain/proof.ts";
import { verifyNote } from "../../../src/audit/chain/signed-note.ts";
import { readBatch } from "../../../src/audit/export/batch.ts";
import { Exporter, startExporters } from "../../../src/audit/export/exporter.ts";
import { EXPORT_STREAMS } from "../../../src/audit/export/positions.ts";
import type { Receiver } from "../../../src/audit/export/receiver.ts";
import { postgresExporter } from "../../../src/audit/export/stores.ts";
import { readCallHistory } from "../../../src/audit/query/call-history.ts";
import type { AuditStore } from "../../../src/audit/store/audit-store.ts";
import { openAuditStore } from "../../../src/audit/store/open-store.ts";
import type { StoreScope } from "../../../src/audit/store/scope.ts";
import type { StoreVerification } from "../../../src/audit/store/verify-store.ts";
import { createMetrics } from "../../../src/http/metrics.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "../../support/stc.ts";
import {
  askedParams,
  compareLines,
  compareStatistics,
  compareStories,
  everyFilterIsAsked,
  exportLog,
  NOW,
  storeQuery,
  writeReplica,
} from "../../support/stored-logs.ts";
import { until } from "../../support/until.ts";
import { keys, writeLog, writeWorkersLogs } from "../support/chained-log.ts";
import { draftOf } from "../support/open.ts";

const native = findPostgres();
const folder = mkdtempSync(join(tmpdir(), "stc-store-"));
let server: PostgresServer;
const closing: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

const DAY_MS = 86_400_000;
/** Counts the partitions but the one of tomorrow. */
const OLD_DAYS =
  "SELECT count(*)::int AS days FROM pg_inherits WHERE inhparent = 'audit_lines'::regclass AND inhrelid::regclass::text ~ '2026(02|03)'";

function receiverAt(url: string, retentionDays?: number): Receiver {
  const urlFile = join(mkdtempSync(join(folder, "url-")), "url");
  writeFileSync(urlFile, `${url}\n`);
  const receiver = postgresExporter.open(
    { urlFile, retentionDays },
    {
      path: (path) => path,
      clock: Date.now,
      problem: (setting, message) => {
        throw new Error(`${setting}: ${message}`);
      },
    },
  );
  if (receiver === undefined) throw new Error("no receiver");
  closing.push(async () => receiver.close?.());
  return receiver;
}

async function storeAt(url: string, scope: StoreScope = "all"): Promise<AuditStore> {
  const store = await openAuditStore(url, { statementMs: 10_000, scope });
  closing.push(() => store.close());
  return store;
}

describe.skipIf(native === undefined)("the same lines in files and in PostgreSQL", () => {
  const dirs = [writeReplica(folder, 0, 2_500), writeReplica(folder, 1, 1_500, "acme")];
  let url: string;
  let store: AuditStore;
  beforeAll(async () => {
    url = await server.createDatabase("fleet");
    store = await storeAt(url);
    for (const dir of dirs) await exportLog(dir, receiverAt(url));
  });

  test("every line is there once", async () => {
    const [count] = await server.send("SELECT stream, count(*)::int FROM audit_lines GROUP BY 1 ORDER BY 1", "fleet");
    expect(count).toEqual({ stream: "calls", count: 4_000 });
  });

  test("every filter, alone and in pairs, finds the same lines", async () => {
    everyFilterIsAsked();
    const asked = askedParams();
    expect(await compareLines(store, dirs, asked)).toBeGreaterThan(asked.length / 3);
  });

  test("every filter counts the same calls", async () => {
    await compareStatistics(
      store,
      dirs,
      askedParams().filter((params) => Object.keys(params).length < 2),
    );
  });

  test("a call's story is the same over replicas", () => compareStories(store, dirs));

  test("pages follow each other without a gap", async () => {
    const whole = await store.page(storeQuery({ sub: "agent-7" }), 1e9);
    const found: string[] = [];
    for (let after = undefined as (typeof whole)["after"]; ; ) {
      const page = await store.page({ ...storeQuery({ sub: "agent-7" }, 7), after }, 1e9);
      found.push(...page.found.map(({ line }) => line));
      after = page.after;
      if (!page.more) break;
    }
    expect(found).toEqual(whole.found.map(({ line }) => line));
  });

  test("lines that are sent again are stored once, and each log says until when it is complete", async () => {
    for (const dir of dirs) {
      rmSync(join(dir, "export"), { recursive: true });
      await exportLog(dir, receiverAt(url));
    }
    expect(await server.send("SELECT count(*)::int AS lines FROM audit_lines WHERE stream = 'calls'", "fleet")).toEqual(
      [{ lines: 4_000 }],
    );
    // The first line of a log may be from when the replica had another name.
    const [dir = ""] = dirs;
    const [first] = readBatch({ dir, stream: "calls", from: undefined, log: logIdIn(dir, "calls") })?.lines ?? [];
    if (first === undefined) throw new Error("no line");
    const renamed = { ...first, members: { ...first.members, instance: "former" } };
    await receiverAt(url).deliver([renamed], AbortSignal.timeout(20_000));
    const logs = (await store.logs()).filter(({ stream }) => stream === "calls");
    expect(logs.map(({ instance, nextSeq, log }) => [instance, nextSeq, log.length]).sort()).toEqual([
      ["replica-0", 2_500, 32],
      ["replica-1", 1_500, 32],
    ]);
  });

  test("the command line asks the store with the same filters, and says until when it is complete", async () => {
    const file = join(folder, "store-url");
    writeFileSync(file, `${url}\n`);
    const query = await runStc(["audit", "query", "--from-store", file, "--approver", "bob", "--json", "--limit", "3"]);
    expect(query.code).toBe(0);
    const lines = query.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map(({ approval }) => approval.by)).toEqual(Array(3).fill("human:alice, human:https://idp.test|bob"));
    expect(query.err).toMatch(
      /^continue with --cursor \S+\ncomplete until 2026-02-16T\S+ \(newest line 2026-02-16T\S+, seq \d+\): log [0-9a-f]{32} of replica-\d\n/,
    );
    const cursor = /--cursor (\S+)/.exec(query.err)?.[1] ?? "";
    const next = await runStc([
      "audit",
      "query",
      "--from-store",
      file,
      "--approver",
      "bob",
      "--json",
      "--limit",
      "3",
      "--cursor",
      cursor,
    ]);
    expect(next.out).not.toBe("");
    expect(next.out).not.toContain(lines[0]?.hash);
    const stats = await runStc(["audit", "stats", "--from-store", file, "--tool", "bash", "--json"]);
    const files = await runStc(["audit", "stats", "--dir", dirs[0] ?? "", "--tool", "bash", "--json"]);
    expect(JSON.parse(stats.out).calls).toBeGreaterThan(JSON.parse(files.out).calls);
    const verified = await runStc(["audit", "verify", "--from-store", file]);
    expect(verified.code).toBe(SIGNATURES_NOT_CHECKED);
    expect(verified.out).toMatch(/^calls [0-9a-f]{32}: 2500 lines, seq 0 to 2499, 0 checkpoints compared$/m);
    expect(verified.out).toEndWith("\nok, not checked: signatures\n");
    const both = await runStc(["audit", "query", "--from-store", file, "--dir", dirs[0] ?? ""]);
    expect(both).toMatchObject({ code: 64, err: "give --dir or --from-store, not both\n" });
  });
});

describe.skipIf(native === undefined)("the exporter", () => {
  function linesOf(dir: string) {
    return readBatch({ dir, stream: "calls", from: undefined, log: logIdIn(dir, "calls") })?.lines ?? [];
  }

  test("several replicas that begin at once create the tables once", async () => {
    const url = await server.createDatabase("begun");
    const lines = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    const outcomes = await Promise.all(
      Array.from({ length: 4 }, () => receiverAt(url).deliver(lines, AbortSignal.timeout(20_000))),
    );
    expect(outcomes).toEqual(Array(4).fill({ kind: "taken", rejected: 0 }));
    expect(await server.send("SELECT count(*)::int AS lines FROM audit_lines", "begun")).toEqual([
      { lines: lines.length },
    ]);
  });

  test("days beyond the retention time are dropped, and not stored again", async () => {
    const url = await server.createDatabase("retained");
    const lines = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    await receiverAt(url).deliver(lines, AbortSignal.timeout(20_000));
    const partitions = () => server.send(OLD_DAYS, "retained");
    expect(await partitions()).toEqual([{ days: 1 }]);
    const retaining = receiverAt(url, 30);
    for (const _ of [1, 2]) {
      expect(await retaining.deliver(lines, AbortSignal.timeout(20_000))).toEqual({ kind: "taken", rejected: 0 });
      expect(await partitions()).toEqual([{ days: 0 }]);
    }
  });

  test("a log that begins with lines beyond the retention time is passed over in an empty database, too", async () => {
    const url = await server.createDatabase("aged");
    const lines = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    const receiver = receiverAt(url, 30);
    for (const _ of [1, 2]) {
      expect(await receiver.deliver(lines, AbortSignal.timeout(20_000))).toEqual({ kind: "taken", rejected: 0 });
    }
    const [log] = await (await storeAt(url)).logs();
    expect(log).toMatchObject({ stream: "calls", nextSeq: lines.length });
    expect(await server.send(OLD_DAYS, "aged")).toEqual([{ days: 0 }]);
  });

  test("a day that cannot be dropped does not hold up the lines", async () => {
    const url = await server.createDatabase("kept");
    const lines = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    await receiverAt(url).deliver(lines, AbortSignal.timeout(20_000));
    await server.send("CREATE VIEW used AS SELECT * FROM audit_lines_20260215", "kept");
    const days = () => server.send(OLD_DAYS, "kept");
    const retaining: Receiver[] = [];
    const deliver = () => {
      const receiver = receiverAt(url, 30);
      retaining.push(receiver);
      return receiver.deliver(lines, AbortSignal.timeout(20_000));
    };
    expect(await deliver()).toEqual({ kind: "taken", rejected: 0 });
    expect(await days()).toEqual([{ days: 1 }]);
    expect(retaining.at(-1)?.upkeep?.()).toEqual({ failures: 1, problem: "SQLSTATE 2BP01" });
    await server.send("DROP VIEW used", "kept");
    expect(await deliver()).toEqual({ kind: "taken", rejected: 0 });
    expect(await days()).toEqual([{ days: 0 }]);
    expect(retaining.at(-1)?.upkeep?.()).toEqual({ failures: 0, problem: undefined });
  });

  test("a day that cannot be dropped is in the log once and in the metrics, and the lines are sent", async () => {
    const url = await server.createDatabase("reported");
    const dir = writeReplica(mkdtempSync(join(folder, "log-")), 0, 50);
    await receiverAt(url).deliver(linesOf(dir), AbortSignal.timeout(20_000));
    await server.send("CREATE VIEW used AS SELECT * FROM audit_lines_20260215", "reported");
    const reports: string[] = [];
    const receiver = receiverAt(url, 30);
    const exporters = EXPORT_STREAMS.map(
      (stream) =>
        new Exporter({
          dir,
          stream,
          target: { name: "store", receiver },
          clock: () => NOW,
          random: () => 0,
          report: (message) => reports.push(message),
          pollMs: 5,
          backoffMs: 5,
        }),
    );
    const states = () => exporters.map((exporter) => exporter.state());
    await until("all lines", () => (states().every(({ bytesBehind }) => bytesBehind === 0) ? true : undefined));
    const metrics = createMetrics();
    metrics.watch({ exports: states });
    expect(await metrics.text()).toContain('stc_audit_export_upkeep_failures{exporter="store"} 1\n');
    for (const exporter of exporters) await exporter.stop();
    expect(reports).toEqual(["store cannot delete old days or prepare the next: SQLSTATE 2BP01"]);
  });

  test("a day that cannot be dropped does not keep the others", async () => {
    const url = await server.createDatabase("kept_one");
    const lines = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    const older = lines.map((line) => ({ ...line, day: "2026-02-10", entry: undefined }));
    await receiverAt(url).deliver([...lines, ...older], AbortSignal.timeout(20_000));
    await server.send("CREATE VIEW used AS SELECT * FROM audit_lines_20260210", "kept_one");
    expect(await server.send(OLD_DAYS, "kept_one")).toEqual([{ days: 2 }]);
    await receiverAt(url, 30).deliver(lines, AbortSignal.timeout(20_000));
    expect(await server.send(OLD_DAYS, "kept_one")).toEqual([{ days: 1 }]);
  });

  test("a new day's lines wait for no reader, and tomorrow's partition is there before its lines", async () => {
    const url = await server.createDatabase("ahead");
    const [line] = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    if (line === undefined) throw new Error("no line");
    const receiver = receiverAt(url);
    await receiver.deliver([line], AbortSignal.timeout(20_000));
    const tomorrow = "'audit_lines_' || to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD')";
    expect(await server.send(`SELECT to_regclass(${tomorrow}) IS NOT NULL AS there`, "ahead")).toEqual([
      { there: true },
    ]);
    const reader = new Bun.SQL({ url, max: 1 });
    await reader.begin(async (on) => {
      await on`SELECT count(*) FROM audit_lines`;
      const outcome = await receiver.deliver(
        [{ ...line, day: "2026-03-01", entry: undefined }],
        AbortSignal.timeout(20_000),
      );
      expect(outcome).toEqual({ kind: "taken", rejected: 0 });
    });
    await reader.close();
    const indexes = (partition: string) =>
      server.send(
        `SELECT regexp_replace(indexdef, '\\S*audit_lines_2026\\S*', '', 'g') AS index FROM pg_indexes WHERE tablename = '${partition}' ORDER BY 1`,
        "ahead",
      );
    expect(await indexes("audit_lines_20260301")).toHaveLength(4);
    expect(await server.send("SELECT count(*)::int AS lines FROM audit_lines_20260301", "ahead")).toEqual([
      { lines: 1 },
    ]);
  });

  test("partitions are created and dropped in the schema of the lines, whatever else has their names", async () => {
    const url = await server.createDatabase("schemas");
    const lines = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    await receiverAt(url).deliver(lines, AbortSignal.timeout(20_000));
    await server.send(
      `CREATE SCHEMA "Other one"; CREATE TABLE "Other one".audit_lines_20260215 (kept int);
      CREATE TABLE "Other one".audit_lines_20260301 (kept int);
      ALTER DATABASE schemas SET search_path = "Other one", public`,
      "schemas",
    );
    const march = lines.map((line) => ({ ...line, day: "2026-03-01", entry: undefined }));
    expect(await receiverAt(url).deliver(march, AbortSignal.timeout(20_000))).toMatchObject({ kind: "taken" });
    expect(await server.send("SELECT count(*)::int AS lines FROM public.audit_lines_20260301", "schemas")).toEqual([
      { lines: lines.length },
    ]);
    await receiverAt(url, 30).deliver(lines, AbortSignal.timeout(20_000));
    expect(await server.send(OLD_DAYS, "schemas")).toEqual([{ days: 0 }]);
    expect(
      await server.send("SELECT count(*)::int AS kept FROM pg_tables WHERE schemaname = 'Other one'", "schemas"),
    ).toEqual([{ kept: 2 }]);
  });

  test("checkpoints are deleted with their days: the newest of a log stays, and one of each kept day", async () => {
    const url = await server.createDatabase("thinned");
    const dir = mkdtempSync(join(folder, "thinned-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    const [newest] = await server.send("SELECT log, seen_ms FROM audit_checkpoints WHERE stream = 'calls'", "thinned");
    const log = String(newest?.["log"]);
    const at = (daysAgo: number, second: number) =>
      Math.floor(Number(newest?.["seen_ms"]) / DAY_MS) * DAY_MS - daysAgo * DAY_MS + second * 1_000;
    const rows = [
      // Beyond the retention time.
      [1, at(40, 1)],
      [2, at(31, 86_399)],
      [3, at(30, 0)],
      [4, at(30, 2)],
      [5, at(3, 1)],
      [6, at(3, 86_399)],
      [7, at(2, 0)],
      [8, at(2, 1)],
      [9, at(0, 1)],
    ].map(
      ([size, seen]) =>
        `('${log}', 'calls', ${size}, 'note', ${seen}), ('gone', 'calls', ${size}, 'note', ${at(50, 1)})`,
    );
    await server.send(`INSERT INTO audit_checkpoints VALUES ${rows.join()}`, "thinned");
    const sizes = async (of: string) =>
      (
        await server.send(
          `SELECT size::int AS size FROM audit_checkpoints WHERE log = '${of}' AND stream = 'calls' ORDER BY size`,
          "thinned",
        )
      ).map(({ size }) => size);
    const deliver = (days?: number) => {
      const [line] = linesOf(dir);
      return line && receiverAt(url, days).deliver([line], AbortSignal.timeout(20_000));
    };
    await deliver();
    expect(await sizes(log)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 15]);
    await deliver(30);
    expect(await sizes(log)).toEqual([4, 6, 7, 8, 9, 15]);
    expect(await sizes("gone")).toEqual([9]);
  });

  test("lines without a link at one position are stored each", async () => {
    const url = await server.createDatabase("unlinked");
    const [line] = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    if (line === undefined) throw new Error("no line");
    const lines = ["one", "other"].map((text) => ({ ...line, log: undefined, line: text }));
    for (const _ of [1, 2]) {
      const outcome = await receiverAt(url).deliver(lines, AbortSignal.timeout(20_000));
      expect(outcome).toEqual({ kind: "taken", rejected: 0 });
    }
    expect(await server.send("SELECT line FROM audit_lines ORDER BY line", "unlinked")).toEqual([
      { line: "one" },
      { line: "other" },
    ]);
  });

  test("a line whose day has no next one is refused, and so is one that has no row", async () => {
    const url = await server.createDatabase("last");
    const [line] = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    if (line === undefined) throw new Error("no line");
    const deliver = (changed: object) =>
      receiverAt(url).deliver([{ ...line, ...changed }], AbortSignal.timeout(20_000));
    expect(await deliver({ day: "9999-12-31", entry: undefined })).toEqual({
      kind: "refused",
      reason: "SQLSTATE 42P17",
    });
    expect(await deliver({ members: undefined })).toEqual({ kind: "refused", reason: "a line cannot be stored" });
  });

  test("a checkpoint is stored as it was signed", async () => {
    const url = await server.createDatabase("signed");
    const dir = mkdtempSync(join(folder, "signed-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    const notes = await server.send("SELECT log, stream, size, note FROM audit_checkpoints", "signed");
    expect(notes.length).toBeGreaterThan(1);
    for (const { log, stream, size, note } of notes) {
      const checkpoint = readCheckpoint(String(note));
      expect(checkpoint).toMatchObject({ stream, size: Number(size), origin: `safe-tool-call/audit/${stream}/${log}` });
      if (checkpoint !== undefined) expect(verifyNote(checkpoint, checkpoint.origin, [keys.publicKey])).toBe("valid");
    }
  });

  test("a line that the database refuses is refused alone; a server that is away is tried again", async () => {
    const url = await server.createDatabase("away");
    const receiver = receiverAt(url);
    const [line] = linesOf(writeReplica(mkdtempSync(join(folder, "log-")), 0, 50));
    if (line === undefined) throw new Error("no line");
    const refused = await receiver.deliver([{ ...line, line: "nul\0" }], AbortSignal.timeout(20_000));
    expect(refused).toMatchObject({ kind: "refused", reason: "SQLSTATE 22P05" });
    await server.stop();
    expect(await receiver.deliver([line], AbortSignal.timeout(20_000))).toMatchObject({ kind: "later" });
    await server.start();
    expect(await receiver.deliver([line], AbortSignal.timeout(20_000))).toEqual({ kind: "taken", rejected: 0 });
  });
});

describe.skipIf(native === undefined)("a log that idles", () => {
  test("is complete until its replica has last said so, unless the store lacks lines", async () => {
    const url = await server.createDatabase("idle");
    const dir = mkdtempSync(join(folder, "idle-"));
    const reports: string[] = [];
    let nowMs = Date.parse("2026-02-16T12:00:00.000Z");
    const clock = () => nowMs;
    const log = openAuditLog({ dir, instance: "replica-0", clock, durability: "write", queueEntriesMax: 100 });
    await log.append(draftOf("t-1"));
    await log.journal({ type: "boot" });
    const exporters = startExporters({
      dir,
      targets: [{ name: "store", receiver: receiverAt(url) }],
      retentionDays: undefined,
      clock,
      random: () => 0,
      report: (message) => reports.push(message),
      settled: (stream) => log.settled(stream),
      journal: async () => {},
    });
    const store = await storeAt(url);
    const states = async () => {
      const logs = await store.logs().catch(() => []);
      return logs.map(({ stream, newestMs = 0, completeMs = 0 }) => `${stream} ${completeMs - newestMs}`).sort();
    };
    const idleFor = (ms: number) =>
      until(`${ms} ms`, async () => ((await states()).join() === `calls ${ms},journal ${ms}` ? true : undefined));
    try {
      await idleFor(0);
      nowMs += 60_000;
      await idleFor(60_000);
      // As after a restore of an older backup: the store has not the line that the log has.
      await server.send("UPDATE audit_logs SET next_seq = 0 WHERE stream = 'calls'", "idle");
      nowMs += 60_000;
      await until("the journal", async () => (await states()).includes("journal 120000") || undefined);
      expect(await states()).toEqual(["calls 60000", "journal 120000"]);
      expect(reports).toEqual([]);
      await server.send("ALTER TABLE audit_logs RENAME TO gone", "idle");
      nowMs += 60_000;
      await until("a report", () => reports.length > 0 || undefined);
      expect(reports[0]).toMatch(
        /^store does not note until when the audit's (?:calls|journal) are complete: SQLSTATE 42P01$/,
      );
    } finally {
      await exporters.stop();
      await log.close();
    }
  });
});

describe.skipIf(native === undefined)("a forked log", () => {
  test("the story of a call has both lines of one position", async () => {
    const url = await server.createDatabase("forked");
    const dir = mkdtempSync(join(folder, "forked-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    const copied = "jsonb_build_object('hash', repeat('f', 64), 'line', replace(line, 'agent-1', 'agent-2'))";
    await server.send(
      `INSERT INTO audit_lines SELECT (l).* FROM (SELECT jsonb_populate_record(a, ${copied}) AS l FROM audit_lines a WHERE stream = 'calls' AND seq = 5) AS copy`,
      "forked",
    );
    const { calls } = await readCallHistory(await storeAt(url), "t-1-0");
    expect(calls.map(({ offset }) => offset)).toEqual([5, 5]);
    expect(new Set(calls.map(({ line }) => line)).size).toBe(2);
  });
});

describe.skipIf(native === undefined)("a single line", () => {
  const dir = mkdtempSync(join(folder, "proved-"));
  let url: string;
  let log: string;
  beforeAll(async () => {
    url = await server.createDatabase("proved");
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    log = logIdIn(dir, "calls") ?? "";
  });

  test("is proved from the store alone as from its own log, by log and seq or by trace id", async () => {
    const store = await storeAt(url);
    const [{ lines } = { lines: 0 }] = await server.send(
      "SELECT count(*)::int AS lines FROM audit_lines WHERE stream = 'calls'",
      "proved",
    );
    expect(lines).toBe(15);
    for (let seq = 0; seq < Number(lines); seq += 1) {
      const proof = await store.prove(`${log}:${seq}`);
      expect(proof).toEqual(prove(dir, `${log}:${seq}`));
      expect(checkProof(proof, [keys.publicKey]).ok).toBe(true);
    }
    expect(await store.prove("t-1-0")).toEqual(prove(dir, "t-1-0"));
  });

  test("is proved by the commands that the console shows", async () => {
    const [urlFile, proof, key] = ["proof-url", "proof.json", "proof-key.pem"].map((name) => join(folder, name));
    writeFileSync(urlFile ?? "", url);
    writeFileSync(key ?? "", keys.publicKey.export({ type: "spki", format: "pem" }));
    const proved = await runStc(["audit", "prove", `${log}:7`, "--from-store", urlFile ?? ""]);
    expect(proved).toMatchObject({ code: 0, err: "" });
    expect((await runStc(["audit", "prove", `${log}:7`, "--dir", dir])).out).toBe(proved.out);
    writeFileSync(proof ?? "", proved.out);
    const checked = await runStc(["audit", "verify-proof", proof ?? "", "--key", key ?? ""]);
    expect(checked.code).toBe(0);
    expect(checked.out).toStartWith(`proved: seq 7 of 0 to 14 in safe-tool-call/audit/calls/${log}\n`);
    const none = await runStc(["audit", "prove", `${log}:99`, "--from-store", urlFile ?? ""]);
    expect(none).toMatchObject({ code: 1, err: `the store holds no line of seq 99 of the log ${log}\n` });
  });

  test.each<[string, string, string]>([
    [
      "a line was changed",
      "UPDATE audit_lines SET line = replace(line, 'agent', 'agenT') WHERE seq = 3",
      "are not those that",
    ],
    ["a line's seq was changed", "UPDATE audit_lines SET seq = 15 WHERE seq = 7", "lacks seq 7"],
    ["a line is missing", "DELETE FROM audit_lines WHERE seq = 4", "lacks seq 4"],
    ["retention deleted the first lines", "DELETE FROM audit_lines WHERE seq < 2", "no longer holds the first lines"],
    ["there is no checkpoint", "DELETE FROM audit_checkpoints", "has no checkpoint that covers seq 7"],
    [
      "the checkpoint is that of another log",
      `UPDATE audit_checkpoints SET note = replace(note, 'audit/calls', 'audit/calks')`,
      "has no checkpoint that covers seq 7",
    ],
  ])("has no proof when %s", async (title, statement, message) => {
    const name = `proved_${title.replaceAll(/\W/g, "_")}`;
    const own = await server.createDatabase(name);
    await exportLog(copyOf(dir), receiverAt(own));
    await server.send(statement.replace("WHERE seq", "WHERE stream = 'calls' AND seq"), name);
    await expect((await storeAt(own)).prove(`${log}:7`)).rejects.toThrow(message);
    await expect((await storeAt(own)).prove("t-none")).rejects.toThrow("no stored call has the traceId");
  });

  /** Without the exporter's positions. */
  function copyOf(from: string): string {
    const to = mkdtempSync(join(folder, "copy-"));
    cpSync(from, to, { recursive: true });
    rmSync(join(to, "export"), { recursive: true, force: true });
    return to;
  }
});

describe.skipIf(native === undefined)("verification of the stored lines", () => {
  const pause = async () => {};
  const problems = async (store: AuditStore, key = keys.publicKey, more: Partial<StoreVerification> = {}) => {
    const found: string[] = [];
    for await (const { stream, problems: own } of store.verify({ keys: [key], expected: [], pause, ...more })) {
      found.push(...own.map(({ kind, message }) => `${stream}: ${kind}: ${message}`));
    }
    return found;
  };

  test.each<[string, string, readonly string[]]>([
    ["nothing", "SELECT 1", []],
    [
      "a deleted line",
      "DELETE FROM audit_lines WHERE stream = 'calls' AND seq BETWEEN 3 AND 4",
      ["calls: gap: seq 3 to 4 are missing"],
    ],
    [
      "the newest lines",
      "DELETE FROM audit_lines WHERE stream = 'calls' AND seq > 9",
      ["calls: cut off: seq 10 to 14 were signed and are missing"],
    ],
    [
      "all lines of a log",
      "DELETE FROM audit_lines WHERE stream = 'journal'",
      ["journal: missing log: no line is stored"],
    ],
    [
      "all traces of a log but its checkpoints",
      "DELETE FROM audit_lines WHERE stream = 'journal'; DELETE FROM audit_logs WHERE stream = 'journal'",
      ["journal: missing log: no line is stored"],
    ],
    [
      "a second line of one seq",
      "INSERT INTO audit_lines SELECT (l).* FROM (SELECT jsonb_populate_record(a, jsonb_build_object('hash', repeat('f', 64))) AS l FROM audit_lines a WHERE stream = 'calls' AND seq = 5) AS copy",
      ["calls: changed: the line of seq 5 has other values of hash", "calls: fork: two lines have seq 5"],
    ],
    [
      "the newest lines with the checkpoints",
      "DELETE FROM audit_lines WHERE stream = 'calls' AND seq > 9; DELETE FROM audit_checkpoints WHERE stream = 'calls'",
      ["calls: cut off: seq 10 to 14 were stored and are missing", "calls: not signed: there is no checkpoint"],
    ],
    [
      "the columns of a line",
      "UPDATE audit_lines SET sub = 'agent-2', time_ms = time_ms + 1, count = 2, ids = '{}' WHERE stream = 'calls' AND seq = 7",
      ["calls: changed: the line of seq 7 has other values of time_ms, ids, sub, count"],
    ],
    [
      "the day and the hash of a line",
      "UPDATE audit_lines SET day = '2026-02-17', hash = 'x' WHERE stream = 'calls' AND seq = 0",
      ["calls: changed: the line of seq 0 has other values of day, hash"],
    ],
    [
      "a line moved before all others",
      "UPDATE audit_lines SET seq = -1 WHERE stream = 'calls' AND seq = 14",
      [
        "calls: changed: the line of seq -1 has other values of seq",
        "calls: changed: 1 lines without a link were added: the log has none",
        "calls: cut off: seq 14 to 14 were signed and are missing",
      ],
    ],
    [
      "a log that exists in its lines alone",
      "UPDATE audit_lines SET log = 'x' WHERE stream = 'journal'; DELETE FROM audit_logs WHERE stream = 'journal'; DELETE FROM audit_checkpoints WHERE stream = 'journal'",
      ["journal: changed: the first line is that of another log", "journal: not signed: there is no checkpoint"],
    ],
    [
      "all checkpoints",
      "DELETE FROM audit_checkpoints WHERE stream = 'calls'",
      ["calls: not signed: there is no checkpoint"],
    ],
    [
      "a note that cannot be read",
      "UPDATE audit_checkpoints SET note = 'x' WHERE stream = 'calls' AND size = (SELECT max(size) FROM audit_checkpoints WHERE stream = 'calls')",
      ["calls: bad signature: a note is no checkpoint"],
    ],
    [
      "the notes of another log",
      "UPDATE audit_checkpoints SET note = (SELECT note FROM audit_checkpoints WHERE stream = 'journal' LIMIT 1) WHERE stream = 'calls' AND size = (SELECT max(size) FROM audit_checkpoints WHERE stream = 'calls')",
      ["calls: bad signature: a checkpoint is that of another log"],
    ],
    [
      "a changed line",
      "UPDATE audit_lines SET line = replace(line, 't-1-2', 't-1-9') WHERE stream = 'calls' AND seq = 7",
      [
        "calls: changed: the line of seq 7 has other values of ids, trace_id",
        "calls: changed: the line of seq 7 does not follow from the one before",
      ],
    ],
  ])("%s", async (title, damage, expected) => {
    const name = `verified_${title.replaceAll(/[^a-z]/g, "_")}`;
    const url = await server.createDatabase(name);
    const dir = mkdtempSync(join(folder, "verified-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    await server.send(damage, name);
    expect(await problems(await storeAt(url))).toEqual([...expected]);
  });

  test("what no signature covers is not sound, or not checked", async () => {
    const url = await server.createDatabase("uncovered");
    const dir = mkdtempSync(join(folder, "verified-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    const key = join(folder, "public.pem");
    writeFileSync(key, keys.publicKey.export({ type: "spki", format: "pem" }));
    const verify = () => runStc(["audit", "verify", "--from-store", url, "--key", key]);
    expect(await verify()).toMatchObject({ code: 0, out: expect.stringMatching(/\nok\n$/) });
    await server.send("DELETE FROM audit_lines WHERE seq = 0", "uncovered");
    expect(await verify()).toMatchObject({
      code: SIGNATURES_NOT_CHECKED,
      out: expect.stringMatching(/\nok, not checked: signatures\n$/),
    });
    await server.send("DELETE FROM audit_checkpoints", "uncovered");
    expect(await verify()).toMatchObject({ code: 4, out: expect.stringMatching(/\nNOT SOUND\n$/) });
  });

  test("a checkpoint of a former key counts when a later one is by a given key", async () => {
    const url = await server.createDatabase("rotated");
    const dir = mkdtempSync(join(folder, "verified-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    const lines = await server.send("SELECT log, line FROM audit_lines WHERE stream = 'calls' ORDER BY seq", "rotated");
    const log = String(lines[0]?.["log"]);
    const former = generateKeyPairSync("ed25519");
    const tree = new MerkleTree();
    for (const [seq, { line }] of lines.entries()) {
      const bytes = Buffer.from(` ${String(line)}`);
      tree.append(leafHash(bytes, 1, bytes.length));
      if (seq < 9 && seq !== 4) continue;
      const head = { logId: log, seq: seq + 1, tree, prev: "" };
      const note = signCheckpoint("calls", head, former.privateKey);
      await server.send(
        `INSERT INTO audit_checkpoints VALUES ('${log}', 'calls', ${seq + 1}, '${note}', 0)`,
        "rotated",
      );
    }
    const store = await storeAt(url);
    expect(await problems(store)).toEqual([]);
    await server.send("DELETE FROM audit_checkpoints WHERE seen_ms > 0 AND stream = 'calls'", "rotated");
    expect(await problems(store)).toContain(
      "calls: bad signature: the checkpoint of 15 lines is not signed by a given key",
    );
    expect(await problems(store, former.publicKey)).toEqual([
      "journal: bad signature: the checkpoint of 12 lines is not signed by a given key",
    ]);
  });

  test("a log that the journal of another names is missed, until its lines are stored", async () => {
    const url = await server.createDatabase("roster");
    const dir = mkdtempSync(join(folder, "workers-"));
    await writeWorkersLogs(dir);
    for (const log of [dir, join(dir, "worker-1")]) await exportLog(log, receiverAt(url));
    const store = await storeAt(url);
    const parent = logIdIn(dir, "journal");
    const missed = `missing log: the journal of log ${parent} names it, and no line is stored`;
    expect(await problems(store)).toEqual([`calls: ${missed}`, `journal: ${missed}`]);
    await exportLog(join(dir, "worker-2"), receiverAt(url));
    expect(await problems(store)).toEqual([]);
    const gone = logIdIn(join(dir, "worker-1"), "calls");
    for (const table of ["audit_lines", "audit_logs", "audit_checkpoints"]) {
      await server.send(`DELETE FROM ${table} WHERE log = '${gone}'`, "roster");
    }
    expect(await problems(store)).toEqual([`calls: ${missed}`]);
  });

  test("lines, and a new log, that are sent after the checkpoint or the journal that is about them, are waited for", async () => {
    const url = await server.createDatabase("sending");
    const dir = mkdtempSync(join(folder, "sending-"));
    await writeWorkersLogs(dir, [1]);
    for (const log of [dir, join(dir, "worker-1")]) await exportLog(log, receiverAt(url));
    const worker = logIdIn(join(dir, "worker-1"), "calls");
    const parent = logIdIn(dir, "calls");
    const unsent = `(log = '${worker}' OR (log = '${parent}' AND seq > 9))`;
    await server.send(
      `CREATE TABLE unsent AS SELECT * FROM audit_lines WHERE ${unsent}; DELETE FROM audit_lines WHERE ${unsent};
      UPDATE audit_logs SET next_seq = 10 WHERE log = '${parent}'; DELETE FROM audit_logs WHERE log = '${worker}';
      DELETE FROM audit_checkpoints WHERE log = '${worker}'`,
      "sending",
    );
    const store = await storeAt(url);
    expect((await problems(store)).sort()).toEqual([
      "calls: cut off: seq 10 to 14 were signed and are missing",
      `calls: missing log: the journal of log ${logIdIn(dir, "journal")} names it, and no line is stored`,
    ]);
    const pauses: number[] = [];
    const sending = async () => {
      pauses.push(pauses.length + 1);
      const arriving = new Map([
        [2, parent],
        [4, worker],
      ]);
      const part = `log = '${arriving.get(pauses.length) ?? "none"}'`;
      await server.send(`INSERT INTO audit_lines SELECT * FROM unsent WHERE ${part}`, "sending");
    };
    // Of the worker's log, no checkpoint has been sent yet.
    expect(await problems(store, keys.publicKey, { pause: sending })).toEqual([]);
    expect(pauses).toEqual([1, 2, 3, 4]);
  });

  test("a log that the operator expects is missed", async () => {
    const url = await server.createDatabase("expected");
    const dir = mkdtempSync(join(folder, "expected-"));
    await writeLog(dir, keys.privateKey, { instance: "pod-1" });
    await exportLog(dir, receiverAt(url));
    const key = join(folder, "expected.pem");
    writeFileSync(key, keys.publicKey.export({ type: "spki", format: "pem" }));
    const verify = (...names: readonly string[]) =>
      runStc(["audit", "verify", "--from-store", url, "--key", key, ...names.flatMap((name) => ["--expect", name])]);
    expect(await verify("pod-1", logIdIn(dir, "journal") ?? "")).toMatchObject({ code: 0 });
    expect(await verify("pod-1", "pod-2")).toMatchObject({
      code: 1,
      out: expect.stringContaining(
        "\nexpected pod-2: 0 lines, seq - to -, 0 checkpoints compared\n  missing log: it is expected, and no line is stored\nNOT SOUND\n",
      ),
    });
    // An instance whose lines retention has deleted was there; a log that only has checkpoints was not.
    await server.send("DELETE FROM audit_lines; UPDATE audit_logs SET time_ms = -1", "expected");
    expect(await problems(await storeAt(url), keys.publicKey, { expected: ["pod-1"] })).toEqual([]);
    await server.send("DELETE FROM audit_logs", "expected");
    expect((await problems(await storeAt(url), keys.publicKey, { expected: ["pod-1"] })).sort()).toEqual([
      "calls: missing log: no line is stored",
      "journal: missing log: no line is stored",
      "undefined: missing log: it is expected, and no line is stored",
    ]);
    expect(await runStc(["audit", "verify", "--dir", dir, "--expect", "pod-1"])).toMatchObject({
      code: 64,
      err: "--expect needs --from-store\n",
    });
  });

  test("lines without a signature are counted, and are a problem when they are more than a service signs next", async () => {
    const url = await server.createDatabase("unsigned");
    const dir = mkdtempSync(join(folder, "unsigned-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    // An exporter begins with the checkpoints of the newest day.
    for (const { note, checkpoint } of eachNote(dir)) {
      const { logId, stream, size } = checkpoint ?? {};
      await server.send(
        `INSERT INTO audit_checkpoints VALUES ('${logId}', '${stream}', ${size}, '${note}', 0) ON CONFLICT DO NOTHING`,
        "unsigned",
      );
    }
    const key = join(folder, "unsigned.pem");
    writeFileSync(key, keys.publicKey.export({ type: "spki", format: "pem" }));
    const callsOf = (out: string) => out.split("\n").find((line) => line.startsWith("calls "));
    const verify = () => runStc(["audit", "verify", "--from-store", url, "--key", key]);
    const whole = await verify();
    expect(callsOf(whole.out)).toEndWith(" checkpoints compared, signed to seq 14");
    await server.send("DELETE FROM audit_checkpoints WHERE size > 10", "unsigned");
    const behind = await verify();
    expect([behind.code, callsOf(behind.out)]).toEqual([
      0,
      expect.stringMatching(/ checkpoints compared, signed to seq 9, 5 lines after it are not signed$/),
    ]);
    await server.send("DELETE FROM audit_checkpoints WHERE size > 5", "unsigned");
    const store = await storeAt(url);
    expect(await problems(store)).toEqual([
      "calls: not signed: no given key signed the lines from seq 5 on, for over a minute",
      "journal: not signed: no given key signed the lines from seq 4 on, for over a minute",
    ]);
    expect((await verify()).code).toBe(4);
    for await (const report of store.verify({ keys: [], expected: [], pause })) expect(report.problems).toEqual([]);
  });

  test("more checkpoints than are read at once are all compared", async () => {
    const url = await server.createDatabase("many_notes");
    const dir = mkdtempSync(join(folder, "verified-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    const lines = await server.send(
      "SELECT log, line FROM audit_lines WHERE stream = 'calls' ORDER BY seq",
      "many_notes",
    );
    const log = String(lines[0]?.["log"]);
    const former = Array.from({ length: 80 }, () => generateKeyPairSync("ed25519").privateKey);
    const tree = new MerkleTree();
    for (const [seq, { line }] of lines.entries()) {
      const bytes = Buffer.from(` ${String(line)}`);
      tree.append(leafHash(bytes, 1, bytes.length));
      const head = { logId: log, seq: seq + 1, tree, prev: "" };
      const rows = former.map((key) => `('${log}', 'calls', ${seq + 1}, '${signCheckpoint("calls", head, key)}', 0)`);
      await server.send(`INSERT INTO audit_checkpoints VALUES ${rows.join()}`, "many_notes");
    }
    const [stored] = await server.send(
      "SELECT count(*)::int AS notes FROM audit_checkpoints WHERE stream = 'calls'",
      "many_notes",
    );
    const store = await storeAt(url);
    for await (const { stream, compared, problems: own } of store.verify({
      keys: [keys.publicKey],
      expected: [],
      pause,
    })) {
      expect(own).toEqual([]);
      if (stream === "calls") expect(compared).toBe(Number(stored?.["notes"]));
    }
    expect(Number(stored?.["notes"])).toBeGreaterThan(1_200);
    await server.send(
      "UPDATE audit_checkpoints SET size = 16 WHERE stream = 'calls' AND size = 15 AND seen_ms > 0",
      "many_notes",
    );
    expect(await problems(store)).toEqual(["calls: changed: the checkpoint of 15 lines is stored as one of 16"]);
  });
});
