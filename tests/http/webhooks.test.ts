import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readKeys, signMessage } from "../../src/approvals/notify/signature.ts";
import type { Integration } from "../../src/approvals/notify/webhooks.ts";
import type { Approval } from "../../src/approvals/types.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { readRevocations } from "../../src/pipeline/identity/revocations.ts";
import { OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { AGENTS_ISSUER, agentsProfile, makeSigningKey, NOW_SECONDS } from "../support/tokens.ts";
import { ApprovalStand, agentToken, codeOf, membersOf, operatorToken, type Reply } from "./approval-stand.ts";

const secretOf = (byte: number): string => `whsec_${Buffer.alloc(32, byte).toString("base64")}`;
const CHAT = secretOf(1);
const OLD_CHAT = secretOf(2);
const DESK = secretOf(3);

const person = (subject: string) => ({ issuer: OPERATORS_ISSUER, subject, permissions: [] });
const integrations: ReadonlyMap<string, Integration> = new Map([
  [
    "chat",
    {
      keys: readKeys(`${CHAT}\n${OLD_CHAT}`, "verify"),
      people: new Map([
        ["U1", person("olga")],
        ["U2", person("agent-7")],
        ["U3", { ...person("eve"), issuer: "https://gone.test" }],
        ["U4", { ...person("sam"), permissions: ["role:secops"] }],
      ]),
    },
  ],
  ["desk", { keys: readKeys(DESK, "verify"), people: new Map([["U1", person("dora")]]) }],
]);

let stand: ApprovalStand;
let seconds = NOW_SECONDS;
let sent = 0;
beforeAll(async () => {
  stand = await ApprovalStand.open({ webhooks: { integrations, states: () => [], stop: async () => {} } });
});
afterAll(() => stand.close());

interface Sending {
  readonly to?: string;
  readonly secret?: string;
  readonly id?: string;
  /** Of the message's time, from now. */
  readonly laterSeconds?: number;
  /** What is sent in the place of what was signed. */
  readonly instead?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** As the integration sends it. */
function send(body: unknown, options: Sending = {}): Promise<Reply> {
  sent += 1;
  const { to = "chat", secret = CHAT, id = `msg_${sent}`, laterSeconds = 0, instead, headers } = options;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const nowMs = (seconds + laterSeconds) * 1_000;
  const signed = signMessage({ id, body: text }, { keys: readKeys(secret, "verify"), nowMs });
  return stand.send(`POST /webhooks/${to}/decisions`, { body: instead ?? text, headers: { ...signed, ...headers } });
}

function answerTo({ id, planDigest }: Approval, more: Readonly<Record<string, unknown>> = {}) {
  return { approvalId: id, planDigest, decision: "approve", decidedBy: { user: "U1" }, ...more };
}

const stateOf = async ({ id }: Approval): Promise<unknown> => (await stand.approvals.get(id))?.state;
const lastLine = () => stand.lines.at(-1);
/** Others of the minute are summed up. */
function nextMinute(): void {
  stand.advance(60);
  seconds += 60;
}

describe("APR-32: the configuration says who decides, and the seen view is named", () => {
  test("an approval through an integration", async () => {
    const approval = await stand.ask();
    const reply = await send(answerTo(approval, { reason: "fine", viewDigest: approval.viewDigest }), {
      id: "msg_yes",
    });
    expect(reply.status).toBe(200);
    expect(reply.json).toEqual({ approval: { id: approval.id, state: "approved", scope: "once" } });
    expect(await stand.approvals.get(approval.id)).toMatchObject({
      decidedBy: { issuer: OPERATORS_ISSUER, subject: "olga" },
      decisionReason: "fine",
    });
    const [relayed, voted] = stand.lines.slice(-2);
    const { id, planDigest } = approval;
    expect(relayed).toEqual({
      ...{ type: "approval.relayed", webhook: "chat", messageId: "msg_yes", id, decision: "approve", planDigest },
      ...{ user: "U1", sub: "olga", iss: OPERATORS_ISSUER },
    });
    expect(voted).toMatchObject({ type: "approval.voted", id, decision: "approve" });
  });

  test("a denial, signed with the former key", async () => {
    const approval = await stand.ask();
    expect((await send(answerTo(approval, { decision: "deny" }), { secret: OLD_CHAT })).status).toBe(200);
    expect(await stateOf(approval)).toBe("denied");
  });

  test("the same name means another person at another integration", async () => {
    const approval = await stand.ask();
    await send(answerTo(approval), { to: "desk", secret: DESK });
    expect((await stand.approvals.get(approval.id))?.decidedBy?.subject).toBe("dora");
  });

  test.each([
    ["somebody who is not in the table", { decidedBy: { user: "U9" } }, 403, "PERMISSION_DENIED", "unknown_user"],
    [
      "somebody whose issuer is the operators' no longer",
      { decidedBy: { user: "U3" } },
      403,
      "PERMISSION_DENIED",
      "revoked_user",
    ],
    ["an object's own name", { decidedBy: { user: "constructor" } }, 403, "PERMISSION_DENIED", "unknown_user"],
    [
      "a person whom the body describes",
      { decidedBy: { iss: OPERATORS_ISSUER, sub: "olga" } },
      400,
      "MALFORMED_REQUEST",
      "unreadable",
    ],
    ["the one who asks", { decidedBy: { user: "U2" } }, 403, "PERMISSION_DENIED", "own_question"],
    ["another plan", { planDigest: "f".repeat(64) }, 409, "APPROVAL_MISMATCH", "other_plan"],
    ["no plan", { planDigest: undefined }, 400, "MALFORMED_REQUEST", "unreadable"],
    ["another view", { viewDigest: "f".repeat(64) }, 409, "APPROVAL_MISMATCH", "refused"],
    [
      "an approval that there is not",
      { approvalId: "00000000-0000-4000-8000-000000000000" },
      404,
      "APPROVAL_NOT_FOUND",
      "unknown_approval",
    ],
    ["a path in the place of an id", { approvalId: "../sessions" }, 400, "MALFORMED_REQUEST", "unreadable"],
    ["a scope that is not offered", { scope: "session" }, 400, "INVALID_INPUT", "refused"],
    ["another word", { decision: "approved" }, 400, "MALFORMED_REQUEST", "unreadable"],
    ["a member too many", { permissions: ["approvals:decide"] }, 400, "MALFORMED_REQUEST", "unreadable"],
  ] as const)("%s: nothing is decided", async (_, changes, http, code, reason) => {
    nextMinute();
    const approval = await stand.ask();
    const reply = await send(answerTo(approval, changes));
    expect([reply.status, codeOf(reply)]).toEqual([http, code]);
    expect(await stateOf(approval)).toBe("pending");
    expect(lastLine()).toMatchObject({ webhook: "chat", reason, code });
  });

  test("two people, through two integrations; one of them twice counts once", async () => {
    const stage = { name: "pair", deciders: { permissions: [] }, count: 2 };
    const requirement = {
      ...({ digest: "d".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false } as const),
      policies: [{ name: "two", distinctPeople: true, stages: [stage] }],
    };
    const approval = await stand.ask({ requirement });
    const first = await send(answerTo(approval));
    expect([first.status, membersOf(first.json["approval"])["state"]]).toEqual([200, "pending"]);
    expect((await send(answerTo(approval))).status).toBe(409);
    expect(await stateOf(approval)).toBe("pending");
    const second = await send(answerTo(approval), { to: "desk", secret: DESK });
    expect([second.status, membersOf(second.json["approval"])["state"]]).toEqual([200, "approved"]);
  });

  test("a stage for holders of a permission counts those whom the configuration gives it to", async () => {
    const stage = { name: "secops", deciders: { permissions: ["role:secops"] }, count: 1 };
    const requirement = {
      ...({ digest: "d".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false } as const),
      policies: [{ name: "secops", distinctPeople: true, stages: [stage] }],
    };
    const approval = await stand.ask({ requirement });
    const reply = await send(answerTo(approval));
    expect([reply.status, codeOf(reply)]).toEqual([403, "PERMISSION_DENIED"]);
    expect(await stateOf(approval)).toBe("pending");
    expect((await send(answerTo(approval, { decidedBy: { user: "U4" } }))).status).toBe(200);
    expect(await stateOf(approval)).toBe("approved");
  });

  test("an ended request takes no decision", async () => {
    const approval = await stand.ask();
    await send(answerTo(approval));
    const again = await send(answerTo(approval, { decision: "deny" }));
    expect([again.status, codeOf(again)]).toEqual([409, "APPROVAL_CONSUMED"]);
    const late = await stand.ask();
    stand.advance(601);
    seconds += 601;
    const reply = await send(answerTo(late));
    expect([reply.status, codeOf(reply)]).toEqual([410, "APPROVAL_EXPIRED"]);
  });

  test("a token is not accepted here, and a message is not accepted elsewhere", async () => {
    nextMinute();
    const approval = await stand.ask();
    const token = await operatorToken({ iat: seconds - 60, exp: seconds + 600 });
    const path = "POST /webhooks/chat/decisions";
    for (const bearer of [token, await agentToken({ iat: seconds - 60, exp: seconds + 600 })]) {
      expect((await stand.send(path, { token: bearer, body: answerTo(approval) })).status).toBe(401);
    }
    const body = JSON.stringify({ decision: "approve" });
    const headers = {
      ...signMessage({ id: "msg_else", body }, { keys: readKeys(CHAT, "verify"), nowMs: seconds * 1_000 }),
    };
    expect((await stand.send(`POST /approvals/${approval.id}/decisions`, { body, headers })).status).toBe(401);
    expect(await stateOf(approval)).toBe("pending");
  });
});

describe("APR-25: an approval request that needs an answer", () => {
  const CHOICES = { choices: ["blue", "green"] };

  test.each([
    ["words", {}, { answer: "the one in Graz" }],
    ["a choice", CHOICES, { answer: "green" }],
  ])("%s", async (_, wanted, more) => {
    const approval = await stand.ask({ answer: wanted });
    expect((await send(answerTo(approval, more))).status).toBe(200);
    expect((await stand.approvals.get(approval.id))?.answer?.text).toBe(more.answer);
    expect(JSON.stringify(stand.lines.slice(-2))).not.toContain(more.answer);
  });

  test.each([
    ["none", {}, {}, "INVALID_INPUT"],
    ["one of blanks", {}, { answer: " \u3164\n" }, "INVALID_INPUT"],
    ["no choice", CHOICES, { answer: "red" }, "INVALID_INPUT"],
    ["one to a question that wants none", undefined, { answer: "x" }, "INVALID_INPUT"],
    ["one that is too long", {}, { answer: "x".repeat(4_001) }, "MALFORMED_REQUEST"],
    ["one that is no text", {}, { answer: ["x"] }, "MALFORMED_REQUEST"],
  ] as const)("%s is not an approval", async (_, wanted, more, code) => {
    nextMinute();
    const approval = await stand.ask({ answer: wanted });
    const reply = await send(answerTo(approval, more));
    expect([reply.status, codeOf(reply)]).toEqual([400, code]);
    expect(await stateOf(approval)).toBe("pending");
  });

  test("two people give the same answer; neither approves an unseen one", async () => {
    nextMinute();
    const stage = { name: "pair", deciders: { permissions: [] }, count: 2 };
    const requirement = {
      ...({ digest: "d".repeat(64), reasonRequired: "never", scopes: ["once"], callback: false } as const),
      policies: [{ name: "two", distinctPeople: true, stages: [stage] }],
    };
    const approval = await stand.ask({ requirement, answer: {} });
    const second = (more: Record<string, unknown>) => send(answerTo(approval, { decidedBy: { user: "U4" }, ...more }));
    await send(answerTo(approval, { answer: "blue" }));
    for (const more of [{}, { answer: "green" }]) expect(codeOf(await second(more))).toBe("INVALID_INPUT");
    expect(await stateOf(approval)).toBe("pending");
    expect((await second({ answer: "blue" })).status).toBe(200);
    expect(await stateOf(approval)).toBe("approved");
  });

  test("a denial is a denial, whatever the form sends with it", async () => {
    const approval = await stand.ask({ answer: CHOICES });
    expect((await send(answerTo(approval, { decision: "deny", answer: "" }))).status).toBe(200);
    expect(await stateOf(approval)).toBe("denied");
    expect((await stand.approvals.get(approval.id))?.answer).toEqual(CHOICES);
  });
});

describe("APR-57: forged, late or repeated messages decide nothing", () => {
  test.each([
    ["a foreign key", { secret: secretOf(9) }, "signature"],
    ["the key of another integration", { secret: DESK }, "signature"],
    ["an unknown integration", { to: "nobody" }, "signature"],
    ["a name that is none", { to: "__proto__" }, "signature"],
    ["a body that was changed", { instead: "{}" }, "signature"],
    ["no signature", { headers: { "webhook-signature": "" } }, "signature"],
    ["no id", { headers: { "webhook-id": "" } }, "unsigned"],
    ["two ids", { headers: { "webhook-id": "a, b" } }, "unsigned"],
    ["a time that is no number", { headers: { "webhook-timestamp": "now" } }, "unsigned"],
    ["too late", { laterSeconds: -301 }, "late"],
    ["too early", { laterSeconds: 301 }, "late"],
  ] as const)("%s", async (_, options, reason) => {
    nextMinute();
    const approval = await stand.ask();
    const reply = await send(answerTo(approval), options);
    expect([reply.status, codeOf(reply)]).toEqual([401, "UNAUTHENTICATED"]);
    expect(membersOf(reply.json["error"])["message"]).toBe(
      "The message is not signed by a key of this webhook, within five minutes of now.",
    );
    expect(await stateOf(approval)).toBe("pending");
    const name = "to" in options ? undefined : "chat";
    expect(lastLine()).toMatchObject({ type: "approval.forged", reason, code: "UNAUTHENTICATED", source: "127.0.0.1" });
    expect(lastLine()?.["webhook"]).toBe(name);
  });

  test("the same message again", async () => {
    nextMinute();
    const approval = await stand.ask();
    const body = answerTo(approval, { decision: "deny" });
    expect((await send(body, { id: "msg_once" })).status).toBe(200);
    const again = await send(body, { id: "msg_once" });
    expect([again.status, codeOf(again)]).toEqual([409, "APPROVAL_CONSUMED"]);
    expect(lastLine()).toMatchObject({ type: "approval.forged", reason: "replayed" });
    // A refusal has used it up, too.
    const other = await stand.ask();
    await send(answerTo(other, { planDigest: "0".repeat(64) }), { id: "msg_wrong" });
    expect((await send(answerTo(other), { id: "msg_wrong" })).status).toBe(409);
    expect(await stateOf(other)).toBe("pending");
  });

  test("many concurrent copies: one counts", async () => {
    nextMinute();
    const approval = await stand.ask();
    const replies = await Promise.all(Array.from({ length: 8 }, () => send(answerTo(approval), { id: "msg_many" })));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 7 }, () => 409)]);
  });

  test("too large, not JSON, another media type", async () => {
    nextMinute();
    const approval = await stand.ask();
    const large = await send(answerTo(approval, { reason: "x".repeat(70_000) }));
    expect([large.status, codeOf(large)]).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    expect(lastLine()).toMatchObject({ type: "webhook.refused", code: "PAYLOAD_TOO_LARGE" });
    const twice = `{"approvalId":"${approval.id}","approvalId":"${approval.id}"}`;
    for (const text of ["{", twice, "[]", '"x"']) expect(codeOf(await send(text))).toBe("MALFORMED_REQUEST");
    const plain = await send(answerTo(approval), { headers: { "content-type": "text/plain" } });
    expect([plain.status, codeOf(plain)]).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
    expect(await stateOf(approval)).toBe("pending");
  });

  test("unauthenticated clients do not fill the journal", async () => {
    nextMinute();
    const approval = await stand.ask();
    const before = stand.lines.length;
    for (let count = 0; count < 40; count += 1) await send(answerTo(approval), { secret: secretOf(9) });
    expect(stand.lines.length - before).toBe(10);
    nextMinute();
    await send(answerTo(approval), { secret: secretOf(9) });
    expect(stand.lines.slice(-2)).toMatchObject([
      { source: "127.0.0.1", code: "UNAUTHENTICATED", count: 30 },
      { reason: "signature" },
    ]);
  });

  test("an integration that sends endlessly is stopped", async () => {
    nextMinute();
    const approval = await stand.ask();
    const codes: unknown[] = [];
    for (let count = 0; count < 302; count += 1) {
      codes.push(codeOf(await send(answerTo(approval, { decidedBy: { user: "U9" } }))));
    }
    expect(codes.slice(0, 300).every((code) => code === "PERMISSION_DENIED")).toBe(true);
    expect(codes.slice(300)).toEqual(["RATE_LIMITED", "RATE_LIMITED"]);
    // The others go on.
    expect((await send(answerTo(approval), { to: "desk", secret: DESK })).status).toBe(200);
  });

  test("without the key the request stays pending, whatever is sent", async () => {
    nextMinute();
    const approval = await stand.ask();
    const text = fc.string({ maxLength: 60 }).filter((value) => !/[^\x20-\x7e]/.test(value));
    await fc.assert(
      fc.asyncProperty(text, text, fc.json({ maxDepth: 2 }), async (id, signature, body) => {
        const headers = { "webhook-id": id, "webhook-signature": signature };
        const { status } = await send(answerTo(approval), { secret: secretOf(9), instead: body, headers });
        return status === 401;
      }),
      { numRuns: 50 },
    );
    expect(await stateOf(approval)).toBe("pending");
  });
});

