import { expect, test } from "bun:test";
import { readStrictly, WRONG_HOST } from "./strict-reading.ts";

const HEAD = "POST /call HTTP/1.1\r\nHost: localhost\r\n";
const NEXT = "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n";

test.each([
  ["a length", `${HEAD}Content-Length: 2\r\n\r\nab`, "ab", []],
  ["a length with leading zeros", `${HEAD}Content-Length: 002\r\n\r\nab`, "ab", ["leading zeros of a length"]],
  ["no length", `${HEAD}\r\n`, "", []],
  ["chunks", `${HEAD}Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n`, "ab", []],
  [
    "a chunk extension",
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n2 ; a = "b;\\"c"\r\nab\r\n0\r\n\r\n`,
    "ab",
    ["chunk extension"],
  ],
  ["a trailer", `${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n`, "ab", ["trailer"]],
  ["an empty line before it", `\r\n${HEAD}Content-Length: 2\r\n\r\nab`, "ab", ["empty line before the request"]],
  ["no Host", `${HEAD.replace("Host", "X")}Content-Length: 2\r\n\r\nab`, "ab", [WRONG_HOST]],
  ["Host twice", `${HEAD}Host: localhost\r\nContent-Length: 2\r\n\r\nab`, "ab", [WRONG_HOST]],
  ["an empty value, spaces and tabs", `${HEAD}X:\r\nY: \t \r\nZ:a b\t\r\nContent-Length:2 \r\n\r\nab`, "ab", []],
])("a request with %s is read, and the one after it", (_title, text, content, unusual) => {
  const { requests, end } = readStrictly(text + NEXT);
  expect(requests.map((request) => request.target)).toEqual(["/call", "/next"]);
  expect(requests[0]).toMatchObject({ content, unusual });
  expect(end).toBe("");
});

test.each([
  ["LF alone", "POST /call HTTP/1.1\nHost: localhost\n\n"],
  ["CR in a value", `${HEAD}X: a\rb\r\n\r\n`],
  ["a folded line", `${HEAD}X: a\r\n b\r\n\r\n`],
  ["a space before the colon", `${HEAD}X : a\r\n\r\n`],
  ["NUL", `${HEAD}X: \0\r\n\r\n`],
  ["two spaces in the request line", HEAD.replace(" ", "  ")],
  ["another version", HEAD.replace("1.1", "1.2")],
  ["a length and a coding", `${HEAD}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ["two lengths", `${HEAD}Content-Length: 0\r\nContent-Length: 0\r\n\r\n`],
  ["a length with a sign", `${HEAD}Content-Length: +0\r\n\r\n`],
  ["a list of codings", `${HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ["a coding in HTTP/1.0", `${HEAD.replace("1.1", "1.0")}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ["a size with a sign", `${HEAD}Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n`],
  ["a chunk that ends in LF", `${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n`],
  ["an extension with CR", `${HEAD}Transfer-Encoding: chunked\r\n\r\n1;\r\r\na\r\n0\r\n\r\n`],
  ["a body that is cut off", `${HEAD}Content-Length: 500\r\n\r\n`],
])("%s ends the reading: neither this request nor the next one counts", (_title, text) => {
  const { requests, end } = readStrictly(text + NEXT);
  expect(requests).toEqual([]);
  expect(end).not.toBe("");
});

test.each([
  ["Connection: close", `${HEAD}Connection: x, Close\r\n\r\n`],
  ["HTTP/1.0", `${HEAD.replace("1.1", "1.0")}\r\n`],
  ["CONNECT", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"],
])("%s makes a request the connection's last one", (_title, text) => {
  expect(readStrictly(text + NEXT).requests).toHaveLength(1);
});
