import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { logIdIn } from "../../src/audit/chain/log-id.ts";
import { checkProof } from "../../src/audit/chain/proof.ts";
import { readBatch } from "../../src/audit/export/batch.ts";
import type { Receiver } from "../../src/audit/export/receiver.ts";
import { clickHouseExporter } from "../../src/audit/export/stores.ts";
import { readCallHistory } from "../../src/audit/query/call-history.ts";
import type { AuditStore } from "../../src/audit/store/audit-store.ts";
import { openClickHouseStore } from "../../src/audit/store/clickhouse.ts";
import { openAuditStore } from "../../src/audit/store/open-store.ts";
import { sql } from "../../src/audit/store/sql-text.ts";
import { keys, writeLog } from "../audit/support/chained-log.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";
import {
  askedParams,
  compareLines,
  compareStatistics,
  compareStories,
  everyFilterIsAsked,
  exportLog,
  storeQuery,
  writeReplica,
} from "../support/stored-logs.ts";
import { type ClickHouseServer, startClickHouse } from "./clickhouse.ts";

const DAY_MS = 86_400_000;
const SEED = { seed: Number(process.env["STC_TEST_SEED"] ?? 1) };
const folder = mkdtempSync(join(tmpdir(), "stc-store-"));
let server: ClickHouseServer;
const closing: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  server = await startClickHouse();
}, 600_000);
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

