import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parserFactory } from "../../src/http1/parser.ts";
import { cut, readPieces } from "./reading.ts";

const parsers = await parserFactory();

const POST =
  "POST /call?x=1 HTTP/1.1\r\nHost: a.example\r\nEmpty:\r\nX-Name: one two\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED =
  "POST /rpc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n00A\r\n, \r\nworld!\r\n0\r\n\r\n";
const EXTENDED = CHUNKED.replace("00A\r\n", '00A;name="a;b"\r\n');
const TRAILING = CHUNKED.replace("\r\n0\r\n", "\r\n0\r\nDigest: x\r\n");
const H2C =
  "GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n";
const GET = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";

describe("requests", () => {
  test("a request is read with its target, its headers as sent, empty ones too, and its body", () => {
    const { messages, error } = readPieces([POST]);
    expect(error).toBeUndefined();
    expect(messages).toEqual([
      {
        first: "POST /call?x=1",
        version: "1.1",
        isUpgrade: false,
        keepsAlive: true,
        headers: [
          ["Host", "a.example"],
          ["Empty", ""],
          ["X-Name", "one two"],
          ["Content-Length", "5"],
        ],
        body: "hello",
        isComplete: true,
        hasExtension: false,
        hasTrailer: false,
      },
    ]);
  });

  test("chunks are joined, with leading zeros in their sizes", () => {
    const [message] = readPieces([CHUNKED]).messages;
    expect(message).toMatchObject({
      body: "hello, \r\nworld!",
      isComplete: true,
      hasExtension: false,
      hasTrailer: false,
    });
  });

  test("chunk extensions and trailers are reported, and trailers are no headers", () => {
    expect(readPieces([EXTENDED]).messages[0]).toMatchObject({ hasExtension: true, hasTrailer: false });
    expect(readPieces([CHUNKED.replace("0\r\n\r\n", "0;a\r\n\r\n")]).messages[0]).toMatchObject({ hasExtension: true });
    const [trailing] = readPieces([TRAILING]).messages;
    expect(trailing).toMatchObject({ hasExtension: false, hasTrailer: true, isComplete: true });
    expect(trailing?.headers.map(([name]) => name)).toEqual(["Host", "Transfer-Encoding"]);
  });

  test("a chunk size of 16 digits is read, one of 17 is refused", () => {
    const sized = (digits: number): string => CHUNKED.replace("00A", "A".padStart(digits, "0"));
    expect(readPieces([sized(16)]).error).toBeUndefined();
    expect(readPieces([sized(17)]).error).toBe("CHUNK_SIZE_TOO_LONG");
  });

  test("an offer of another protocol is reported, and the next request is read", () => {
    const { messages } = readPieces([`${H2C}${GET}`]);
    expect(messages.map(({ first, isUpgrade }) => [first, isUpgrade])).toEqual([
      ["GET /a", true],
      ["GET /b", false],
    ]);
  });

  test("a request that is cut off is an error", () => {
    expect(readPieces(["GET / HT"]).error).toBe("HPE_INVALID_EOF_STATE");
    expect(readPieces([POST.slice(0, -1)]).error).toBe("HPE_INVALID_EOF_STATE");
    expect(readPieces([CHUNKED.slice(0, -1)]).error).toBe("HPE_INVALID_EOF_STATE");
  });

  test.each([
    ["a line that ends with LF alone", GET.replaceAll("\r\n", "\n"), "HPE_INVALID_VERSION"],
    ["a header line that ends with LF alone", GET.replace("a\r\n", "a\n"), "HPE_CR_EXPECTED"],
    ["a folded header", GET.replace("Host: a", "Host: a\r\n b"), "HPE_INVALID_HEADER_TOKEN"],
    ["white space before the colon", GET.replace("Host:", "Host :"), "HPE_INVALID_HEADER_TOKEN"],
    ["a control character in a value", GET.replace("Host: a", "Host: a\u0001"), "HPE_INVALID_HEADER_TOKEN"],
    ["a control character in the target", GET.replace("/b", "/\u0001"), "HPE_INVALID_URL"],
    ["two lengths", POST.replace("Empty:", "Content-Length: 5"), "HPE_UNEXPECTED_CONTENT_LENGTH"],
    ["a length that is no number", POST.replace(": 5", ": 5x"), "HPE_INVALID_CONTENT_LENGTH"],
    ["a negative length", POST.replace(": 5", ": -5"), "HPE_INVALID_CONTENT_LENGTH"],
    [
      "a length with Transfer-Encoding",
      CHUNKED.replace("Host: a", "Content-Length: 5"),
      "HPE_INVALID_TRANSFER_ENCODING",
    ],
    ["a last coding that is not chunked", CHUNKED.replace("chunked", "gzip"), "HPE_INVALID_TRANSFER_ENCODING"],
    ["a chunk that is longer than its size", CHUNKED.replace("hello", "hellooo"), "HPE_STRICT"],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HPE_PAUSED_H2_UPGRADE"],
  ])("%s is refused", (_name, text, code) => {
    expect(readPieces([text]).error).toBe(code);
  });

  test.each([
    ["a header value of high bytes", GET.replace("Host: a", "Host: \u00e4\u00ff")],
    ["a method other than GET and POST", GET.replace("GET", "DELETE")],
    ["an empty line before the request", `\r\n${GET}`],
    ["a tab in a value", GET.replace("Host: a", "X: a\tb")],
  ])("%s is read", (_name, text) => {
    expect(readPieces([text])).toMatchObject({ error: undefined, messages: [{ isComplete: true }] });
  });
});

