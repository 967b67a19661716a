import { expect, test } from "bun:test";
import { callOf, randomStream, singleOddities } from "./stream-grammar.ts";
import { faultsOf, KINDS, outcomesOf } from "./stream-runs.ts";

const RANDOM_STREAMS = 400;

test("each oddity of a request alone has the outcome that it has at the other server", async () => {
  expect(await faultsOf(singleOddities())).toEqual([]);
});

test("random streams of requests have the outcome that they have at the other server", async () => {
  expect(await faultsOf(Array.from({ length: RANDOM_STREAMS }, (_, seed) => randomStream(seed)))).toEqual([]);
});

const CHUNKED = callOf("a").replace(/Content-Length.*/s, "Transfer-Encoding: chunked\r\n\r\n");
const TOO_LONG = `${CHUNKED}${`190\r\n${" ".repeat(400)}\r\n`.repeat(8)}0\r\n\r\n`;
const EARLY = "OPTIONS /nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n";

/** Streams that a version of one of the servers has read wrongly. */
test.each([
  ["LF before a request", `\n${callOf("a")}`, ["400 MALFORMED_REQUEST"], []],
  ["CR before a request", `\r${callOf("a")}`, ["400 MALFORMED_REQUEST"], []],
  ["LF between two calls", `${callOf("a")}\n${callOf("b")}`, ["200 success", "400 MALFORMED_REQUEST"], ["a"]],
  ["an empty line between two calls", `${callOf("a")}\r\n${callOf("b")}`, ["200 success", "200 success"], ["a", "b"]],
  ["the URL of a web socket", callOf("a").replace("/call", "ws://localhost/call"), ["400 MALFORMED_REQUEST"], []],
  ["a call after a body over the limit", TOO_LONG + callOf("b"), ["413 PAYLOAD_TOO_LARGE"], []],
  [
    "a call after a body over the limit after another answer",
    `${callOf("a").replace("/call", "/tools")}${TOO_LONG}${callOf("b")}`,
    ["405 METHOD_NOT_ALLOWED", "413 PAYLOAD_TOO_LARGE"],
    [],
  ],
  [
    "a call after a request with two codings",
    `${EARLY.replace("Transfer-Encoding", "Transfer-Encoding: x\r\nTransfer-Encoding")}${callOf("b")}`,
    ["404 ROUTE_NOT_FOUND"],
    [],
  ],
  [
    "garbage after an early refusal after a call",
    `${callOf("a")}${EARLY}\0\r\n\r\n`,
    ["200 success", "404 ROUTE_NOT_FOUND", "400 MALFORMED_REQUEST"],
    ["a"],
  ],
] as const)("%s", async (_title, text, answers, ran) => {
  const stream = { text, end: "probe", oddities: [], plain: [] } as const;
  expect(await outcomesOf(KINDS.front, [{ stream }])).toMatchObject([{ answers: [...answers], ran: [...ran] }]);
});
