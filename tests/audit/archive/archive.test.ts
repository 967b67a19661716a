import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { copyOfArchive, fetchLogs } from "../../../src/audit/archive/fetch.ts";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { readExportPosition } from "../../../src/audit/export/positions.ts";
import { agedFiles, pruneFiles } from "../../../src/audit/export/prune.ts";
import { readUnsent } from "../../../src/audit/export/unsent.ts";
import { verifyLog } from "../../../src/audit/verify/verify.ts";
import { logProblems, readRecordedLogs, tenantLogLine } from "../../../src/audit/verify/worker-logs.ts";
import { archiveLog, startArchiving, untilArchived } from "../../support/archived-log.ts";
import { logFiles } from "../../support/audit-files.ts";
import { failure, ObjectStorage } from "../../support/object-storage.ts";
import { until } from "../../support/until.ts";
import { found, keys, temporaryDirectory, writeLog, writeWorkersLogs } from "../support/chained-log.ts";
import { createWorld, draftOf } from "../support/open.ts";

const LATER = Date.parse("2026-03-20T12:00:00.000Z");
const DAY_MS = 86_400_000;

let folder: string;
let dir: string;
let storage: ObjectStorage;
beforeEach(async () => {
  folder = temporaryDirectory();
  dir = join(folder, "audit-logs");
  storage = new ObjectStorage();
});
afterEach(async () => {
  await storage.stop();
  fs.rmSync(folder, { recursive: true });
});

/** Copies the objects into a directory, as any tool for object storage does. */
function copied(): string {
  const copy = fs.mkdtempSync(join(folder, "copy-"));
  for (const [key, object] of storage.objects) {
    fs.mkdirSync(join(copy, key, ".."), { recursive: true });
    fs.writeFileSync(join(copy, key), object);
  }
  return copy;
}

async function fetched(log?: string) {
  const out = fs.mkdtempSync(join(folder, "out-"));
  return fetchLogs(copyOfArchive(copied()), { log, out });
}

const keyOf = (part: string): string => {
  const key = [...storage.objects.keys()].find((one) => one.includes(part));
  if (key === undefined) throw new Error(`no object ${part}`);
  return key;
};
const unpacked = (part: string): string => gunzipSync(storage.objects.get(keyOf(part)) ?? "").toString("utf8");

const keysOf = (part: string): readonly string[] => [...storage.objects.keys()].filter((key) => key.includes(part));
const callsOf = (day: string): string =>
  keysOf("/calls/").find((key) => key.endsWith(`/${day}/000000000000.jsonl.gz`)) ?? "";

/** A call after the others, on the last day. */
async function appendLater(): Promise<void> {
  const world = createWorld(dir);
  world.now = Date.parse("2026-02-19T13:00:00.000Z");
  await world.open({ checkpointKey: keys.privateKey }).append(draftOf("t-later"));
  await world.stop();
}

