import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { eachNote, readCheckpoint } from "../../../src/audit/chain/checkpoint.ts";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { verifyNote } from "../../../src/audit/chain/signed-note.ts";
import { Exporter, type ExporterTarget, startExporters } from "../../../src/audit/export/exporter.ts";
import { type ExportStream, readExportPosition } from "../../../src/audit/export/positions.ts";
import { agedFiles, pruneFiles } from "../../../src/audit/export/prune.ts";
import { readHeaders } from "../../../src/audit/export/sender.ts";
import { streamDir } from "../../../src/audit/journal/day-files.ts";
import { present } from "../../../src/core/present.ts";
import { createMetrics } from "../../../src/http/metrics.ts";
import { dayFilesText } from "../../support/audit-files.ts";
import { entryLine, refusedLine, writeDays } from "../../support/audit-lines.ts";
import { openReceiver } from "../../support/receivers.ts";
import { until } from "../../support/until.ts";
import { CALLS_A_DAY, keys, writeLog } from "../support/chained-log.ts";
import { draftOf } from "../support/open.ts";

const DAY = "2026-02-16";
const NOW = Date.parse("2026-02-16T12:00:00.000Z");

interface Request {
  readonly path: string;
  readonly authorization: string | null;
  readonly body: string;
}

function ids(body: string): readonly string[] {
  return [...body.matchAll(/\\"traceId\\":\\"(t-\d+)/g)].map(([, id = ""]) => id);
}

function hanging(): Promise<Response> {
  return new Promise(() => {});
}

/** A far side that answers as the test says, and keeps what it took. */
class FarSide {
  readonly requests: Request[] = [];
  answer: (request: Request) => Response | Promise<Response> = () => new Response("{}");
  readonly #server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (incoming) => {
      const request = {
        path: new URL(incoming.url).pathname,
        authorization: incoming.headers.get("authorization"),
        body: await incoming.text(),
      };
      this.requests.push(request);
      return this.answer(request);
    },
  });
  readonly url = `http://127.0.0.1:${this.#server.port}`;

  /** Trace ids of what was sent, in order. */
  ids(): readonly string[] {
    return this.requests.flatMap(({ body }) => ids(body));
  }

  async stop(): Promise<void> {
    await this.#server.stop(true);
  }
}

let dir: string;
let far: FarSide;
let exporters: Exporter[] = [];
let reports: string[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "stc-export-"));
  far = new FarSide();
  reports = [];
});
afterEach(async () => {
  await Promise.all(exporters.map((exporter) => exporter.stop()));
  exporters = [];
  await far.stop();
  rmSync(dir, { recursive: true, force: true });
});

function start(
  type: "otlp" | "loki" = "otlp",
  stream: ExportStream = "calls",
  more: { readonly pollMs?: number; readonly backoffMs?: number; readonly clock?: () => number } = {},
): Exporter {
  const exporter = new Exporter({
    dir,
    stream,
    target: {
      name: type,
      receiver: openReceiver({ type, url: far.url, headers: "authorization: Bearer secret", dir }),
    },
    clock: () => NOW,
    random: () => 0,
    report: (message) => reports.push(message),
    pollMs: 5,
    backoffMs: 5,
    ...more,
  });
  exporters.push(exporter);
  return exporter;
}

const line = (number: number, day = DAY): string => entryLine(`${day}T10:00:00.000Z`, { traceId: `t-${number}` });
const arrived = (...ids: readonly string[]): Promise<true> =>
  until(`${ids} to arrive`, () => (far.ids().join() === ids.join() ? true : undefined));
const caughtUp = (exporter: Exporter): Promise<true> =>
  until("the end of the log", () => (exporter.state().bytesBehind === 0 ? true : undefined));

