import { describe, expect, test } from "bun:test";
import { backoffMs, EventParser } from "../../../src/console/app/event-parser.ts";

const STREAM = ': open\nid: 7\n\nid: 8\nevent: approval.requested\ndata: {"id":"a"}\n\n:\n\ndata: one\ndata: two\n\n';
const MESSAGES = [
  { type: "approval.requested", data: '{"id":"a"}' },
  { type: "message", data: "one\ntwo" },
];

function read(pieces: readonly string[], lastEventId = "") {
  const parser = new EventParser(lastEventId);
  return { messages: pieces.flatMap((piece) => parser.push(piece)), lastEventId: parser.lastEventId };
}

describe("server-sent events", () => {
  test.each([
    ["line feeds", STREAM],
    ["carriage returns and line feeds", STREAM.replaceAll("\n", "\r\n")],
    ["carriage returns", `${STREAM.replaceAll("\n", "\r")}:`],
    ["a byte order mark", `\ufeff${STREAM}`],
  ])("are read with %s, however they are cut", (_, text) => {
    for (let size = 1; size <= text.length; size += 1) {
      const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) =>
        text.slice(at * size, (at + 1) * size),
      );
      expect(read(pieces)).toEqual({ messages: MESSAGES, lastEventId: "8" });
    }
  });

  test("a message without data changes the id and is no message", () => {
    expect(read(["id: 12\n\n"])).toEqual({ messages: [], lastEventId: "12" });
  });

  test("an incomplete message is kept back", () => {
    expect(read(["data: one\n"]).messages).toEqual([]);
  });

  test.each(["id: a\0b\n\n", "id:\n\n", `id: ${"1".repeat(300)}\n\n`])(
    "an unusable id keeps the last one: %j",
    (text) => {
      expect(read([text], "5").lastEventId).toBe("5");
    },
  );

  test("fields without a colon, without a value, and unknown ones are accepted", () => {
    expect(read(["data\ndata:x\nretry: 5\nfoo: bar\n\n"]).messages).toEqual([{ type: "message", data: "\nx" }]);
  });

  test.each([
    ["one line", "data: ", "x".repeat(100_000)],
    ["many lines", "", `data: ${"x".repeat(1_000)}\n`],
  ])("a message that never ends is refused: %s", (_, start, piece) => {
    const parser = new EventParser();
    parser.push(start);
    const flood = () => {
      for (let at = 0; at < 10_000; at += 1) parser.push(piece);
    };
    expect(flood).toThrow(RangeError);
  });
});

test("the delay before the next attempt doubles, up to 20 seconds, and half of it is random", () => {
  expect([0, 1, 2, 3].map((failures) => backoffMs(failures, 1))).toEqual([400, 800, 1_600, 3_200]);
  expect([0, 5, 1_000].map((failures) => backoffMs(failures, 0))).toEqual([200, 6_400, 10_000]);
  expect(backoffMs(1_000, 1)).toBe(20_000);
});
