import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { clickHouseExporter } from "../../../src/audit/export/stores.ts";
import { readFilter } from "../../../src/audit/query/params.ts";
import { clickHouseDialect, openClickHouseStore, openClickHouseWriter } from "../../../src/audit/store/clickhouse.ts";
import { parameterOf } from "../../../src/audit/store/clickhouse-client.ts";
import { parseClickHouseUrl } from "../../../src/audit/store/clickhouse-url.ts";
import { StoreFiller } from "../../../src/audit/store/fill.ts";
import { openAuditStore } from "../../../src/audit/store/open-store.ts";
import { sql } from "../../../src/audit/store/sql-text.ts";
import { pageStatement } from "../../../src/audit/store/statements.ts";
import { type RawRequest, RawServer } from "../../support/raw-server.ts";

const SEED = { seed: Number(process.env["STC_TEST_SEED"] ?? 1) };
const PASSWORD = "p@ß:w";

function answer(data: readonly object[]): string {
  return raw(200, JSON.stringify({ meta: [], data, rows: data.length }));
}

function raw(status: number, body: string, header = ""): string {
  return `HTTP/1.1 ${status} X\r\n${header}content-length: ${Buffer.byteLength(body)}\r\n\r\n${Buffer.from(body).toString("latin1")}`;
}

function failed(code: number, status = 500): string {
  return raw(status, "Code: 1. DB::Exception: the row {agent-7}", `X-ClickHouse-Exception-Code: ${code}\r\n`);
}

function partsOf({ text }: RawRequest) {
  const [head = "", body = ""] = [text.slice(0, text.indexOf("\r\n\r\n")), text.slice(text.indexOf("\r\n\r\n") + 4)];
  const target = /^POST (\S+) HTTP/.exec(head)?.[1] ?? "";
  return { head, body, parameters: Object.fromEntries(new URL(target, "http://x").searchParams) };
}

/** The fields of a form, as the server reads them. */
function fieldsOf(request: RawRequest): Readonly<Record<string, string>> {
  const { head, body } = partsOf(request);
  const boundary = /content-type: multipart\/form-data; boundary=(\S+)/.exec(head)?.[1];
  const fields = body.split(`--${boundary}`).slice(1, -1);
  return Object.fromEntries(
    fields.map((field) => {
      const [, name = "", value = ""] = /^\r\n.* name="([^"]*)"\r\n\r\n(.*)\r\n$/s.exec(field) ?? [];
      return [name, Buffer.from(value, "latin1").toString()];
    }),
  );
}