describe("APR-36, APR-37: a link opens a page and decides nothing", () => {
  test.each(["GET", "HEAD"])("%s", async (method) => {
    const approval = await stand.ask();
    const before = stand.lines.length;
    const reply = await stand.send(`${method} /approvals/${approval.id}/page`);
    expect(reply.status).toBe(200);
    expect(reply.headers).toMatchObject({
      ...{ "cache-control": "no-store", "referrer-policy": "no-referrer", "x-frame-options": "DENY" },
      ...{ "x-content-type-options": "nosniff", "content-type": "text/html; charset=utf-8" },
    });
    const policy = String(reply.headers["content-security-policy"]);
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]+='; /);
    expect(policy).toContain("frame-ancestors 'none'");
    expect(await stateOf(approval)).toBe("pending");
    expect(stand.lines).toHaveLength(before);
  });

  test("it says how, and nothing about the request; the same for unknown ids", async () => {
    const { id } = await stand.ask();
    const unknown = "00000000-0000-4000-8000-000000000000";
    const [page, other] = await Promise.all([id, unknown].map((one) => stand.send(`GET /approvals/${one}/page`)));
    expect(page?.text).toContain(`stc approvals show ${id}`);
    expect(page?.text).not.toMatch(
      /customer_block|agent-7|secret-arg|pending|<script|<form|<img|href=|src=| style=| on\w+=/,
    );
    expect(other?.text).toBe(page?.text.replaceAll(id, unknown) ?? "");
    const style = /<style>(.*)<\/style>/.exec(page?.text ?? "")?.[1] ?? "";
    const digest = new Bun.CryptoHasher("sha256").update(style).digest("base64");
    expect(String(page?.headers["content-security-policy"])).toContain(`'sha256-${digest}'`);
  });

  test.each(["%3Cscript%3E", "..%2f..%2fx", "1", "'onload=x"])(
    "%s is not an id, and does not appear in the answer",
    async (id) => {
      const reply = await stand.send(`GET /approvals/${id}/page`);
      expect(reply.status).toBe(404);
      expect(reply.text).not.toContain(decodeURIComponent(id) === "1" ? ">1<" : decodeURIComponent(id));
    },
  );

  test.each(["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])("%s does not exist there", async (method) => {
    const approval = await stand.ask();
    const reply = await stand.send(`${method} /approvals/${approval.id}/page?decision=approve`);
    expect(reply.status).toBe(405);
    expect(await stateOf(approval)).toBe("pending");
  });

  test("opening the decisions address decides nothing", async () => {
    const { id, planDigest } = await stand.ask();
    const query = new URLSearchParams({ approvalId: id, planDigest, decision: "approve" });
    for (const path of [`/webhooks/chat/decisions?${query}`, `/approvals/${id}/decisions?${query}`]) {
      expect((await stand.send(`GET ${path}`)).status).toBe(405);
    }
  });

  test("another Host is not served", async () => {
    const { id } = await stand.ask();
    const reply = await stand.send(`GET /approvals/${id}/page`, { headers: { host: "evil.example" } });
    expect(codeOf(reply)).toBe("HOST_NOT_ALLOWED");
  });
});

