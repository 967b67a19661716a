import { afterEach, beforeEach, expect, test } from "bun:test";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { sinkOf } from "../../src/http/exchange.ts";
import { EventStream, type EventStreamOptions, EventTail } from "../../src/http/routes/events.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { ApprovalStand } from "./approval-stand.ts";

let stand: ApprovalStand;
let server: Server | undefined;
let socket: Socket | undefined;
beforeEach(async () => {
  stand = await ApprovalStand.open();
});
afterEach(async () => {
  socket?.destroy();
  server?.close();
  await stand.close();
});

interface Followed {
  readonly socket: Socket;
  readonly received: () => string;
  /** Whether the stream is over, as the service sees it. */
  readonly isOver: () => boolean;
}

/** A client on a real socket, with patience and heartbeats that a test can await. */
async function follow(changes: Partial<EventStreamOptions>): Promise<Followed> {
  let isOver = false;
  const listening = createServer((_request, response) => {
    response.writeHead(200);
    const stream = new EventStream({
      tail: new EventTail(stand.approvals),
      ...{ client: sinkOf(response), after: 0, mayWatch: () => true, tokenLeftMs: () => 60_000 },
      verifyAgain: async () => {},
      ...{ heartbeatMs: 60_000, patienceMs: 60_000, ...changes },
    });
    response.once("close", () => stream.end());
    const over = (): void => {
      isOver = true;
    };
    stream.run().then(over, over);
  });
  server = listening;
  const { promise, resolve } = Promise.withResolvers<void>();
  listening.listen(0, "127.0.0.1", resolve);
  await promise;
  let received = "";
  const client = connect((listening.address() as AddressInfo).port, "127.0.0.1");
  client.on("data", (bytes) => {
    received += bytes.toString();
  });
  client.on("error", () => {});
  client.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  socket = client;
  await until("an open stream", () => (received.includes(": open") ? true : undefined));
  return { socket: client, received: () => received, isOver: () => isOver };
}

const requester = { issuer: AGENTS_ISSUER, subject: "agent-7", actors: [], session: undefined };
const LONG = "x".repeat(200_000);
const QUESTIONS = 40;
/** Each leaves two events. */
const PAST_QUESTIONS = 250;
const PAGE_EVENTS = 100;

/** Eight million characters of events: more than sockets hold between two ends. */
async function flood(): Promise<void> {
  for (let count = 0; count < QUESTIONS; count += 1) {
    const { id } = await stand.ask({ summary: LONG });
    await stand.approvals.cancel(id, requester);
  }
}

test("a client that has disconnected before its stream begins ends it", async () => {
  const ended = Promise.withResolvers<void>();
  const listening = createServer(async (_request, response) => {
    await once(response, "close");
    sinkOf(response).onDisconnect(ended.resolve);
  });
  server = listening;
  listening.listen(0, "127.0.0.1");
  await once(listening, "listening");
  socket = connect((listening.address() as AddressInfo).port, "127.0.0.1");
  socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await once(listening, "request");
  socket.destroy();
  await ended.promise;
});

test("a heartbeat is a comment", async () => {
  const { received } = await follow({ heartbeatMs: 5 });
  await until("heartbeats", () => (received().split(":\n\n").length > 3 ? true : undefined));
  expect(received()).not.toContain("event:");
});

test("a heartbeat that finds the token invalid ends the stream", async () => {
  let isGood = true;
  const verifyAgain = async (): Promise<void> => {
    if (!isGood) throw new Error("its key was taken back");
  };
  const { received, isOver } = await follow({ heartbeatMs: 5, verifyAgain });
  await until("a heartbeat", () => (received().includes(":\n\n") ? true : undefined));
  isGood = false;
  await until("its end", () => (isOver() ? true : undefined));
});

test("a client that reads nothing is disconnected, and little is buffered for it", async () => {
  const { socket: client, isOver } = await follow({ patienceMs: 50 });
  client.pause();
  const before = process.memoryUsage().rss;
  await flood();
  await until("its end", () => (isOver() ? true : undefined));
  expect(process.memoryUsage().rss - before).toBeLessThan(200_000_000);
});

test("a client that is slow for a while loses nothing and sees nothing twice", async () => {
  const { socket: client, received, isOver } = await follow({});
  client.pause();
  await flood();
  client.resume();
  await until("the last event", () => (received().includes(`id: ${QUESTIONS * 2}\n`) ? true : undefined));
  const ids = [...received().matchAll(/^id: (\d+)\nevent/gm)].map(([, id]) => Number(id));
  expect(ids).toEqual(Array.from({ length: QUESTIONS * 2 }, (_, index) => index + 1));
  expect(isOver()).toBe(false);
});

test("streams at the same event share a read, but none that began before the notification", async () => {
  const { promise: letGo, resolve: release } = Promise.withResolvers<void>();
  let reads = 0;
  const tail = new EventTail({
    ...stand.approvals,
    async eventsAfter(seq, limit) {
      reads += 1;
      const page = await stand.approvals.eventsAfter(seq, limit);
      await letGo;
      return page;
    },
  });
  const { promise: woken, resolve: wake } = Promise.withResolvers<void>();
  const leave = tail.join(wake);
  const early = [tail.read(0), tail.read(0)];
  await stand.ask();
  await woken;
  const late = tail.read(0);
  release();
  expect((await Promise.all([...early, late])).map((page) => page.length)).toEqual([0, 0, 1]);
  expect(reads).toBe(2);
  leave();
});

test("other streams run between two pages of a long history", async () => {
  for (let count = 0; count < PAST_QUESTIONS; count += 1) {
    const asking = { ...requester, subject: `agent-${count}` };
    const { id } = await stand.ask({ requester: asking });
    await stand.approvals.cancel(id, asking);
  }
  let turns = 0;
  let isCounting = true;
  const count = (): void => {
    turns += 1;
    if (isCounting) setImmediate(count);
  };
  count();
  const turnOf: number[] = [];
  await follow({ mayWatch: () => turnOf.push(turns) < 0 });
  await until("the last event", () => (turnOf.length === 2 * PAST_QUESTIONS ? true : undefined));
  isCounting = false;
  expect(new Set(turnOf).size).toBe((2 * PAST_QUESTIONS) / PAGE_EVENTS);
});

test("a store that closes ends the stream", async () => {
  const { isOver } = await follow({ heartbeatMs: 5 });
  await stand.approvals.close();
  await until("its end", () => (isOver() ? true : undefined));
});

test("a disconnected client is forgotten", async () => {
  const { socket: client, isOver } = await follow({});
  client.destroy();
  await until("its end", () => (isOver() ? true : undefined));
});
