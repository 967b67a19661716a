import { headerLine, TOKEN } from "../http1/headers.ts";
import type { EgressRequest } from "./request.ts";

const USER_AGENT = "safe-tool-call";
/** Methods whose requests have no body unless one is given. */
const BODILESS = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);
/** Headers that only the client sets. */
const OWN = new Set(["host", "content-length", "transfer-encoding", "connection"]);
const TARGET = /^[\x21-\x7e]+$/;

/**
 * Returns the head and the body of a request as they are sent.
 *
 * @throws {TypeError} when a character could end a line or a word of the head
 */
export function requestBytes({ method, url, headers = {}, body }: EgressRequest, keepsConnection: boolean): Buffer {
  const target = `${url.pathname}${url.search}`;
  if (!TOKEN.test(method) || !TARGET.test(target)) throw invalid("the request line");
  let head = `${method} ${target} HTTP/1.1\r\nhost: ${url.host}\r\n`;
  if (headers["user-agent"] === undefined) head += `user-agent: ${USER_AGENT}\r\n`;
  if (headers["accept-encoding"] === undefined) head += "accept-encoding: identity\r\n";
  for (const name in headers) {
    const line = headerLine(name, headers[name] ?? "");
    if (line === undefined) throw invalid("a header");
    if (!OWN.has(name.toLowerCase())) head += line;
  }
  const bodyLength = body === undefined ? 0 : Buffer.byteLength(body);
  if (body !== undefined || !BODILESS.has(method)) head += `content-length: ${bodyLength}\r\n`;
  head += keepsConnection ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  // Every character of a head is one byte.
  const bytes = Buffer.allocUnsafe(head.length + bodyLength);
  bytes.write(head, "latin1");
  if (typeof body === "string") bytes.write(body, head.length);
  else if (body !== undefined) bytes.set(body, head.length);
  return bytes;
}

function invalid(where: string): TypeError {
  return Object.assign(new TypeError(`invalid character in ${where}`), { code: "ERR_INVALID_CHAR" });
}