describe("the URL of a store", () => {
  test.each([
    ["clickhouse://u:p@127.0.0.1/audit", "http://127.0.0.1:8123/"],
    ["clickhouse://u@localhost:9/audit", "http://localhost:9/"],
    ["clickhouse://u:p@db.example/audit", "https://db.example:8443/"],
    ["clickhouse://u:p@db.example:443/audit?secure=true", "https://db.example/"],
    ["clickhouse://u:p@db.example/audit?secure=false", "http://db.example:8123/"],
    ["clickhouse://u:p@[::1]/audit?secure=true", "https://[::1]:8443/"],
  ])("%s is at %s", (url, expected) => {
    expect(parseClickHouseUrl(url)).toMatchObject({ url: new URL(expected), database: "audit", username: "u" });
  });

  test("certificates are read from files, and make the connection secure", () => {
    const folder = mkdtempSync(join(tmpdir(), "stc-url-"));
    try {
      const file = join(folder, "ca.pem");
      writeFileSync(file, "PEM");
      const { url, tls } = parseClickHouseUrl(`clickhouse://u@localhost/audit?ca_cert=${file}`);
      expect(url.href).toBe("https://localhost:8443/");
      expect(tls.rootCert?.toString()).toBe("PEM");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test.each([
    ["clickhouse://secret@/audit", "is not a clickhouse:// URL"],
    ["https://u:secret@h/audit", "is not a clickhouse:// URL"],
    ["clickhouse://:secret@h/audit", "names no host or no user"],
    ["clickhouse://u:secret@h", "must name one database after the host"],
    ["clickhouse://u:secret@h/a/b", "must name one database after the host"],
    ["clickhouse://u:secret@h/a?user=x", "accepts only the parameters"],
    ["clickhouse://u:secret@h/a?secure=yes", "must say secure=true or secure=false"],
    ["clickhouse://u:secret@h/a?secure=true&secure=true", "accepts only the parameters"],
    ["clickhouse://u:secret@h/a?secure=false&ca_cert=/x", "names certificates, but secure=false uses none"],
    ["clickhouse://u:secret@h/a?ca_cert=x", "must name ca_cert by an absolute path"],
    ["clickhouse://u:secret@h/a?ca_cert=/nowhere/secret", "names a file in ca_cert that cannot be read"],
    ["clickhouse://u:secret@h/a?client_cert=/x", "must name client_cert and client_cert_key together"],
    ["clickhouse://u:secret%@h/a", "contains a % that is not an escape"],
    ["clickhouse://u:secret%0a@h/a", "contains a control character"],
    ["clickhouse://u:secret@h/a#b", "contains #"],
  ])("%s is refused without being quoted", async (url, problem) => {
    expect(() => parseClickHouseUrl(url)).toThrow(problem);
    const error = await openAuditStore(url, { statementMs: 1_000, scope: "all" }).catch((thrown: Error) => thrown);
    expect(String(error)).not.toContain("secret");
    const problems: string[] = [];
    const folder = mkdtempSync(join(tmpdir(), "stc-url-"));
    try {
      writeFileSync(join(folder, "url"), url);
      const receiver = clickHouseExporter.open(
        { urlFile: join(folder, "url") },
        { path: (path) => path, clock: Date.now, problem: (_, message) => problems.push(message) },
      );
      expect(receiver).toBeUndefined();
      expect(problems[0]).toContain(problem);
      expect(problems[0]).not.toContain("secret");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

test("a certificate that is away when the first lines come makes them wait, and is read again", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-url-"));
  const [urlFile, cert] = [join(folder, "url"), join(folder, "ca.pem")];
  try {
    writeFileSync(urlFile, `clickhouse://u:secret@127.0.0.1:1/a?ca_cert=${cert}`);
    writeFileSync(cert, "");
    const problem = (setting: string, message: string) => {
      throw new Error(`${setting}: ${message}`);
    };
    const receiver = clickHouseExporter.open({ urlFile }, { path: (path) => path, clock: Date.now, problem });
    const deliver = () => receiver?.deliver([], AbortSignal.timeout(20_000));
    rmSync(cert);
    expect(await deliver()).toEqual({
      kind: "later",
      reason: "the URL of the audit store names a file in ca_cert that cannot be read",
      retryAfterMs: undefined,
    });
    writeFileSync(cert, "");
    expect(await deliver()).toMatchObject({
      kind: "later",
      reason: expect.stringContaining("ClickHouse cannot be reached"),
    });
    await receiver?.close?.();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Reverts what the server does with a parameter, as its documentation of the format TabSeparated says. */
function unescaped(text: string): string {
  const characters: Readonly<Record<string, string>> = { t: "\t", n: "\n", r: "\r", "0": "\0" };
  return text.replace(/\\(.)/gs, (_, character: string) => characters[character] ?? character);
}

test("a parameter holds no character that ends it, and no other value than it should", () => {
  const part = fc.oneof(
    fc.constantFrom("\\", "\\\\", "\t", "\n", "\r", "\0", "\\N", "\\t", "'"),
    fc.string({ unit: "binary" }),
  );
  fc.assert(
    fc.property(
      fc.array(part).map((parts) => parts.join("")),
      (value) => {
        const written = parameterOf(value);
        expect(written).not.toMatch(/[\t\n\r\0]/);
        expect(written).not.toBe("\\N");
        expect(unescaped(written)).toBe(value);
      },
    ),
    SEED,
  );
});

/** The answer of a server whose tables are there, with all columns. */
const TABLES = [{ tables: "3" }];

describe("requests", () => {
  let server: RawServer;
  let url: string;
  beforeEach(async () => {
    server = await RawServer.start();
    url = `clickhouse://reader:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}/audit`;
  });
  afterEach(() => server.close());

  function reader() {
    return openClickHouseStore(url, { statementMs: 2_500 });
  }

  test("a statement is a form whose values are not in its text; the URL has settings alone", async () => {
    server.answer = () => answer([{ seq: "9223372036854775807", time_ms: "-9007199254740991" }, { time_ms: "5" }]);
    const filter = readFilter({ sub: 'ä\n"--', text: "X", from: "2026-02-15", to: "2026-02-16" }, 0);
    if ("faults" in filter) throw new Error(filter.faults.join());
    const statement = pageStatement(clickHouseDialect, {
      stream: "calls",
      filter: filter.ok,
      order: "newest",
      limit: 7,
    });
    const rows = await reader().read(statement);
    expect(rows).toEqual([{ seq: "9223372036854775807", time_ms: null }, { time_ms: "5" }]);
    const [request] = server.requests;
    if (request === undefined) throw new Error("no request");
    expect(fieldsOf(request)).toEqual({
      query:
        "SELECT log, day, seq, hash, time_ms, line FROM audit_lines WHERE stream = {v0:String} AND time_ms BETWEEN {v1:Int64} AND {v2:Int64} " +
        "AND time_ms >= {v3:Int64} AND day >= {v4:String} AND time_ms < {v5:Int64} AND day <= {v6:String} " +
        "AND (sub = {v7:String}) AND multiSearchAny(lower(line), [{v8:String}]) AND seq BETWEEN {v9:Int64} AND {v10:Int64} " +
        "ORDER BY time_ms DESC, log DESC, seq DESC, hash DESC LIMIT {v11:Int64}",
      param_v0: "calls",
      param_v1: "-8640000000000000",
      param_v2: "8640000000000000",
      param_v3: String(Date.parse("2026-02-15")),
      param_v4: "2026-02-15",
      param_v5: String(Date.parse("2026-02-16")),
      param_v6: "2026-02-15",
      param_v7: 'ä\\n"--',
      param_v8: "x",
      param_v9: "-9007199254740991",
      param_v10: "9007199254740991",
      param_v11: "7",
    });
    expect(partsOf(request).parameters).toEqual({
      database: "audit",
      default_format: "JSON",
      wait_end_of_query: "1",
      final: "1",
      do_not_merge_across_partitions_select_final: "1",
      use_skip_indexes_if_final: "1",
      use_skip_indexes_if_final_exact_mode: "0",
      output_format_json_quote_64bit_integers: "1",
      readonly: "2",
      cancel_http_readonly_queries_on_client_close: "1",
      max_execution_time: "2.5",
    });
  });

  test("no value ends its field", async () => {
    server.answer = () => answer([]);
    await reader().read(sql`SELECT ${"\r\n--stc"}, ${"stc3"}, ${"stc--"}`);
    expect(fieldsOf(server.requests[0] as RawRequest)).toEqual({
      query: "SELECT {v0:String}, {v1:String}, {v2:String}",
      param_v0: "\\r\\n--stc",
      param_v1: "stc3",
      param_v2: "stc--",
    });
  });

  test("credentials are in headers, as UTF-8, and in nothing else", async () => {
    server.answer = () => answer([]);
    await reader().read(sql`SELECT 1`);
    const { head, body } = partsOf(server.requests[0] as RawRequest);
    expect(Buffer.from(/^x-clickhouse-key: (.*)$/m.exec(head)?.[1] ?? "", "latin1").toString()).toBe(PASSWORD);
    expect(head).toMatch(/^x-clickhouse-user: reader\r$/m);
    expect(head.split("\r\n")[0]).not.toMatch(/reader|p%40/);
    expect(body).not.toContain("p@");
  });

  const line = {
    ...({ stream: "calls", day: "2026-02-15", offset: 0, line: "agent-7", log: "a", seq: 0 } as const),
    ...{ members: {}, entry: undefined, timeMs: 0 },
  };

  test("lines are inserted compressed, then their checkpoints, into tables that exist", async () => {
    server.answer = ({ text }) => (text.includes("system.tables") ? answer(TABLES) : raw(200, ""));
    const writer = openClickHouseWriter(url, { retentionDays: undefined });
    const note = { ...line, stream: "checkpoints", covers: "calls", line: "note", seq: 4 } as const;
    expect(await writer.write([line, note])).toEqual({ kind: "taken", rejected: 0 });
    const [, ...inserts] = server.requests.map(partsOf);
    expect(inserts.map(({ parameters }) => parameters["query"]?.split(" (")[0])).toEqual([
      "INSERT INTO audit_lines",
      "INSERT INTO audit_checkpoints",
    ]);
    const [lines, notes] = inserts.map(({ body }) => gunzipSync(Buffer.from(body, "latin1")).toString());
    expect(JSON.parse(lines ?? "")).toMatchObject({ line: "agent-7", time_ms: Number.MIN_SAFE_INTEGER, day: line.day });
    expect(JSON.parse(notes ?? "")).toEqual({ log: "a", stream: "calls", size: 4, note: "note" });
    expect(inserts[0]?.head).toContain("content-encoding: gzip");
    expect(inserts[0]?.parameters).toMatchObject({ wait_for_async_insert: "1", max_partitions_per_insert_block: "0" });
    await writer.close();
  });

  test("a message with many lines fills a store with as many requests as an exporter would send", async () => {
    server.answer = ({ text }) => (text.includes("system.tables") ? answer(TABLES) : raw(200, ""));
    const writer = openClickHouseWriter(url, { retentionDays: undefined });
    const lines = Array.from({ length: 1_200 }, (_, seq) => ({ ...line, line: `line ${seq}`, offset: seq }));
    expect(await new StoreFiller(writer).store(lines)).toEqual([]);
    const stored = server.requests.map(partsOf).flatMap(({ parameters, body }) => {
      if (parameters["query"]?.startsWith("INSERT INTO audit_lines") !== true) return [];
      return [gunzipSync(Buffer.from(body, "latin1")).toString().trimEnd().split("\n")];
    });
    expect(stored.map(({ length }) => length)).toEqual([500, 500, 200]);
    expect(stored.flat().map((row) => JSON.parse(row).line)).toEqual(lines.map(({ line: text }) => text));
    await writer.close();
  });

  test("until when an idle log is complete is stored every 25 seconds: each time is a part on the server's disk", async () => {
    let isAway = false;
    server.answer = () => (isAway ? failed(241) : raw(200, ""));
    const writer = openClickHouseWriter(url, { retentionDays: undefined });
    const at = (seconds: number, stream: "calls" | "journal" = "calls") =>
      writer.settle({ log: "a", stream, nextSeq: 7, untilMs: seconds * 1_000 });
    const taken = { kind: "taken", rejected: 0 } as const;
    for (const seconds of [100, 105, 120, 125]) expect(await at(seconds)).toEqual(taken);
    expect(await at(125, "journal")).toEqual(taken);
    isAway = true;
    expect(await at(150)).toMatchObject({ kind: "later" });
    isAway = false;
    // What failed is tried again at once, and so is the time of a clock that was set back.
    for (const seconds of [155, 160, 40, 45]) expect(await at(seconds)).toEqual(taken);
    const asked = server.requests.map(fieldsOf);
    expect(asked.map(({ param_v0, param_v2 }) => [param_v0, param_v2])).toEqual(
      [100, 125, 125, 150, 155, 40].map((seconds, index) => [
        String(seconds * 1_000),
        index === 2 ? "journal" : "calls",
      ]),
    );
    await writer.close();
  });

  test("only days are dropped, with the oldest day of the server's clock", async () => {
    const now = Date.parse("2026-03-01T12:00:00Z");
    server.answer = ({ text }) => {
      if (text.includes("system.tables")) return answer(TABLES);
      if (text.includes("toUnixTimestamp64Milli")) return answer([{ now_ms: String(now) }]);
      if (text.includes("audit_logs FINAL")) return answer([]);
      return text.includes("DISTINCT") ? answer([{ day: "2026-01-01" }, { day: "' OR 1" }]) : raw(200, "");
    };
    const writer = openClickHouseWriter(url, { retentionDays: 10 });
    expect(await writer.write([line])).toEqual({ kind: "taken", rejected: 0 });
    const asked = server.requests.map(fieldsOf);
    expect(asked.find(({ query }) => query?.includes("DISTINCT"))).toMatchObject({ param_v0: "2026-02-19" });
    expect(asked.filter(({ query }) => query?.startsWith("ALTER"))).toEqual([
      { query: "ALTER TABLE audit_lines DROP PARTITION {v0:String}", param_v0: "2026-01-01" },
    ]);
    expect(writer.upkeep?.()).toEqual({ failures: 0, problem: undefined });
    await writer.close();
  });

  test("of a store that other tenants fill, too, the own lines of old days are deleted, and no checkpoints of others", async () => {
    server.answer = ({ text }) => {
      if (text.includes("toUnixTimestamp64Milli")) return answer([{ now_ms: String(Date.parse("2026-03-01")) }]);
      if (text.includes("DISTINCT")) return answer([{ day: "2026-01-01" }]);
      return answer(text.includes("HAVING") ? [] : [{ log: "other" }]);
    };
    const writer = openClickHouseWriter(url, { retentionDays: 10, tenant: "acme" });
    expect(await writer.write([line])).toEqual({ kind: "taken", rejected: 0 });
    const asked = server.requests.map(fieldsOf);
    const ofOthers = /audit_logs FINAL WHERE coalesce\(tenant, \{v\d:String\}\) <> \{v\d:String\}/;
    expect(asked.filter(({ query }) => query?.startsWith("ALTER") === true)).toEqual([]);
    expect(asked.filter(({ query }) => query?.startsWith("DELETE") === true)).toEqual([
      {
        query: "DELETE FROM audit_lines WHERE day = {v0:String} AND tenant = {v1:String}",
        ...{ param_v0: "2026-01-01", param_v1: "acme" },
      },
    ]);
    const checkpoints = asked.filter(({ query }) => query?.includes("HAVING") === true);
    expect(checkpoints).toHaveLength(2);
    for (const { query } of checkpoints) expect(query).toMatch(ofOthers);
    await writer.close();
  });

  test("the checkpoints of many logs are deleted in few statements: each is a mutation on the server", async () => {
    const day = 20_000;
    const rows = Array.from({ length: 250 }, (_, log) => ({ log: `log-${log}`, stream: "calls", day, kept: log }));
    server.answer = ({ text }) => {
      if (text.includes("system.tables")) return answer(TABLES);
      if (text.includes("toUnixTimestamp64Milli")) return answer([{ now_ms: String(Date.parse("2026-03-01")) }]);
      return text.includes("HAVING") && text.includes("GROUP BY log, stream, day") ? answer(rows) : answer([]);
    };
    const writer = openClickHouseWriter(url, { retentionDays: 30 });
    expect(await writer.write([line])).toEqual({ kind: "taken", rejected: 0 });
    const deletions = server.requests.map(fieldsOf).filter(({ query }) => query?.startsWith("DELETE") === true);
    const named = deletions.map((fields) => Object.values(fields).filter((value) => /^log-\d+$/.test(value)));
    expect(named.map(({ length }) => length)).toEqual([100, 100, 50]);
    expect(named.flat()).toEqual(rows.map(({ log }) => log));
    await writer.close();
  });

  test("a day that cannot be dropped holds up no line, and is reported", async () => {
    server.answer = ({ text }) => {
      if (text.includes("system.tables")) return answer(TABLES);
      if (text.includes("toUnixTimestamp64Milli")) return answer([{ now_ms: String(Date.parse("2026-03-01")) }]);
      if (text.includes("ALTER")) return failed(497, 403);
      return text.includes("DISTINCT") ? answer([{ day: "2026-01-01" }]) : answer([]);
    };
    const writer = openClickHouseWriter(url, { retentionDays: 30 });
    expect(await writer.write([line])).toEqual({ kind: "taken", rejected: 0 });
    expect(writer.upkeep?.()).toEqual({
      failures: 1,
      problem: "the audit store's ClickHouse answers error 497 (privileges are missing)",
    });
    await writer.close();
  });

  test.each([
    ["bad data", "refused", "answers error 27", failed(27, 400)],
    ["a constraint", "refused", "answers error 469", failed(469)],
    ["a missing column", "later", "answers error 16", failed(16)],
    ["no memory", "later", "answers error 241 (memory limit)", failed(241)],
    ["too many parts", "later", "answers error 252 (too many parts)", failed(252)],
    ["wrong credentials", "later", "answers error 516 (wrong user or password)", failed(516, 403)],
    ["missing privileges", "later", "answers error 497 (privileges are missing)", failed(497, 403)],
    ["an error after the status", "later", "answers error 241 (memory limit)", failed(241, 200)],
    ["a proxy", "later", "answers status 400", raw(400, "agent-7")],
    ["a redirect", "later", "answers status 307", raw(307, "", "location: http://127.0.0.1:9/\r\n")],
    ["a lost connection", "later", "cannot be reached: Error ECONNRESET", undefined],
  ] as const)("%s: %s", async (_, kind, reason, text) => {
    server.answer = ({ socket, text: asked }) => {
      if (asked.includes("system.tables")) return answer(TABLES);
      return text ?? socket.end();
    };
    const writer = openClickHouseWriter(url, { retentionDays: undefined });
    const outcome = await writer.write([line]);
    expect(outcome).toMatchObject({ kind, reason: `the audit store's ClickHouse ${reason}` });
    await writer.close();
    const problem = await reader()
      .read(sql`SELECT 1`)
      .catch((error: Error) => error.message);
    expect(problem).toBe(`the audit store's ClickHouse ${reason}`);
  });

  test("an answer that is not whole JSON is an error", async () => {
    server.answer = () => raw(200, '{"data": [{"a": 1}\nCode: 241. DB::Exception: agent-7');
    await expect(reader().read(sql`SELECT 1`)).rejects.toThrow(
      /^the audit store's ClickHouse gave an answer that cannot be read$/,
    );
  });
});
