import { afterEach, expect, test } from "bun:test";
import type { ServerResponse } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { EVENTS, HUB_PATH, MEMBER_HEADERS, type PushSource } from "../../src/hub/contract.ts";
import { until } from "../support/until.ts";
import { openHub, openMember } from "./world.ts";

const VALUE_BYTES = 1_048_576;
const CHANGES = 40;

const closings: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closings.splice(0).reverse()) await close();
});

/** A hub whose value is large, and changes when the test says so. */
async function hubOfLargeValues() {
  let turn = 0;
  let changed = (): void => {};
  const source: PushSource = {
    name: "halts.list",
    current: async () => ({ value: { turn, text: "x".repeat(VALUE_BYTES) }, now: Date.now() }),
    watch(notify) {
      changed = notify;
      const timer = setInterval(notify, 100);
      return () => clearInterval(timer);
    },
  };
  const tokens = {
    verify: async () => ({ caller: { issuer: "i", subject: "agent-1", expiresAt: Date.now() / 1_000 + 600 } }) as never,
  };
  const hub = await openHub({ sources: [source], tokens, rules: [{ subject: "agent-*" }] });
  closings.push(() => hub.listener.close());
  const responses: ServerResponse[] = [];
  const { streams } = hub;
  const send = streams.send.bind(streams);
  streams.send = (response, untilMs) => {
    responses.push(response);
    return send(response, untilMs);
  };
  const change = async (): Promise<void> => {
    turn += 1;
    changed();
    await Bun.sleep(20);
  };
  return { hub, responses, change, turn: () => turn };
}

test("a reader that stands still is cut off within seconds, and no changes are kept for it meanwhile", async () => {
  const { hub, responses, change } = await hubOfLargeValues();
  const socket = connect(hub.port, "127.0.0.1").on("error", () => {});
  closings.push(() => socket.destroy());
  const head = [`GET ${HUB_PATH}${EVENTS} HTTP/1.1`, "host: hub", "authorization: Bearer good"];
  const facts = [`${MEMBER_HEADERS.instance}: log-1`, `${MEMBER_HEADERS.version}: 0.0.0`];
  socket.write(`${[...head, ...facts].join("\r\n")}\r\n\r\n`);
  socket.pause();
  await until("the stream", () => hub.streams.size === 1 || undefined);
  let heldMax = 0;
  for (let count = 0; count < CHANGES; count += 1) {
    await change();
    heldMax = Math.max(heldMax, responses[0]?.writableLength ?? 0);
  }
  expect(heldMax).toBeGreaterThan(0);
  expect(heldMax).toBeLessThan(3 * VALUE_BYTES);
  await until("the end of the stream", () => hub.streams.size === 0 || undefined);
  expect(responses[0]?.destroyed).toBe(true);
  expect(hub.connected.connected).toBe(0);
}, 60_000);

test("a member whose connection stood still connects again, and knows what is in force now", async () => {
  const { hub, change, turn } = await hubOfLargeValues();
  const still: Socket[] = [];
  let isStill = false;
  const relay = createServer((member) => {
    const onward = connect(hub.port, "127.0.0.1");
    still.push(onward);
    for (const [from, to] of [
      [member, onward],
      [onward, member],
    ] as const) {
      from.on("data", (piece) => void to.write(piece));
      from.on("error", () => {});
      from.on("close", () => to.destroy());
    }
    if (isStill) onward.pause();
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  const address = relay.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const member = openMember({ port, token: () => "good" });
  closings.push(() => new Promise((resolve) => relay.close(resolve)));
  closings.push(() => member.close());
  const known = (): unknown => (member.pushed("halts.list")?.value as { readonly turn: number } | undefined)?.turn;
  await until("the first value", () => known() === 0 || undefined);
  isStill = true;
  for (const socket of still) socket.pause();
  for (let count = 0; count < CHANGES; count += 1) await change();
  await until("the member to know that it is cut off", () => !member.isConnected || undefined);
  expect(known()).toBeUndefined();
  isStill = false;
  await until("the present value", () => known() === turn() || undefined);
  // The first connection still holds old values.
  expect(still.length).toBeGreaterThan(1);
}, 60_000);
