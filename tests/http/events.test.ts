import { afterEach, beforeEach, expect, test } from "bun:test";
import { connect } from "node:net";
import { AGENTS_ISSUER, NOW_SECONDS } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { ApprovalStand, agentToken, operatorToken } from "./approval-stand.ts";
import { EventClient, type SeenEvent } from "./event-reader.ts";

let stand: ApprovalStand;
let url: string;
let agent: string;
let olga: string;
beforeEach(async () => {
  stand = await ApprovalStand.open();
  [url, agent, olga] = await Promise.all([stand.listen(), agentToken(), operatorToken()]);
});
afterEach(() => stand.close());

const requester = { issuer: AGENTS_ISSUER, subject: "agent-7", actors: [], session: undefined };

/** Two events each: asked, and cancelled. */
async function happen(times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    const { id } = await stand.ask();
    await stand.approvals.cancel(id, requester);
  }
}

const idsOf = (events: readonly SeenEvent[]): readonly number[] => events.map(({ id }) => Number(id));

test("a client sees events after it connected, in order, and no arguments", async () => {
  await happen(3);
  const client = await EventClient.open(url, olga);
  expect(client.response.headers.get("content-type")).toStartWith("text/event-stream");
  expect(client.response.headers.get("cache-control")).toBe("no-store");
  const { id } = await stand.ask();
  await stand.approvals.decide({ id, by: { issuer: "https://people.test", subject: "olga" }, decision: "approve" });
  const summary = "customer_block on customer-master-service (write, medium risk)";
  const data = { id, tool: "customer_block", summary, at: "2027-01-15T08:00:00.000Z" };
  expect(await client.take(2)).toEqual([
    { id: "7", type: "approval.requested", data },
    { id: "8", type: "approval.approved", data },
  ]);
  expect(stand.lines.filter(({ type }) => type === "events.followed")).toEqual([
    { type: "events.followed", sub: "olga", iss: "https://people.test" },
  ]);
});

test("an agent sees its own events alone", async () => {
  const client = await EventClient.open(url, agent);
  await stand.ask({ requester: { ...requester, subject: "agent-8" } });
  await stand.ask({ requester: { ...requester, issuer: "https://other.test" } });
  const own = await stand.ask();
  const [first] = await client.take(1);
  expect(first?.data).toMatchObject({ id: own.id });
});

test("only operators see votes and escalations", async () => {
  const [own, all] = [await EventClient.open(url, agent), await EventClient.open(url, olga)];
  const deciders = { permissions: [], subjects: [{ issuer: "https://people.test", subject: "frida" }] };
  const policy = { name: "prod", distinctPeople: true, stages: [{ name: "team", count: 2, deciders }] };
  const { id } = await stand.ask({
    requirement: {
      ...({ digest: "e".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false } as const),
      policies: [{ ...policy, escalate: [{ afterSeconds: 60, adds: { stage: 0, deciders: { permissions: [] } } }] }],
    },
  });
  stand.advance(60);
  await stand.approvals.sweep();
  const by = (subject: string) => ({ issuer: "https://people.test", subject });
  for (const subject of ["frida", "olga"]) await stand.approvals.decide({ id, by: by(subject), decision: "approve" });
  const names = ["requested", "escalated", "voted", "approved"].map((name) => `approval.${name}`);
  expect((await all.take(4)).map(({ type }) => type)).toEqual(names);
  expect((await own.take(2)).map(({ type }) => type)).toEqual(["approval.requested", "approval.approved"]);
});

test("no text can imitate an event", async () => {
  const client = await EventClient.open(url, olga);
  const summary = "x\n\nid: 99\nevent: approval.approved\ndata: {}\r\rdata: {}\u2028\u0085";
  await stand.ask({ summary });
  await stand.ask();
  const seen = await client.take(2);
  expect(seen.map(({ id, type }) => [id, type])).toEqual([
    ["1", "approval.requested"],
    ["2", "approval.requested"],
  ]);
  expect(seen[0]?.data).toMatchObject({ summary });
});

test("interrupted anywhere, a client resumes without loss and without duplicates", async () => {
  const seen: number[] = [];
  let client = await EventClient.open(url, olga);
  for (let round = 0; round < 12; round += 1) {
    const happening = happen(3);
    const taken = await client.take(round % 7);
    seen.push(...idsOf(taken));
    const lastId = taken.at(-1)?.id ?? client.lastId;
    client.leave();
    await happening;
    client = await EventClient.open(url, olga, lastId);
  }
  seen.push(...idsOf(await client.take(72 - seen.length)));
  expect(seen).toEqual(Array.from({ length: 72 }, (_, index) => index + 1));
});