describe("delivery", () => {
  test("existing lines, new lines and the next day; half a line waits", async () => {
    writeDays(dir, { "2026-02-15": [line(1, "2026-02-15")], [DAY]: [line(2)] });
    const exporter = start();
    await arrived("t-1", "t-2");
    appendFileSync(join(dir, `${DAY}.jsonl`), line(3).slice(0, 30));
    appendFileSync(join(dir, `${DAY}.jsonl`), `${line(3).slice(30)}\n`);
    writeDays(dir, { "2026-02-17": [line(4, "2026-02-17")] });
    await arrived("t-1", "t-2", "t-3", "t-4");
    await caughtUp(exporter);
    expect(exporter.state()).toMatchObject({ sentLines: 4, deadLines: 0, failures: 0, secondsBehind: 0 });
    expect(far.requests[0]).toMatchObject({ path: "/v1/logs", authorization: "Bearer secret" });
  });

  test("continues where it was after a stop, and sends nothing twice", async () => {
    writeDays(dir, { [DAY]: [line(1)] });
    const first = start();
    await arrived("t-1");
    await caughtUp(first);
    await first.stop();
    writeDays(dir, { [DAY]: [line(2)] });
    start();
    await arrived("t-1", "t-2");
  });

  test("at its end, sends what is on disk, however long it would have waited for lines", async () => {
    const exporter = start("otlp", "calls", { pollMs: 600_000 });
    writeDays(dir, { "2026-02-15": [line(1, "2026-02-15")], [DAY]: [line(2)] });
    await exporter.stop(60_000);
    expect(far.ids()).toEqual(["t-1", "t-2"]);
    expect(readExportPosition(dir, "otlp", "calls").position?.day).toBe(DAY);
  });

  test("at its end, asks a receiver that does not accept lines once, and waits for one that does not answer for its time", async () => {
    writeDays(dir, { [DAY]: [line(1)] });
    far.answer = () => new Response("", { status: 503, headers: { "retry-after": "300" } });
    const failing = start("otlp", "calls", { backoffMs: 600_000 });
    await until("a failure", () => (failing.state().failures > 0 ? true : undefined));
    await failing.stop(60_000);
    await arrived("t-1", "t-1");
    far.answer = hanging;
    const waiting = start();
    await arrived("t-1", "t-1", "t-1");
    await waiting.stop(20);
    far.answer = () => new Response("{}");
    await caughtUp(start());
    await arrived("t-1", "t-1", "t-1", "t-1");
  });

  test("a position that cannot be read means the beginning: twice rather than never", async () => {
    writeDays(dir, { [DAY]: [line(1)] });
    await caughtUp(start());
    await exporters[0]?.stop();
    writeFileSync(join(dir, "export/otlp.calls.json"), "{");
    start();
    await arrived("t-1", "t-1");
  });

  test("nothing is lost while the receiver is down, slow or without credentials", async () => {
    writeDays(dir, { [DAY]: [line(1)] });
    const answers = [500, 503, 429, 401, 403, 404, 302];
    far.answer = () => new Response("", { status: answers.shift() ?? 200, headers: { location: "/elsewhere" } });
    const exporter = start();
    await caughtUp(exporter);
    expect(exporter.state()).toMatchObject({ sentLines: 1, deadLines: 0, failures: 7 });
    expect(far.requests.every(({ path }) => path === "/v1/logs")).toBe(true);
    expect(reports).toEqual(["otlp does not accept the audit's calls: status 500"]);
  });

  test("the state says when lines were last accepted, and since when the receiver fails", async () => {
    const exporter = start();
    expect(exporter.state()).toMatchObject({ lastAcceptedAt: undefined, failingSince: undefined });
    let status = 500;
    far.answer = () => new Response("", { status });
    writeDays(dir, { [DAY]: [line(1)] });
    await until("a failure", () => (exporter.state().failures > 0 ? true : undefined));
    expect(exporter.state()).toMatchObject({ lastAcceptedAt: undefined, failingSince: NOW });
    status = 200;
    await caughtUp(exporter);
    expect(exporter.state()).toMatchObject({ lastAcceptedAt: NOW, failingSince: undefined });
  });

  test("a receiver that rejects a line permanently does not fail, and has accepted nothing", async () => {
    far.answer = () => new Response("", { status: 400 });
    writeDays(dir, { [DAY]: [line(1)] });
    const exporter = start();
    await caughtUp(exporter);
    expect(exporter.state()).toMatchObject({ deadLines: 1, lastAcceptedAt: undefined, failingSince: undefined });
  });

  test("one that accepts every other batch is logged once", async () => {
    far.answer = () => new Response("", { status: far.requests.length % 2 === 1 ? 500 : 200 });
    const exporter = start();
    for (let number = 1; number <= 5; number += 1) {
      writeDays(dir, { [DAY]: [line(number)] });
      await until("it to be taken", () => (exporter.state().sentLines === number ? true : undefined));
    }
    expect(exporter.state().failures).toBe(5);
    expect(reports).toEqual(["otlp does not accept the audit's calls: status 500"]);
  });

  test("the lag is reported", async () => {
    writeDays(dir, { [DAY]: [line(1)] });
    far.answer = () => new Response("", { status: 500 });
    const exporter = start();
    expect(exporter.state()).toMatchObject({ bytesBehind: line(1).length + 1, secondsBehind: 7_200 });
    const metrics = createMetrics();
    metrics.watch({ exports: () => [exporter.state()] });
    expect(await metrics.text()).toContain('stc_audit_export_lag_seconds{exporter="otlp",stream="calls"} 7200');
  });
});

