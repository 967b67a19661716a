import { afterEach, beforeEach, expect, test } from "bun:test";
import { sendRaw } from "../support/raw-http.ts";
import { AGENTS_ISSUER, NOW_SECONDS } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { ApprovalStand, agentToken, membersOf, operatorToken } from "./approval-stand.ts";

let stand: ApprovalStand;
let url: string;
let agent: string;
let olga: string;
beforeEach(async () => {
  stand = await ApprovalStand.open();
  [url, agent, olga] = await Promise.all([stand.listen(), agentToken(), operatorToken()]);
});
afterEach(() => stand.close());

const by = { issuer: "https://people.test", subject: "olga" };

function poll(id: string, options: { token?: string; wait?: number; signal?: AbortSignal } = {}): Promise<Response> {
  const { token = agent, wait = 55, signal } = options;
  const headers = { authorization: `Bearer ${token}` };
  // Only the service ends idle connections: the listener alone would wait for one that the client keeps, for over a minute.
  const once = { headers, keepalive: false };
  return fetch(`${url}/approvals/${id}?wait=${wait}`, { ...once, ...(signal !== undefined && { signal }) });
}

async function stateIn(answer: Response | Promise<Response>): Promise<unknown> {
  const body: unknown = await (await answer).json();
  return membersOf(membersOf(body)["approval"])["state"];
}

test("a poll is answered by the decision", async () => {
  const { id } = await stand.ask();
  const polls = [poll(id), poll(id, { token: olga })];
  await stand.approvals.decide({ id, by, decision: "deny" });
  expect(await Promise.all(polls.map(stateIn))).toEqual(["denied", "denied"]);
});

test("APR-52: no decision is lost between reading and waiting", async () => {
  for (let round = 0; round < 40; round += 1) {
    const { id } = await stand.ask();
    const answer = poll(id);
    for (let turns = 0; turns < round; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    await stand.approvals.decide({ id, by, decision: "approve" });
    expect(await stateIn(answer)).toBe("approved");
    await stand.approvals.cancel(id, { issuer: AGENTS_ISSUER, subject: "agent-7" });
  }
});

test("a decided request is not waited for", async () => {
  const { id } = await stand.ask();
  await stand.approvals.decide({ id, by, decision: "approve" });
  expect(await stateIn(poll(id))).toBe("approved");
});

test("when nobody decides in time the poll says so", async () => {
  const { id } = await stand.ask();
  const answer = await poll(id, { wait: 1 });
  expect([answer.status, await stateIn(answer)]).toEqual([200, "pending"]);
});

test("200 concurrent polls are all answered, and block no decision", async () => {
  const { id } = await stand.ask();
  const polls = Array.from({ length: 200 }, () => poll(id));
  const decided = await fetch(`${url}/approvals/${id}/decisions`, {
    method: "POST",
    headers: { authorization: `Bearer ${olga}`, "content-type": "application/json" },
    body: '{"decision":"approve"}',
  });
  expect(decided.status).toBe(200);
  const states = await Promise.all(polls.map(stateIn));
  expect(states.filter((state) => state === "approved")).toHaveLength(200);
});

test("a caller's polls are limited; others still get in, and so does the caller after one ends", async () => {
  const { id } = await stand.ask();
  const path = `/approvals/${id}?wait=55`;
  const headers = [`Host: ${new URL(url).host}`, `Authorization: Bearer ${agent}`];
  const { promise: letGo, resolve: letThemGo } = Promise.withResolvers<void>();
  const polls = Array.from({ length: 256 }, () =>
    sendRaw({ url, method: "GET", path, headers, body: new Uint8Array(), send: "gone", between: () => letGo }),
  );
  await stand.untilWaiting(256);
  const turnedAway = await poll(id, { wait: 0 });
  expect([turnedAway.status, turnedAway.headers.get("retry-after")]).toEqual([429, "1"]);
  expect(await stateIn(poll(id, { token: olga, wait: 0 }))).toBe("pending");
  expect((await poll(id, { token: await agentToken({ sub: "agent-8" }), wait: 0 })).status).toBe(404);
  letThemGo();
  await Promise.all(polls);
  await until("room again", async () => ((await poll(id, { wait: 0 })).status === 200 ? true : undefined));
  expect((await stand.approvals.get(id))?.state).toBe("pending");
});

test("a poll ends when its token expires, without an answer", async () => {
  const { id } = await stand.ask();
  const token = await agentToken({ exp: NOW_SECONDS + 1 });
  const answer = poll(id, { token });
  await stand.untilWaiting(1);
  // Over its end and the tolerance of clocks.
  stand.advance(10);
  expect((await answer).status).toBe(401);
  const operator = await operatorToken({ exp: NOW_SECONDS + 11 });
  const shownBefore = stand.lines.filter(({ type }) => type === "approval.shown").length;
  const read = poll(id, { token: operator });
  await stand.untilWaiting(2);
  stand.advance(10);
  expect((await read).status).toBe(401);
  expect(stand.lines.filter(({ type }) => type === "approval.shown")).toHaveLength(shownBefore);
});

test("waiting clients are answered when the service closes", async () => {
  const { id } = await stand.ask();
  const answers = Array.from({ length: 5 }, () => poll(id));
  await stand.untilWaiting(5);
  const closed = stand.close();
  expect(await Promise.all(answers.map(stateIn))).toEqual(Array.from({ length: 5 }, () => "pending"));
  await closed;
  expect(stand.waitsEnded).toBe(5);
});