describe("what is archived", () => {
  test("comes back byte for byte, and verifies with the public key", async () => {
    await writeLog(dir);
    await archiveLog(dir, storage.open());
    expect(readUnsent(dir, "s3").map(({ stream, lines }) => [stream, lines])).toEqual([
      ["calls", 0],
      ["journal", 0],
      ["checkpoints", 0],
    ]);
    const [log, ...others] = await fetched();
    expect(others).toEqual([]);
    expect(log).toMatchObject({ directory: logIdIn(dir, "journal"), problems: [] });
    expect(logFiles(log?.dir ?? "")).toEqual(logFiles(dir));
    expect(found(log?.dir ?? "")).toBe("sound");
    const { streams } = verifyLog({ dir: log?.dir ?? "", keys: [keys.publicKey] });
    expect(streams.map(({ stream, lines }) => [stream, lines])).toEqual([
      ["calls", 15],
      ["journal", 12],
    ]);
  });

  test("is named by the ids of the logs, the day and the position, below the prefix", async () => {
    await writeLog(dir);
    await archiveLog(dir, storage.open({ prefix: "fleet/audit" }));
    const [journal, calls] = [logIdIn(dir, "journal"), logIdIn(dir, "calls")];
    const days = ["2026-02-16", "2026-02-17", "2026-02-19"];
    expect([...storage.objects.keys()].sort()).toEqual([
      ...days.map((day) => `fleet/audit/${journal}/calls/${calls}/${day}/000000000000.jsonl.gz`),
      ...days.map((day) => `fleet/audit/${journal}/checkpoints/${day}/000000000000.txt.gz`),
      ...days.map((day) => `fleet/audit/${journal}/journal/${day}/000000000000.jsonl.gz`),
    ]);
    // An object is written only if there is none, and its digest is sent along.
    for (const { method, headers } of storage.requests.filter((one) => one.method === "PUT")) {
      expect([method, headers.get("if-none-match")]).toEqual(["PUT", "*"]);
      expect(headers.get("content-md5")).toMatch(/^[A-Za-z0-9+/]{22}==$/);
    }
  });

  test("new lines wait for the interval, and are a part of their own; half a line waits", async () => {
    let now = LATER;
    await writeLog(dir);
    const exporters = startArchiving(dir, storage.open({ intervalMs: 60_000 }), { clock: () => now });
    await untilArchived(exporters);
    const path = join(dir, "2026-02-19.jsonl");
    const before = fs.statSync(path).size;
    await appendLater();
    const line = fs.readFileSync(path, "utf8").slice(before);
    fs.appendFileSync(path, '{"timestamp":"2026-02-19T13:');
    const puts = () => storage.requests.filter(({ method }) => method === "PUT").length;
    const first = puts();
    await Bun.sleep(50);
    expect(puts()).toBe(first);
    expect(exporters[0]?.state()).toMatchObject({ failures: 0, failingSince: undefined });
    now += 60_000;
    const part = `2026-02-19/${String(before).padStart(12, "0")}.jsonl.gz`;
    await until("the part", () => [...storage.objects.keys()].some((key) => key.endsWith(part)) || undefined);
    expect(unpacked(part)).toBe(line);
    await Promise.all(exporters.map((exporter) => exporter.stop()));
  });

  test("the age of a checkpoint that waits counts from when nothing was left to store", async () => {
    let now = LATER;
    let readings = 0;
    const clock = (): number => {
      readings += 1;
      return now;
    };
    await writeLog(dir);
    const exporters = startArchiving(dir, storage.open({ intervalMs: 60_000 }), { clock });
    await untilArchived(exporters);
    now += 30_000;
    const before = readings;
    await until("each exporter to look for more", () => (readings > before + 30 ? true : undefined));
    await appendLater();
    now += 20_000;
    expect(exporters.at(-1)?.state()).toMatchObject({ stream: "checkpoints", secondsBehind: 20, failures: 0 });
    await Promise.all(exporters.map((exporter) => exporter.stop()));
  });

  test("lines that were written while an upload failed wait for no further interval", async () => {
    let now = LATER;
    await writeLog(dir);
    let isAway = true;
    const path = join(dir, "2026-02-19.jsonl");
    const before = fs.statSync(path).size;
    const lastDay = `/2026-02-19/${"0".repeat(12)}.jsonl.gz`;
    storage.answer = ({ method, key }) =>
      isAway && method === "PUT" && key.includes("/calls/") && key.endsWith(lastDay)
        ? failure(503, "SlowDown")
        : undefined;
    const exporters = startArchiving(dir, storage.open({ intervalMs: 60_000 }), { clock: () => now });
    await until("a failure", () => exporters.some((one) => one.state().failures > 0) || undefined);
    await appendLater();
    now += 2 * 3_600_000;
    isAway = false;
    const part = `2026-02-19/${String(before).padStart(12, "0")}.jsonl.gz`;
    await until("the part", () => [...storage.objects.keys()].some((key) => key.endsWith(part)) || undefined);
    await Promise.all(exporters.map((exporter) => exporter.stop()));
  });

  test("a stop stores what is left, however long it would have waited", async () => {
    await writeLog(dir);
    const exporters = startArchiving(dir, storage.open(), { clock: () => LATER });
    await untilArchived(exporters);
    await appendLater();
    await Promise.all(exporters.map((exporter) => exporter.stop(60_000)));
    const [log] = await fetched();
    expect(logFiles(log?.dir ?? "")).toEqual(logFiles(dir));
  });

  test("a long day is in several parts, which are the day's file one after the other", async () => {
    fs.mkdirSync(dir);
    const world = createWorld(dir);
    const log = world.open({ checkpointKey: keys.privateKey });
    await log.journal({ type: "intent", traceId: "t", tool: "bash", sub: "agent-1" });
    const args = { text: "é".repeat(15_000) };
    for (let call = 0; call < 300; call += 1) {
      await log.append(draftOf(`t-${call}`, { request: { args, argsHash: "00", hashAlg: "sha256" } }));
    }
    await world.stop();
    await archiveLog(dir, storage.open());
    const parts = keysOf("/calls/").toSorted();
    expect(parts).toHaveLength(2);
    const bytes = Buffer.concat(parts.map((key) => storage.objects.get(key) ?? Buffer.alloc(0)));
    // gzip files one after the other are a gzip file.
    expect(gunzipSync(bytes).equals(fs.readFileSync(join(dir, "2026-02-16.jsonl")))).toBe(true);
    const [log2] = await fetched();
    expect(found(log2?.dir ?? "")).toBe("sound");
  });

  test("the record of deleted days, when the archive begins after them", async () => {
    await writeLog(dir);
    const options = { dir, nowMs: LATER, keepMs: 30 * DAY_MS };
    await pruneFiles(agedFiles(options), options);
    expect(fs.existsSync(join(dir, "2026-02-16.jsonl"))).toBe(false);
    await archiveLog(dir, storage.open());
    const [log] = await fetched();
    expect(found(log?.dir ?? "")).toBe("sound");
    expect(verifyLog({ dir: log?.dir ?? "", keys: [] }).streams[0]?.prunedTo).toBeGreaterThan(0);
  });
});

