import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { EventReader } from "../../src/core/event-reader.ts";

const LIMIT = 65_536;
const bytesOf = (text: string) => new TextEncoder().encode(text);

interface Read {
  readonly events: readonly { readonly type: string; readonly data: string }[];
  readonly lastId: string | undefined;
}

function read(pieces: readonly (string | Uint8Array)[], reader = new EventReader(LIMIT)): Read {
  const events = pieces.flatMap((piece) => [...reader.read(typeof piece === "string" ? bytesOf(piece) : piece)]);
  return { events: events.map(({ type, data }) => ({ type, data })), lastId: reader.lastId };
}

/** Cuts the bytes into pieces of these sizes, in turn. */
function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let from = 0; from < bytes.length; ) {
    const size = sizes[pieces.length % sizes.length] ?? 1;
    pieces.push(bytes.slice(from, from + size));
    from += size;
  }
  return pieces;
}

/** The HTML standard, 9.2.6, on a whole stream, with our rule for ids. */
function asTheStandardSays(bytes: Uint8Array): Read {
  const lines = new TextDecoder().decode(bytes).split(/\r\n|\n|\r/);
  const events: { type: string; data: string }[] = [];
  let lastId: string | undefined;
  let [data, type, id] = ["", "", lastId];
  for (const line of lines.slice(0, -1)) {
    if (line === "") {
      if (data !== "") events.push({ type: type || "message", data: data.slice(0, -1) });
      lastId = id ?? lastId;
      [data, type, id] = ["", "", undefined];
      continue;
    }
    const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === "data") data += `${value}\n`;
    if (field === "event") type = value;
    if (field === "id" && /^[!-~]{1,256}$/.test(value)) id = value;
  }
  return { events, lastId };
}

describe("server-sent events", () => {
  test("are read as the HTML standard says, whatever bytes come and however they are cut", () => {
    const line = fc.oneof(
      fc.constantFrom(
        "data: x",
        "data",
        "data:",
        "data:  y",
        "dat",
        "datax: 1",
        "data :1",
        "event: e",
        "event",
        "id: 5",
      ),
      fc.constantFrom(
        "id",
        "id: a\0b",
        "id: a b",
        `id: ${"9".repeat(257)}`,
        ": c",
        "",
        "",
        "a:b",
        "\ufeffdata: b",
        "data: \ufeffé😀",
      ),
      fc.string({ unit: "binary", maxLength: 12 }),
    );
    const text = fc
      .array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r")), { maxLength: 30 })
      .map((lines) => bytesOf(lines.flat().join("")));
    const marked = text.map((bytes) => new Uint8Array([0xef, 0xbb, 0xbf, ...bytes]));
    const damaged = fc
      .tuple(text, fc.uint8Array({ maxLength: 4 }))
      .map(([bytes, end]) => new Uint8Array([...bytes, ...end, 10, 10]));
    fc.assert(
      fc.property(
        fc.oneof(text, marked, damaged),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
        (bytes, sizes) => {
          const want = asTheStandardSays(bytes);
          expect(read([bytes])).toEqual(want);
          expect(read(cut(bytes, sizes))).toEqual(want);
        },
      ),
      { seed: Number(process.env["STC_TEST_SEED"] ?? 1), numRuns: 1_000 },
    );
  });

  test.each([
    ["one", "event: a\ndata: {}\n\n", [{ type: "a", data: "{}" }]],
    ["without a type", "data:x\n\n", [{ type: "message", data: "x" }]],
    ["of several lines", "data: x\ndata:  y\ndata\n\n", [{ type: "message", data: "x\n y\n" }]],
    ["ended by CR", "event: a\rdata: 1\r\r", [{ type: "a", data: "1" }]],
    ["comments and heartbeats", ": open\n:\n\n:\n\n", []],
    ["without data", "event: a\nid: 3\n\n", []],
    ["not complete", "data: x\n", []],
    ["unknown fields", "retry: 1\ndatax: 2\ndata: y\n\n", [{ type: "message", data: "y" }]],
    ["after a byte order mark", "\ufeffdata: y\n\n", [{ type: "message", data: "y" }]],
  ])("%s", (_, text, events) => {
    expect(read([text]).events).toEqual(events);
  });

  test.each([
    ["of an event without data counts", "id: 7\n\n", "7"],
    ["counts with the event's end", "id: 7\ndata: x\n\n", "7"],
    ["of an event that is not complete does not", "id: 7\ndata: x\n", "before"],
    ["of the last event counts", "id: 6\n\nid: 7\r\n\r\n", "7"],
    ["that no header carries is ignored", "id: a\0b\n\nid: a b\n\nid: é\n\n", "before"],
    ["that is too long is ignored", `id: ${"1".repeat(300)}\n\n`, "before"],
    ["that is empty is ignored", "id:\n\n", "before"],
  ])("an id %s", (_, text, lastId) => {
    expect(read([text], new EventReader(LIMIT, "before")).lastId).toBe(lastId);
  });

  test("the bytes of data that is not UTF-8 are unchanged", () => {
    const [event] = new EventReader(LIMIT).read(Uint8Array.of(...bytesOf("data: "), 0xff, 0x80, ...bytesOf("\n\n")));
    expect(event?.bytes).toEqual(Uint8Array.of(0xff, 0x80));
    expect(event?.data).toBe("\ufffd\ufffd");
  });

  test("an event keeps its bytes when others follow", () => {
    const [first, second] = new EventReader(LIMIT).read(bytesOf("data: one\n\ndata: two\n\n"));
    expect([first?.data, second?.data]).toEqual(["one", "two"]);
  });
});

describe("the limit of an event", () => {
  const exact = "data: 3456\n";

  test("is the bytes of its lines: exactly so many pass", () => {
    expect(read([`${exact}\n`], new EventReader(10)).events).toEqual([{ type: "message", data: "3456" }]);
    expect(() => read([`${exact}\n`], new EventReader(9))).toThrow(RangeError);
  });

  test.each([
    ["one line", "data: ".padEnd(70_000, "x")],
    ["a line without a field", "x".repeat(70_000)],
    ["many lines", "data: x\n".repeat(20_000)],
    ["many lines without data", "data:\n".repeat(20_000)],
    ["many unknown fields", "x: y\n".repeat(20_000)],
    ["a long comment", ":".repeat(70_000)],
  ])("ends an event that never ends: %s", (_, flood) => {
    for (const sizes of [[1], [1_000], [flood.length]]) {
      expect(() => read(cut(bytesOf(flood), sizes))).toThrow(RangeError);
    }
  });

  test("is the same for every event, and comments do not count", () => {
    expect(read(["data: x\n\n".repeat(20_000)]).events).toHaveLength(20_000);
    expect(read([":\n".repeat(50_000)]).events).toEqual([]);
  });

  test("lets the events before it through", () => {
    const reader = new EventReader(10);
    const seen: string[] = [];
    const all = () => {
      for (const { data } of reader.read(bytesOf("data: 1\n\ndata: 23456\n\n"))) seen.push(data);
    };
    expect(all).toThrow(RangeError);
    expect(seen).toEqual(["1"]);
  });

  test("a long event is read once, however small its pieces are", () => {
    const reader = new EventReader(4_000_000);
    const piece = "x".repeat(64);
    // Quadratic work on these would take minutes.
    expect(read(["data: ", ...Array.from({ length: 50_000 }, () => piece)], reader).events).toEqual([]);
    expect(read(["\n\n"], reader).events).toEqual([{ type: "message", data: piece.repeat(50_000) }]);
  });
});
