import { type Next, numbers, pick } from "../../eval/corpora.ts";

/** Stands in a stream for the token of its run: no byte, so that no byte is mistaken for it. */
export const TOKEN = "\u0100";
/** Every token of a run is as long, so that lengths are right. */
export const TOKEN_CHARACTERS = 309;
/** Stands for the name of the stream, and is as long. */
export const ID = "{{ID}}";

/** Returns the stream as it is sent. */
export function withToken(text: string, token = "t".repeat(TOKEN_CHARACTERS)): string {
  return text.replaceAll(TOKEN, token);
}

const sizeOf = (text: string): number => withToken(text).length;

/** The bytes (Latin-1) of one connection, with `TOKEN` and `ID` in them. */
export interface RawStream {
  readonly text: string;
  /** How the stream ends: by an ordinary request and garbage, or by the client's end of the connection. */
  readonly end: "probe" | "half-close";
  /** What was made unusual in it, in order. */
  readonly oddities: readonly string[];
  /** Marks of the calls at the beginning in which nothing is unusual: they must run. */
  readonly plain: readonly string[];
}

/** A request before it is written. */
interface Draft {
  method: string;
  target: string;
  version: string;
  before: string;
  betweens: readonly [string, string];
  lines: string[];
  lineEnd: string;
  /** Of the head, after the empty line. */
  headEnd: string;
  /** As it is sent, coded. */
  body: string;
  readonly content: string;
}