function receiverAt(url: string, retentionDays?: number): Receiver {
  const urlFile = join(mkdtempSync(join(folder, "url-")), "url");
  writeFileSync(urlFile, `${url}\n`);
  const receiver = clickHouseExporter.open(
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

async function storeAt(url: string, statementMs = 60_000): Promise<AuditStore> {
  const store = await openAuditStore(url, { statementMs, scope: "all" });
  closing.push(() => store.close());
  return store;
}

function linesOf(dir: string) {
  return readBatch({ dir, stream: "calls", from: undefined, log: logIdIn(dir, "calls") })?.lines ?? [];
}

function deliver(receiver: Receiver, lines: Parameters<Receiver["deliver"]>[0]) {
  return receiver.deliver(lines, AbortSignal.timeout(60_000));
}

function newReplica(count = 50): string {
  return writeReplica(mkdtempSync(join(folder, "log-")), 0, count);
}

describe("the same lines in files and in ClickHouse", () => {
  let url: string;
  let store: AuditStore;
  let dirs: readonly string[];

  beforeAll(async () => {
    url = await server.createDatabase("fleet");
    dirs = [writeReplica(folder, 0, 2_500), writeReplica(folder, 1, 1_500)];
    await Promise.all(dirs.map((dir) => exportLog(dir, receiverAt(url))));
    store = await storeAt(url);
  });

  test("every filter, alone and in pairs, finds the same lines", async () => {
    everyFilterIsAsked();
    const asked = askedParams();
    expect(await compareLines(store, dirs, asked)).toBeGreaterThan(asked.length / 3);
  }, 600_000);

  test("every filter counts the same calls", async () => {
    await compareStatistics(
      store,
      dirs,
      askedParams().filter((params) => Object.keys(params).length < 2),
    );
  }, 600_000);

  test("a call's story is the same over replicas", () => compareStories(store, dirs));

  test("pages follow each other without a gap, in either order", async () => {
    for (const order of ["newest", "oldest"]) {
      const whole = await store.page(storeQuery({ sub: "agent-7", order }), 1e9);
      const found: string[] = [];
      for (let after = undefined as (typeof whole)["after"]; ; ) {
        const page = await store.page({ ...storeQuery({ sub: "agent-7", order }, 7), after }, 1e9);
        found.push(...page.found.map(({ line }) => line));
        after = page.after;
        if (!page.more) break;
      }
      expect(found.length).toBeGreaterThan(100);
      expect(found).toEqual(whole.found.map(({ line }) => line));
    }
  });

  test("lines that are sent again count once in every answer", async () => {
    const before = await server.send("SELECT count() AS rows FROM audit_lines", "fleet");
    for (const dir of dirs) {
      rmSync(join(dir, "export"), { recursive: true });
      await exportLog(dir, receiverAt(url));
    }
    const after = await server.send("SELECT count() AS rows FROM audit_lines", "fleet");
    // The engine has not merged all copies yet, or this test shows nothing.
    expect(Number(after[0]?.["rows"])).toBeGreaterThan(Number(before[0]?.["rows"]));
    const asked = askedParams().filter((params) => Object.keys(params).length < 2);
    await compareLines(store, dirs, asked);
    await compareStatistics(store, dirs, asked.slice(0, 12));
    await compareStories(store, dirs);
    const logs = (await store.logs()).filter(({ stream }) => stream === "calls");
    expect(logs.map(({ instance, nextSeq, log }) => [instance, nextSeq, log.length]).sort()).toEqual([
      ["replica-0", 2_500, 32],
      ["replica-1", 1_500, 32],
    ]);
  }, 600_000);

  test("the command line asks the store with the same filters, and verifies it", async () => {
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
    const verified = await runStc(["audit", "verify", "--from-store", file]);
    expect(verified.out).toMatch(/^calls [0-9a-f]{32}: 2500 lines, seq 0 to 2499, 0 checkpoints compared$/m);
    expect(verified.out).toEndWith("\nok, not checked: signatures\n");
    expect(verified.code).toBe(SIGNATURES_NOT_CHECKED);
  });
});

test("every character of a bound value arrives as it is", async () => {
  const database = openClickHouseStore(await server.createDatabase("bound"), { statementMs: 60_000 });
  closing.push(() => database.close());
  const hostile = fc.constantFrom(
    "\\",
    "\t",
    "\n",
    "\r",
    "\0",
    "'",
    '"',
    "{v1:String}",
    "\\N",
    "\r\n--stc",
    "%",
    "\u{1f600}",
  );
  const text = fc
    .array(fc.oneof(hostile, fc.string({ unit: "binary" })), { maxLength: 8 })
    .map((parts) => parts.join(""));
  await fc.assert(
    fc.asyncProperty(text, fc.maxSafeInteger(), async (value, number) => {
      const wanted = value.toWellFormed();
      expect(await database.read(sql`SELECT ${wanted} AS text, ${number} AS number, ${wanted} AS again`)).toEqual([
        { text: wanted, number: String(number), again: wanted },
      ]);
    }),
    { ...SEED, numRuns: 200 },
  );
}, 120_000);

describe("the exporter", () => {
  test("several replicas that begin at once create the tables once", async () => {
    const url = await server.createDatabase("begun");
    const lines = linesOf(newReplica());
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => deliver(receiverAt(url), lines)));
    expect(outcomes).toEqual(Array(4).fill({ kind: "taken", rejected: 0 }));
    const store = await storeAt(url);
    expect((await store.page(storeQuery({}), 1e9)).found.length).toBe(lines.length);
  });

  test("days beyond the retention time are dropped, and not stored again", async () => {
    const url = await server.createDatabase("retained");
    const dir = newReplica();
    await exportLog(dir, receiverAt(url));
    const days = () => server.send("SELECT DISTINCT day FROM audit_lines ORDER BY day", "retained");
    expect(await days()).toEqual([{ day: "2026-02-15" }, { day: "2026-02-16" }]);
    const [line] = linesOf(dir);
    if (line === undefined) throw new Error("no line");
    const timeMs = Date.now();
    const today = new Date(timeMs).toISOString().slice(0, 10);
    const recent = { ...line, entry: { ...line.entry, timeMs } as typeof line.entry };
    for (const _ of [1, 2]) {
      expect(await deliver(receiverAt(url, 30), [line, recent])).toEqual({ kind: "taken", rejected: 0 });
      expect(await days()).toEqual([{ day: today }]);
    }
  });

  test("checkpoints are deleted with their days: the newest of a log stays, and one of each kept day", async () => {
    const url = await server.createDatabase("thinned");
    const dir = mkdtempSync(join(folder, "thinned-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    const [newest] = await server.send("SELECT log, seen_ms FROM audit_checkpoints WHERE stream = 'calls'", "thinned");
    const log = String(newest?.["log"]);
    const today = Math.floor(Number(newest?.["seen_ms"]) / DAY_MS) * DAY_MS;
    const rows = [
      [1, 40],
      [2, 31],
      [3, 30],
      [4, 30],
      [5, 3],
      [6, 3],
      [7, 2],
      [8, 2],
      [9, 0],
    ].map(([size = 0, daysAgo = 0]) => [
      `('${log}', 'calls', ${size}, 'note', ${today - daysAgo * DAY_MS + size})`,
      `('gone', 'calls', ${size}, 'note', ${today - 50 * DAY_MS})`,
    ]);
    await server.send(`INSERT INTO audit_checkpoints VALUES ${rows.flat().join()}`, "thinned");
    const sizes = async (of: string) => {
      const stored = await server.send(
        `SELECT size FROM audit_checkpoints FINAL WHERE log = '${of}' AND stream = 'calls' ORDER BY size`,
        "thinned",
      );
      return stored.map(({ size }) => size);
    };
    await deliver(receiverAt(url), linesOf(dir));
    expect(await sizes(log)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 15]);
    await deliver(receiverAt(url, 30), linesOf(dir));
    expect(await sizes(log)).toEqual([4, 6, 7, 8, 9, 15]);
    expect(await sizes("gone")).toEqual([9]);
  });

  test("lines of more than a hundred days come in one request", async () => {
    const url = await server.createDatabase("days");
    const [line] = linesOf(newReplica());
    if (line === undefined) throw new Error("no line");
    const days = Array.from({ length: 120 }, (_, day) => ({
      ...line,
      line: `${day}`,
      entry: undefined,
      day: new Date(Date.UTC(1, 0, 1 + day * 9_000)).toISOString().slice(0, 10),
    }));
    expect(await deliver(receiverAt(url), days)).toEqual({ kind: "taken", rejected: 0 });
    expect(
      await server.send("SELECT uniqExact(day) AS days, countIf(time_ms > -9e15) AS timed FROM audit_lines", "days"),
    ).toEqual([{ days: 120, timed: 0 }]);
    // No query shows a line without a time.
    expect((await (await storeAt(url)).page(storeQuery({}), 1e9)).found).toEqual([]);
  });

  test("lines without a link at one position are stored each, once", async () => {
    const url = await server.createDatabase("unlinked");
    const [line] = linesOf(newReplica());
    if (line === undefined) throw new Error("no line");
    const lines = ["one", "other", "nul\0", "\ufffd\u{1f600}"].map((text) => ({ ...line, log: undefined, line: text }));
    for (const _ of [1, 2]) expect(await deliver(receiverAt(url), lines)).toEqual({ kind: "taken", rejected: 0 });
    expect(await server.send("SELECT line FROM audit_lines FINAL ORDER BY line", "unlinked")).toEqual(
      ["nul\0", "one", "other", "\ufffd\u{1f600}"].map((text) => ({ line: text })),
    );
  });

  test("what the database refuses for good is refused, and anything else is sent again", async () => {
    const url = await server.createDatabase("refused");
    const lines = linesOf(newReplica());
    const receiver = receiverAt(url);
    expect(await deliver(receiver, [])).toEqual({ kind: "taken", rejected: 0 });
    expect(await deliver(receiver, lines)).toEqual({ kind: "taken", rejected: 0 });
    await server.send("ALTER TABLE audit_lines ADD CONSTRAINT short CHECK length(line) < 10", "refused");
    expect(await deliver(receiver, lines)).toEqual({
      kind: "refused",
      reason: "the audit store's ClickHouse answers error 469",
    });
    await server.send("ALTER TABLE audit_lines DROP CONSTRAINT short", "refused");
    expect(await deliver(receiver, lines)).toEqual({ kind: "taken", rejected: 0 });
    await server.send("DROP TABLE audit_lines", "refused");
    expect(await deliver(receiver, lines)).toEqual({
      kind: "later",
      reason: "the audit store's ClickHouse answers error 60 (unknown table)",
      retryAfterMs: undefined,
    });
    expect(await deliver(receiver, lines)).toEqual({ kind: "taken", rejected: 0 });
  });

  test("a connection that ends within the answer is tried again, and the lines count once", async () => {
    const url = await server.createDatabase("cut");
    const lines = linesOf(newReplica());
    const receiver = receiverAt(url);
    await deliver(receiver, lines);
    const store = await storeAt(url);
    await server.switchTo("cut");
    try {
      expect(await deliver(receiver, lines)).toMatchObject({
        kind: "later",
        reason: expect.stringMatching(/cannot be reached/),
      });
      await expect(store.page(storeQuery({}), 1e9)).rejects.toThrow(
        /the audit store does not answer: .*cannot be reached/,
      );
    } finally {
      await server.switchTo("serve");
    }
    expect(await deliver(receiver, lines)).toEqual({ kind: "taken", rejected: 0 });
    expect((await store.page(storeQuery({}), 1e9)).found.length).toBe(lines.length);
  });

  test("wrong credentials are sent again later, and no message holds them", async () => {
    const url = await server.createDatabase("locked");
    const wrong = url.replace(/:[^:@]*@/, ":secret-word@");
    const lines = linesOf(newReplica());
    const outcome = await deliver(receiverAt(wrong), lines);
    expect(outcome).toEqual({
      kind: "later",
      reason: "the audit store's ClickHouse answers error 516 (wrong user or password)",
      retryAfterMs: undefined,
    });
    const asked = await runStc(["audit", "query", "--from-store", wrong]);
    expect(asked.err).toBe(
      "the audit store does not answer: the audit store's ClickHouse answers error 516 (wrong user or password)\n",
    );
    expect(asked.code).not.toBe(0);
    const missing = await runStc(["audit", "query", "--from-store", url.replace(/locked$/, "nowhere")]);
    expect(missing.err).toContain("error 81 (unknown database)");
  });
});

test("a line is proved from the store alone, and a log that it does not know is named", async () => {
  const dir = mkdtempSync(join(folder, "proved-"));
  await writeLog(dir);
  const url = await server.createDatabase("proved");
  await exportLog(dir, receiverAt(url));
  const store = await storeAt(url);
  const log = logIdIn(dir, "calls");
  for (const seq of [0, 7]) {
    const proof = await store.prove(`${log}:${seq}`);
    expect(checkProof(proof, [keys.publicKey])).toMatchObject({ ok: true });
    expect(JSON.parse(proof.line).seq).toBe(seq);
  }
  const unknown = "0".repeat(32);
  for (const seq of [0, 1]) {
    await expect(store.prove(`${unknown}:${seq}`)).rejects.toThrow(
      `the store holds no line of seq ${seq} of the log ${unknown}`,
    );
  }
  await expect(store.prove(`${log}:15`)).rejects.toThrow(`the store holds no line of seq 15 of the log ${log}`);
});

describe("a log that idles", () => {
  test("is complete until its replica has last said so, unless the store lacks lines", async () => {
    const url = await server.createDatabase("idle");
    const dir = newReplica();
    await exportLog(dir, receiverAt(url));
    const store = await storeAt(url);
    const calls = async () => {
      const logs = await store.logs();
      const found = logs.find(({ stream }) => stream === "calls");
      if (found === undefined) throw new Error("no log of calls");
      return found;
    };
    const before = await calls();
    const { log, nextSeq, newestMs = 0 } = before;
    expect(before.completeMs).toBe(newestMs);
    const settle = (receiver: Receiver, seconds: number, lacking = 0) => {
      const settled = {
        log,
        stream: "calls",
        nextSeq: nextSeq + lacking,
        untilMs: newestMs + seconds * 1_000,
      } as const;
      return receiver.settled?.(settled, AbortSignal.timeout(60_000));
    };
    const taken = { kind: "taken", rejected: 0 } as const;
    const receiver = receiverAt(url);
    expect(await settle(receiver, 60)).toEqual(taken);
    expect(await calls()).toEqual({ ...before, completeMs: newestMs + 60_000 });
    // As after a restore of an older backup: the store has not the line that the log has.
    expect(await settle(receiverAt(url), 120, 1)).toEqual(taken);
    // As from a replica whose clock was set back.
    expect(await settle(receiverAt(url), 30)).toEqual(taken);
    expect(await calls()).toEqual({ ...before, completeMs: newestMs + 60_000 });
    // Lines that are sent again leave it as it is.
    expect(await deliver(receiver, linesOf(dir))).toEqual(taken);
    expect(await calls()).toEqual({ ...before, completeMs: newestMs + 60_000 });
    await server.send("DROP TABLE audit_logs", "idle");
    expect(await settle(receiver, 180)).toMatchObject({ kind: "later", reason: expect.stringContaining("error 60") });
  });
});

test("a statement ends at its time limit", async () => {
  const database = openClickHouseStore(await server.createDatabase("slow"), { statementMs: 300 });
  closing.push(() => database.close());
  const began = performance.now();
  await expect(database.read(sql`SELECT sum(sipHash64(number)) FROM numbers(${1e12})`)).rejects.toThrow(
    "the audit store's ClickHouse answers error 159 (time limit)",
  );
  expect(performance.now() - began).toBeLessThan(30_000);
});

describe("verification of the stored lines", () => {
  const problems = async (store: AuditStore) => {
    const found: string[] = [];
    for await (const { stream, problems: own } of store.verify({
      keys: [keys.publicKey],
      expected: [],
      pause: async () => {},
    })) {
      found.push(...own.map(({ kind, message }) => `${stream}: ${kind}: ${message}`));
    }
    return found;
  };
  test.each<[string, string, readonly string[]]>([
    ["nothing", "SELECT 1", []],
    [
      "a line that is stored twice",
      "INSERT INTO audit_lines SELECT * FROM audit_lines WHERE stream = 'calls' AND seq = 5",
      [],
    ],
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
      "a second line of one seq",
      "INSERT INTO audit_lines SELECT * REPLACE (repeat('f', 64) AS hash) FROM audit_lines WHERE stream = 'calls' AND seq = 5",
      ["calls: changed: the line of seq 5 has other values of hash", "calls: fork: two lines have seq 5"],
    ],
    [
      "the columns of a line",
      "INSERT INTO audit_lines SELECT * REPLACE ('agent-2' AS sub, 2 AS count, [] AS ids) FROM audit_lines WHERE stream = 'calls' AND seq = 7",
      ["calls: changed: the line of seq 7 has other values of ids, sub, count"],
    ],
    [
      "all checkpoints",
      "DELETE FROM audit_checkpoints WHERE stream = 'calls'",
      ["calls: not signed: there is no checkpoint"],
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

  test("the story of a call of a forked log has both lines of one position", async () => {
    const url = await server.createDatabase("forked");
    const dir = mkdtempSync(join(folder, "forked-"));
    await writeLog(dir);
    await exportLog(dir, receiverAt(url));
    await server.send(
      "INSERT INTO audit_lines SELECT * REPLACE (repeat('f', 64) AS hash, replaceAll(line, 'agent-1', 'agent-2') AS line) FROM audit_lines WHERE stream = 'calls' AND seq = 5",
      "forked",
    );
    const { calls } = await readCallHistory(await storeAt(url), "t-1-0");
    expect(calls.map(({ offset }) => offset)).toEqual([5, 5]);
    expect(new Set(calls.map(({ line }) => line)).size).toBe(2);
  });
});
