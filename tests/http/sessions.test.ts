import { afterAll, beforeAll, expect, test } from "bun:test";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { ApprovalStand, agentToken, codeOf, listOf, membersOf, operatorToken, type Reply } from "./approval-stand.ts";

let stand: ApprovalStand;
let agent: string;
let otherAgent: string;
let olga: string;
beforeAll(async () => {
  stand = await ApprovalStand.open();
  [agent, otherAgent, olga] = await Promise.all([agentToken(), agentToken({ sub: "agent-8" }), operatorToken()]);
});
afterAll(() => stand.close());

const sessionOf = ({ json }: Reply): Readonly<Record<string, unknown>> => membersOf(json["session"]);
const autoEdit = { mode: "autoEdit", expiresInSeconds: 600 };

async function mint(token: string): Promise<string> {
  const answer = await stand.send("POST /sessions", { token, body: {} });
  expect(answer.status).toBe(201);
  return String(sessionOf(answer)["id"]);
}

/** A yes for a session of agent-7. */
async function grant(session: string): Promise<string> {
  const { id } = await stand.ask({
    requester: { issuer: AGENTS_ISSUER, subject: "agent-7", actors: [], session },
    ...{ scopes: ["once", "session"], grantKey: session.padEnd(64, "k") },
  });
  const body = { decision: "approve", scope: "session" };
  expect((await stand.send(`POST /approvals/${id}/decisions`, { token: olga, body })).status).toBe(200);
  const grants = await stand.send("GET /grants", { token: agent });
  return String(listOf(grants, "grants").find(({ approvalId }) => approvalId === id)?.["id"]);
}

test("a session is created for the agent that asks, and asks as usual", async () => {
  const answer = await stand.send("POST /sessions", { token: agent });
  expect(sessionOf(answer)).toEqual({
    id: expect.stringMatching(/^[\w-]{22,64}$/),
    expiresAt: "2027-01-15T16:00:00.000Z",
    mode: "default",
  });
  expect(await mint(agent)).not.toBe(await mint(agent));
});

test("an operator sets a session's mode, for a time", async () => {
  const id = await mint(agent);
  const answer = await stand.send(`PUT /sessions/${id}/mode`, { token: olga, body: autoEdit });
  expect([answer.status, sessionOf(answer)]).toEqual([
    200,
    {
      ...{ id, issuer: AGENTS_ISSUER, subject: "agent-7", mode: "autoEdit", modeUntil: "2027-01-15T08:10:00.000Z" },
      ...{ createdAt: "2027-01-15T08:00:00.000Z", expiresAt: "2027-01-15T16:00:00.000Z" },
      modeSetBy: { sub: "olga", iss: "https://people.test" },
    },
  ]);
  const listed = listOf(await stand.send("GET /sessions", { token: olga }), "sessions");
  expect(listed.find((session) => session["id"] === id)).toEqual(sessionOf(answer));
  const back = await stand.send(`PUT /sessions/${id}/mode`, { token: olga, body: { ...autoEdit, mode: "default" } });
  expect(sessionOf(back)["mode"]).toBe("default");
});

test("an operator ends the session of the caller who is named, where two have the same id", async () => {
  const body = { ...autoEdit, issuer: AGENTS_ISSUER };
  for (const subject of ["agent-7", "agent-8"]) {
    await stand.send("PUT /sessions/sid-both/mode", { token: olga, body: { ...body, subject } });
  }
  const path = (subject: string) =>
    `DELETE /sessions/sid-both?${new URLSearchParams({ issuer: AGENTS_ISSUER, subject })}`;
  expect((await stand.send("DELETE /sessions/sid-both", { token: olga })).status).toBe(404);
  expect((await stand.send(path("agent-9"), { token: olga })).status).toBe(404);
  expect((await stand.send("DELETE /sessions/sid-both?subject=agent-7", { token: olga })).status).toBe(400);
  expect((await stand.send(path("agent-7"), { token: olga })).status).toBe(200);
  const live = async () =>
    listOf(await stand.send("GET /sessions", { token: olga }), "sessions").flatMap(({ id, subject }) =>
      id === "sid-both" ? [subject] : [],
    );
  expect(await live()).toEqual(["agent-8"]);
  // An agent names nobody else's session.
  expect((await stand.send(path("agent-8"), { token: agent })).status).toBe(404);
  expect(await live()).toEqual(["agent-8"]);
  expect((await stand.send(path("agent-8"), { token: olga })).status).toBe(200);
});

test("a token's sid gets a mode when its owner is named", async () => {
  const unseen = await stand.send("PUT /sessions/sid-1/mode", { token: olga, body: autoEdit });
  expect([unseen.status, codeOf(unseen)]).toEqual([404, "APPROVAL_NOT_FOUND"]);
  const body = { ...autoEdit, issuer: AGENTS_ISSUER, subject: "agent-7" };
  const answer = await stand.send("PUT /sessions/sid-1/mode", { token: olga, body });
  expect(sessionOf(answer)).toMatchObject({ id: "sid-1", subject: "agent-7", mode: "autoEdit" });
});

