import { afterAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { type Params, readCursor, readQuery } from "../../../src/audit/query/params.ts";
import { search } from "../../../src/audit/query/query.ts";
import { entryLine, refusedLine, writeDays, writeGeneratedDay } from "../../support/audit-lines.ts";

const NOW = Date.parse("2026-02-17T12:00:00.000Z");
const folder = mkdtempSync(join(tmpdir(), "stc-query-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function newDir(days: Readonly<Record<string, readonly string[]>> = {}): string {
  const dir = mkdtempSync(join(folder, "audit-"));
  writeDays(dir, days);
  return dir;
}

function queryOf(params: Params) {
  const read = readQuery(params, { limit: 100, limitMax: 1_000_000, nowMs: NOW });
  if ("faults" in read) throw new Error(read.faults.join("; "));
  return read.ok;
}

async function find(dir: string, params: Params) {
  return search({ dir, query: queryOf(params), pageBytesMax: 1e9 });
}

async function traces(dir: string, params: Params): Promise<readonly (string | undefined)[]> {
  return (await find(dir, params)).found.map(({ entry }) => entry.traceId);
}

const W3C = "4bf92f3577b34da6a3ce929d0e0e4736";
const dir = newDir({
  "2026-02-15": [entryLine("2026-02-15T23:59:59.999Z", { traceId: "t-1" })],
  "2026-02-16": [
    entryLine("2026-02-16T00:00:00.000Z", {
      traceId: "t-2",
      caller: { sub: "agent-8", permissions: [], iss: "https://b.test" },
    }),
    refusedLine("2026-02-16T10:00:00.000Z", ["INVALID_INPUT", "VALIDATION"], { traceId: "t-3", duration: 1 }),
    refusedLine("2026-02-16T11:00:00.000Z", ["TOOL_NOT_FOUND", "REGISTRY"], {
      traceId: "t-4",
      tool: { name: "get_customer2", classification: "unknown", targetSystem: "unknown" },
    }),
    entryLine("2026-02-16T12:00:00.000Z", {
      traceId: "t-5",
      tool: { name: "git_log", classification: "write", targetSystem: "git" },
      trace: { traceId: W3C },
      approval: { by: "person", id: "a-1" },
      request: { args: { ref: "Größe", note: 'say "hi"' }, argsHash: "x", hashAlg: "sha256" },
    }),
  ],
  "2026-02-17": [entryLine("2026-02-17T11:59:00.000Z", { traceId: "t-6", caller: { sub: 'od"d\\', permissions: [] } })],
});

describe("filters", () => {
  test.each<[string, Params, readonly string[]]>([
    ["nothing", {}, ["t-6", "t-5", "t-4", "t-3", "t-2", "t-1"]],
    ["oldest first", { order: "oldest" }, ["t-1", "t-2", "t-3", "t-4", "t-5", "t-6"]],
    ["sub", { sub: "agent-8" }, ["t-2"]],
    ["a sub that JSON escapes", { sub: 'od"d\\' }, ["t-6"]],
    ["a part of a sub", { sub: "agent" }, []],
    ["issuer", { iss: "https://b.test" }, ["t-2"]],
    ["tool", { tool: "get_customer" }, ["t-6", "t-3", "t-2", "t-1"]],
    ["system", { system: "git" }, ["t-5"]],
    ["decision", { decision: "DENIED" }, ["t-4", "t-3"]],
    ["stage", { stage: "REGISTRY" }, ["t-4"]],
    ["code", { code: "INVALID_INPUT" }, ["t-3"]],
    ["classification", { classification: "unknown" }, ["t-4"]],
    ["trace id", { traceId: "t-3" }, ["t-3"]],
    ["W3C trace id, in capitals", { traceId: W3C.toUpperCase() }, ["t-5"]],
    ["approval", { approval: "a-1" }, ["t-5"]],
    ["text in another case", { text: "GET_CUSTOMER2" }, ["t-4"]],
    ["text beyond ASCII", { text: "grÖße" }, []],
    ["text beyond ASCII, as written", { text: "gRöße" }, ["t-5"]],
    ["text with quotes, as they stand in the line", { text: 'SAY \\"hi\\"' }, ["t-5"]],
    ["text of digits", { text: "3577" }, ["t-5"]],
    ["a text that is a pattern elsewhere", { text: "(a+)+$" }, []],
    ["two filters", { tool: "get_customer", decision: "DENIED" }, ["t-3"]],
    ["filters that exclude each other", { tool: "git_log", decision: "DENIED" }, []],
    ["from is included", { from: "2026-02-16T10:00:00Z", to: "2026-02-16T12:00:00Z" }, ["t-4", "t-3"]],
    ["one day", { from: "yesterday", to: "today" }, ["t-5", "t-4", "t-3", "t-2"]],
    ["the last minutes", { from: "5m" }, ["t-6"]],
    ["limit", { limit: "2" }, ["t-6", "t-5"]],
    ["a value of another field", { tool: "agent-8" }, []],
  ])("%s", async (_title, params, want) => {
    expect(await traces(dir, params)).toEqual([...want]);
  });

  test.each<[Params, string]>([
    [{ from: "2026-02-30" }, "from must be a time such as"],
    [{ from: "today", to: "yesterday" }, "from must be earlier than to"],
    [{ decision: "denied" }, "decision must be one of ALLOWED"],
    [{ stage: "AUDITS" }, "stage must be one of REQUEST"],
    [{ code: "NOPE" }, "code must be one of MALFORMED_REQUEST"],
    [{ classification: "all" }, "classification must be one of"],
    [{ sub: "" }, "sub must have 1 to 512 characters"],
    [{ text: "x".repeat(513) }, "text must have 1 to 512 characters"],
    [{ limit: "0" }, "limit must be a whole number"],
    [{ limit: "1e3" }, "limit must be a whole number"],
    [{ order: "random" }, "order must be newest or oldest"],
    [{ colour: "red" }, "colour is not a parameter here"],
    [{ cursor: "../../etc/passwd" }, "cursor is not one of this query"],
  ])("%p is refused", (params, message) => {
    const read = readQuery(params, { limit: 100, limitMax: 1_000, nowMs: NOW });
    expect("faults" in read ? read.faults.join() : "").toContain(message);
  });
});

describe("other files in the directory", () => {
  test("torn ends, foreign lines and files of other names are skipped", async () => {
    const mixed = newDir({
      "2026-02-16": [
        "",
        "{",
        "null",
        "[1]",
        '{"timestamp":"soon"}',
        entryLine("2026-02-16T01:00:00.000Z", { traceId: "ok" }),
      ],
    });
    appendFileSync(join(mixed, "2026-02-16.jsonl"), entryLine("2026-02-16T02:00:00.000Z", { traceId: "torn" }));
    writeFileSync(join(mixed, "2026-02-12.jsonl.bak"), `${entryLine("2026-02-12T02:00:00.000Z")}\n`);
    expect(await traces(mixed, {})).toEqual(["ok"]);
    expect(await traces(mixed, { order: "oldest" })).toEqual(["ok"]);
    expect(await traces(mixed, { tool: "get_customer" })).toEqual(["ok"]);
  });

  test.each<[string, (path: string) => void, string]>([
    ["a link", (path) => symlinkSync(join(dir, "2026-02-16.jsonl"), path), "cannot read "],
    ["a folder", (path) => void mkdirSync(path), "it is not a regular file: move it away"],
  ])("%s in place of a day's file is reported when that day is queried", async (_title, make, message) => {
    const planted = newDir({ "2026-02-16": [entryLine("2026-02-16T01:00:00.000Z", { traceId: "ok" })] });
    make(join(planted, "2026-02-14.jsonl"));
    await expect(find(planted, {})).rejects.toThrow(message);
    expect(await traces(planted, { from: "2026-02-15" })).toEqual(["ok"]);
  });

  test("fields in another order, spaces and old lines are read as well", async () => {
    const foreign = newDir({
      "2026-02-16": [
        '{ "tool" : {"targetSystem":"git", "name" : "git_log"}, "timestamp" : "2026-02-16T01:00:00.000Z", "traceId":"x" }',
      ],
    });
    expect(await traces(foreign, { tool: "git_log", from: "2026-02-16", to: "2026-02-17" })).toEqual(["x"]);
    expect(await traces(foreign, { from: "2026-02-16T02:00", to: "2026-02-17" })).toEqual([]);
  });

  test("a line longer than any of ours hides no other", async () => {
    const long = newDir({ "2026-02-16": [entryLine("2026-02-16T01:00:00.000Z", { traceId: "a" })] });
    appendFileSync(join(long, "2026-02-16.jsonl"), `${"x".repeat(3_000_000)}\n`);
    writeDays(long, { "2026-02-16": [entryLine("2026-02-16T02:00:00.000Z", { traceId: "b" })] });
    expect(await traces(long, {})).toEqual(["b", "a"]);
    expect(await traces(long, { order: "oldest", text: 'TRACEID":"B"' })).toEqual(["b"]);
  });

  test("without a directory there is no result", async () => {
    expect(await traces(join(folder, "nowhere"), {})).toEqual([]);
  });
});

describe("pages", () => {
  const many = newDir();
  const days = ["2026-02-14", "2026-02-15", "2026-02-16"];
  for (const day of days) writeGeneratedDay(many, day, 2_000);

  async function walk(params: Params, between: () => void = () => {}): Promise<readonly string[]> {
    const lines: string[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < 10_000; page += 1) {
      const { found, more, cursor: next } = await find(many, { ...params, ...(cursor !== undefined && { cursor }) });
      lines.push(...found.map(({ day, offset }) => `${day}:${offset}`));
      if (!more) return lines;
      cursor = next;
      between();
    }
    throw new Error("pages without end");
  }

  test.each<[string, Params]>([
    ["newest first", { limit: "700" }],
    ["oldest first", { limit: "700", order: "oldest" }],
    ["a rare caller", { limit: "1", sub: "agent-77" }],
    ["a range", { limit: "333", from: "2026-02-14T12:00", to: "2026-02-16T06:00" }],
    ["a text", { limit: "50", text: "c-77" }],
  ])("%s: every line once, in order, as in one page", async (_title, params) => {
    const whole = await find(many, { ...params, limit: "1000000" });
    const lines = await walk(params);
    expect(lines).toEqual(whole.found.map(({ day, offset }) => `${day}:${offset}`));
    expect(lines.length).toBeGreaterThan(5);
  });

  test("lines and days added in between shift nothing; oldest first they appear at the end", async () => {
    const growing = newDir({
      "2026-02-16": [1, 2, 3].map((at) => entryLine(`2026-02-16T0${at}:00:00.000Z`, { traceId: `t-${at}` })),
    });
    const newest = await find(growing, { limit: "2" });
    const oldest = await find(growing, { limit: "2", order: "oldest" });
    writeDays(growing, {
      "2026-02-16": [entryLine("2026-02-16T04:00:00.000Z", { traceId: "t-4" })],
      "2026-02-17": [entryLine("2026-02-17T04:00:00.000Z", { traceId: "t-5" })],
    });
    expect(await traces(growing, { limit: "2", cursor: newest.cursor })).toEqual(["t-1"]);
    expect(await traces(growing, { limit: "9", order: "oldest", cursor: oldest.cursor })).toEqual([
      "t-3",
      "t-4",
      "t-5",
    ]);
  });

  test("the end of an oldest-first query continues with new lines, even partial ones", async () => {
    const growing = newDir({ "2026-02-16": [entryLine("2026-02-16T01:00:00.000Z", { traceId: "t-1" })] });
    const line = entryLine("2026-02-16T02:00:00.000Z", { traceId: "t-2" });
    appendFileSync(join(growing, "2026-02-16.jsonl"), line.slice(0, 20));
    const first = await find(growing, { order: "oldest" });
    expect([first.found.length, first.more]).toEqual([1, false]);
    appendFileSync(join(growing, "2026-02-16.jsonl"), `${line.slice(20)}\n`);
    expect(await traces(growing, { order: "oldest", cursor: first.cursor })).toEqual(["t-2"]);
  });

  test("a day deleted in between is skipped", async () => {
    const shrinking = newDir({
      "2026-02-14": [entryLine("2026-02-14T01:00:00.000Z", { traceId: "t-1" })],
      "2026-02-15": [1, 2].map((at) => entryLine(`2026-02-15T0${at}:00:00.000Z`, { traceId: `t-${at + 1}` })),
    });
    const { cursor } = await find(shrinking, { limit: "1" });
    rmSync(join(shrinking, "2026-02-15.jsonl"));
    expect(await traces(shrinking, { cursor })).toEqual(["t-1"]);
  });

  test("a page ends when its work limit is reached, and the next one continues there", async () => {
    const query = queryOf({ sub: "agent-3" });
    const page = await search({ dir: many, query, pageBytesMax: 1e9, mayGoOn: () => false });
    expect(page.more).toBe(true);
    const rest = await find(many, { sub: "agent-3", cursor: page.cursor });
    expect(page.found.length + rest.found.length).toBe((await find(many, { sub: "agent-3" })).found.length);
  });

  test("a page ends when its size limit is reached", async () => {
    const page = await search({ dir: many, query: queryOf({}), pageBytesMax: 5_000 });
    expect(page.found.length).toBeLessThan(10);
    expect(page.more).toBe(true);
  });

  test("3h on the second page means the three hours of the first", async () => {
    const { cursor } = await find(dir, { from: "24h", limit: "1" });
    const later = readQuery({ from: "24h", cursor }, { limit: 9, limitMax: 9, nowMs: NOW + 86_400_000 });
    expect("ok" in later && later.ok.filter.fromMs).toBe(NOW - 86_400_000);
  });

  test("a cursor belongs to its filters and its order", async () => {
    const { cursor } = await find(dir, { limit: "1" });
    for (const params of [{ cursor, sub: "agent-7" }, { cursor, order: "oldest" }, { cursor: `${cursor}x` }]) {
      expect(readQuery(params, { limit: 9, limitMax: 9, nowMs: NOW })).toHaveProperty("faults");
    }
  });

  test("no text makes a cursor that could name a file", () => {
    const members = fc.array(fc.oneof(fc.string(), fc.integer(), fc.constant(null), fc.constant("newest")), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(
        fc.oneof(
          members.map((list) => Buffer.from(JSON.stringify(list)).toString("base64url")),
          fc.string(),
        ),
        (text) => {
          const cursor = readCursor(text);
          return cursor === undefined || /^\d{4}-\d{2}-\d{2}$/.test(cursor.day);
        },
      ),
    );
  });
});

test("any filter finds the same as a simple scan of the lines", async () => {
  const texts = fc.constantFrom("a", "b", "agent", 'q"', "Ä", "x\\y", "DENIED", "a-1");
  const entry = fc.record({ traceId: texts, sub: texts, tool: texts, id: texts });
  await fc.assert(
    fc.asyncProperty(
      fc.array(entry, { maxLength: 12 }),
      fc.record({ sub: fc.option(texts), tool: fc.option(texts), text: fc.option(texts) }),
      async (entries, asked) => {
        const lines = entries.map(({ traceId, sub, tool, id }, at) =>
          entryLine(new Date(NOW + at).toISOString(), {
            traceId,
            caller: { sub, permissions: [] },
            tool: { name: tool, classification: "read", targetSystem: "s" },
            approval: { by: "x", id },
          }),
        );
        const there = newDir({ "2026-02-17": lines });
        const params = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== null)) as Params;
        const lower = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
        const want = entries.flatMap((one, at) => {
          const line = lines[at] ?? "";
          const isWanted =
            (asked.sub === null || one.sub === asked.sub) &&
            (asked.tool === null || one.tool === asked.tool) &&
            (asked.text === null || lower(line).includes(lower(asked.text)));
          return isWanted ? [line] : [];
        });
        const page = await find(there, { ...params, order: "oldest" });
        expect(page.found.map(({ line }) => line)).toEqual(want);
      },
    ),
    { numRuns: 60 },
  );
});
