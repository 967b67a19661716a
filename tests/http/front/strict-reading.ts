/**
 * Reads a stream as RFC 9112 and nothing more says: an independent reader for tests, which shares no code with the service.
 * Everything that is not of the grammar, or that the specification lets two readers read in two ways, ends the reading.
 */
export interface StrictReading {
  readonly requests: readonly StrictRequest[];
  /** Why nothing after the requests counts. */
  readonly end: string;
}

export interface StrictRequest {
  readonly method: string;
  readonly target: string;
  readonly content: string;
  /** Sizes of its chunks, as they are written. */
  readonly sizes: readonly string[];
  /** What is valid, but unusual: a service may refuse it. */
  readonly unusual: readonly string[];
}

class Invalid extends Error {}

/** After a length or coding: allowed, and sent by nobody. */
export const TAB_AFTER_FRAMING = "tab after a length or coding";
/** Of a request that nobody may execute. */
export const WRONG_HOST = "no Host or several";

const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP\/1\.([01])$/;
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)[ \t]*$/;
const QUOTED = String.raw`"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"`;
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const CHUNK_LINE = new RegExp(
  `^([0-9A-Fa-f]+)((?:[ \\t]*;[ \\t]*${TOKEN}(?:[ \\t]*=[ \\t]*(?:${TOKEN}|${QUOTED}))?)*)$`,
);
/** Beyond these digits, a size is not a number that all readers agree on. */
const SIZE_MAX = Number.MAX_SAFE_INTEGER;

interface Cursor {
  readonly text: string;
  at: number;
}

export function readStrictly(text: string): StrictReading {
  const cursor = { text, at: 0 };
  const requests: StrictRequest[] = [];
  try {
    while (cursor.at < text.length) {
      const { request, isLast } = readRequest(cursor);
      requests.push(request);
      if (isLast) return { requests, end: "the connection's last request" };
    }
    return { requests, end: "" };
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    return { requests, end: error.message };
  }
}

function readRequest(cursor: Cursor): { readonly request: StrictRequest; readonly isLast: boolean } {
  const unusual: string[] = [];
  // A server should ignore an empty line before the request line (RFC 9112, 2.2).
  while (cursor.text.startsWith("\r\n", cursor.at)) {
    cursor.at += 2;
    unusual.push("empty line before the request");
  }
  const [, method = "", target = "", minor = ""] = REQUEST_LINE.exec(lineOf(cursor)) ?? invalid("request line");
  const headers = readHeaders(cursor, unusual);
  const values = (name: string): readonly string[] =>
    headers.filter(([other]) => other === name).map(([, value]) => value);
  // Must be refused (RFC 9112, 3.2), but the next request begins at the same place for everybody.
  if (values("host").length > 1 || (minor === "1" && values("host").length === 0)) unusual.push(WRONG_HOST);
  if (minor === "0") unusual.push("HTTP/1.0");
  if (!target.startsWith("/")) unusual.push("target");
  const sizes: string[] = [];
  const content = readContent(cursor, { values, minor, unusual, sizes });
  const options = values("connection").flatMap((value) =>
    value
      .toLowerCase()
      .split(",")
      .map((option) => option.trim()),
  );
  const isLast =
    options.includes("close") || (minor === "0" && !options.includes("keep-alive")) || method === "CONNECT";
  return { request: { method, target, content, sizes, unusual }, isLast };
}

function readHeaders(cursor: Cursor, unusual: string[]): readonly (readonly [string, string])[] {
  const headers: (readonly [string, string])[] = [];
  for (let line = lineOf(cursor); line !== ""; line = lineOf(cursor)) {
    const [, name = "", value = ""] = HEADER.exec(line) ?? invalid("header");
    headers.push([name.toLowerCase(), value]);
    if (/^(?:content-length|transfer-encoding):.*\t *$/i.test(line)) unusual.push(TAB_AFTER_FRAMING);
  }
  return headers;
}

interface Framing {
  values(name: string): readonly string[];
  readonly minor: string;
  readonly unusual: string[];
  readonly sizes: string[];
}

function readContent(cursor: Cursor, { values, minor, unusual, sizes }: Framing): string {
  const [lengths, codings] = [values("content-length"), values("transfer-encoding")];
  if (codings.length > 0) {
    if (minor === "0" || lengths.length > 0) invalid("length and coding");
    if (codings.length > 1 || codings[0]?.toLowerCase() !== "chunked") invalid("coding");
    return readChunks(cursor, unusual, sizes);
  }
  if (lengths.length === 0) return "";
  const [length = ""] = lengths;
  if (lengths.length > 1 || !/^\d+$/.test(length) || Number(length) > SIZE_MAX) invalid("length");
  if (/^0\d/.test(length)) unusual.push("leading zeros of a length");
  return take(cursor, Number(length));
}

function readChunks(cursor: Cursor, unusual: string[], sizes: string[]): string {
  let content = "";
  for (;;) {
    const [, digits = "", extensions = ""] = CHUNK_LINE.exec(lineOf(cursor)) ?? invalid("chunk");
    sizes.push(digits);
    const size = Number.parseInt(digits, 16);
    if (size > SIZE_MAX) invalid("size of a chunk");
    if (extensions !== "") unusual.push("chunk extension");
    if (/^0\w/.test(digits)) unusual.push("leading zeros of a chunk's size");
    if (size === 0) break;
    content += take(cursor, size);
    if (take(cursor, 2) !== "\r\n") invalid("end of a chunk");
  }
  if (readHeaders(cursor, unusual).length > 0) unusual.push("trailer");
  return content;
}

/** Returns the text up to the next CRLF; a CR or LF of its own is invalid. */
function lineOf(cursor: Cursor): string {
  const end = cursor.text.indexOf("\r\n", cursor.at);
  if (end === -1) invalid("no line end");
  const line = cursor.text.slice(cursor.at, end);
  if (/[\r\n]/.test(line)) invalid("CR or LF alone");
  cursor.at = end + 2;
  return line;
}

function take(cursor: Cursor, length: number): string {
  if (cursor.at + length > cursor.text.length) invalid("incomplete body");
  cursor.at += length;
  return cursor.text.slice(cursor.at - length, cursor.at);
}

function invalid(what: string): never {
  throw new Invalid(what);
}