describe("the archive and the log's own files", () => {
  test("a day is deleted here only when it is archived", async () => {
    await writeLog(dir);
    const options = { dir, nowMs: LATER, keepMs: DAY_MS, exporters: ["s3"] };
    expect(agedFiles(options).map(({ keptBecause }) => keptBecause)).toContain("the exporter s3 has not sent it yet");
    await archiveLog(dir, storage.open());
    const aged = await pruneFiles(agedFiles(options), options);
    expect(
      aged.filter(({ keptBecause }) => keptBecause === undefined).map(({ stream, day }) => `${stream} ${day}`),
    ).toEqual(["calls 2026-02-16", "calls 2026-02-17", "journal 2026-02-16", "journal 2026-02-17"]);
    // The archive still holds everything.
    const [log] = await fetched();
    expect(found(log?.dir ?? "")).toBe("sound");
    expect(verifyLog({ dir: log?.dir ?? "", keys: [keys.publicKey] }).streams[0]?.lines).toBe(15);
  });

  test("lines of another day than the file's are not archived", async () => {
    await writeLog(dir);
    fs.renameSync(join(dir, "2026-02-16.jsonl"), join(dir, "2026-02-15.jsonl"));
    const reports: string[] = [];
    const exporters = startArchiving(dir, storage.open(), { reports });
    await until("a report", () => reports[0]);
    await Promise.all(exporters.map((exporter) => exporter.stop()));
    expect(reports).toContain(
      "the audit's calls cannot be exported to s3: local error: 2026-02-15.jsonl holds lines of another day: stc audit verify shows more",
    );
    expect(keysOf("/calls/")).toEqual([]);
  });
});

