import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { EgressClient } from "../../src/egress/client.ts";
import { EgressError, type EgressRequest } from "../../src/egress/request.ts";
import type { RawServer } from "../support/raw-server.ts";

/** Answers of a server that is hostile, unusual or ordinary, and seeded mutations of each. */

export interface Kind {
  readonly title: string;
  /** One character a byte. */
  readonly text: string;
  readonly method: string;
  readonly acceptsUnboundedBody: boolean;
}

const OK = "HTTP/1.1 200 OK\r\n";
const ONE = "content-length: 1\r\n\r\na";
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;
const lines = (count: number): string => Array.from({ length: count }, (_, index) => `x${index}: y\r\n`).join("");
const gzipped = gzipSync("hello").toString("latin1");

const ANSWERS: Readonly<Record<string, string>> = {
  // Ordinary.
  "a length": `${OK}${ONE}`,
  chunks: `${CHUNKED}2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n`,
  "chunks with an extension and a trailer": `${CHUNKED}1;a=b\r\na\r\n0\r\nx-t: u\r\n\r\n`,
  "chunk sizes with zeros": `${CHUNKED}0001\r\na\r\n000\r\n\r\n`,
  "no content": "HTTP/1.1 204 No Content\r\n\r\n",
  "not modified, with a length": "HTTP/1.1 304 Not Modified\r\ncontent-length: 3\r\n\r\n",
  "reset content, with a length": `HTTP/1.1 205 Reset\r\n${ONE}`,
  "interim answers": `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\n${OK}${ONE}`,
  "compressed with gzip": `${OK}content-encoding: gzip\r\ncontent-length: ${gzipped.length}\r\n\r\n${gzipped}`,
  "repeated headers": `${OK}content-type: a\r\ncontent-type: b\r\nx-a: 1\r\nX-A: 2\r\nset-cookie: a\r\nset-cookie: b\r\nretry-after: 1\r\nretry-after: 2\r\nage: 1\r\nage: 2\r\netag: 1\r\netag: 2\r\ncookie: a\r\ncookie: b\r\nvary: a\r\nvary: b\r\n${ONE}`,
  "headers named like properties": `${OK}__proto__: z\r\nconstructor: q\r\ntoString: t\r\n${ONE}`,
  "an empty header, and spaces around values": `${OK}empty:\r\nspaces: \t v \t \r\n${ONE}`,
  "bytes beyond ASCII in a value": `${OK}x: \xe9\xff\r\n${ONE}`,
  "no reason": `HTTP/1.1 200\r\n${ONE}`,
  "an empty reason": `HTTP/1.1 200 \r\n${ONE}`,
  "HTTP/1.0 with a length": `HTTP/1.0 200 OK\r\n${ONE}`,
  "the last answer of a connection": `${OK}connection: close\r\n${ONE}`,
  "an offer of another protocol": `${OK}upgrade: h2c\r\nconnection: upgrade\r\n${ONE}`,
  "a coding in capitals": `${OK}Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`,
  "a coding with a space after it": `${OK}transfer-encoding: chunked \r\n\r\n1\r\na\r\n0\r\n\r\n`,
  "a large head": `${OK}x: ${"a".repeat(32_600)}\r\n${ONE}`,
  "many headers": `${OK}${lines(900)}${ONE}`,
  // Lengths.
  "two equal lengths": `${OK}content-length: 1\r\n${ONE}`,
  "two different lengths": `${OK}content-length: 2\r\n${ONE}`,
  "a list of equal lengths": `${OK}content-length: 1, 1\r\n\r\na`,
  "a length and chunks": `${OK}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  "chunks and a length": `${OK}transfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n0\r\n\r\n`,
  "a length with a plus": `${OK}content-length: +1\r\n\r\na`,
  "a negative length": `${OK}content-length: -1\r\n\r\na`,
  "a hexadecimal length": `${OK}content-length: 0x1\r\n\r\na`,
  "a length with spaces around": `${OK}content-length:  1 \r\n\r\na`,
  "a length with a space within": `${OK}content-length: 1 1\r\n\r\na`,
  "an empty length": `${OK}content-length:\r\n\r\na`,
  "a length beyond 64 bits": `${OK}content-length: 99999999999999999999\r\n\r\na`,
  "no content, with a length and a body": "HTTP/1.1 204 No\r\ncontent-length: 3\r\n\r\nabc",
  "no content, with chunks": "HTTP/1.1 204 No\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  "no length": `${OK}\r\nabc`,
  "HTTP/1.0 without a length": "HTTP/1.0 200 OK\r\n\r\nabc",
  "HTTP/1.0 with chunks": "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
  // Codings.
  "gzip and chunks": `${OK}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  "gzip and chunks in two lines": `${OK}transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  "chunks twice": `${OK}transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n`,
  "an unknown coding": `${OK}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`,
  "the coding identity": `${OK}transfer-encoding: identity\r\n\r\nabc`,
  "an unknown coding without a body": "HTTP/1.1 304 No\r\ntransfer-encoding: gzip\r\n\r\n",
  // Chunks.
  "a chunk size with 0x": `${CHUNKED}0x1\r\na\r\n0\r\n\r\n`,
  "a chunk size with a space after it": `${CHUNKED}1 \r\na\r\n0\r\n\r\n`,
  "a chunk size with a space before it": `${CHUNKED} 1\r\na\r\n0\r\n\r\n`,
  "a chunk size that ends with a line feed": `${CHUNKED}1\na\r\n0\r\n\r\n`,
  "an empty chunk size": `${CHUNKED}\r\na\r\n0\r\n\r\n`,
  "a chunk size beyond 64 bits": `${CHUNKED}ffffffffffffffffff\r\na\r\n0\r\n\r\n`,
  "a chunk longer than its size": `${CHUNKED}1\r\nab\r\n0\r\n\r\n`,
  "a trailer with a length": `${CHUNKED}1\r\na\r\n0\r\ncontent-length: 3\r\nx: y\r\n\r\n`,
  "a trailer that is too large": `${CHUNKED}0\r\nx: ${"a".repeat(40_000)}\r\n\r\n`,
  "a chunk extension that is too large": `${CHUNKED}1;${"a".repeat(40_000)}\r\na\r\n0\r\n\r\n`,
  // Status lines.
  "HTTP/2.0": `HTTP/2.0 200 OK\r\n${ONE}`,
  "HTTP/0.9": `HTTP/0.9 200 OK\r\n${ONE}`,
  "HTTP/1.2": `HTTP/1.2 200 OK\r\n${ONE}`,
  "another protocol": "SSH-2.0-OpenSSH_9.6\r\n",
  "ICY instead of HTTP": `ICY 200 OK\r\n${ONE}`,
  "empty lines before the answer": `\r\n\r\n${OK}${ONE}`,
  "a status of two digits": `HTTP/1.1 99 OK\r\n${ONE}`,
  "a status of four digits": `HTTP/1.1 1000 OK\r\n${ONE}`,
  "status 999": `HTTP/1.1 999 OK\r\n${ONE}`,
  "a status line that ends with a line feed": `HTTP/1.1 200 OK\n${ONE}`,
  "a reason that is too large": `HTTP/1.1 200 ${"a".repeat(33_000)}\r\n${ONE}`,
  // Headers.
  "a header that ends with a line feed": `${OK}x: y\n${ONE}`,
  "a carriage return within a value": `${OK}x: a\rb\r\n${ONE}`,
  "a folded header": `${OK}x: a\r\n b\r\n${ONE}`,
  "a space before a colon": `${OK}content-length : 1\r\n\r\na`,
  "NUL within a value": `${OK}x: a\0b\r\n${ONE}`,
  "an empty name": `${OK}: x\r\n${ONE}`,
  "a line without a colon": `${OK}abc\r\n${ONE}`,
  "a space within a name": `${OK}a b: x\r\n${ONE}`,
  "a byte beyond ASCII within a name": `${OK}\xe9: x\r\n${ONE}`,
  "a head that is too large": `${OK}x: ${"a".repeat(40_000)}\r\n${ONE}`,
  "too many headers": `${OK}${lines(2_500)}${ONE}`,
  // Interim answers and other protocols.
  "as many interim answers as are allowed": `${"HTTP/1.1 103 C\r\n\r\n".repeat(15)}${OK}${ONE}`,
  "one interim answer too many": `${"HTTP/1.1 103 C\r\n\r\n".repeat(16)}${OK}${ONE}`,
  "an interim answer with a length": `HTTP/1.1 100 C\r\ncontent-length: 3\r\n\r\n${OK}${ONE}`,
  "an interim answer with a coding": `HTTP/1.1 102 C\r\ntransfer-encoding: chunked\r\n\r\n${OK}${ONE}`,
  "only an interim answer": "HTTP/1.1 103 C\r\n\r\n",
  "a switch of protocols": "HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
  "a switch to no protocol": `HTTP/1.1 101 Switching\r\n\r\n${OK}${ONE}`,
  // What follows an answer.
  "a second answer": `${OK}${ONE}${OK}content-length: 4\r\n\r\nevil`,
  "other bytes after an answer": `${OK}${ONE}GARBAGE`,
  "an empty line after an answer": `${OK}${ONE}\r\n`,
  "bytes after the last answer of a connection": `${OK}connection: close\r\n${ONE}GARBAGE`,
  // Cut off.
  nothing: "",
  "half a head": `${OK}content-l`,
  "half a body": `${OK}content-length: 3\r\n\r\na`,
  "half of the chunks": `${CHUNKED}1\r\na\r\n`,
  "all but the last line of the chunks": `${CHUNKED}1\r\na\r\n0\r\n`,
};

const OF_HEAD: Readonly<Record<string, string>> = {
  "a length": `${OK}content-length: 5\r\n\r\n`,
  chunks: CHUNKED,
  neither: `${OK}\r\n`,
  "a body": `${OK}content-length: 5\r\n\r\nhello`,
};

const UNBOUNDED: Readonly<Record<string, string>> = {
  "no length": `${OK}\r\nabc`,
  "HTTP/1.0": "HTTP/1.0 200 OK\r\n\r\nabc",
  "the coding identity": `${OK}transfer-encoding: identity\r\n\r\nabc`,
};

function kinds(texts: Readonly<Record<string, string>>, how: Omit<Kind, "text">): readonly Kind[] {
  return Object.entries(texts).map(([title, text]) => ({ ...how, title: `${how.title}${title}`, text }));
}

export const KINDS: readonly Kind[] = [
  ...kinds(ANSWERS, { title: "", method: "GET", acceptsUnboundedBody: false }),
  ...kinds(OF_HEAD, { title: "HEAD: ", method: "HEAD", acceptsUnboundedBody: false }),
  ...kinds(UNBOUNDED, { title: "unbounded: ", method: "GET", acceptsUnboundedBody: true }),
];

export const MUTATIONS = 24;
const TELLING = "\r\n\0\t :;,+-019afxA\x7f\x80\xff".split("");
const CHANGES_MAX = 3;

/** Returns the answer with a few changes; mutation 0 is the answer itself. */
export function mutated({ text }: Kind, kind: number, mutation: number): string {
  if (mutation === 0) return text;
  const random = randomOf(kind * 1_000 + mutation);
  let changed = text;
  for (let left = 1 + (random() % CHANGES_MAX); left > 0; left -= 1) changed = changedOnce(changed, random);
  return changed;
}

function changedOnce(text: string, random: () => number): string {
  const head = text.indexOf("\r\n\r\n");
  // Mostly within the head: elsewhere most bytes are text.
  const at = random() % ((random() % 4 === 0 || head < 0 ? text.length : head + 4) + 1);
  const telling = TELLING[random() % TELLING.length] ?? "";
  const rows = text.split("\r\n");
  const row = random() % rows.length;
  switch (random() % 6) {
    case 0:
      return `${text.slice(0, at)}${telling}${text.slice(at + 1)}`;
    case 1:
      return `${text.slice(0, at)}${telling}${text.slice(at)}`;
    case 2:
      return `${text.slice(0, at)}${text.slice(at + 1)}`;
    case 3:
      return rows.toSpliced(row, 0, rows[row] ?? "").join("\r\n");
    case 4:
      return rows.toSpliced(row, 1).join("\r\n");
    default:
      return text.slice(0, at);
  }
}

/** Returns a source of numbers (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

/**
 * Sends one request to a server that answers with these parts and ends the connection. Returns the failure; or the status, and a
 * digest of headers and body.
 */
export async function verdictOf(
  { client, server }: { readonly client: EgressClient; readonly server: RawServer },
  { method, acceptsUnboundedBody }: Omit<Kind, "text" | "title">,
  parts: readonly string[],
): Promise<string> {
  server.answer = async ({ socket }) => {
    socket.setNoDelay(true);
    for (const part of parts) {
      socket.write(Buffer.from(part, "latin1"));
      await new Promise(setImmediate);
    }
    socket.end();
  };
  const url = new URL(`http://127.0.0.1:${server.port}/`);
  const request: EgressRequest = { method, url, bodyBytesMax: 1_000, isRepeatable: true, acceptsUnboundedBody };
  try {
    const { status, headers, body } = await client.send({ ...request, timeoutMs: 10_000 });
    const seen = JSON.stringify([Object.entries(headers).sort(), body.toString("latin1")]);
    return `${status}:${createHash("sha256").update(seen).digest("hex").slice(0, 8)}`;
  } catch (error) {
    if (error instanceof EgressError) return error.failure;
    throw error;
  }
}
