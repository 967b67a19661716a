import { afterEach, beforeEach, expect, test } from "bun:test";
import { BundleFleet, type Published } from "../support/bundle-fleet.ts";
import { FleetMember } from "../support/bundle-member.ts";
import { until } from "../support/until.ts";

/** Times are lower bounds: a slow machine only adds to them. */
let fleet: BundleFleet;
let member: FleetMember;
let published: Published;
let requests: number[];
let answer: (count: number) => Response;
let server: Bun.Server<undefined>;

beforeEach(() => {
  fleet = new BundleFleet();
  member = new FleetMember(fleet, "member");
  published = fleet.make({ version: 1 });
  requests = [];
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) => {
      if (!url.endsWith("/timestamp.json")) return new Response(published.archive);
      requests.push(performance.now());
      return answer(requests.length);
    },
  });
});
afterEach(async () => {
  await member.end();
  await server.stop(true);
  fleet.end();
});

test("a server that alternates between good and bad answers fills neither log nor journal", async () => {
  answer = (count) =>
    count % 2 === 1
      ? new Response(published.timestamp, { headers: { etag: `"${count}"`, "preference-applied": "wait=1" } })
      : new Response(`{"${count}`);
  member.configure(server.url.href, { pollSeconds: 1 });
  await member.start();
  const refusals = await until("five refusals", () => {
    const times = member.journal("bundle.refused").map(({ timestamp }) => Date.parse(String(timestamp)));
    return times.length >= 5 ? times : undefined;
  });
  // Half of 0.5, 1, 2 and 4 seconds, at least.
  expect((refusals[4] ?? 0) - (refusals[0] ?? 0)).toBeGreaterThan(3_700);
});

test("servers whose validators differ for the same file are asked once in pollSeconds", async () => {
  answer = (count) => new Response(published.timestamp, { headers: { etag: `"${count}"` } });
  member.configure(server.url.href, { pollSeconds: 1 });
  await member.start();
  await until("six requests", () => requests[5]);
  // One at the start, and two of a member that does not know yet whether the server holds requests.
  const [, , third = 0, , , last = 0] = requests;
  expect(last - third).toBeGreaterThan(2_900);
});

test("a server that promises to hold requests and does not is asked five times a second at most", async () => {
  const headers = { etag: '"same"', "preference-applied": "wait=30" };
  answer = (count) => new Response(count < 3 ? published.timestamp : null, { status: count < 3 ? 200 : 304, headers });
  member.configure(server.url.href);
  await member.start();
  await until("eight requests", () => requests[7]);
  const [, , third = 0, , , , , last = 0] = requests;
  expect(last - third).toBeGreaterThan(900);
});
