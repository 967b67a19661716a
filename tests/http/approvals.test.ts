import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Approval } from "../../src/approvals/types.ts";
import { OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import {
  ApprovalStand,
  agentToken,
  codeOf,
  listOf,
  type Members,
  membersOf,
  operatorToken,
  type Reply,
  type Sent,
} from "./approval-stand.ts";

let stand: ApprovalStand;
let agent: string;
let otherAgent: string;
let olga: string;
beforeAll(async () => {
  stand = await ApprovalStand.open();
  [agent, otherAgent, olga] = await Promise.all([agentToken(), agentToken({ sub: "agent-8" }), operatorToken()]);
});
afterAll(() => stand.close());

const NEVER_GIVEN = "00000000-0000-4000-8000-000000000000";
const yes = { decision: "approve" };
const no = { decision: "deny" };

const approvalOf = ({ json }: Reply): Members => membersOf(json["approval"]);
const stateOf = async (id: string): Promise<string | undefined> => (await stand.approvals.get(id))?.state;

function decide(id: string, sent: Sent): Promise<Reply> {
  return stand.send(`POST /approvals/${id}/decisions`, { token: olga, body: yes, ...sent });
}

/** The lines that were written since `from`, without what the store itself writes. */
function linesSince(from: number): readonly unknown[] {
  const own = ["approvals.listed", "approval.shown", "approval.forged", "approval.refused"];
  return stand.lines.slice(from).filter(({ type }) => own.includes(type));
}

test("the requester sees the state, and nothing of the view or the approver", async () => {
  const { id, planDigest, createdAt } = await stand.ask({
    requester: { issuer: AGENTS_ISSUER, subject: "agent-7", actors: [], session: "s-1" },
    ...{ scopes: ["once", "session"], grantKey: "g".repeat(64) },
  });
  await decide(id, { body: { ...yes, reason: "looks fine" } });
  const answer = await stand.send(`GET /approvals/${id}`, { token: agent });
  expect(answer.status).toBe(200);
  expect(approvalOf(answer)).toEqual({
    id,
    state: "approved",
    tool: "customer_block",
    summary: "customer_block on customer-master-service (write, medium risk)",
    createdAt: new Date(createdAt).toISOString(),
    decideBy: new Date(createdAt + 600_000).toISOString(),
    executeBy: new Date(createdAt + 300_000).toISOString(),
    scope: "once",
    decisionReason: "looks fine",
    options: ["cancel", "once", "session"],
  });
  expect(answer.headers["etag"]).toBe('"2"');
  for (const hidden of ["secret-arg", "olga", planDigest]) expect(answer.text).not.toContain(hidden);
});

test("an operator reads the view, and the reading is in the journal before the answer", async () => {
  const requester = { issuer: AGENTS_ISSUER, subject: "agent-7", actors: ["planner"], session: "s-1" };
  const { id, viewDigest, planDigest, traceId, view } = await stand.ask({ requester });
  const from = stand.lines.length;
  const answer = await stand.send(`GET /approvals/${id}`, { token: olga });
  expect(approvalOf(answer)).toMatchObject({
    ...{ id, state: "pending", version: 1, risk: "medium", rules: ["default"], viewDigest, planDigest, traceId },
    ...{ classification: "write", category: "network", decidable: true, view },
    requester: { sub: "agent-7", iss: AGENTS_ISSUER, act: ["planner"], session: "s-1" },
  });
  expect(linesSince(from)).toEqual([
    { type: "approval.shown", id, viewDigest, sub: "olga", iss: "https://people.test" },
  ]);
});

test("operators see escalation steps, what they add and when; the requester does not, not even by the ETag", async () => {
  const issuer = OPERATORS_ISSUER;
  const named = (subject: string) => ({ permissions: [], subjects: [{ issuer, subject }] });
  const requirement = {
    ...({ digest: "e".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false } as const),
    policies: [
      {
        ...{ name: "prod", distinctPeople: true, stages: [{ name: "team", count: 1, deciders: named("frida") }] },
        escalate: [
          { afterSeconds: 60, adds: { stage: 0, deciders: named("olga") }, webhooks: ["pager"] },
          { afterSeconds: 120 },
        ],
      },
    ],
  };
  const { id, createdAt } = await stand.ask({ requirement });
  const at = (seconds: number) => new Date(createdAt + seconds * 1_000).toISOString();
  const first = { policy: "prod", stage: "team", afterSeconds: 60, dueAt: at(60), webhooks: ["pager"] };
  const second = { policy: "prod", afterSeconds: 120, dueAt: at(120) };
  const shown = async () => approvalOf(await stand.send(`GET /approvals/${id}`, { token: olga }));
  const deciders = { permissions: [], subjects: [{ sub: "olga", iss: issuer }] };
  expect(await shown()).toMatchObject({ decidable: false, escalations: [{ ...first, deciders }, second] });
  const before = await stand.send(`GET /approvals/${id}`, { token: agent });
  stand.advance(60);
  await stand.approvals.sweep();
  const after = await shown();
  expect(after).toMatchObject({ decidable: true, escalations: [{ ...first, takenAt: at(60) }, second] });
  expect(membersOf(after["quorum"])["policies"]).toMatchObject([{ stages: [{ needed: 1, also: [deciders] }] }]);
  const page = await stand.send("GET /approvals?limit=200", { token: olga });
  const listed = listOf(page, "approvals").find((one) => one["id"] === id);
  expect(listed?.["escalations"]).toEqual([{ ...first, takenAt: at(60) }, second]);
  const again = await stand.send(`GET /approvals/${id}`, { token: agent });
  expect([again.text, again.headers["etag"]]).toEqual([before.text, before.headers["etag"]]);
  expect((await decide(id, {})).status).toBe(200);
});

test("an operator sees the last five decisions on the same tool, the requester none", async () => {
  const tool = "customer_rename";
  for (let count = 0; count < 6; count += 1) {
    const { id } = await stand.ask({ tool });
    stand.advance(1);
    const decision = count % 2 === 0 ? "approve" : "deny";
    await decide(id, { body: { decision, ...(count === 5 && { reason: "not <b>today</b>" }) } });
  }
  await stand.ask({ tool: "customer_other" });
  const { id } = await stand.ask({ tool });
  const shown = approvalOf(await stand.send(`GET /approvals/${id}`, { token: olga }));
  const by = { sub: "olga", iss: "https://people.test" };
  const earlier = shown["earlierDecisions"] as readonly Members[];
  expect(earlier.map(({ decision }) => decision)).toEqual(["deny", "approve", "deny", "approve", "deny"]);
  expect(earlier[0]).toEqual({
    ...{ id: expect.any(String), decision: "deny", at: expect.any(String), by, reason: "not <b>today</b>" },
  });
  expect(earlier[1]).not.toHaveProperty("reason");
  const own = await stand.send(`GET /approvals/${id}`, { token: agent });
  expect(approvalOf(own)).not.toHaveProperty("earlierDecisions");
});

test("agents list their own, operators all without views, page by page", async () => {
  const mine = await stand.ask();
  const theirs = await stand.ask({
    requester: { issuer: AGENTS_ISSUER, subject: "agent-8", actors: [], session: undefined },
  });
  const ids = (page: Reply): readonly unknown[] => listOf(page, "approvals").map(({ id }) => id);
  const own = await stand.send("GET /approvals?limit=200", { token: otherAgent });
  expect(ids(own)).toEqual([theirs.id]);
  const from = stand.lines.length;
  const seen = new Set<unknown>();
  let cursor = "";
  for (let pages = 0; pages < 50; pages += 1) {
    const page = await stand.send(`GET /approvals?state=pending&limit=1${cursor}`, { token: olga });
    expect(page.text).not.toContain("secret-arg");
    for (const id of ids(page)) seen.add(id);
    if (page.json["cursor"] === undefined) break;
    cursor = `&cursor=${page.json["cursor"]}`;
  }
  expect(seen.has(mine.id) && seen.has(theirs.id)).toBe(true);
  expect(linesSince(from)[0]).toEqual({ type: "approvals.listed", sub: "olga", iss: "https://people.test" });
  expect(linesSince(from)).toHaveLength(seen.size);
});

test("the headlines of a list are read with one entry, which names their requests", async () => {
  const ask = (what: string) => stand.ask({ view: { headline: { does: "Runs", what } } });
  stand.advance(1);
  const first = await ask("make clean");
  stand.advance(1);
  const plain = await stand.ask();
  stand.advance(1);
  const second = await ask("make all");
  const by = { type: "approvals.listed", sub: "olga", iss: "https://people.test" };
  const read = async (query: string) => {
    const from = stand.lines.length;
    const page = await stand.send(`GET /approvals?${query}`, { token: olga });
    const rows = listOf(page, "approvals").filter(({ id }) => [first.id, plain.id, second.id].includes(String(id)));
    return { headlines: rows.map(({ headline }) => headline), entries: linesSince(from) };
  };
  expect(await read("limit=3")).toEqual({ headlines: [undefined, undefined, undefined], entries: [by] });
  expect(await read("limit=3&headlinesFrom=1970-01-01T00:00:00.000Z")).toEqual({
    headlines: [{ does: "Runs", what: "make all" }, undefined, { does: "Runs", what: "make clean" }],
    entries: [{ ...by, ids: [second.id, first.id] }],
  });
  const known = new Date(second.createdAt).toISOString();
  expect(await read(`limit=3&headlinesFrom=${known}`)).toEqual({
    headlines: [{ does: "Runs", what: "make all" }, undefined, undefined],
    entries: [{ ...by, ids: [second.id] }],
  });
  stand.advance(1);
  const later = new Date(second.createdAt + 1_000).toISOString();
  expect((await read(`limit=3&headlinesFrom=${later}`)).entries).toEqual([by]);
  const own = await stand.send("GET /approvals?limit=3", { token: agent });
  expect(listOf(own, "approvals")[0]).toMatchObject({ id: second.id });
  expect(own.text).not.toContain("make");
});

test.each([
  ["state=open"],
  ["state=pending&state=denied"],
  ["limit=0"],
  ["limit=201"],
  ["limit=-1"],
  ["limit=1e1"],
  ["limit=ten"],
  ["cursor="],
  ["cursor=bad"],
  ["cursor=1795338197859"],
  [`cursor=${"x".repeat(257)}`],
  ["headlinesFrom=yesterday"],
  ["headlinesFrom=1795338197859"],
  ["sub=agent-8"],
  ["__proto__=x"],
  ["constructor=x"],
])("a list does not accept ?%s", async (query) => {
  const answer = await stand.send(`GET /approvals?${query}`, { token: olga });
  expect([answer.status, codeOf(answer)]).toEqual([400, "MALFORMED_REQUEST"]);
});

test.each([["x"], [""], ["56"], ["-1"], ["1.5"], ["0x1"], ["1e1"], [" 1"], ["NaN"], ["1&wait=2"]])(
  "?wait=%s is refused",
  async (wait) => {
    const { id } = await stand.ask();
    const answer = await stand.send(`GET /approvals/${id}?wait=${encodeURI(wait)}`, { token: agent });
    expect([answer.status, codeOf(answer)]).toEqual([400, "MALFORMED_REQUEST"]);
    await stand.approvals.cancel(id, { issuer: AGENTS_ISSUER, subject: "agent-7" });
  },
);

test.each([
  [NEVER_GIVEN],
  ["__proto__"],
  ["constructor"],
  ["toString"],
  ["1"],
  ["%00"],
  ["'%20OR%201=1--"],
  ["..%2f..%2fetc"],
  ["%F0%9F%98%80"],
])("an unknown id is not found: %s", async (id) => {
  for (const [request, sent] of [
    [`GET /approvals/${id}`, { token: agent }],
    [`GET /approvals/${id}?wait=55`, { token: agent }],
    [`GET /approvals/${id}`, { token: olga }],
    [`DELETE /approvals/${id}`, { token: agent }],
    [`POST /approvals/${id}/decisions`, { token: olga, body: yes }],
    [`POST /approvals/${id}/revoke`, { token: olga }],
    [`DELETE /grants/${id}`, { token: olga }],
  ] as const) {
    const answer = await stand.send(request, sent);
    expect([request, answer.status, codeOf(answer)]).toEqual([request, 404, "APPROVAL_NOT_FOUND"]);
  }
});

test("APR-35: another caller's request gets the same answer as an unknown one", async () => {
  const { id } = await stand.ask();
  for (const method of ["GET", "DELETE"]) {
    const foreign = await stand.send(`${method} /approvals/${id}`, { token: otherAgent });
    const unknown = await stand.send(`${method} /approvals/${NEVER_GIVEN}`, { token: otherAgent });
    expect([foreign.status, foreign.text]).toEqual([404, unknown.text]);
  }
  const namesake = await agentToken({ iss: AGENTS_ISSUER, sub: "agent-70" });
  expect((await stand.send(`GET /approvals/${id}`, { token: namesake })).status).toBe(404);
  expect(await stateOf(id)).toBe("pending");
});

interface Attempt {
  readonly by: () => Promise<string>;
  readonly status: number;
  readonly code: string;
  readonly forged?: string;
  readonly refused?: string;
}

const ALL = ["approvals:decide", "grants:manage", "modes:manage"];

const attempts: readonly (readonly [string, Attempt])[] = [
  [
    "an agent with the permission's name in its token",
    { by: () => agentToken({ permissions: ALL }), status: 403, code: "PERMISSION_DENIED", forged: "agents_token" },
  ],
  [
    "another agent",
    { by: () => agentToken({ sub: "agent-9" }), status: 403, code: "PERMISSION_DENIED", forged: "agents_token" },
  ],
  [
    "an operator who may only read the audit",
    {
      by: () => operatorToken({ permissions: ["audit:read"] }),
      ...{ status: 403, code: "PERMISSION_DENIED", refused: "permission_missing" },
    },
  ],
  [
    "an operator with look-alikes of the permission",
    {
      by: () => operatorToken({ permissions: ["approvals:*", "approvals:decid", "APPROVALS:DECIDE", "*"] }),
      ...{ status: 403, code: "PERMISSION_DENIED", refused: "permission_missing" },
    },
  ],
  [
    "APR-33: whoever asked it, with an operator's account of the same name",
    {
      by: () => operatorToken({ sub: "agent-7" }),
      ...{ status: 403, code: "PERMISSION_DENIED", forged: "own_question" },
    },
  ],
  [
    "somebody in whose name it was asked",
    {
      by: () => operatorToken({ sub: "planner" }),
      ...{ status: 403, code: "PERMISSION_DENIED", forged: "own_question" },
    },
  ],
  [
    "an operator's token that was handed on to the one who asked",
    {
      by: () => operatorToken({ act: { sub: "agent-7" } }),
      ...{ status: 403, code: "PERMISSION_DENIED", forged: "own_question" },
    },
  ],
  ["a token that has run out", { by: () => operatorToken({ exp: 1 }), status: 401, code: "UNAUTHENTICATED" }],
  [
    "an operator's token for the agents' audience",
    { by: () => operatorToken({ aud: "safe-tool-call" }), status: 401, code: "UNAUTHENTICATED" },
  ],
  ["no token", { by: async () => "", status: 401, code: "UNAUTHENTICATED" }],
];

test.each(attempts)("%s decides nothing", async (_who, { by, status, code, forged, refused }) => {
  const requester = { issuer: AGENTS_ISSUER, subject: "agent-7", actors: ["planner"], session: undefined };
  const { id } = await stand.ask({ requester });
  const token = await by();
  for (const body of [yes, no]) {
    const from = stand.lines.length;
    const answer = await decide(id, { token: token === "" ? undefined : token, body });
    expect([answer.status, codeOf(answer)]).toEqual([status, code]);
    const type = forged === undefined ? "approval.refused" : "approval.forged";
    const reason = forged ?? refused;
    expect(linesSince(from)).toEqual(reason === undefined ? [] : [expect.objectContaining({ type, id, reason })]);
  }
  expect(await stateOf(id)).toBe("pending");
  await stand.approvals.cancel(id, requester);
});

test("a 403 names the permission, a 401 says how to send a token", async () => {
  const { id } = await stand.ask();
  const denied = await decide(id, { token: agent });
  expect(denied.json["error"]).toMatchObject({ details: { missingPermissions: ["approvals:decide"] } });
  expect(denied.headers["www-authenticate"]).toContain("approvals:decide");
  expect((await decide(id, { token: undefined })).headers["www-authenticate"]).toStartWith("Bearer");
});

test("one's own requests are listed, and marked as not decidable", async () => {
  stand.advance(1);
  const { id } = await stand.ask();
  const listed = async (token: string): Promise<unknown> =>
    listOf(await stand.send("GET /approvals?limit=1", { token }), "approvals")[0];
  expect(await listed(olga)).toMatchObject({ id, decidable: true });
  expect(await listed(await operatorToken({ sub: "agent-7" }))).toMatchObject({ id, decidable: false });
});

interface Turn {
  /** Brought about before the decision. */
  readonly given: (approval: Approval) => unknown;
  readonly body?: Record<string, unknown>;
  readonly status: number;
  readonly code: string | undefined;
  readonly state: string;
}

const requester = { issuer: AGENTS_ISSUER, subject: "agent-7", actors: [], session: undefined };
const claim = ({ id, planDigest }: Approval): unknown => stand.approvals.claim({ id, planDigest, requester });
const nothing = (): void => {};

const turns: readonly (readonly [string, Turn])[] = [
  ["a yes", { given: nothing, status: 200, code: undefined, state: "approved" }],
  ["a no", { given: nothing, body: no, status: 200, code: undefined, state: "denied" }],
  [
    "a yes to what was seen",
    { given: nothing, body: { ...yes, viewDigest: "own" }, status: 200, code: undefined, state: "approved" },
  ],
  [
    "a yes to something else",
    {
      given: nothing,
      body: { ...yes, viewDigest: "0".repeat(64) },
      ...{ status: 409, code: "APPROVAL_MISMATCH", state: "pending" },
    },
  ],
  [
    "a yes for a session that was not offered",
    { given: nothing, body: { ...yes, scope: "session" }, status: 400, code: "INVALID_INPUT", state: "pending" },
  ],
  ["a second yes", { given: ({ id }) => decide(id, {}), status: 409, code: "APPROVAL_CONSUMED", state: "approved" }],
  [
    "a no after a yes",
    { given: ({ id }) => decide(id, {}), body: no, status: 409, code: "APPROVAL_CONSUMED", state: "approved" },
  ],
  [
    "a yes after a no",
    { given: ({ id }) => decide(id, { body: no }), status: 409, code: "APPROVAL_CONSUMED", state: "denied" },
  ],
  [
    "a yes after the run has begun",
    {
      given: async (approval) => {
        await decide(approval.id, {});
        await claim(approval);
      },
      ...{ status: 409, code: "APPROVAL_CONSUMED", state: "claimed" },
    },
  ],
  [
    "a yes after whoever asked has cancelled",
    {
      given: ({ id }) => stand.send(`DELETE /approvals/${id}`, { token: agent }),
      ...{ status: 410, code: "APPROVAL_CANCELLED", state: "cancelled" },
    },
  ],
  [
    "a yes after it was taken back",
    {
      given: async ({ id }) => {
        await decide(id, {});
        await stand.send(`POST /approvals/${id}/revoke`, { token: olga });
      },
      ...{ status: 410, code: "APPROVAL_REVOKED", state: "revoked" },
    },
  ],
];

test.each(turns)("%s", async (_title, { given, body = yes, status, code, state }) => {
  const approval = await stand.ask();
  await given(approval);
  const sent =
    "viewDigest" in body && body["viewDigest"] === "own" ? { ...body, viewDigest: approval.viewDigest } : body;
  const answer = await decide(approval.id, { body: sent });
  expect([answer.status, codeOf(answer)]).toEqual([status, code]);
  expect(await stateOf(approval.id)).toBe(state as never);
  if (code === undefined) expect(approvalOf(answer)).toMatchObject({ id: approval.id, state });
  await stand.approvals.cancel(approval.id, requester);
});

test("of two concurrent decisions one counts", async () => {
  const { id } = await stand.ask();
  const oscar = await operatorToken({ sub: "oscar" });
  const answers = await Promise.all([olga, oscar, olga, oscar].map((token) => decide(id, { token })));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
});

test.each([
  ["nothing", undefined],
  ["another word", { decision: "edit" }],
  ["a truth", { decision: true }],
  ["another scope", { ...yes, scope: "always" }],
  ["an approver of its own choosing", { ...yes, by: { issuer: "x", subject: "boss" } }],
  ["an own version of the arguments", { ...yes, args: {} }],
  ["a long reason", { ...no, reason: "x".repeat(501) }],
  ["a digest that is none", { ...yes, viewDigest: "x" }],
  ["a list", [yes]],
  ["no JSON", "{decision: approve}"],
  ["one key twice", '{"decision":"deny","decision":"approve"}'],
  ["a prototype", '{"decision":"approve","__proto__":{}}'],
])("%s is not a decision", async (_what, body) => {
  const { id } = await stand.ask();
  const answer = await decide(id, { body });
  expect([answer.status, codeOf(answer)]).toEqual([400, "MALFORMED_REQUEST"]);
  expect(await stateOf(id)).toBe("pending");
  await stand.approvals.cancel(id, requester);
});

test.each([
  ["another media type", { "content-type": "text/plain" }, 415, "UNSUPPORTED_MEDIA_TYPE"],
  ["a media type that is none", { "content-type": ";" }, 415, "UNSUPPORTED_MEDIA_TYPE"],
  ["a form", { "content-type": "application/x-www-form-urlencoded" }, 415, "UNSUPPORTED_MEDIA_TYPE"],
  ["a packed body", { "content-encoding": "gzip" }, 415, "UNSUPPORTED_MEDIA_TYPE"],
  ["another host", { host: "evil.example" }, 403, "HOST_NOT_ALLOWED"],
  ["a web page", { origin: "https://evil.example" }, 403, "HOST_NOT_ALLOWED"],
  ["a header that does nothing here", { "idempotency-key": "k-1" }, 400, "MALFORMED_REQUEST"],
  ["a huge body", { "content-length": "65537" }, 413, "PAYLOAD_TOO_LARGE"],
] as const)("%s is refused at every route with a body", async (_what, headers, status, code) => {
  const { id } = await stand.ask();
  for (const route of [`POST /approvals/${id}/decisions`, "POST /rpc", "POST /sessions", "PUT /sessions/s/mode"]) {
    const answer = await stand.send(route, { token: olga, body: yes, headers });
    expect([route, answer.status, codeOf(answer)]).toEqual([route, status, code]);
  }
  expect(await stateOf(id)).toBe("pending");
  await stand.approvals.cancel(id, requester);
});

test.each([
  ["another host", { host: "evil.example" }],
  ["a web page", { origin: "https://evil.example" }],
])("%s reads nothing", async (_what, headers) => {
  const { id } = await stand.ask();
  for (const path of [`/approvals/${id}`, "/approvals", "/grants", "/sessions", "/events"]) {
    const answer = await stand.send(`GET ${path}`, { token: olga, headers });
    expect([path, answer.status, codeOf(answer)]).toEqual([path, 403, "HOST_NOT_ALLOWED"]);
  }
  const deleted = await stand.send(`DELETE /approvals/${id}`, { token: agent, headers });
  expect([deleted.status, await stateOf(id)]).toEqual([403, "pending"]);
  await stand.approvals.cancel(id, requester);
});

test("APR-36: nothing is decided by reading", async () => {
  const { id } = await stand.ask();
  const before = await stand.approvals.lastSeq();
  for (const request of [
    ...[`HEAD /approvals/${id}`, "HEAD /approvals", `GET /approvals/${id}`, "GET /approvals", "GET /grants"],
    ...[`GET /approvals/${id}/decisions?decision=approve`, `HEAD /approvals/${id}/decisions`],
    ...[`GET /approvals/${id}/revoke`, "GET /rpc", "GET /sessions", `PUT /approvals/${id}/decisions`],
  ]) {
    const answer = await stand.send(request, { token: olga });
    expect([request, [200, 405].includes(answer.status)]).toEqual([request, true]);
  }
  expect(await stand.approvals.lastSeq()).toBe(before);
  expect(await stateOf(id)).toBe("pending");
});

test("the requester cancels, once; before the run, an approval too", async () => {
  const { id } = await stand.ask();
  await decide(id, {});
  const first = await stand.send(`DELETE /approvals/${id}`, { token: agent });
  expect([first.status, approvalOf(first)["state"]]).toEqual([200, "cancelled"]);
  const second = await stand.send(`DELETE /approvals/${id}`, { token: agent });
  expect([second.status, codeOf(second)]).toEqual([410, "APPROVAL_CANCELLED"]);
  expect((await stand.send(`DELETE /approvals/${id}`, { token: olga })).status).toBe(401);
});

test("an approval is revoked before the run, a pending request is not", async () => {
  const approval = await stand.ask();
  const revoke = (): Promise<Reply> => stand.send(`POST /approvals/${approval.id}/revoke`, { token: olga, body: {} });
  expect([codeOf(await revoke()), await stateOf(approval.id)]).toEqual(["APPROVAL_MISMATCH", "pending"]);
  await decide(approval.id, {});
  expect(approvalOf(await revoke())).toMatchObject({ id: approval.id, state: "revoked" });
  expect(codeOf(await revoke())).toBe("APPROVAL_REVOKED");
  const used = await stand.ask();
  await decide(used.id, {});
  await claim(used);
  const late = await stand.send(`POST /approvals/${used.id}/revoke`, { token: olga });
  expect([late.status, codeOf(late)]).toEqual([409, "APPROVAL_CONSUMED"]);
});

test("a decision after the deadline: expired, for everybody", async () => {
  const own = await ApprovalStand.open();
  const { id } = await own.ask();
  own.advance(599);
  const token = await operatorToken({ exp: 1_800_000_000 + 3_000 });
  expect((await own.send(`GET /approvals/${id}`, { token })).json["approval"]).toMatchObject({ state: "pending" });
  own.advance(2);
  const late = await own.send(`POST /approvals/${id}/decisions`, { token, body: yes });
  expect([late.status, codeOf(late)]).toEqual([410, "APPROVAL_EXPIRED"]);
  expect((await own.send(`GET /approvals/${id}`, { token })).json["approval"]).toMatchObject({ state: "expired" });
  await own.close();
});

test("operators ask for the requests, sessions and approvals of one caller; agents have their own, whoever they name", async () => {
  const own = await ApprovalStand.open();
  const grantor = { sub: "olga", iss: OPERATORS_ISSUER };
  for (const subject of ["agent-7", "agent-8"]) {
    const requester = { issuer: AGENTS_ISSUER, subject, actors: [], session: "s-1" };
    const { id } = await own.ask({ requester, scopes: ["once", "session"], grantKey: subject.padEnd(64, "0") });
    await own.send(`POST /approvals/${id}/decisions`, { token: olga, body: { ...yes, scope: "session" } });
  }
  const of = `issuer=${encodeURIComponent(AGENTS_ISSUER)}&subject=agent-8`;
  const approvals = listOf(await own.send(`GET /approvals?state=all&${of}`, { token: olga }), "approvals");
  expect(approvals.map(({ requester }) => membersOf(requester)["sub"])).toEqual(["agent-8"]);
  const sessions = listOf(await own.send(`GET /sessions?${of}`, { token: olga }), "sessions");
  expect(sessions).toMatchObject([{ subject: "agent-8", id: "s-1" }]);
  const grants = listOf(await own.send(`GET /grants?${of}`, { token: olga }), "grants");
  expect(grants).toMatchObject([{ subject: "agent-8", grantedBy: grantor }]);
  expect(listOf(await own.send("GET /sessions", { token: olga }), "sessions")).toHaveLength(2);
  const asAgent = listOf(await own.send(`GET /approvals?state=all&${of}`, { token: agent }), "approvals");
  expect(asAgent.map(({ id }) => id)).not.toContain(approvals[0]?.["id"]);
  expect(asAgent).toHaveLength(1);
  for (const path of ["/approvals", "/sessions", "/grants"]) {
    const half = await own.send(`GET ${path}?subject=agent-8`, { token: olga });
    expect([path, half.status, codeOf(half)]).toEqual([path, 400, "MALFORMED_REQUEST"]);
  }
  await own.close();
});

test("without an audit and without a store nothing is shown", async () => {
  const own = await ApprovalStand.open();
  const { id } = await own.ask();
  own.failJournal();
  for (const request of [`GET /approvals/${id}`, "GET /approvals", "GET /sessions", "GET /grants", "GET /events"]) {
    const answer = await own.send(request, { token: olga });
    expect([request, answer.status, codeOf(answer)]).toEqual([request, 503, "AUDIT_UNAVAILABLE"]);
    expect(answer.text).not.toContain("secret-arg");
  }
  const answer = await own.send(`POST /approvals/${id}/decisions`, { token: olga, body: yes });
  expect([answer.status, codeOf(answer)]).toEqual([503, "APPROVAL_UNAVAILABLE"]);
  expect(answer.text).not.toContain("disk");
  expect(own.faults).toHaveLength(1);
  expect((await own.approvals.get(id))?.state).toBe("pending");
  await own.close();
});
