import { describe, expect, test } from "bun:test";
import { followEvents, type StreamUpdate } from "../../../src/cli/approvals/events.ts";
import type { Client } from "../../../src/cli/client.ts";
import { until } from "../../support/until.ts";

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