interface Oddity {
  readonly name: string;
  /** Changes nothing that the strict reading of RFC 9112 or the service refuses: the call must run. */
  readonly isPlain?: true;
  apply(draft: Draft, next: Next, smuggled: () => string): void;
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/** A call that marks that it ran. */
function draft(mark: string): Draft {
  const content = JSON.stringify({ tool: "mark", args: { mark: `${ID}${mark}` } });
  return {
    ...{ method: "POST", target: "/call", version: "HTTP/1.1", before: "", betweens: [" ", " "] },
    lines: ["Host: localhost", `Authorization: Bearer ${TOKEN}`, "Content-Type: application/json"],
    ...{ lineEnd: "\r\n", headEnd: "\r\n", body: content, content },
  };
}

function written({ method, target, version, before, betweens, lines, lineEnd, headEnd, body }: Draft): string {
  const start = `${before}${method}${betweens[0]}${target}${betweens[1]}${version}`;
  return [start, ...lines, ""].join(lineEnd) + headEnd + body;
}

const withLength = (draft: Draft): void => void draft.lines.push(`Content-Length: ${draft.content.length}`);

function withCoding(draft: Draft, coding: string, body = chunks([draft.content])): void {
  draft.lines.push(`Transfer-Encoding: ${coding}`);
  draft.body = body;
}

const chunk = (content: string, { extension = "", end = "\r\n" } = {}): string =>
  `${sizeOf(content).toString(16)}${extension}\r\n${content}${end}`;

const chunks = (pieces: readonly string[], last = "0\r\n\r\n"): string =>
  pieces.map((piece) => chunk(piece)).join("") + last;

/** Two pieces; the name of the stream stays whole. */
function pieces(next: Next, content: string): readonly string[] {
  const at = 1 + Math.floor(next() * content.indexOf(ID));
  return [content.slice(0, at), content.slice(at)];
}

function replaceLine(draft: Draft, name: string, lines: readonly string[]): void {
  const at = draft.lines.findIndex((line) => line.startsWith(`${name}:`));
  draft.lines.splice(at, at === -1 ? 0 : 1, ...lines);
}

function insertLine(draft: Draft, next: Next, line: string): void {
  draft.lines.splice(Math.floor(next() * (draft.lines.length + 1)), 0, line);
}

type Change = (draft: Draft, next: Next, smuggled: () => string) => void;

const oddity = (name: string, apply: Change): Oddity => ({ name, apply });
const plain = (name: string, apply: Change): Oddity => ({ name, apply, isPlain: true });

/** One oddity for each value: what is made of the value is the request line, a header or a body. */
const each = (name: string, values: readonly string[], apply: (draft: Draft, value: string) => void): Oddity[] =>
  values.map((value) => oddity(`${name} ${JSON.stringify(value.slice(0, 40))}`, (draft) => apply(draft, value)));

const REQUEST_LINES: readonly Oddity[] = [
  ...each(
    "method",
    [
      ...["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI", "PATCH", "QUERY", "post", "POST\t"],
      ...["PO ST", "P\0ST", "", "POSTPOST", "M-SEARCH", "SOURCE", "ANNOUNCE", "é"],
    ],
    (draft, method) => void Object.assign(draft, { method }),
  ),
  ...each(
    "target",
    [
      ...["*", "/", "call", "//call", "/call?x=1", "/call#x", "/call/", "/./call", "/%63all", "/ca\tll", "/ca ll"],
      ...["/ca\0ll", "/call\xe9", "/call\x7f", "", "localhost:80", "http://localhost/call"],
      ...["http://localhost:9/call", "HTTP://LOCALHOST/call", "http://evil.example/call"],
      ...["http://localhost@evil.example/call", "http://evil.example@localhost/call", "https://localhost/call"],
      ...["http:///call", "http://", "//evil.example/call", "\\call", "/call\\", "/%", "/tools", "/healthz", "/nope"],
      ...["ws://localhost/call", "urn:call", `/${"a".repeat(3_000)}`, `/call?${"a".repeat(5_000)}`, "/call HTTP/1.1"],
      ...['/"<>^`{|}'],
    ],
    (draft, target) => void Object.assign(draft, { target }),
  ),
  ...each(
    "version",
    [
      ...["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/1.10", "HTTP/01.1", "HTTP/1.1 ", "HTTP/1.1\t"],
      ...[" HTTP/1.1", "http/1.1", "HTTP /1.1", "HTTP/ 1.1", "HTTP/1,1", "HTTP/1", "HTTP/1.1\0", "HTTP/3", "ICE/1.0"],
      ...["RTSP/1.0", "HTTPS/1.1", "", "HTTP/1.1 x", "HTTP/1.1\x0b"],
    ],
    (draft, version) => void Object.assign(draft, { version }),
  ),
  ...each(
    "before the method",
    ["\r\n", "\r\n\r\n", "\n", "\r", " ", "\t", "\0", "\xef\xbb\xbf", "\r\r\n", "\v"],
    (draft, value) => {
      draft.before = value;
    },
  ),
  ...each("between method and target", ["  ", "\t", "\x0b", "\x0c", "\r", "\xa0", ""], (draft, value) => {
    draft.betweens = [value, " "];
  }),
  ...each("between target and version", ["  ", "\t", "\x0b", "\x0c", "\r", "\r\n", "\xa0", ""], (draft, value) => {
    draft.betweens = [" ", value];
  }),
  oddity("HTTP/0.9 request", (draft) => {
    draft.version = "";
    draft.betweens = [" ", ""];
    draft.lines = [];
  }),
  oddity("HTTP/1.0 and chunks", (draft) => {
    draft.version = "HTTP/1.0";
    withCoding(draft, "chunked");
  }),
  oddity("HTTP/1.0 and keep-alive", (draft) => {
    draft.version = "HTTP/1.0";
    draft.lines.push("Connection: keep-alive");
  }),
  oddity("HTTP/1.0 without Host", (draft) => {
    draft.version = "HTTP/1.0";
    replaceLine(draft, "Host", []);
  }),
];

const LINE_ENDS: readonly Oddity[] = [
  ...each(
    "line ends",
    ["\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\x85", "\v\r\n"],
    (draft, lineEnd) => void Object.assign(draft, { lineEnd }),
  ),
  ...each("end of the head", ["\n", "\r", "\r\r\n", "\n\r\n", " \r\n", "\r\n\r\n", "\0\r\n", ""], (draft, value) => {
    draft.headEnd = value;
  }),
  oddity("one bare LF", (draft, next) => insertLine(draft, next, "X-A: 1\nX-B: 2")),
  oddity("one bare CR", (draft, next) => insertLine(draft, next, "X-A: 1\rX-B: 2")),
  oddity("a bare CR before CRLF", (draft, next) => insertLine(draft, next, "X-A: 1\r")),
  oddity("an early end of the head by bare LFs", (draft, next, smuggled) =>
    insertLine(draft, next, `X-A: 1\n\n${smuggled()}`),
  ),
  oddity("an early end of the head by bare CRs", (draft, next, smuggled) =>
    insertLine(draft, next, `X-A: 1\r\r${smuggled()}`),
  ),
  oddity("a folded line", (draft, next) => insertLine(draft, next, "X-Folded: a\r\n b")),
  oddity("a folded line with tab", (draft, next) => insertLine(draft, next, "X-Folded:\r\n\tb")),
  oddity("a first line that is folded", (draft) => void draft.lines.unshift(" X-Folded: a")),
  oddity("a line of spaces", (draft, next) => insertLine(draft, next, "X-A: 1\r\n ")),
];

const WEB_SOCKET = ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"];

const HEADER_LINES: readonly string[] = [
  ...["X-A : 1", "X-A\t: 1", " X-A: 1", "X A: 1", ": 1", "X-A", "X-A=1", "", "X-\0: 1", "X-A: \0", "X-A: \x01"],
  ...["X-A: \x7f", "X-\xe9: 1"],
  ...["X-A: a\x0bb", "X-A: a\x0cb", "X(A): 1", "X-A;: 1", "X@A: 1", "[X]: 1", '"X": 1', "{X}: 1", "X/A: 1"],
  ...["X,A: 1", "X-A:: 1", "\x80: 1"],
  ...["Host: localhost", "Host: evil.example", "host:localhost", "Host:", "Host : localhost", "HOST: localhost:80"],
  ...["Authorization: Bearer x", `authorization: Bearer ${TOKEN}`],
  ...["Content-Type: application/json", "Content-Type: text/plain", "Content-Encoding: gzip"],
  ...["Content-Encoding: identity", "Origin: https://evil.example", "Origin: null"],
  ...["Idempotency-Key: a", "Idempotency-Key:", "Connection: close", "Connection: keep-alive, close"],
  ...["Connection: Content-Length", "Connection: Transfer-Encoding", "Connection: upgrade"],
  ...["Proxy-Connection: keep-alive", "Keep-Alive: timeout=1000000", "Connection: \0"],
  ...["Connection: close\r\nConnection: keep-alive"],
  ...[`Upgrade: websocket\r\nConnection: Upgrade\r\n${WEB_SOCKET.join("\r\n")}`],
  ...["Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__"],
  ...["Upgrade: TLS/1.0\r\nConnection: Upgrade", "Upgrade: websocket", "HTTP2-Settings: AAMAAABkAAQAAP__"],
  ...["Expect: 100-continue", "Expect: 100-Continue", "Expect: 100-continue, x", "Expect: 200-ok", "Expect:"],
  ...["Expect : 100-continue", "Expect: 100-continue\r\nExpect: 100-continue", "Expect: y 100-continue"],
  ...["Expect: 100-continue\0"],
  ...["X-HTTP-Method-Override: GET", "X-Forwarded-Host: evil.example", "X-Original-URL: /tools"],
  ...["Forwarded: host=evil.example", "TE: trailers", "Trailer: X-A", "Via: 1.1 x", "Max-Forwards: 0"],
  ...["Range: bytes=0-1"],
  ...["__proto__: x", "constructor: x", "Cookie: a=b", "Cookie: a=b\r\nCookie: c=d", "Prefer: wait=1"],
  ...["traceparent: x", `X-Long: ${"a".repeat(3_500)}`, `X-Long: ${"a".repeat(9_000)}`],
  ...[`X-${"a".repeat(3_500)}: 1`],
];

const HEADERS: readonly Oddity[] = [
  ...HEADER_LINES.map((line) =>
    oddity(`header ${JSON.stringify(line.slice(0, 40))}`, (draft, next) => insertLine(draft, next, line)),
  ),
  oddity("no Host", (draft) => replaceLine(draft, "Host", [])),
  ...each(
    "Host",
    [
      ...["evil.example", "localhost, evil.example", "localhost evil.example", "localhost:99999", "localhost/"],
      ...["user@localhost", "LOCALHOST", "[::1]", "127.0.0.1", "localhost.", "localhost\t", "\tlocalhost"],
    ],
    (draft, value) => replaceLine(draft, "Host", [`Host: ${value}`]),
  ),
  oddity("no token", (draft) => replaceLine(draft, "Authorization", [])),
  oddity("a bad token", (draft) => replaceLine(draft, "Authorization", ["Authorization: Bearer x.y.z"])),
  oddity("no media type", (draft) => replaceLine(draft, "Content-Type", [])),
  ...[3, 30, 120, 400].map((count) =>
    oddity(`${count} headers`, (draft, next) => {
      for (let made = 0; made < count; made += 1) insertLine(draft, next, `X-${made}: ${made}`);
    }),
  ),
];

const LENGTHS = (right: number): readonly string[] => [
  ...[`+${right}`, `-${right}`, `0${right}`, `000000000000000000000${right}`, `${right},${right}`],
  ...[`${right}\t`, `\t${right}`, `  ${right}  `],
  ...[`${right}, ${right}`, `${right} ${right}`, `0x${right.toString(16)}`],
  ...[`${right}.0`, `${right}e0`, `${right};`, `${right}\x0b`, `\x0b${right}`, `"${right}"`, `${right}\0`],
  ...[`${right}_0`, "", " ", "0", "1", "-1", "-0", "NaN", "Infinity", "5,5", "+5", "0x5", "5\t5"],
  ...[`${right + 1}`, `${right - 1}`, `${right + 3_000}`, "4294967296", `${2 ** 32 + right}`, "9007199254740993"],
  ...["18446744073709551615", "18446744073709551616", `${18_446_744_073_709_551_616n + BigInt(right)}`],
  ...["99999999999999999999999999", `\xb2`],
  `${right}\r`,
];

const BODIES: readonly Oddity[] = [
  ...LENGTHS(50).map((_, at) =>
    oddity(`length ${JSON.stringify(LENGTHS(0)[at])} (0 stands for the right one)`, (draft) => {
      replaceLine(draft, "Content-Length", [`Content-Length: ${LENGTHS(draft.content.length)[at]}`]);
    }),
  ),
  ...each(
    "length header",
    [
      ...["Content-Length : 0", "Content-Length\t: 0", "Content_Length: 0", "Content-Length\0: 0"],
      ...["Content-Length: 0", "Content-Length: 3", "content-length:0", " Content-Length: 0"],
      ...["Content-Length:\r\n 0", "Content-Length", "Content-Length:0\r", "\x0bContent-Length: 0"],
      ...["Content-\nLength: 0"],
    ],
    (draft, value) => {
      draft.lines.push(value);
    },
  ),
  oddity("the same length twice", (draft) => withLength(draft)),
  oddity("no length", (draft) => replaceLine(draft, "Content-Length", [])),
  oddity("a body for GET", (draft) => {
    draft.method = "GET";
    draft.target = "/healthz";
  }),
  oddity("a call in the body of a request without a body (CL.0)", (draft, _next, smuggled) => {
    draft.target = "/nope";
    draft.body = smuggled();
    replaceLine(draft, "Content-Length", [`Content-Length: ${sizeOf(draft.body)}`]);
  }),
  oddity("a call after a body of no length (0.CL)", (draft, _next, smuggled) => {
    replaceLine(draft, "Content-Length", ["Content-Length: 0"]);
    draft.body = smuggled();
  }),
  oddity("a call in the body of GET", (draft, _next, smuggled) => {
    Object.assign(draft, { method: "GET", target: "/healthz", body: smuggled() });
    replaceLine(draft, "Content-Length", [`Content-Length: ${sizeOf(draft.body)}`]);
  }),
  oddity("a call after GET with an unread length", (draft, _next, smuggled) => {
    Object.assign(draft, { method: "GET", target: "/healthz", body: smuggled() });
    replaceLine(draft, "Content-Length", ["Content-Length: 5"]);
  }),
  oddity("a call in a body after Expect", (draft, _next, smuggled) => {
    draft.target = "/nope";
    draft.body = smuggled();
    replaceLine(draft, "Content-Length", [`Content-Length: ${sizeOf(draft.body)}`, "Expect: 100-continue"]);
  }),
  oddity("a call after an early end with Expect (0.CL)", (draft, _next, smuggled) => {
    draft.body = smuggled();
    draft.lines.push("Expect: 100-continue");
    replaceLine(draft, "Content-Length", ["Content-Length: 0"]);
  }),
  oddity("a short body of HEAD", (draft, _next, smuggled) => {
    Object.assign(draft, { method: "HEAD", target: "/healthz", body: smuggled() });
    replaceLine(draft, "Content-Length", [`Content-Length: ${sizeOf(draft.body)}`]);
  }),
  oddity("white space after the body", (draft) => {
    draft.body += "\r\n";
  }),
  oddity("a bare LF after the body", (draft) => {
    draft.body += "\n";
  }),
  oddity("JSON that is none", (draft) => {
    draft.body = `x${draft.content.slice(1)}`;
  }),
];

/** Each spelling goes with chunks, and some with a length that disagrees. */
const CODINGS: readonly string[] = [
  ...["chunked", "Chunked", "CHUNKED", "xchunked", "chunked ", " chunked", "\tchunked", "chunked\t", "\x0bchunked"],
  ...["chunked\x0b", "chunked,", ",chunked", "chunked, chunked", "identity", "identity, chunked"],
  ...["chunked, identity"],
  ...["gzip, chunked", "chunked, gzip", "gzip", "chunked;q=1", "chunked; x=y", '"chunked"', "'chunked'"],
  ...["chun\0ked", "chunk", "chunkedx", "", " ", "x", "chunked\0", "chunked\r", "\rchunked"],
  ...["chu\nked", "cow, chunked", "chunked\xa0", "\xa0chunked", "\xffchunked", "chunked\x85", "deflate", "chunKed"],
  ...["trailers"],
];

const CODING_LINES: readonly string[] = [
  ...["Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding:\tchunked"],
  ...["Transfer-Encoding:\x0bchunked", "Transfer-Encoding:chunked", "transfer-encoding: chunked"],
  ...[" Transfer-Encoding: chunked", "Transfer_Encoding: chunked", "Transfer Encoding: chunked"],
  ...["Transfer-Encoding:\r\n chunked", "Transfer-Encoding:\n chunked", "Transfer-Encoding\r\n: chunked"],
  ...["X: y\r\n Transfer-Encoding: chunked", "X: y\nTransfer-Encoding: chunked"],
  ...["X: y\rTransfer-Encoding: chunked", "Transfer-Encoding\0: chunked", "\0Transfer-Encoding: chunked"],
  ...["Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"],
  ...["Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"],
  ...["Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"],
  ...["Transfer-Encoding: x\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x"],
  ...["Transfer-Encoding:\r\nTransfer-Encoding: chunked"],
  ...["Transfer-Encoding: chun\r\n ked", "Content-Encoding: chunked", "Transfer-Encodin: chunked"],
  ...["Transfer-Encoding", "Transfer-Encoding=chunked", "Foo: bar\r\n\rTransfer-Encoding: chunked", "TE: chunked"],
  ...["X-Transfer-Encoding: chunked", "Transfer-Encoding: \r\n\tchunked", "Transfer-Encoding;: chunked"],
  ...["tRANSFER-ENCODING: chunked"],
];

const SMUGGLING: readonly Oddity[] = [
  oddity("CL.TE: the chunks end before the length does", (draft, next, smuggled) => {
    draft.body = `0\r\n\r\n${smuggled()}`;
    draft.lines.push(
      `Content-Length: ${sizeOf(draft.body)}`,
      `Transfer-Encoding: ${pick(next, ["chunked", ...CODINGS])}`,
    );
  }),
  oddity("CL.TE with an odd line", (draft, next, smuggled) => {
    draft.body = `0\r\n\r\n${smuggled()}`;
    draft.lines.push(`Content-Length: ${sizeOf(draft.body)}`, pick(next, CODING_LINES));
  }),
  oddity("TE.CL: the length ends before the chunks do", (draft, next, smuggled) => {
    draft.body = chunks([smuggled()]);
    const length = draft.body.indexOf("\r\n") + 2;
    draft.lines.push(`Transfer-Encoding: ${pick(next, ["chunked", ...CODINGS])}`, `Content-Length: ${length}`);
  }),
  oddity("TE.CL with an odd line", (draft, next, smuggled) => {
    draft.body = chunks([smuggled()]);
    draft.lines.push(pick(next, CODING_LINES), `Content-Length: ${draft.body.indexOf("\r\n") + 2}`);
  }),
  oddity("TE.TE: one of two codings is odd", (draft, next, smuggled) => {
    const lines = ["Transfer-Encoding: chunked", pick(next, CODING_LINES)];
    draft.lines.push(...(next() < 0.5 ? lines : lines.reverse()));
    draft.body = `${chunks([draft.content])}${smuggled()}`;
  }),
  oddity("TE.0: the chunks are not read", (draft, _next, smuggled) => {
    draft.target = "/nope";
    draft.method = "OPTIONS";
    withCoding(draft, "chunked", chunks([smuggled()]));
  }),
  oddity("CL.TE that agree", (draft) => {
    withLength(draft);
    withCoding(draft, "chunked");
    replaceLine(draft, "Content-Length", [`Content-Length: ${sizeOf(draft.body)}`]);
  }),
  oddity("two lengths", (draft, next, smuggled) => {
    const after = `${draft.content}${smuggled()}`;
    const lines = [`Content-Length: ${draft.content.length}`, `Content-Length: ${sizeOf(after)}`];
    draft.lines.push(...(next() < 0.5 ? lines : lines.reverse()));
    draft.body = after;
  }),
  oddity("left by a downgrade from HTTP/2: a length that is too short", (draft, _next, smuggled) => {
    draft.lines.push("Content-Length: 4");
    draft.body = `abcd${smuggled()}`;
  }),
  oddity("left by a downgrade from HTTP/2: a line end in a value", (draft, _next, smuggled) => {
    draft.lines.push(`X-A: b\r\nTransfer-Encoding: chunked`);
    draft.body = `0\r\n\r\n${smuggled()}`;
  }),
  oddity("left by a downgrade from HTTP/2: a line end in a name", (draft, _next, smuggled) => {
    draft.lines.push(`X: b\r\nHost: evil.example\r\n\r\n${smuggled()}`, `Content-Length: ${draft.content.length}`);
  }),
  oddity("left by a downgrade from HTTP/2: pseudo headers", (draft) => {
    draft.lines.unshift(":method: POST", ":path: /call");
    withLength(draft);
  }),
  oddity("a whole request in the target", (draft, _next, smuggled) => {
    draft.target = `/nope HTTP/1.1\r\nHost: localhost\r\n\r\n${smuggled()}`;
    withLength(draft);
  }),
  oddity("a length hidden by Connection", (draft, _next, smuggled) => {
    draft.lines.push("Connection: Content-Length", `Content-Length: ${draft.content.length}`);
    draft.body = `${draft.content}${smuggled()}`;
  }),
  oddity("a call after a WebSocket offer", (draft, _next, smuggled) => {
    Object.assign(draft, { method: "GET", target: "/healthz", body: smuggled() });
    draft.lines.push("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==");
    draft.lines.push("Sec-WebSocket-Version: 777");
  }),
  oddity("a call after CONNECT", (draft, _next, smuggled) => {
    Object.assign(draft, { method: "CONNECT", target: "localhost:80", body: smuggled() });
  }),
  oddity("a call after the preface of HTTP/2", (draft, _next, smuggled) => {
    draft.before = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    withLength(draft);
    draft.body += smuggled();
  }),
];

const SIZES = (right: string): readonly string[] => [
  ...[`0${right}`, `00000000000000000000000000000000${right}`, `0x${right}`, `+${right}`, `-${right}`, ` ${right}`],
  ...[`${right} `, `${right}\t`, `\t${right}`, `${right}\x0b`, `${right}h`, `${right}g`, `${right}\0`],
  ...[`${right},${right}`, `${right}.0`, `"${right}"`],
  ...[`1${"0".repeat(7)}${right}`, `1${"0".repeat(15)}${right}`, `1${"0".repeat(16)}${right}`],
  ...[`f${"f".repeat(15)}${right}`, "ffffffffffffffff", "fffffffffffffffff", "7fffffffffffffff"],
  ...["8000000000000000", "ffffffff", "100000000", "-1", "", " ", "\r", "G", "1fffff"],
];

/** What follows the size of a chunk, its end, and what ends the last one. */
const EXTENSIONS: readonly string[] = [
  ...[";", ";a", ";a=b", ';a="b"', '; a = "b;c"', ";a=b;c=d", " ;a", "; a", "\t;a=b", ";\0", ";a=\x7f", ";a=\xe9"],
  ...[';a="', ';a="\r', ";a\r", ";a\rb", ";\r", ";\n", ";a\n", ";a=b\n", "\n", "\r", ";\r\n", " a=b", ",a"],
  ...[`;${"a".repeat(300)}`, `;${"a".repeat(9_000)}`, `;a="\r\n`, ";a=\x01", ";=b", ";;", "#a"],
];

const CHUNKS: readonly Oddity[] = [
  ...SIZES("0").map((shown, at) =>
    oddity(`chunk size ${JSON.stringify(shown.slice(0, 40))} (0 stands for the right one)`, (draft) => {
      const size = SIZES(draft.content.length.toString(16))[at] ?? "";
      withCoding(draft, "chunked", `${size}\r\n${draft.content}\r\n0\r\n\r\n`);
    }),
  ),
  ...SIZES("0").map((shown, at) =>
    oddity(`last chunk size ${JSON.stringify(shown.slice(0, 40))}`, (draft) => {
      withCoding(draft, "chunked", chunks([draft.content], `${SIZES("0")[at]}\r\n\r\n`));
    }),
  ),
  ...EXTENSIONS.map((extension) =>
    oddity(`chunk extension ${JSON.stringify(extension.slice(0, 40))}`, (draft) =>
      withCoding(draft, "chunked", `${chunk(draft.content, { extension })}0\r\n\r\n`),
    ),
  ),
  ...EXTENSIONS.map((extension) =>
    oddity(`extension of the last chunk ${JSON.stringify(extension.slice(0, 40))}`, (draft) =>
      withCoding(draft, "chunked", chunks([draft.content], `0${extension}\r\n\r\n`)),
    ),
  ),
  ...EXTENSIONS.map((extension) =>
    oddity(`a call behind an extension ${JSON.stringify(extension.slice(0, 40))}`, (draft, _next, smuggled) => {
      const inside = smuggled();
      // Two readers that end the line of the size at different places read another chunk, and so another end.
      const body = `2${extension}\r\nxx\r\n${sizeOf(inside).toString(16)}\r\n${inside}\r\n0\r\n\r\n`;
      withCoding(draft, "chunked", body);
    }),
  ),
  ...["\n", "\r", "", "\r\n\r\n", "xx", "\n\n", "\r\r", "\0\0", " \r\n", "x\r\n", "\n\r"].map((end) =>
    oddity(`end of a chunk ${JSON.stringify(end)}`, (draft, next) => {
      const [first = "", second = ""] = pieces(next, draft.content);
      withCoding(draft, "chunked", `${chunk(first, { end })}${chunk(second)}0\r\n\r\n`);
    }),
  ),
  ...["\n", "\r", "", "\r\n\r\n", "xx", "\n\n", "\r\r"].map((end) =>
    oddity(`a call behind the end of a chunk ${JSON.stringify(end)}`, (draft, _next, smuggled) => {
      withCoding(draft, "chunked", `${chunk("xx", { end })}0\r\n\r\n${smuggled()}`);
    }),
  ),
  ...[
    ...["0\r\n", "0\n\n", "0\r\n\n", "0\r\r", "0\n\r\n", "0\r\n\r", "0\r\n\r\r\n", "0\r\nx\r\n\r\n", "0\r\n\0"],
    ...["\r\n", "0", ""],
  ].map((last) =>
    oddity(`last chunk ${JSON.stringify(last)}`, (draft) =>
      withCoding(draft, "chunked", chunks([draft.content], last)),
    ),
  ),
  ...[
    ...["X-A: 1", "Content-Length: 5", "Transfer-Encoding: chunked", "Host: evil.example"],
    ...[`Authorization: Bearer ${TOKEN}`, "X-A : 1", "X-A: 1\r\n b", " X-A: 1", "X-A: \0", "X-A", ": 1"],
    ...["X-A: 1\nX-B: 2", `X-A: ${"a".repeat(9_000)}`],
    ...[`X-A: 1\r\nX-B: 2`, "GET /healthz HTTP/1.1"],
  ].map((trailer) =>
    oddity(`trailer ${JSON.stringify(trailer.slice(0, 40))}`, (draft) =>
      withCoding(draft, "chunked", chunks([draft.content], `0\r\n${trailer}\r\n\r\n`)),
    ),
  ),
  oddity("a call as trailer", (draft, _next, smuggled) =>
    withCoding(draft, "chunked", chunks([draft.content], `0\r\n${smuggled()}`)),
  ),
  oddity("400 chunks of one byte", (draft) =>
    withCoding(draft, "chunked", chunks([..." ".repeat(400), draft.content])),
  ),
  oddity("chunks over the limit", (draft) =>
    withCoding(draft, "chunked", chunks(Array.from({ length: 8 }, () => draft.content.padStart(400)))),
  ),
  ...CODINGS.map((coding) => oddity(`coding ${JSON.stringify(coding)}`, (draft) => withCoding(draft, coding))),
  ...CODING_LINES.map((line) =>
    oddity(`coding line ${JSON.stringify(line)}`, (draft) => {
      draft.lines.push(line);
      draft.body = chunks([draft.content]);
    }),
  ),
];

/** Unusual, but valid, and sent by real clients. */
const PLAIN: readonly Oddity[] = [
  plain("chunks", (draft) => withCoding(draft, "chunked")),
  plain("two chunks", (draft, next) => withCoding(draft, "chunked", chunks(pieces(next, draft.content)))),
  plain("the size of a chunk in capitals", (draft) =>
    withCoding(draft, "chunked", `${draft.content.length.toString(16).toUpperCase()}\r\n${draft.content}\r\n0\r\n\r\n`),
  ),
  plain("lower-case names", (draft) => {
    withLength(draft);
    draft.lines = draft.lines.map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase()));
  }),
  plain("capitals", (draft) => {
    withLength(draft);
    draft.lines = draft.lines.map((line) => line.replace(/^[^:]+/, (name) => name.toUpperCase()));
  }),
  plain("no space after the colon", (draft) => {
    withLength(draft);
    draft.lines = draft.lines.map((line) => line.replace(": ", ":"));
  }),
  plain("spaces and tabs around values", (draft) => {
    draft.lines = draft.lines.map((line) => `${line.replace(": ", ": \t ")} \t`);
    draft.lines.push(`Content-Length:  ${draft.content.length}  `);
  }),
  plain("another order", (draft, next) => {
    withLength(draft);
    for (const line of draft.lines.splice(0)) insertLine(draft, next, line);
  }),
  plain("a body that begins with spaces", (draft) => {
    draft.body = `  ${draft.content}\r\n`;
    draft.lines.push(`Content-Length: ${sizeOf(draft.body)}`);
  }),
  ...[
    ...["X-Empty:", "X-Text: \xe9\xff", "X-Tab: a\tb", "Accept: */*\r\nAccept: text/plain"],
    ...["Accept-Encoding: gzip, deflate, br", "Connection: keep-alive", "connection: Keep-Alive", "TE: trailers"],
    ...["Expect: 100-continue", "User-Agent: curl/8.5.0", "Cookie: a=b; c=d"],
    ...["Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__"],
    ...["X!#$%&'*+.^_`|~9: 1", 'X-Punctuation: (),/:;<=>?@[\\]{}"', `X-Long: ${"a".repeat(1_500)}`],
    ...["Content-Language: de", "Pragma: no-cache", "Prefer: respond-async"],
    ...["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
  ].map((line) =>
    plain(`header ${JSON.stringify(line.slice(0, 40))}`, (draft, next) => {
      withLength(draft);
      insertLine(draft, next, line);
    }),
  ),
];

