import { expect, test } from "bun:test";
import fc from "fast-check";
import type { FrontRequest } from "../../../src/http/front/request.ts";
import { RequestReader, UnreadableRequest } from "../../../src/http/front/request-reader.ts";
import { parserFactory } from "../../../src/http1/parser.ts";
import { cut } from "../../http1/reading.ts";

const parsers = await parserFactory();
const HEAD_BYTES_MAX = 2_000;

const connection = { encrypted: false, readOn: () => {}, isLatest: () => true, ignoreLater: () => {} };

/** The complete requests of the pieces, and why the rest was not read. */
function read(pieces: readonly string[]) {
  const reader = new RequestReader(parsers, connection, HEAD_BYTES_MAX);
  const requests: object[] = [];
  let current: FrontRequest | undefined;
  let body: Buffer[] = [];
  try {
    for (const piece of pieces) {
      let bytes = Buffer.from(piece, "latin1");
      while (bytes.length > 0) {
        const { used, begun, body: part, isComplete, failure } = reader.read(bytes);
        bytes = bytes.subarray(used);
        current = begun ?? current;
        if (begun !== undefined) body = [];
        if (part !== undefined) body.push(part);
        if (failure !== undefined) throw failure;
        if (!isComplete || current === undefined) continue;
        const { method, url, httpVersion, rawHeaders, headers, keepsAlive } = current;
        const sent = Buffer.concat(body).toString("latin1");
        requests.push({ method, url, httpVersion, rawHeaders, headers: { ...headers }, keepsAlive, body: sent });
      }
    }
    return { requests, end: reader.isInRequest ? "malformed" : undefined };
  } catch (error) {
    if (!(error instanceof UnreadableRequest)) throw error;
    return { requests, end: error.end };
  } finally {
    reader.close();
  }
}

const HOST = "Host: a.example\r\n";
const POST = `POST /call?x=1 HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nEmpty:\r\nContent-Length: 5\r\n\r\nhello`;
const CHUNKED = `POST /rpc HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n00a\r\n, \r\nworld!\r\n0\r\n\r\n`;
const VALID = [
  POST,
  CHUNKED,
  `GET /a HTTP/1.1\r\n${HOST}X: one \t\r\nx: two\r\nCookie: a=b\r\nCookie: c=d\r\n\r\n`,
  `GET http://a.example/b HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`,
  `\r\nGET /c HTTP/1.1\r\n${HOST}\r\n`,
];
const INVALID = [
  `GET  /a HTTP/1.1\r\n${HOST}\r\n`,
  `GET /a  HTTP/1.1\r\n${HOST}\r\n`,
  `GET * HTTP/1.1\r\n${HOST}\r\n`,
  `GET /a HTTP/1.1\n${HOST}\r\n`,
  `GET /a HTTP/1.1\r\n${HOST}X: ${"a".repeat(HEAD_BYTES_MAX)}\r\n\r\n`,
  CHUNKED.replace("5\r\n", "5;a=b\r\n"),
  CHUNKED.replace("0\r\n\r\n", "0\r\nX: y\r\n\r\n"),
  CHUNKED.replace("HTTP/1.1", "HTTP/1.0"),
  "CONNECT a:1 HTTP/1.1\r\n\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

const streams = fc
  .tuple(fc.array(fc.constantFrom(...VALID), { maxLength: 3 }), fc.option(fc.constantFrom(...INVALID), { nil: "" }))
  .map(([valid, invalid]) => valid.join("") + invalid);
const positions = fc.array(fc.nat(), { maxLength: 12 });

test("requests are read as sent", () => {
  const { requests, end } = read([VALID.join("")]);
  expect(end).toBeUndefined();
  expect(requests).toMatchObject(
    [
      { method: "POST", url: "/call?x=1", body: "hello", headers: { empty: "", "content-length": "5" } },
      { url: "/rpc", body: "hello, \r\nworld!" },
      { url: "/a", headers: { x: "one, two", cookie: "a=b; c=d" }, rawHeaders: ["Host", "a.example", "X", "one"] },
      { url: "http://a.example/b", keepsAlive: true },
      { url: "/c" },
    ].map((each) => ("rawHeaders" in each ? { ...each, rawHeaders: expect.arrayContaining(each.rawHeaders) } : each)),
  );
});

test("how the bytes are split changes neither the requests nor the refusal", () => {
  fc.assert(
    fc.property(streams, positions, (text, at) => {
      expect(read(cut(text, at))).toEqual(read([text]));
    }),
  );
});

test("a changed byte is read the same however the bytes are split", () => {
  const changed = fc.tuple(streams, fc.nat(), fc.integer({ min: 0, max: 255 })).map(([text, at, byte]) => {
    const position = at % (text.length + 1);
    return text.slice(0, position) + String.fromCharCode(byte) + text.slice(position + 1);
  });
  fc.assert(
    fc.property(changed, positions, (text, at) => {
      expect(read(cut(text, at))).toEqual(read([text]));
    }),
  );
});

test("every split point of every request, and every byte alone, gives the same", () => {
  for (const text of [...VALID, ...INVALID]) {
    const whole = read([text]);
    for (let at = 1; at < Math.min(text.length, 300); at += 1) expect(read(cut(text, [at]))).toEqual(whole);
    expect(read([...text])).toEqual(whole);
  }
});

test.each(INVALID.map((text) => [JSON.stringify(text.slice(0, 40)), text] as const))("%s is refused", (_name, text) => {
  expect(read([text]).end).toBeDefined();
  expect(read([`${POST}${text}`])).toMatchObject({ requests: [{ body: "hello" }] });
});
