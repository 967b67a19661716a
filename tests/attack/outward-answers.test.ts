import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { send } from "../../src/approvals/notify/sender.ts";
import { post } from "../../src/audit/export/sender.ts";
import { SpanSender } from "../../src/runtime/telemetry/span-sender.ts";
import type { Span } from "../../src/runtime/telemetry/tracer.ts";
import { keysAt } from "../support/jwks-server.ts";
import { until } from "../support/until.ts";
import { type Behaviour, drips, FarSide, forEver, OK } from "./outward-far-side.ts";

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
const HINTS = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
const SWITCH = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
/** Nothing here may wait so long. */
const LONG_MS = 60_000;

let far: FarSide;
beforeEach(async () => {
  far = await FarSide.start();
});
afterEach(() => far.close());

function says(text: string): Behaviour {
  return (socket) => socket.write(text);
}

describe("a webhook's receiver", () => {
  const notify = () =>
    send("{}", {
      ...{ url: far.url, nowMs: 0, timeoutMs: LONG_MS, signal: new AbortController().signal },
      headers: { "webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": "s" },
    });

  test.each([
    ["says 100 for ever", forEver(CONTINUE), { kind: "later", reason: "InterimAnswers", retryAfterMs: undefined }],
    ["says 103 for ever", forEver(HINTS), { kind: "later", reason: "InterimAnswers", retryAfterMs: undefined }],
    ["speaks another protocol", says(SWITCH), { kind: "later", reason: "upgrade", retryAfterMs: undefined }],
    [
      "says 100 and 103 before its yes",
      says(`${CONTINUE}${HINTS}${HINTS}HTTP/1.1 204 OK\r\n\r\n`),
      { kind: "accepted" },
    ],
    ["never ends its yes", forEver(`HTTP/1.1 200 OK\r\n\r\n${" ".repeat(9_999)}`), { kind: "accepted" }],
  ] as const)("that %s", async (_, behaviour, outcome) => {
    far.behaviour = behaviour;
    expect(await notify()).toEqual(outcome);
    await until("the end of the connection", () => (far.open === 0 ? true : undefined));
  });
});

describe("an exporter's receiver", () => {
  const YES = "HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n{";
  const deliver = (readsAnswer: boolean) =>
    post("{}", {
      ...{ url: far.url, headers: {}, timeoutMs: LONG_MS, readsAnswer },
      signal: new AbortController().signal,
    });

  test.each([
    ["never ends its yes, which says no more", drips(YES, " "), false, { kind: "taken", answer: "" }],
    ["breaks off within its yes", (socket) => socket.end(YES), true, { kind: "taken", answer: expect.any(String) }],
    [
      "never ends its no",
      drips("HTTP/1.1 400 No\r\ncontent-length: 99999\r\n\r\n", " "),
      true,
      { kind: "refused", reason: "status 400" },
    ],
    [
      "never ends its not now",
      drips("HTTP/1.1 503 No\r\ncontent-length: 99999\r\nretry-after: 7\r\n\r\n", " "),
      true,
      { kind: "later", reason: "status 503", retryAfterMs: 7_000 },
    ],
    [
      "says how many it rejected",
      says("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{1}"),
      true,
      { kind: "taken", answer: "{1}" },
    ],
  ] as readonly (readonly [string, Behaviour, boolean, object])[])(
    "that %s",
    async (_, behaviour, readsAnswer, outcome) => {
      far.behaviour = behaviour;
      expect(await deliver(readsAnswer)).toEqual(outcome as never);
      expect(far.requests).toHaveLength(1);
      expect(far.requests[0]?.toLowerCase()).toContain("\r\naccept-encoding: identity\r\n");
    },
  );

  test("that does not speak HTTP is reported without its address", async () => {
    far.behaviour = forEver("\0".repeat(9_999));
    const outcome = await deliver(true);
    expect(outcome).toMatchObject({ kind: "later", reason: "Error HPE_INVALID_CONSTANT" });
    expect(JSON.stringify(outcome)).not.toContain("s3cret");
  });
});

test("an issuer's server is asked for uncompressed keys", async () => {
  far.behaviour = says('HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"keys":[]}');
  const keys = keysAt(far.url, LONG_MS);
  expect(await keys.candidates({ alg: "ES256", kid: "k" })).toEqual([]);
  expect(far.requests[0]?.toLowerCase()).toContain("\r\naccept-encoding: identity\r\n");
});

describe("a trace collector", () => {
  const span: Span = {
    ...{ traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00000000000000aa", parentSpanId: undefined },
    ...{ name: "s", kind: "internal", startMs: 0, endMs: 1, attributes: {} },
  };
  const reports: string[] = [];
  let sender: SpanSender;
  const start = (timeoutMs: number): void => {
    reports.length = 0;
    const report = (text: string): void => void reports.push(text);
    sender = new SpanSender({
      url: far.url,
      headers: {},
      resource: {},
      sendEveryMs: 1,
      clock: performance.now,
      timeoutMs,
      report,
    });
  };
  const sendOne = async (count: number): Promise<void> => {
    sender.add([span]);
    await until(`request ${count}`, () => (far.requests.length === count ? true : undefined));
  };
  afterEach(() => sender.close(1));

  test("that sends status 100 forever is abandoned at once", async () => {
    far.behaviour = forEver(CONTINUE);
    start(LONG_MS);
    sender.add([span]);
    await until("its loss", () => (sender.dropped === 1 ? true : undefined));
    expect(reports).toEqual(["traces are not accepted: too many interim answers"]);
    await until("the end of the connection", () => (far.open === 0 ? true : undefined));
  });

  test("that never ends an answer keeps no connection longer than a batch may take", async () => {
    far.behaviour = drips("HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n{", " ");
    start(300);
    await sendOne(1);
    await until("its loss", () => (sender.dropped === 1 ? true : undefined));
    await until("the end of the connection", () => (far.open === 0 ? true : undefined));
  });

  test("that used another protocol for many batches gets the next one", async () => {
    far.behaviour = says(SWITCH);
    start(LONG_MS);
    for (let count = 1; count <= 40; count += 1) {
      await sendOne(count);
      await until(`loss ${count}`, () => (sender.dropped === count ? true : undefined));
    }
    expect(reports).toEqual(["traces are not accepted: another protocol"]);
    far.behaviour = OK;
    await sendOne(41);
    await sender.close(LONG_MS);
    expect(sender.dropped).toBe(40);
  });

  test("that accepts every other batch is logged once", async () => {
    far.behaviour = (socket) =>
      (far.requests.length % 2 === 1 ? says("HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n") : OK)(socket);
    start(LONG_MS);
    for (let count = 1; count <= 10; count += 1) {
      await sendOne(count);
      await until("its loss", () => (sender.dropped === Math.ceil(count / 2) ? true : undefined));
    }
    expect(reports).toEqual(["traces are not accepted: status 400"]);
  });
});