/** Oddities of a body that is already coded, and oddities that need a plain length first. */
const WITH_LENGTH: readonly (readonly Oddity[])[] = [REQUEST_LINES, LINE_ENDS, HEADERS, BODIES];
const WITH_OWN_BODY: readonly (readonly Oddity[])[] = [SMUGGLING, CHUNKS, CHUNKS];

/** Every oddity alone, then a call in which nothing is odd: the same streams with any seed. */
export function singleOddities(): readonly RawStream[] {
  const framed = WITH_LENGTH.flat().map((odd) => ({ odd, hasLength: true }));
  const own = [...new Set(WITH_OWN_BODY)].flat().map((odd) => ({ odd, hasLength: false }));
  const plain = PLAIN.map((odd) => ({ odd, hasLength: false }));
  return [...framed, ...own, ...plain].map(({ odd, hasLength }, at) => {
    const next = numbers(at);
    const marks = new Marks();
    const first = marks.take();
    const made = draft(first);
    if (hasLength) withLength(made);
    odd.apply(made, next, () => callOf(marks.take()));
    const last = marks.take();
    return {
      text: written(made) + callOf(last),
      end: "probe",
      oddities: [odd.name],
      plain: odd.isPlain === true ? [first, last] : [],
    };
  });
}

class Marks {
  #taken = 0;