describe("what goes wrong", () => {
  test("a process that is killed after an upload, before it notes that, continues after the part", async () => {
    await writeLog(dir);
    await archiveLog(dir, storage.open());
    const objects = new Map(storage.objects);
    fs.rmSync(join(dir, "export"), { recursive: true });
    await appendLater();
    await archiveLog(dir, storage.open());
    for (const [key, object] of objects) expect([key, storage.objects.get(key)?.equals(object)]).toEqual([key, true]);
    const [log] = await fetched();
    expect(logFiles(log?.dir ?? "")).toEqual(logFiles(dir));
    expect(found(log?.dir ?? "")).toBe("sound");
  });

  test("an upload that breaks off, or is refused for a while, is repeated until it is whole", async () => {
    await writeLog(dir);
    const answers = [
      () => failure(503, "SlowDown"),
      () => failure(403, "RequestTimeTooSkewed"),
      () => failure(409, "ConditionalRequestConflict"),
      () => new Response("", { status: 307, headers: { location: "http://127.0.0.1:1/" } }),
    ];
    storage.answer = ({ method }) => (method === "PUT" ? answers.shift()?.() : undefined);
    const reports: string[] = [];
    await archiveLog(dir, storage.open(), { reports });
    expect(answers).toEqual([]);
    expect(reports.join("\n")).toMatch(/s3 does not accept the audit's \w+: status 503 SlowDown/);
    const [log] = await fetched();
    expect(logFiles(log?.dir ?? "")).toEqual(logFiles(dir));
  });

  test("an object that the server has cut or lost after the upload is noticed, and nothing counts as archived", async () => {
    await writeLog(dir);
    storage.answer = ({ method, key }) => {
      const object = storage.objects.get(key);
      if (method === "GET" && object !== undefined) storage.objects.set(key, object.subarray(0, 100));
      return undefined;
    };
    const reports: string[] = [];
    const exporters = startArchiving(dir, storage.open(), { reports });
    await until("conflicts", () => exporters.every((one) => one.state().conflicts > 0) || undefined);
    await Promise.all(exporters.map((exporter) => exporter.stop()));
    expect(readExportPosition(dir, "s3", "calls").position).toBeUndefined();
    expect(reports[0]).toMatch(/\.gz holds other content than the log$/);
  });

  test.each<readonly [string, (key: string) => Buffer]>([
    ["another log's lines", () => gzipSync("other\n")],
    ["no gzip file", () => Buffer.from("other")],
    ["nothing", () => gzipSync("")],
    ["more than the log has", (key) => gzipSync(`${gunzipSync(storage.objects.get(key) ?? "")}more\n`)],
    ["more than a part can have", () => Buffer.alloc(9_000_000)],
    ["a file that unpacks to far more", () => gzipSync(Buffer.alloc(100_000_000))],
  ])("an object that holds %s is not replaced, and names the conflict", async (_, contentOf) => {
    await writeLog(dir);
    await archiveLog(dir, storage.open());
    const key = keyOf("calls");
    const content = contentOf(key);
    storage.objects.set(key, content);
    fs.rmSync(join(dir, "export"), { recursive: true });
    const reports: string[] = [];
    const exporters = startArchiving(dir, storage.open(), { reports });
    const [calls] = exporters;
    await until("a conflict", () => calls?.state().conflicts || undefined);
    expect(calls?.state()).toMatchObject({ sentLines: 0, exporter: "s3" });
    await Promise.all(exporters.map((exporter) => exporter.stop()));
    expect(reports).toContain(`s3 does not accept the audit's calls: ${key} holds other content than the log`);
    expect(storage.objects.get(key)?.equals(content)).toBe(true);
    expect(readExportPosition(dir, "s3", "calls").position).toBeUndefined();
  });

  test("a server without conditional writes gets none, once it has refused one", async () => {
    await writeLog(dir);
    storage.answer = ({ method, headers }) =>
      method === "PUT" && headers.has("if-none-match") ? failure(501, "NotImplemented") : undefined;
    const exporters = startArchiving(dir, storage.open());
    await untilArchived(exporters);
    expect(exporters.map((exporter) => exporter.state().failures)).toEqual([0, 0, 0]);
    await Promise.all(exporters.map((exporter) => exporter.stop()));
    const [log] = await fetched();
    expect(logFiles(log?.dir ?? "")).toEqual(logFiles(dir));
  });

  test("a stop ends a request that gets no answer", async () => {
    await writeLog(dir);
    storage.answer = () => new Promise(() => {});
    const exporters = startArchiving(dir, storage.open());
    await until("a request", () => storage.requests[0]);
    await Promise.all(exporters.map((exporter) => exporter.stop()));
    expect(exporters.map((exporter) => exporter.state().failures)).toEqual([0, 0, 0]);
  });
});

describe("damage in the archive is named", () => {
  const cutTo = (key: string, lines: number): void => {
    const text = gunzipSync(storage.objects.get(key) ?? "")
      .toString("utf8")
      .split("\n")
      .slice(0, lines);
    storage.objects.set(key, gzipSync(text.map((line) => `${line}\n`).join("")));
  };

  test.each<readonly [string, () => unknown, string, RegExp]>([
    ["a day that is gone", () => storage.objects.delete(keyOf("journal/2026-02-17")), "", /^gap journal/],
    [
      "a part that is cut",
      () => {
        const key = keyOf("journal/2026-02-17");
        storage.objects.set(key, (storage.objects.get(key) ?? Buffer.alloc(0)).subarray(0, 200));
      },
      "DIRECTORY/journal/2026-02-17/000000000000.jsonl.gz cannot be read: unexpected end of file",
      /^gap journal/,
    ],
    [
      "a line that is changed",
      () => {
        const key = callsOf("2026-02-17");
        storage.objects.set(key, gzipSync(unpacked(key).replace("agent-1", "agent-2")));
      },
      "",
      /^changed /,
    ],
    ["the newest lines of the calls cut off", () => cutTo(callsOf("2026-02-19"), 2), "", /^cut off 2026-02-19/],
    ["the whole of the calls gone", () => keysOf("/calls/").map((key) => storage.objects.delete(key)), "", /^cut off /],
  ])("%s", async (_, damage, problem, kind) => {
    await writeLog(dir);
    await archiveLog(dir, storage.open());
    damage();
    const [log] = await fetched();
    expect(log?.problems.join().replace(log.directory, "DIRECTORY")).toBe(problem);
    expect(found(log?.dir ?? "")).toMatch(kind);
  });

  test("a part between others that is gone, with the bytes that are missing", async () => {
    await writeLog(dir);
    await archiveLog(dir, storage.open());
    const end = fs.statSync(join(dir, "2026-02-19.jsonl")).size;
    await appendLater();
    await archiveLog(dir, storage.open());
    storage.objects.delete(callsOf("2026-02-19"));
    const [log] = await fetched();
    expect(log?.problems).toEqual([`2026-02-19.jsonl: bytes 0 to ${end} are not in the archive`]);
    expect(found(log?.dir ?? "")).toMatch(/^gap 2026-02-19/);
  });

  test("objects of others in the bucket are not read", async () => {
    await writeLog(dir);
    await archiveLog(dir, storage.open());
    const directory = logIdIn(dir, "journal");
    for (const key of ["README", `${directory}/notes.txt`, `${directory}/journal/2026-02-16/0.jsonl.gz`, "x/../y"]) {
      storage.objects.set(key, Buffer.from("x"));
    }
    const [log, ...others] = await fetched();
    expect([log?.parts, log?.problems, others]).toEqual([9, [], []]);
    expect(logFiles(log?.dir ?? "")).toEqual(logFiles(dir));
  });
});

test("the logs of tenants come back in their service's directory, where the archive has them", async () => {
  const acme = join(dir, "tenants", "acme");
  const origins = await writeLog(acme, undefined, { tenant: "acme" });
  await writeLog(dir, undefined, { journal: [tenantLogLine("acme", origins)] });
  for (const one of [dir, acme]) await archiveLog(one, storage.open());
  const logs = await fetched();
  const parent = logs.find(({ directory }) => directory === logIdIn(dir, "journal"))?.dir ?? "";
  expect(logs.map((log) => log.dir).sort()).toEqual([parent, join(parent, "tenants", "acme")]);
  expect(logProblems(parent, readRecordedLogs(parent))).toEqual([]);
});

test("the logs of workers come back in their service's directory", async () => {
  await writeWorkersLogs(dir);
  for (const one of [dir, join(dir, "worker-1"), join(dir, "worker-2")]) await archiveLog(one, storage.open());
  const logs = await fetched();
  const parent = logs.find(({ directory }) => directory === logIdIn(dir, "journal"))?.dir ?? "";
  expect(logs.map((log) => log.dir).sort()).toEqual([parent, join(parent, "worker-1"), join(parent, "worker-2")]);
  expect(logProblems(parent, readRecordedLogs(parent))).toEqual([]);
  expect(found(join(parent, "worker-2"))).toBe("sound");
});