test.each([
  ["nothing", undefined],
  ["no time", { mode: "yolo" }],
  ["another mode", { ...autoEdit, mode: "admin" }],
  ["no time at all", { ...autoEdit, expiresInSeconds: 0 }],
  ["a time in the past", { ...autoEdit, expiresInSeconds: -1 }],
  ["a time without end", { ...autoEdit, expiresInSeconds: 604_801 }],
  ["a part of a second", { ...autoEdit, expiresInSeconds: 0.5 }],
  ["a time as text", { ...autoEdit, expiresInSeconds: "600" }],
  ["a subject without its issuer", { ...autoEdit, subject: "agent-7" }],
  ["a decider of its own choosing", { ...autoEdit, by: { issuer: "x", subject: "boss" } }],
])("%s is not a mode", async (_what, body) => {
  const id = await mint(agent);
  const answer = await stand.send(`PUT /sessions/${id}/mode`, { token: olga, body });
  expect([answer.status, codeOf(answer)]).toEqual([400, "MALFORMED_REQUEST"]);
});

test("APR-43: a grant ends with its session; its agent may end it, and another may not", async () => {
  const id = await mint(agent);
  await grant(id);
  const foreign = await stand.send(`DELETE /sessions/${id}`, { token: otherAgent });
  const unknown = await stand.send("DELETE /sessions/never-minted", { token: otherAgent });
  expect([foreign.status, foreign.text]).toEqual([404, unknown.text]);
  const ended = await stand.send(`DELETE /sessions/${id}`, { token: agent });
  expect([ended.status, sessionOf(ended)]).toEqual([200, { id, ended: true }]);
  const left = listOf(await stand.send("GET /grants", { token: agent }), "grants");
  expect(left.filter(({ session }) => session === id)).toEqual([]);
  expect((await stand.send(`DELETE /sessions/${id}`, { token: agent })).status).toBe(404);
});

test("an operator ends anybody's session", async () => {
  const id = await mint(agent);
  expect((await stand.send(`DELETE /sessions/${id}`, { token: olga })).status).toBe(200);
  expect((await stand.send(`DELETE /sessions/${id}`, { token: olga })).status).toBe(404);
});

test("agents see their own grants, operators all and who gave them; operators revoke them", async () => {
  const session = await mint(agent);
  const id = await grant(session);
  const own = listOf(await stand.send("GET /grants", { token: agent }), "grants").find((one) => one["id"] === id);
  expect(own).toEqual({
    ...{ id, issuer: AGENTS_ISSUER, subject: "agent-7", session, tool: "customer_block" },
    summary: "customer_block on customer-master-service (write, medium risk)",
    approvalId: expect.any(String),
    ...{ createdAt: "2027-01-15T08:00:00.000Z", expiresAt: "2027-01-15T16:00:00.000Z" },
  });
  const from = stand.lines.length;
  const all = listOf(await stand.send("GET /grants", { token: olga }), "grants").find((one) => one["id"] === id);
  expect(all).toEqual({ ...own, grantedBy: { sub: "olga", iss: "https://people.test" } });
  expect(stand.lines.slice(from)).toEqual([{ type: "grants.listed", sub: "olga", iss: "https://people.test" }]);
  expect(listOf(await stand.send("GET /grants", { token: otherAgent }), "grants")).toEqual([]);
  const revoked = await stand.send(`DELETE /grants/${id}`, { token: olga });
  expect([revoked.status, revoked.json["grant"]]).toEqual([200, { id, revoked: true }]);
  expect((await stand.send(`DELETE /grants/${id}`, { token: olga })).status).toBe(404);
});

const ROUTES = [
  ["GET /sessions", undefined, "modes:manage"],
  ["PUT /sessions/sid-1/mode", autoEdit, "modes:manage"],
  ["DELETE /grants/00000000-0000-4000-8000-000000000000", undefined, "grants:manage"],
] as const;

test.each(ROUTES)("%s is for operators alone", async (request, body, permission) => {
  const from = stand.lines.length;
  for (const token of [await agentToken({ permissions: [permission] }), await operatorToken({ permissions: [] })]) {
    const answer = await stand.send(request, { token, body });
    expect([answer.status, codeOf(answer)]).toEqual([403, "PERMISSION_DENIED"]);
    expect(membersOf(answer.json["error"])["details"]).toEqual({ missingPermissions: [permission] });
  }
  const [forged, refused, ...more] = stand.lines.slice(from);
  expect(forged).toMatchObject({ type: "approval.forged", sub: "agent-7", iss: AGENTS_ISSUER, reason: "agents_token" });
  // Looking without the right to is refused; trying to change something is remembered too.
  const wanted = { type: "operator.refused", reason: "permission_missing", permission };
  expect(refused).toEqual(request.startsWith("GET") ? undefined : expect.objectContaining(wanted));
  expect(more).toEqual([]);
});

test("operators have no sessions of their own", async () => {
  const answer = await stand.send("POST /sessions", { token: olga });
  expect([answer.status, codeOf(answer)]).toEqual([401, "UNAUTHENTICATED"]);
});

test.each([["__proto__"], ["constructor"], ["%00"], ["a%20b"], ["%F0%9F%98%80"], ["x".repeat(128)]])(
  "a session of this name is not found: %s",
  async (id) => {
    for (const [request, token] of [
      [`PUT /sessions/${id}/mode`, olga],
      [`DELETE /sessions/${id}`, olga],
      [`DELETE /sessions/${id}`, agent],
    ] as const) {
      const answer = await stand.send(request, { token, body: request.startsWith("PUT") ? autoEdit : undefined });
      expect([request, answer.status, codeOf(answer)]).toEqual([request, 404, "APPROVAL_NOT_FOUND"]);
    }
  },
);