describe("responses", () => {
  const read = (text: string, isOpen = false) => readPieces([text], { type: "responses", isOpen });

  test("an answer with a length, in chunks, and up to the end of the connection is read", () => {
    const ok = "HTTP/1.1 200 OK\r\n";
    expect(read(`${ok}Content-Length: 2\r\n\r\nhi`).messages[0]).toMatchObject({ first: "200", body: "hi" });
    expect(read(`${ok}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`)).toMatchObject({
      error: undefined,
      messages: [{ body: "hi", isComplete: true }],
    });
    expect(read(`${ok}\r\nhi`, true).messages[0]).toMatchObject({ body: "hi", isComplete: false });
    expect(read(`${ok}\r\nhi`).messages[0]).toMatchObject({ body: "hi", isComplete: true });
  });

  test("an answer to HEAD has no body", () => {
    const text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    const { messages } = readPieces([text], { type: "responses", afterHead: "no body" });
    expect(messages.map(({ first, body }) => [first, body])).toEqual([
      ["200", ""],
      ["204", ""],
    ]);
  });

  test("an answer that is cut off is an error", () => {
    expect(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi").error).toBe("HPE_INVALID_EOF_STATE");
  });
});

describe("pauses", () => {
  test.each([
    ["with a length", POST],
    ["in chunks", CHUNKED],
  ])("the handler pauses before a body %s and before the next message", (_name, text) => {
    const seen: string[] = [];
    const parser = parsers.requests({
      onHeaderName: () => {},
      onHeaderValue: () => {},
      onHead: () => {
        seen.push("head");
        return "pause";
      },
      onBody: () => void seen.push("body"),
      onMessageComplete: () => {
        seen.push("complete");
        return "pause";
      },
    });
    const bytes = Buffer.from(text + GET);
    const afterHead = parser.execute(bytes);
    expect([afterHead, parser.isPaused, ...seen]).toEqual([text.indexOf("\r\n\r\n") + 4, true, "head"]);
    const body = parser.execute(bytes.subarray(afterHead));
    expect([afterHead + body, parser.isPaused]).toEqual([text.length, true]);
    expect(seen.filter((each) => each !== "body")).toEqual(["head", "complete"]);
    parser.execute(bytes.subarray(text.length));
    expect(seen.at(-1)).toBe("head");
    parser.close();
  });

  test("what a handler throws is thrown, and the parser cannot be used any more", () => {
    const failure = new Error("too many headers");
    const parser = parsers.requests({
      onHeaderName() {
        throw failure;
      },
      onHeaderValue: () => {},
      onHead: () => "body",
      onBody: () => {},
      onMessageComplete: () => "continue",
    });
    expect(() => parser.execute(Buffer.from(GET))).toThrow(failure);
    expect(() => parser.execute(Buffer.from(GET))).toThrow("closed or has failed");
    parser.close();
  });

  test("a handler cannot parse in a callback", () => {
    const inner = parsers.requests({
      onHeaderName: () => {},
      onHeaderValue: () => {},
      onHead: () => "body",
      onBody: () => {},
      onMessageComplete: () => "continue",
    });
    const outer = parsers.requests({
      onHeaderName: () => void inner.execute(Buffer.from(GET)),
      onHeaderValue: () => {},
      onHead: () => "body",
      onBody: () => {},
      onMessageComplete: () => "continue",
    });
    expect(() => outer.execute(Buffer.from(GET))).toThrow("must not parse");
    inner.close();
    outer.close();
  });
});

test("a parser that is used again remembers nothing of the one before", () => {
  for (const broken of [
    "GET / HT",
    CHUNKED.slice(0, 70),
    "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhel",
    "\u0000",
  ]) {
    readPieces([broken], { isOpen: true });
    expect(readPieces([POST]).messages[0]).toMatchObject({ first: "POST /call?x=1", body: "hello", isComplete: true });
  }
});

test("bodies larger than the input area are read whole", () => {
  const body = "0123456789abcdef".repeat(20_000);
  const plain = `POST / HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  expect(readPieces([plain]).messages[0]?.body === body).toBe(true);
  const chunk = `${body.length.toString(16)}\r\n${body}\r\n`;
  const chunked = `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}${chunk}0\r\n\r\n`;
  const [message] = readPieces([chunked]).messages;
  expect(message?.body === body + body).toBe(true);
  expect(message?.hasExtension).toBe(false);
});

/** The complete messages and the error: how much of the broken message was reported depends on the pieces. */
function readable({ messages, error }: ReturnType<typeof readPieces>) {
  return { messages: messages.filter(({ isComplete }) => isComplete), error };
}

const streams = fc
  .array(fc.constantFrom(POST, CHUNKED, EXTENDED, TRAILING, H2C, GET, "\r\n", GET.replace("Host:", "Host :")), {
    minLength: 1,
    maxLength: 4,
  })
  .map((parts) => parts.join(""));

test("how the bytes are split changes nothing", () => {
  fc.assert(
    fc.property(streams, fc.array(fc.nat(), { maxLength: 12 }), (text, positions) => {
      expect(readable(readPieces(cut(text, positions)))).toEqual(readable(readPieces([text])));
    }),
  );
});

test("a stream that is changed anywhere is read the same however it is split", () => {
  const changed = fc.tuple(streams, fc.nat(), fc.integer({ min: 0, max: 255 })).map(([text, at, byte]) => {
    const position = at % text.length;
    return text.slice(0, position) + String.fromCharCode(byte) + text.slice(position + 1);
  });
  fc.assert(
    fc.property(changed, fc.array(fc.nat(), { maxLength: 12 }), (text, positions) => {
      expect(readable(readPieces(cut(text, positions)))).toEqual(readable(readPieces([text])));
    }),
  );
});

test("each of the split points of each request is the same as none", () => {
  for (const text of [POST, CHUNKED, EXTENDED, TRAILING, H2C + GET]) {
    const whole = readPieces([text]);
    for (let at = 1; at < text.length; at += 1) expect(readPieces(cut(text, [at]))).toEqual(whole);
    expect(readPieces([...text])).toEqual(whole);
  }
});