test("a stream that was interrupted before its first event knows where to resume", async () => {
  await happen(1);
  const client = await EventClient.open(url, olga);
  client.leave();
  await happen(1);
  const again = await EventClient.open(url, olga, client.lastId);
  expect(idsOf(await again.take(2))).toEqual([3, 4]);
});

test("more than a page of missed events arrives whole, for many clients at once", async () => {
  await happen(130);
  const clients = await Promise.all(
    ["olga", "oscar", "otto"].map(async (sub) => EventClient.open(url, await operatorToken({ sub }), "0")),
  );
  await happen(5);
  const wanted = Array.from({ length: 270 }, (_, index) => index + 1);
  for (const client of clients) expect(idsOf(await client.take(270))).toEqual(wanted);
});

test("an id of another store's future means from now", async () => {
  await happen(1);
  const client = await EventClient.open(url, olga, "999999999999999");
  await happen(1);
  expect(idsOf(await client.take(2))).toEqual([3, 4]);
});

test.each([["x"], ["-1"], ["1.5"], ["1e3"], ["1, 2"], ["9".repeat(16)]])("%s is not the id of an event", async (id) => {
  const { response } = await EventClient.open(url, olga, id);
  expect(response.status).toBe(400);
});

test("a request that follows a stream on its connection does not run", async () => {
  const { id } = await stand.ask();
  const head = (line: string): string =>
    `${line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${agent}\r\n\r\n`;
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let received = "";
  socket.on("data", (bytes) => {
    received += bytes.toString();
  });
  socket.write(head("GET /events"));
  await until("an open stream", () => (received.includes(": open") ? true : undefined));
  socket.write(head(`DELETE /approvals/${id}`));
  await Bun.sleep(200);
  expect((await stand.approvals.get(id))?.state).toBe("pending");
  socket.destroy();
});

test("only approvers and requesters can follow", async () => {
  for (const [token, status] of [
    ["not.a-token", 401],
    [await operatorToken({ permissions: ["audit:read"] }), 403],
    [await operatorToken({ exp: NOW_SECONDS - 60 }), 401],
  ] as const) {
    expect((await EventClient.open(url, token)).response.status).toBe(status);
  }
});

test("a caller has five streams, and a sixth when one of them ends", async () => {
  const clients = await Promise.all(Array.from({ length: 5 }, () => EventClient.open(url, olga)));
  const sixth = await EventClient.open(url, olga);
  expect([sixth.response.status, sixth.response.headers.get("retry-after")]).toEqual([429, "1"]);
  expect((await EventClient.open(url, agent)).response.status).toBe(200);
  clients[0]?.leave();
  await until("room for another", async () => {
    const next = await EventClient.open(url, olga);
    return next.response.status === 200 ? true : undefined;
  });
});

test("a hundred streams follow at once, and not one more", async () => {
  const tokens = await Promise.all(Array.from({ length: 21 }, (_, index) => operatorToken({ sub: `o-${index}` })));
  const clients = await Promise.all(
    tokens.slice(0, 20).flatMap((token) => Array.from({ length: 5 }, () => EventClient.open(url, token))),
  );
  expect(new Set(clients.map(({ response }) => response.status))).toEqual(new Set([200]));
  expect((await EventClient.open(url, tokens[20] ?? "")).response.status).toBe(429);
  await happen(2);
  const seen = await Promise.all(clients.map((client) => client.take(4)));
  expect(seen.map(idsOf)).toEqual(Array.from({ length: 100 }, () => [1, 2, 3, 4]));
});

test("a stream ends with its token", async () => {
  const client = await EventClient.open(url, await operatorToken({ exp: NOW_SECONDS + 1 }));
  expect(await client.rest()).toEqual([]);
  expect((await EventClient.open(url, olga)).response.status).toBe(200);
});

test("nothing is sent after a token's end, even before its end was noticed", async () => {
  const client = await EventClient.open(url, await operatorToken({ exp: NOW_SECONDS + 30 }));
  stand.advance(31);
  await happen(1);
  expect(await client.rest()).toEqual([]);
});

test("a stream ends with its service", async () => {
  const client = await EventClient.open(url, olga);
  await stand.close();
  expect(await client.rest()).toEqual([]);
});