test("a decision that cannot be recorded does not count, and may be sent again", async () => {
  const own = await ApprovalStand.open({ webhooks: { integrations, states: () => [], stop: async () => {} } });
  const approval = await own.ask();
  own.failJournal();
  const body = JSON.stringify(answerTo(approval));
  const headers = {
    ...signMessage({ id: "msg_1", body }, { keys: readKeys(CHAT, "verify"), nowMs: NOW_SECONDS * 1_000 }),
  };
  const reply = await own.send("POST /webhooks/chat/decisions", { body, headers });
  expect([reply.status, codeOf(reply)]).toEqual([503, "AUDIT_UNAVAILABLE"]);
  expect((await own.approvals.get(approval.id))?.state).toBe("pending");
  await own.close();
});

test("without an integration the route does not exist", async () => {
  const own = await ApprovalStand.open();
  expect((await own.send("POST /webhooks/chat/decisions", { body: {} })).status).toBe(404);
  await own.close();
});

test("a revoked person cannot decide through an integration either", () => {
  const read = readRevocations(
    Buffer.from(JSON.stringify({ revoked: [{ issuer: OPERATORS_ISSUER, subject: "olga" }] })),
  );
  if ("problem" in read) throw new Error(read.problem);
  const key = makeSigningKey("ES256", "operators-1");
  const profile = agentsProfile([key], { issuer: OPERATORS_ISSUER, operators: true });
  const callers = createCallerVerifier({
    ...{ issuers: [profile, agentsProfile([key])], clock: () => NOW_SECONDS * 1_000, revocations: () => read },
  });
  expect(() => callers.assertOperator(person("dora"))).not.toThrow();
  for (const one of [
    person("olga"),
    { issuer: AGENTS_ISSUER, subject: "dora" },
    { issuer: "https://x.test", subject: "dora" },
  ]) {
    expect(() => callers.assertOperator(one)).toThrow();
  }
});