describe("dead letters", () => {
  const dead = (): readonly { reason: string; line: string }[] =>
    readFileSync(join(dir, "export/otlp.dead.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((text) => JSON.parse(text) as { reason: string; line: string });

  test("one bad line among many is the only one that is held back", async () => {
    writeDays(dir, { [DAY]: [1, 2, 3, 4, 5].map((number) => line(number)) });
    far.answer = ({ body }) => new Response("", { status: body.includes("t-3") ? 400 : 200 });
    const exporter = start();
    await caughtUp(exporter);
    expect(exporter.state()).toMatchObject({ sentLines: 4, deadLines: 1 });
    expect(dead()).toMatchObject([{ reason: "status 400", line: line(3) }]);
    expect(reports).toEqual(["otlp refused 1 audit lines permanently: status 400"]);
  });

  /** Answers of Loki, by `pkg/validation/validate.go`, `pkg/ingester/stream.go` and `pkg/chunkenc/interface.go`. */
  const STREAM = '{decision="ALLOWED", job="safe-tool-call", stream="calls"}';
  const ASK = "contact your Loki administrator to see if the limit can be increased";
  const STREAM_LIMIT = `maximum active stream limit exceeded when trying to create stream ${STREAM}, reduce the number of active streams (reduce labels or reduce label values), or ${ASK}, user: 'fake'`;
  const TOO_FAR_BEHIND = `entry with timestamp 2026-02-16 10:00:00 +0000 UTC ignored, reason: 'entry too far behind, entry timestamp is: 2026-02-16T10:00:00Z, oldest acceptable timestamp is: 2026-02-16T11:00:00Z',
user 'fake', total ignored: 1 out of 5 for stream: ${STREAM}`;
  const STREAM_RATE_LIMIT = `entry with timestamp 2026-02-16 10:00:00 +0000 UTC ignored, reason: 'Per stream rate limit exceeded (limit: 3MB/sec) while attempting to ingest for stream '${STREAM}' totaling 1MB, consider splitting a stream via additional labels or ${ASK}',
user 'fake', total ignored: 1 out of 5 for stream: ${STREAM}`;
  test.each([
    [400, TOO_FAR_BEHIND],
    [
      400,
      `entry for stream '${STREAM}' has timestamp too old: 2026-02-01T10:00:00Z, oldest acceptable timestamp is: 2026-02-09T10:00:00Z`,
    ],
    [
      400,
      `max entry size '262144' bytes exceeded for stream '${STREAM}' while adding an entry with length '300000' bytes`,
    ],
    [413, "request body too large: 2000000 bytes, limit: 1000000 bytes"],
    [429, STREAM_LIMIT],
    // Older releases.
    [
      429,
      `Maximum active stream limit exceeded, reduce the number of active streams (reduce labels or reduce label values), or ${ASK}, user: 'fake'`,
    ],
  ])("%d %p is about the lines: those that cause it are set aside, the others are sent", async (status, text) => {
    writeDays(dir, { [DAY]: [1, 2, 3, 4, 5].map((number) => line(number)) });
    far.answer = ({ body }) => (body.includes("t-3") ? new Response(text, { status }) : new Response(null));
    const exporter = start();
    await caughtUp(exporter);
    expect(exporter.state()).toMatchObject({ sentLines: 4, deadLines: 1, failures: 0 });
    expect(dead().map((letter) => letter.line)).toEqual([line(3)]);
  });

  test.each([
    `ingestion rate limit exceeded for user fake (limit: 4194304 bytes/sec) while attempting to ingest '5' lines totaling '900' bytes, reduce log volume or ${ASK}`,
    `ingestion rate limit exceeded for user fake, policy audit (limit: 4194304 bytes/sec) while attempting to ingest '5' lines totaling '900' bytes, reduce log volume or ${ASK}`,
    STREAM_RATE_LIMIT,
    `${STREAM_RATE_LIMIT}; ${STREAM_LIMIT}`,
    "too many requests",
    "",
  ])("429 %p is about the time: the same batch is sent again, and nothing is set aside", async (text) => {
    writeDays(dir, { [DAY]: [1, 2].map((number) => line(number)) });
    far.answer = () => new Response(text, { status: far.requests.length < 3 ? 429 : 204 });
    const exporter = start();
    await caughtUp(exporter);
    expect(far.ids()).toEqual(["t-1", "t-2", "t-1", "t-2", "t-1", "t-2"]);
    expect(exporter.state()).toMatchObject({ sentLines: 2, deadLines: 0, failures: 2 });
    expect(existsSync(join(dir, "export/otlp.dead.jsonl"))).toBe(false);
  });

  test.each([
    [400, TOO_FAR_BEHIND],
    [429, STREAM_RATE_LIMIT],
  ])(
    "what Loki took of a batch that it answered with %d is sent again unchanged, so that Loki drops it",
    async (status, text) => {
      writeDays(dir, { [DAY]: [1, 2, 3, 4, 5].map((number) => line(number)) });
      let isBusy = status === 429;
      far.answer = ({ body }) => {
        const isPartial = status === 400 ? body.includes("t-3") : isBusy;
        isBusy = false;
        return isPartial ? new Response(text, { status }) : new Response(null, { status: 204 });
      };
      await caughtUp(start("loki"));
      // Loki drops an entry whose stream, time, line and structured metadata it has.
      const entries = far.requests.flatMap(({ body }) => {
        const { streams } = JSON.parse(body) as { streams: { stream: object; values: unknown[] }[] };
        return streams.flatMap(({ stream, values }) => values.map((value) => JSON.stringify([stream, value])));
      });
      expect(entries.length).toBeGreaterThan(5);
      expect(new Set(entries).size).toBe(5);
    },
  );

  test("a line that a collector accepted and then rejected is not sent again", async () => {
    writeDays(dir, { [DAY]: [line(1), line(2)] });
    far.answer = () => Response.json({ partialSuccess: { rejectedLogRecords: "1", errorMessage: "no" } });
    const exporter = start();
    await caughtUp(exporter);
    expect(dead().map(({ reason }) => reason)).toEqual(["1 of 2 rejected", "1 of 2 rejected"]);
    expect(far.requests).toHaveLength(1);
  });

  test("a receiver that refuses every line is logged once; the end says how many more", async () => {
    writeDays(dir, { [DAY]: [1, 2, 3, 4].map((number) => line(number)) });
    far.answer = () => new Response("", { status: 400 });
    const exporter = start();
    await caughtUp(exporter);
    const told = "otlp refused 1 audit lines permanently: status 400";
    expect([dead().length, reports]).toEqual([4, [told]]);
    await exporter.stop();
    expect(reports).toEqual([told, "otlp refused 3 audit lines permanently: more of the same"]);
  });

  test("a stop between them keeps finished lines: none is stored or accepted twice", async () => {
    writeDays(dir, { [DAY]: [1, 2, 3, 4].map((number) => line(number)) });
    far.answer = ({ body }) => (ids(body).join() === "t-2" ? hanging() : new Response("", { status: 400 }));
    const exporter = start();
    await until("the one that hangs", () =>
      far.ids().at(-1) === "t-2" && far.requests.length === 4 ? true : undefined,
    );
    await exporter.stop();
    expect(dead()).toHaveLength(1);
    far.answer = () => new Response("", { status: 400 });
    await caughtUp(start());
    expect(dead().map((letter) => letter.line)).toEqual([1, 2, 3, 4].map((number) => line(number)));
  });

  test("while they cannot be stored, accepted lines are not sent again and again", async () => {
    writeDays(dir, { [DAY]: [1, 2, 3, 4, 5].map((number) => line(number)) });
    const full = join(dir, "export/otlp.dead.jsonl");
    mkdirSync(join(dir, "export"));
    writeFileSync(full, "");
    truncateSync(full, 67_108_864);
    const taken: string[] = [];
    far.answer = ({ body }) => {
      if (body.includes("t-3")) return new Response("", { status: 400 });
      taken.push(...ids(body));
      return new Response("{}");
    };
    const exporter = start();
    await until("many attempts", () => (exporter.state().failures >= 5 ? true : undefined));
    expect(taken).toEqual(["t-1", "t-2"]);
    rmSync(full);
    await caughtUp(exporter);
    expect(taken).toEqual(["t-1", "t-2", "t-4", "t-5"]);
    expect(dead()).toMatchObject([{ reason: "status 400", line: line(3) }]);
  });

  test("when they cannot be stored the line is not skipped", async () => {
    writeDays(dir, { [DAY]: [line(1)], "2026-02-15": [] });
    writeFileSync(join(dir, "export"), "in the way");
    far.answer = () => new Response("", { status: 400 });
    const exporter = start();
    await until("two attempts", () => (far.requests.length >= 2 ? true : undefined));
    expect(exporter.state().bytesBehind).toBeGreaterThan(0);
    expect(reports.at(-1)).toStartWith("the audit's calls cannot be exported to otlp: local error: ");
    expect(reports.join()).not.toContain("does not accept");
  });

  test("a position that could not be stored is stored later, without new lines: none is sent twice", async () => {
    writeDays(dir, { [DAY]: [line(1)], "2026-02-15": [] });
    writeFileSync(join(dir, "export"), "in the way");
    const exporter = start();
    await until("a failure", () => (exporter.state().failures > 0 ? true : undefined));
    rmSync(join(dir, "export"));
    await until("the position", () => readExportPosition(dir, "otlp", "calls").position);
    await exporter.stop();
    await caughtUp(start());
    expect(far.ids()).toEqual(["t-1"]);
  });
});

describe("the exported lines", () => {
  test("OTLP: the unchanged line, searchable attributes, W3C ids", async () => {
    const text = refusedLine(`${DAY}T10:00:00.123Z`, ["INVALID_INPUT", "VALIDATION"], {
      ...{ traceId: "t-1", trace: { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" } },
    });
    writeDays(dir, { [DAY]: [text] });
    start();
    await arrived("t-1");
    const sent = JSON.parse(far.requests[0]?.body ?? "") as {
      resourceLogs: { scopeLogs: { logRecords: Record<string, unknown>[] }[] }[];
    };
    const [record] = sent.resourceLogs[0]?.scopeLogs[0]?.logRecords ?? [];
    expect(record).toMatchObject({
      timeUnixNano: `${Date.parse(`${DAY}T10:00:00.123Z`)}000000`,
      severityText: "WARN",
      body: { stringValue: text },
      traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
      spanId: "00f067aa0ba902b7",
    });
    expect(record?.["attributes"]).toContainEqual({ key: "stc.code", value: { stringValue: "INVALID_INPUT" } });
    expect(record?.["attributes"]).toContainEqual({ key: "stc.place", value: { stringValue: `${DAY}:0` } });
  });

  test("Loki: three labels however many instances and tools a fleet has; the rest is structured metadata", async () => {
    const ofFleet = (number: number): string =>
      entryLine(`${DAY}T10:00:00.000Z`, {
        traceId: `t-${number}`,
        tool: { name: `tool-${number}`, classification: number % 2 === 0 ? "read" : "write", targetSystem: "crm" },
      }).replace('"instance":"test"', `"instance":"pod-${number}"`);
    const unknown = { name: "x".repeat(200), classification: "unknown", targetSystem: "unknown" } as const;
    const denied = refusedLine(`${DAY}T11:00:00.000Z`, ["TOOL_NOT_FOUND", "REGISTRY"], {
      traceId: "t-9",
      tool: unknown,
    });
    writeDays(dir, { [DAY]: [ofFleet(1), ofFleet(2), ofFleet(3), denied] });
    start("loki");
    await arrived("t-1", "t-2", "t-3", "t-9");
    const { path, body } = far.requests[0] ?? { path: "", body: "{}" };
    const { streams } = JSON.parse(body) as {
      streams: { stream: Record<string, string>; values: [string, string, Record<string, string>][] }[];
    };
    expect(path).toBe("/loki/api/v1/push");
    expect(streams.map(({ stream }) => stream)).toEqual([
      { job: "safe-tool-call", stream: "calls", decision: "ALLOWED" },
      { job: "safe-tool-call", stream: "calls", decision: "DENIED" },
    ]);
    expect(streams[0]?.values[1]).toEqual([
      `${Date.parse(`${DAY}T10:00:00Z`)}000000`,
      ofFleet(2),
      {
        place: `${DAY}:${ofFleet(1).length + 1}`,
        ...{ instance: "pod-2", classification: "read", tool: "tool-2", trace_id: "t-2" },
      },
    ]);
    expect(streams[1]?.values[0]?.[2]).toMatchObject({ tool: "x".repeat(128), code: "TOOL_NOT_FOUND" });
  });

  test("a foreign line is exported unchanged", async () => {
    writeDays(dir, { [DAY]: ["not ours", line(1)] });
    await caughtUp(start());
    expect(far.requests[0]?.body).toContain('"not ours"');
  });
});

/** What a receiver got, whatever its protocol: the text, and the fields that name it. */
interface Received {
  readonly text: string;
  readonly stream: unknown;
  readonly log: unknown;
  readonly seq: unknown;
  readonly covers: unknown;
}

/** Appends one call, as a service with the test's instance name and key does. */
async function append(folder: string, traceId: string, id: string): Promise<void> {
  const clock = (): number => Date.parse("2026-02-19T13:00:00.000Z");
  const common = {
    instance: "test",
    durability: "fdatasync",
    queueEntriesMax: 10,
    checkpointKey: keys.privateKey,
  } as const;
  const log = openAuditLog({ dir: folder, clock, ids: () => id, ...common });
  await log.append(draftOf(traceId));
  await log.close();
}

const READERS = {
  otlp(body: string): readonly Received[] {
    const { resourceLogs } = JSON.parse(body);
    return resourceLogs[0].scopeLogs[0].logRecords.map((record: Record<string, never>) => {
      const { body: text, attributes } = record as unknown as {
        body: { stringValue: string };
        attributes: { key: string; value: { stringValue?: string; intValue?: string } }[];
      };
      const of = (key: string) => {
        const value = attributes.find((attribute) => attribute.key === key)?.value;
        return value?.stringValue ?? value?.intValue;
      };
      const names = { log: of("stc.log"), seq: of("stc.seq"), covers: of("stc.covers") };
      return { text: text.stringValue, stream: of("stc.stream"), ...names };
    });
  },
  loki(body: string): readonly Received[] {
    const { streams } = JSON.parse(body) as {
      streams: { stream: { stream: string }; values: [string, string, Record<string, string>][] }[];
    };
    return streams.flatMap(({ stream: { stream }, values }) =>
      values.map(([, text, { log, seq, covers }]) => ({ text, stream, log, seq, covers })),
    );
  },
} as const;

describe.each(["otlp", "loki"] as const)("the log in what %s gets", (type) => {
  const received = (): readonly Received[] => far.requests.flatMap(({ body }) => READERS[type](body));
  const notes = () => [...eachNote(dir)];
  const logIdOf = (stream: string) =>
    notes().find(({ checkpoint }) => checkpoint?.stream === stream)?.checkpoint?.logId;

  test.each(["calls", "journal"] as const)(
    "each line of %s has the log id of its checkpoints and its seq",
    async (stream) => {
      await writeLog(dir);
      await caughtUp(start(type, stream));
      const lines = dayFilesText(streamDir(dir, stream)).split("\n").slice(0, -1);
      expect(logIdOf(stream)).toMatch(/^[0-9a-f]{32}$/);
      const log = logIdOf(stream);
      expect(received()).toEqual(lines.map((text, at) => ({ text, stream, log, seq: String(at), covers: undefined })));
    },
  );

  test("the log id stays when retention has deleted the first days, with and without the record's log id", async () => {
    await writeLog(dir);
    const log = logIdOf("calls");
    const options = { dir, nowMs: Date.parse("2026-03-01T00:00:00Z"), keepMs: 12 * 86_400_000 };
    await pruneFiles(agedFiles(options), options);
    expect(existsSync(join(dir, "2026-02-16.jsonl"))).toBe(false);
    await caughtUp(start(type));
    const [first] = received();
    expect(first).toMatchObject({ log, seq: String(CALLS_A_DAY) });
    const record = join(dir, "pruned.jsonl");
    writeFileSync(record, readFileSync(record, "utf8").replaceAll(/"logId":"[0-9a-f]*",/g, ""));
    expect(logIdIn(dir, "calls")).toBe(log);
  });

  test("two services with one instance name have two log ids", async () => {
    await append(dir, "t-1", "id-1");
    await append(join(dir, "other"), "t-1", "id-2");
    await caughtUp(start(type));
    expect(received()[0]?.log).not.toBe(logIdIn(join(dir, "other"), "calls"));
    expect(received()[0]?.log).toBe(logIdIn(dir, "calls"));
  });

  test("checkpoints arrive as they were signed, and can be verified with the public key alone", async () => {
    await writeLog(dir);
    const exporter = start(type, "checkpoints");
    await caughtUp(exporter);
    const newest = notes().filter(({ day }) => day === "2026-02-19");
    expect(received().map(({ text }) => text)).toEqual(newest.map(({ note }) => note));
    for (const { text, stream, log, seq, covers } of received()) {
      const checkpoint = present(readCheckpoint(text), "a checkpoint");
      expect(verifyNote(checkpoint, checkpoint.origin, [keys.publicKey])).toBe("valid");
      expect({ stream, log, seq, covers }).toEqual({
        stream: "checkpoints",
        log: checkpoint.logId,
        seq: String(checkpoint.size),
        covers: checkpoint.stream,
      });
    }
    expect(received().map(({ covers, seq }) => `${covers} ${seq}`)).toEqual(["calls 15", "journal 12"]);
    await exporter.stop();
    appendFileSync(join(dir, "checkpoints/2026-02-19.txt"), "safe-tool-call/audit/calls/half a no");
    start(type, "checkpoints");
    await append(dir, "t-more", "id-more");
    await until("the next checkpoint", () => (received().length === 3 ? true : undefined));
    expect(received().at(-1)).toMatchObject({ covers: "calls", seq: "16" });
  });

  test("the newest checkpoint of a stream that is idle is sent, whatever day it is of", async () => {
    await writeLog(dir);
    const journal = notes().findLast(({ checkpoint }) => checkpoint?.stream === "journal");
    // A later day on which the calls have no lines.
    writeFileSync(join(dir, "checkpoints/2026-02-20.txt"), `${journal?.note}\n`);
    await caughtUp(start(type, "checkpoints"));
    expect(received().map(({ covers, seq }) => `${covers} ${seq}`)).toEqual(["calls 15", "journal 12", "journal 12"]);
  });

  test("checkpoints of days before the first export are left out: the newest cover their lines", async () => {
    await writeLog(dir);
    start(type, "checkpoints");
    await until("the newest", () => (received().length === 2 ? true : undefined));
    expect(readExportPosition(dir, type, "checkpoints").position?.day).toBe("2026-02-19");
  });

  test("without a position and without checkpoints, those that come later are all sent", async () => {
    start(type, "checkpoints");
    await writeLog(dir);
    await until("all", () => (received().length === notes().length ? true : undefined));
    expect(received().map(({ text }) => text)).toEqual(notes().map(({ note }) => note));
  });
});

describe("a checkpoint that waits holds no time: its age counts", () => {
  const evening = Date.parse("2026-02-19T20:00:00.000Z");

  test.each<[string, boolean]>([
    ["from when nothing was left to send", false],
    ["from the start, when it waited already", true],
  ])("%s", async (_, isAway) => {
    let now = evening;
    let readings = 0;
    const clock = (): number => {
      readings += 1;
      return now;
    };
    await writeLog(dir);
    if (isAway) far.answer = () => new Response("", { status: 500 });
    const exporter = start("otlp", "checkpoints", { clock });
    if (!isAway) {
      await caughtUp(exporter);
      now += 3_600_000;
      const before = readings;
      await until("the exporter to look for more twice", () => (readings > before + 8 ? true : undefined));
      far.answer = () => new Response("", { status: 500 });
      await append(dir, "t-later", "id-later");
    }
    await until("a failure", () => (exporter.state().failures > 0 ? true : undefined));
    now += 90_000;
    expect(exporter.state().secondsBehind).toBe(90);
  });
});

describe("with a running service", () => {
  test("both streams are sent, old files are deleted after all exporters passed them, and the journal records it first", async () => {
    writeDays(dir, { "2026-01-01": [line(1, "2026-01-01")], [DAY]: [line(2)] });
    writeDays(join(dir, "journal"), { [DAY]: ['{"timestamp":"2026-02-16T10:00:00.000Z","type":"service.started"}'] });
    const journal: unknown[] = [];
    const running = startExporters({
      dir,
      targets: [{ name: "otlp", receiver: openReceiver({ url: far.url }) }],
      retentionDays: 30,
      clock: () => NOW,
      random: () => 0,
      report: (message) => reports.push(message),
      journal: async (entry) => void journal.push([entry, existsSync(join(dir, "2026-01-01.jsonl"))]),
      pruneEveryMs: 20,
    });
    await until("the old file to go", () => (existsSync(join(dir, "2026-01-01.jsonl")) ? undefined : true));
    await running.stop();
    expect(journal[0]).toEqual([
      { type: "audit.pruned", stream: "calls", day: "2026-01-01", bytes: line(1).length + 1 },
      true,
    ]);
    expect(running.states().map(({ stream }) => stream)).toEqual(["calls", "journal", "checkpoints"]);
    expect(readExportPosition(dir, "otlp", "journal").position?.day).toBe(DAY);
    expect(reports).toEqual([]);
  });
});

describe("the end of a service", () => {
  const old = { "2026-01-01": [line(1, "2026-01-01")], [DAY]: [line(2)] };
  const run = (target: ExporterTarget, journal: () => Promise<void> = async () => {}) =>
    startExporters({
      dir,
      targets: [target],
      retentionDays: 30,
      clock: () => NOW,
      random: () => 0,
      report: (message) => reports.push(message),
      journal,
    });

  test("ends the deletion of old files at once, and deletes the rest after the next start", async () => {
    writeDays(dir, old);
    const target = { name: "otlp", receiver: openReceiver({ url: far.url }) };
    const exporter = start();
    await caughtUp(exporter);
    await exporter.stop();
    // Runs to its first pause.
    const running = run(target, () => Promise.reject(new Error("the journal is asked for a line")));
    await running.stopPruning();
    await running.stop();
    expect([existsSync(join(dir, "2026-01-01.jsonl")), reports]).toEqual([true, []]);
    const next = run(target);
    await until("the old file to go", () => (existsSync(join(dir, "2026-01-01.jsonl")) ? undefined : true));
    await next.stop();
  });

  test("does not wait for a receiver that does not close its connections", async () => {
    const receiver = { ...openReceiver({ url: far.url }), close: () => new Promise<void>(() => {}) };
    await run({ name: "otlp", receiver }).stop();
    expect(reports).toEqual([]);
  });
});

describe("a file of headers", () => {
  test("contains lines of Name: value", () => {
    expect(readHeaders("# key\nAuthorization: Bearer a:b\n\nX-Scope-OrgID: 7\r\n")).toEqual({
      ok: { authorization: "Bearer a:b", "x-scope-orgid": "7" },
    });
  });

  test.each([
    ["authorization", "line 1 is not Name: value"],
    ["a: 1\nA: 2", "line 2: a appears twice"],
    ["host: x", "line 1: host cannot be set"],
    ["a b: x", "line 1 is not Name: value"],
    ["a: x\u0000y", "line 1 is not Name: value"],
  ])("%p is refused", (text, problem) => {
    expect(readHeaders(text)).toEqual({ problem });
  });
});
