import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { readBatch, startOf } from "../../../src/audit/export/batch.ts";
import { EXPORT_STREAMS } from "../../../src/audit/export/positions.ts";
import { readLine, readPlace, readReceived } from "../../../src/audit/export/received.ts";
import { openReceiver } from "../../support/receivers.ts";
import { writeReplica } from "../../support/stored-logs.ts";
import { writeLog } from "../support/chained-log.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-received-"));
const bodies: string[] = [];
const collector = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    bodies.push(await request.text());
    return new Response("{}");
  },
});
afterAll(async () => {
  await collector.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

const LOG = "0123456789abcdef0123456789abcdef";
const LINE = { stream: "calls", log: LOG, day: "2026-02-16", offset: 7, line: "a line" };

describe("OTLP", () => {
  const lines: object[] = [];
  beforeAll(async () => {
    const signed = join(folder, "signed");
    await writeLog(signed);
    const replica = writeReplica(folder, 0, 200);
    // Lines that the service did not write have neither a link nor members.
    appendFileSync(join(replica, "2026-02-16.jsonl"), 'not JSON\n"text"\n{"timestamp":"2026-02-16T01:00:00.000Z"}\n');
    const receiver = openReceiver({ url: `http://127.0.0.1:${collector.port}` });
    for (const dir of [signed, replica]) {
      for (const stream of EXPORT_STREAMS) {
        const log = stream === "checkpoints" ? undefined : logIdIn(dir, stream);
        let from = startOf(dir, stream);
        for (let batch = readBatch({ dir, stream, from, log }); batch; batch = readBatch({ dir, stream, from, log })) {
          lines.push(...batch.lines);
          await receiver.deliver(batch.lines, AbortSignal.timeout(20_000));
          from = batch.next;
        }
      }
    }
  });

  test("lines and checkpoints are read back as they were exported", () => {
    expect(lines.length).toBeGreaterThan(200);
    const read = bodies.map(readReceived);
    expect(read.flatMap((received) => received?.lines ?? [])).toEqual(lines as never);
    expect(read.every((received) => received?.faulty === 0 && received.others === 0)).toBe(true);
  });

  test("what a collector adds or writes otherwise does not matter", () => {
    const rewritten = bodies.map((body) =>
      body
        .replaceAll(/"intValue":"(\d+)"/g, '"intValue":$1')
        .replaceAll('"attributes":[', '"attributes":[{"key":"k8s.pod.name","value":{"stringValue":"pod"}},')
        .replaceAll('"scope":{', '"schemaUrl":"https://example.com","scope":{"attributes":[],'),
    );
    expect(rewritten).not.toEqual(bodies);
    expect(rewritten.flatMap((body) => readReceived(body)?.lines ?? [])).toEqual(lines as never);
  });

  test("records of other services are counted, and so are those that name no line", () => {
    const record = (...attributes: object[]) => ({ body: { stringValue: "text" }, attributes });
    const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
    const logRecords = [
      record(),
      record(attribute("stc.place", "2026-02-16:0")),
      record(attribute("stc.stream", "calls")),
      1,
    ];
    const text = JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }, {}, null] });
    expect(readReceived(text)).toEqual({ lines: [], faulty: 1, others: 3 });
  });
});

test("a dead letter is read as the line that it was", () => {
  const { lines } = readReceived(JSON.stringify({ exporter: "loki", reason: "status 400", ...LINE })) ?? {};
  expect(lines).toEqual([readLine(LINE) as never]);
});

test.each([
  [{ log: undefined }],
  [{ log: "" }],
  [{ stream: "journal" }],
  [{ offset: 0 }],
  [{ line: "" }],
  [{ line: '{"timestamp":"2026-02-16T00:00:00.000Z"}' }],
])("a line with %j is accepted", (change) => expect(readLine({ ...LINE, ...change })).toMatchObject({ day: LINE.day }));

test.each([
  [{ log: "x" }],
  [{ log: LOG.toUpperCase() }],
  [{ log: 7 }],
  [{ stream: "other" }],
  [{ stream: undefined }],
  [{ stream: "checkpoints", line: "not a note" }],
  [{ day: "2026-2-16" }],
  [{ day: "2026-02-16'; --" }],
  [{ offset: -1 }],
  [{ offset: 1.5 }],
  [{ offset: "7" }],
  [{ offset: Number.MAX_SAFE_INTEGER + 1 }],
  [{ line: undefined }],
  [{ line: {} }],
])("a line with %j is refused", (change) => expect(readLine({ ...LINE, ...change })).toBeUndefined());

test("a place is a day and an offset", () => {
  expect(readPlace("2026-02-16:123")).toEqual({ day: "2026-02-16", offset: 123 });
  for (const place of ["2026-02-16", "2026-02-16:", "2026-02-16:-1", ":1:2", 5, undefined])
    expect(readLine({ ...LINE, ...readPlace(place) })).toBeUndefined();
});

test("no text and no object is too strange", () => {
  const attribute = fc.record({
    key: fc.constantFrom("stc.stream", "stc.log", "stc.place", "other"),
    value: fc.oneof(fc.record({ stringValue: fc.oneof(fc.string(), fc.constantFrom("calls", LOG)) }), fc.jsonValue()),
  });
  const record = fc.record({ body: fc.jsonValue(), attributes: fc.oneof(fc.array(attribute), fc.jsonValue()) });
  const logs = fc.record({
    resourceLogs: fc.array(fc.record({ scopeLogs: fc.array(fc.record({ logRecords: fc.array(record) })) })),
  });
  const text = fc.oneof(
    fc.string(),
    fc.json(),
    logs.map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(text, (written) => {
      const read = readReceived(written);
      expect(read === undefined || read.lines.every(({ day }) => /^\d{4}-\d{2}-\d{2}$/.test(day))).toBe(true);
    }),
  );
});
