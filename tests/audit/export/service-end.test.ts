import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { originOf, readLastNotes } from "../../../src/audit/chain/checkpoint.ts";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { ReloadService } from "../../support/reload-service.ts";

const stand = new ReloadService();
const received: string[] = [];
let status = 200;
const receiver = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    if (status === 200) received.push(await request.text());
    return new Response("", { status });
  },
});
const dir = join(stand.folder, "audit");

beforeAll(() => {
  stand.configure({ audit: { dir: "audit", export: [{ type: "loki", url: receiver.url.origin }] } });
});
afterAll(async () => {
  await stand.end();
  await receiver.stop(true);
});

/** Text in the lines that were received. */
const isReceived = (text: string): boolean => received.join("\n").includes(JSON.stringify(text).slice(1, -1));

test("a service that ends sends its last lines and checkpoints", async () => {
  await stand.start();
  expect(await stand.says()).toBe("first");
  await stand.running.drain();
  const [stopped] = stand.journal("service.stopped");
  expect(isReceived(String(stopped?.["hash"]))).toBe(true);
  const last = readLastNotes(dir).findLast(({ checkpoint }) => checkpoint?.stream === "journal");
  expect(last?.checkpoint?.size).toBe(Number(stopped?.["seq"]) + 1);
  expect(isReceived(last?.note ?? "none")).toBe(true);
});

test("a receiver that fails holds up no end, and gets the lines after the next start", async () => {
  await stand.start();
  status = 503;
  await stand.running.drain();
  const stopped = stand.journal("service.stopped").at(-1);
  expect(isReceived(String(stopped?.["hash"]))).toBe(false);
  status = 200;
  await stand.start();
  await stand.running.drain();
  expect(isReceived(String(stopped?.["hash"]))).toBe(true);
});

test("a journal names its service's logs at each start and stop, once they have lines", async () => {
  const [journal, calls] = (["journal", "calls"] as const).map((stream) =>
    originOf(stream, logIdIn(dir, stream) ?? ""),
  );
  const origins = [calls, journal];
  expect(stand.journal("service.started").map((line) => line["origins"])).toEqual([undefined, origins, origins]);
  expect(stand.journal("service.stopped").map((line) => line["origins"])).toEqual([origins, origins, origins]);
});
