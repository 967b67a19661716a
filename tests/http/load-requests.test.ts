import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { until } from "../support/until.ts";
import { AGENTS_SERVERS } from "./agents-servers.ts";
import { head, type LoadStand, openLoadStand, Wire, wholeCall } from "./load-stand.ts";

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let stand: LoadStand;
  let token: string;

  beforeAll(async () => {
    stand = await openLoadStand({ server: { http, bodyBytesMax: 65_536 } });
    token = await stand.token();
  });
  afterAll(() => stand.close());

  const CALL = '{"tool":"load_echo","args":{}}';
  const LENGTH = `Content-Length: ${CALL.length}`;
  const CHUNKED = `${CALL.length.toString(16)}\r\n${CALL}\r\n0\r\n\r\n`;

  /** What else would be read as a second request, if the two sides took the first one's end for another place. */
  const SMUGGLED = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

  test.each([
    ["two lengths", ["Content-Length: 3", LENGTH], CALL, [400]],
    ["the same length twice", [LENGTH, LENGTH], CALL, [400]],
    ["a list of lengths", [`Content-Length: ${CALL.length}, ${CALL.length}`], CALL, [400]],
    ["a length with a sign", [`Content-Length: +${CALL.length}`], CALL, [400]],
    ["a length in hex", ["Content-Length: 0x1e"], CALL, [400]],
    ["a length and chunks", [LENGTH, "Transfer-Encoding: chunked"], `0\r\n\r\n${SMUGGLED}`, [400]],
    ["chunks and a length", ["Transfer-Encoding: chunked", "Content-Length: 4"], CHUNKED, [400]],
    ["two codings", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], CHUNKED, [400]],
    ["a coding before chunks", ["Transfer-Encoding: gzip, chunked"], CHUNKED, [400]],
    ["a coding that is none", ["Transfer-Encoding: xchunked"], CHUNKED, [400]],
    ["chunks before another coding", ["Transfer-Encoding: chunked, gzip"], CHUNKED, [400]],
    ["a space before the colon", ["Transfer-Encoding : chunked", LENGTH], CHUNKED, [400]],
    ["a folded header", ["Transfer-Encoding:", " chunked", LENGTH], CALL, [400]],
    ["a chunk size beyond number", ["Transfer-Encoding: chunked"], `fffffffffffffffff1\r\n${CALL}`, [400]],
    ["a chunk's extension without an end", ["Transfer-Encoding: chunked"], `1;${"a".repeat(200_000)}`, [400]],
    [
      "trailers without an end",
      ["Transfer-Encoding: chunked"],
      `0\r\nX: ${"a".repeat(200_000)}`,
      [http === "fastify" ? 431 : 400],
    ],
  ] as const)("%s is refused, and nothing after it is read", async (_title, lines, body, statuses) => {
    const wire = new Wire(stand.port).send(head([`Authorization: Bearer ${token}`, ...lines]) + body + SMUGGLED);
    await wire.closed;
    expect(wire.statuses).toEqual([...statuses]);
    expect(wire.received).toContain('"status":"denied"');
    expect(wire.received).not.toContain('"status":"ok"');
  });

  test.each([
    ["a length over the limit", ["Content-Length: 10000000000"], "", 413],
    ["chunks over the limit", ["Transfer-Encoding: chunked"], `1ffff\r\n${" ".repeat(0x1ffff)}\r\n0\r\n\r\n`, 413],
    ["headers over the limit", [`X: ${"a".repeat(20_000)}`], "", 431],
    ["headers beyond number", Array.from({ length: 1_000 }, (_, index) => `X-${index}: a`), "", 431],
  ] as const)("%s", async (_title, lines, body, status) => {
    const wire = new Wire(stand.port).send(head([`Authorization: Bearer ${token}`, ...lines]) + body);
    await wire.closed;
    expect(wire.statuses).toEqual([status]);
  });

  test("a URL over the limit is refused", async () => {
    const wire = new Wire(stand.port).send(head([LENGTH], `/${"a".repeat(50_000)}`));
    await wire.closed;
    expect(wire.statuses).toEqual([431]);
  });

  test.each([
    ["another protocol", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    ["HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["a version that is none", "GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n"],
    ["line feeds alone", "GET /healthz HTTP/1.1\nHost: localhost\n\n"],
    ["a NUL in a header", "GET /healthz HTTP/1.1\r\nHost: local\0host\r\n\r\n"],
  ] as const)("%s is answered as an invalid request", async (_title, text) => {
    const wire = new Wire(stand.port).send(text);
    await wire.closed;
    expect(wire.statuses).toEqual([400]);
    expect(wire.received).toContain(
      '"code":"MALFORMED_REQUEST","stage":"REQUEST","message":"This is not an HTTP/1.1 request."',
    );
  });

  test("a tunnel is not opened", async () => {
    const wire = new Wire(stand.port).send("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    await wire.closed;
    expect(wire.received).not.toContain(" 200 ");
  });

  test.each([
    ["h2c", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"],
    ["TLS", "Upgrade: TLS/1.2"],
    ["both", "Upgrade: h2c, TLS/1.3\r\nHTTP2-Settings: AAMAAABkAAQAAP__"],
  ] as const)("an offer of %s is ignored: the call is answered normally", async (_title, upgrade) => {
    const lines = [`Authorization: Bearer ${token}`, "Connection: Upgrade", upgrade, LENGTH];
    const wire = new Wire(stand.port).send(head(lines) + CALL);
    await until("an answer", () => (wire.received.includes('"status":"success"') ? true : undefined));
    expect(wire.statuses).toEqual([200]);
    wire.end();
  });

  test.each([
    "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13",
    "Upgrade: h2c, websocket",
    "Upgrade: h2c\r\nUpgrade: other/1",
  ])("another protocol is refused: %j", async (upgrade) => {
    const lines = [`Authorization: Bearer ${token}`, "Connection: Upgrade", upgrade, LENGTH];
    const wire = new Wire(stand.port).send(head(lines) + CALL);
    await until("an answer", () => (wire.received.includes('"code":"MALFORMED_REQUEST"') ? true : undefined));
    expect(wire.statuses).toEqual([400]);
    expect(wire.received).toContain("This service speaks HTTP/1.1 alone: send no Upgrade header.");
    wire.end();
  });

  test("Expect: 100-continue is answered; another expectation is refused", async () => {
    const lines = [`Authorization: Bearer ${token}`, LENGTH];
    const wire = new Wire(stand.port).send(head([...lines, "Expect: 100-continue"]));
    await until("to be asked", () => (wire.received.startsWith("HTTP/1.1 100 ") ? true : undefined));
    wire.send(CALL);
    await until("an answer", () => (wire.statuses.includes(200) ? true : undefined));
    wire.end();
    const other = new Wire(stand.port).send(head([...lines, "Expect: a-miracle", "Connection: close"]) + CALL);
    await other.closed;
    expect(other.statuses).toEqual([400]);
  });

  test("HTTP/1.0 is answered, and its connection ends", async () => {
    const authorization = `Authorization: Bearer ${token}`;
    const text = `POST /call HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n${authorization}\r\n${LENGTH}\r\n\r\n`;
    const wire = new Wire(stand.port).send(text + CALL);
    await wire.closed;
    expect(wire.statuses).toEqual([200]);
  });

  test("pipelined requests on one connection are answered in order, however many", async () => {
    const calls = 300;
    const wire = new Wire(stand.port);
    for (let made = 0; made < calls; made += 1) {
      wire.send(wholeCall(token, { tool: "load_echo", args: { text: `<${made}>` } }));
    }
    await until("all answers", () => (wire.statuses.length === calls ? true : undefined));
    expect(new Set(wire.statuses)).toEqual(new Set([200]));
    const texts = [...wire.received.matchAll(/<(\d+)>/g)].map(([, index]) => Number(index));
    expect(texts).toEqual(Array.from({ length: calls }, (_, index) => index));
    wire.end();
  });

  test("trailers are never headers: the built-in server refuses them, fastify ignores them", async () => {
    const lines = ["Transfer-Encoding: chunked", "Trailer: Authorization", "Connection: close"];
    const body = `${CALL.length.toString(16)}\r\n${CALL}\r\n0\r\nAuthorization: Bearer ${token}\r\n\r\n`;
    const wire = new Wire(stand.port).send(head(lines) + body);
    await wire.closed;
    expect(wire.statuses).toEqual([http === "fastify" ? 401 : 400]);
  });
});