  take(): string {
    this.#taken += 1;
    return LETTERS[this.#taken - 1] ?? "z";
  }
}

/** A call in which nothing is unusual. */
export function callOf(mark: string): string {
  const made = draft(mark);
  withLength(made);
  return written(made);
}

const REQUESTS_MAX = 4;
const MUTATIONS_MAX = 3;

/** Returns the stream with this seed: one to four requests with up to two oddities each, often damaged, sometimes cut off. */
export function randomStream(seed: number): RawStream {
  const next = numbers(Math.imul(seed + 1, 2_654_435_761) >>> 0);
  // The first numbers of neighbouring seeds are alike.
  for (let skipped = 0; skipped < 4; skipped += 1) next();
  const marks = new Marks();
  const oddities: string[] = [];
  const plain: string[] = [];
  let text = "";
  const count = 1 + Math.floor(next() * REQUESTS_MAX);
  for (let at = 0; at < count; at += 1) {
    const mark = marks.take();
    const { made, applied } = oddRequest(next, mark, () => callOf(marks.take()));
    if (plain.length === at && applied.every(({ isPlain }) => isPlain === true)) plain.push(mark);
    oddities.push(...applied.map(({ name }) => name));
    text += written(made);
  }
  if (next() < 0.3) {
    oddities.push("damaged");
    plain.length = 0;
    text = damaged(text, next);
  }
  const isCut = next() < 0.1;
  if (isCut) {
    oddities.push("cut off");
    plain.length = 0;
    text = text.slice(0, Math.floor(next() * text.length));
  }
  return { text, end: isCut || next() < 0.1 ? "half-close" : "probe", oddities, plain };
}

function oddRequest(next: Next, mark: string, smuggled: () => string) {
  const made = draft(mark);
  const applied: Oddity[] = [];
  const apply = (odd: Oddity): void => {
    odd.apply(made, next, smuggled);
    applied.push(odd);
  };
  const kind = next();
  if (kind < 0.45) apply(pick(next, PLAIN));
  else if (kind < 0.7) {
    withLength(made);
    apply(pick(next, pick(next, WITH_LENGTH)));
  } else apply(pick(next, pick(next, WITH_OWN_BODY)));
  if (next() < 0.15) apply(pick(next, pick(next, [REQUEST_LINES, LINE_ENDS, HEADERS])));
  return { made, applied };
}

const SPLICED: readonly string[] = [
  ...["\r", "\n", "\r\n", "\r\n\r\n", "\0", " ", "\t", ":", ";", ",", "0", "1", "f", "\x7f", "\x80", "\xff"],
  ...["HTTP/1.1", "0\r\n\r\n"],
  ...["Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n", "GET / HTTP/1.1\r\n", "Host: localhost\r\n"],
  ...["Expect: 100-continue\r\n", "Connection: close\r\n"],
];

/** Inserts, deletes, replaces or repeats a few bytes. */
function damaged(text: string, next: Next): string {
  let now = text;
  const count = 1 + Math.floor(next() * MUTATIONS_MAX);
  for (let made = 0; made < count; made += 1) {
    const at = Math.floor(next() * (now.length + 1));
    const length = 1 + Math.floor(next() * 4);
    const shape = next();
    if (shape < 0.4) now = now.slice(0, at) + pick(next, SPLICED) + now.slice(at);
    else if (shape < 0.6) now = now.slice(0, at) + now.slice(at + length);
    else if (shape < 0.8) now = now.slice(0, at) + String.fromCharCode(Math.floor(next() * 256)) + now.slice(at + 1);
    else now = now.slice(0, at) + now.slice(at, at + 40) + now.slice(at);
  }
  return now;
}
