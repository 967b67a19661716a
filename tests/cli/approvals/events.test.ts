import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { EventReader, followEvents, type StreamUpdate } from "../../../src/cli/approvals/events.ts";
import type { Client } from "../../../src/cli/client.ts";
import { until } from "../../support/until.ts";

describe("a stream of events", () => {
  test.each([
    ["one", "event: a\ndata: {}\n\n", [{ type: "a", data: "{}" }]],
    ["without a type", "data:x\n\n", [{ type: "message", data: "x" }]],
    ["of several lines", "data: x\ndata:  y\ndata\n\n", [{ type: "message", data: "x\n y\n" }]],
    [
      "ended by CR and CRLF",
      "event: a\rdata: 1\r\r\nevent: b\r\ndata: 2\r\n\r\n",
      [
        { type: "a", data: "1" },
        { type: "b", data: "2" },
      ],
    ],
    ["comments and heartbeats", ": open\n:\n\n:\n\n", []],
    ["without data", "event: a\nid: 3\n\n", []],
    ["not whole yet", "data: x\n", []],
    ["fields that nobody knows", "retry: 1\ndatax: 2\ndata: y\n\n", [{ type: "message", data: "y" }]],
  ])("%s", (_, text, events) => {
    expect(new EventReader().read(text)).toEqual(events);
  });

  test.each([
    ["id: 7\n\n", "7"],
    ["id: 7\ndata: x\n\n", "7"],
    ["id: 7\ndata: x\n", undefined],
    ["id: 7\r\nx: y\n\nid: evil\r\n\n", "7"],
    [`id: ${"9".repeat(21)}\n\n`, undefined],
  ])("%p ends at id %p", (text, id) => {
    const reader = new EventReader();
    reader.read(text);
    expect(reader.lastId).toBe(id);
  });

  test("an endless event is given up", () => {
    expect(() => new EventReader().read("data: ".padEnd(70_000, "x"))).toThrow(RangeError);
    expect(() => new EventReader().read("data: x\n".repeat(20_000))).toThrow(RangeError);
    expect(new EventReader().read("data: x\n\n".repeat(20_000))).toHaveLength(20_000);
    expect(new EventReader().read(":\n".repeat(50_000))).toEqual([]);
  });

  test("a long event is read once, however small its pieces are", () => {
    const reader = new EventReader(4_000_000);
    const piece = "x".repeat(64);
    reader.read("data: ");
    // Quadratic work on these would take minutes.
    for (let count = 0; count < 50_000; count += 1) expect(reader.read(piece).length).toBe(0);
    expect(reader.read("\n\n")).toEqual([{ type: "message", data: piece.repeat(50_000) }]);
    expect(() => new EventReader(10).read("data: longer\n\n")).toThrow(RangeError);
  });

  test("pieces make no difference", () => {
    const line = fc.constantFrom("data: x", "data", "event: e", "id: 5", ": c", "", "", "a:b", "data: é");
    const text = fc
      .array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r")), { maxLength: 30 })
      .map((lines) => `${lines.flat().join("")}\n`);
    fc.assert(
      fc.property(text, fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), (all, sizes) => {
        const whole = new EventReader();
        const pieces = new EventReader();
        const events = [];
        for (let from = 0, at = 0; from < all.length; at += 1) {
          const size = sizes[at % sizes.length] ?? 1;
          events.push(...pieces.read(all.slice(from, from + size)));
          from += size;
        }
        expect(events).toEqual([...whole.read(all)]);
        expect(pieces.lastId).toBe(whole.lastId);
      }),
    );
  });
});

/** A service that answers each connection with the next of these. */
async function follow(
  answers: readonly (() => Response)[],
  want: number,
): Promise<{ hints: StreamUpdate[]; resumed: string[] }> {
  const resumed: string[] = [];
  const client: Pick<Client, "open"> = {
    open: async (_, { headers }) => {
      resumed.push(new Headers(headers).get("last-event-id") ?? "-");
      const answer = answers[resumed.length - 1];
      if (answer === undefined) throw new Error("no answer");
      return answer();
    },
  };
  const leaving = new AbortController();
  const hints: StreamUpdate[] = [];
  const following = (async () => {
    for await (const hint of followEvents(client, leaving.signal)) hints.push(hint);
  })();
  await until(`${want} hints`, () => hints.length >= want || undefined);
  leaving.abort();
  await following;
  return { hints: hints.slice(0, want), resumed };
}

describe("following", () => {
  test("continues from the last complete event", async () => {
    const first = () => new Response("id: 41\ndata: {}\n\nid: 42\ndata: x\n");
    const { hints, resumed } = await follow([first, () => new Response("id: 50\n\n")], 5);
    expect(hints.map(({ kind }) => kind)).toEqual(["connected", "event", "lost", "connected", "lost"]);
    expect(resumed.slice(0, 2)).toEqual(["-", "41"]);
  });

  test.each([429, 500, 503])("tries again after %i", async (status) => {
    const { hints } = await follow([() => new Response("", { status }), () => new Response("")], 2);
    expect(hints.map(({ kind }) => kind)).toEqual(["lost", "connected"]);
  });

  test.each([401, 403, 404])("ends with %i", async (status) => {
    const { hints } = await follow([() => Response.json({ error: {} }, { status })], 1);
    expect(hints).toEqual([{ kind: "refused", answer: { status, body: { error: {} }, servedAt: undefined } }]);
  });

  test("an endless refusal is not read to its end", async () => {
    let pieces = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        pieces += 1;
        controller.enqueue(new Uint8Array(16_384));
      },
    });
    const { hints } = await follow([() => new Response(body, { status: 403 })], 1);
    expect(hints).toEqual([{ kind: "refused", answer: { status: 403, body: undefined, servedAt: undefined } }]);
    expect(pieces).toBeLessThan(20);
  });
});
