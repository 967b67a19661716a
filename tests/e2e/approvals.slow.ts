import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ApprovalService } from "../support/approval-service.ts";
import { until } from "../support/until.ts";

const service = new ApprovalService({ pendingPerCallerMax: 6 });

beforeAll(async () => {
  await service.start();
});

afterAll(async () => {
  await service.end();
});

/** Every test is another caller: what one asks does not count against the next. */
let callers = 0;
async function newAgent(
  claims: Record<string, unknown> = {},
): Promise<{ readonly token: string; readonly sub: string }> {
  callers += 1;
  const sub = `agent-${callers}`;
  return { sub, token: await service.agent({ sub, claims }) };
}

async function ask(tool = "do_write", what = "a", extras: { token?: string; session?: string; reason?: string } = {}) {
  const token = extras.token ?? (await newAgent()).token;
  const asked = await service.call(tool, what, { ...extras, token });
  expect(asked).toMatchObject({ http: 202, body: { status: "pending" } });
  return { token, asked, id: asked.body.approval.id as string };
}

/** The code of a refusal, and that its line says the same. */
function expectRefusal(reply: Awaited<ReturnType<ApprovalService["call"]>>, http: number, code: string): void {
  expect([reply.http, reply.body.error?.code]).toEqual([http, code]);
  expect(service.entry(reply.body.traceId)).toMatchObject({
    error: { code },
    denial: { reason: reply.body.error.message },
  });
}

describe("ask, decide, claim", () => {
  test("the request is returned, and audited as pending", async () => {
    const { asked, id } = await ask("do_write", "a", { reason: "tidying up" });
    expect(asked.body).toMatchObject({
      status: "pending",
      approval: { id, statusUrl: `/approvals/${id}`, options: ["cancel", "once"] },
    });
    expect(asked.headers.get("location")).toBe(`/approvals/${id}`);
    expect(asked.headers.get("retry-after")).toBe("2");
    expect(service.entry(asked.body.traceId)).toMatchObject({
      decision: "PENDING",
      approval: { id },
      error: { code: "APPROVAL_REQUIRED" },
      request: { reason: "tidying up" },
    });
    expect(service.journal()).toContainEqual(expect.objectContaining({ type: "approval.asked", id }));
  });

  test("an approval runs the call once, with its own entry", async () => {
    const before = service.deeds.length;
    const { token, id } = await ask("do_write", "b");
    expect(service.deeds).toHaveLength(before);
    expect((await service.decide(id, "approve")).http).toBe(200);
    const ran = await service.call("do_write", "b", { token, approval: { id } });
    expect(ran).toMatchObject({ http: 200, body: { status: "success", result: { done: "b" } } });
    expect(service.deeds.slice(before)).toEqual(["b"]);
    expect(service.entry(ran.body.traceId)).toMatchObject({
      decision: "ALLOWED",
      approval: { id, by: "human:https://people.test|alice" },
    });
    const again = await service.call("do_write", "b", { token, approval: { id } });
    expectRefusal(again, 409, "APPROVAL_CONSUMED");
    expect(service.deeds.slice(before)).toEqual(["b"]);
    const status = await service.send("GET", `/approvals/${id}`, { token });
    expect(status.body.approval.state).toBe("executed");
  });

  test("a denial with its reason; APR-61: the same call is not asked about again", async () => {
    const { token, id } = await ask("do_network", "a");
    await service.decide(id, "deny", { reason: "not on a Friday" });
    const claimed = await service.call("do_network", "a", { token, approval: { id } });
    expectRefusal(claimed, 403, "APPROVAL_DENIED");
    expect(claimed.body.error.message).toBe("Denied by user: not on a Friday");
    const again = await service.call("do_network", "a", { token });
    expectRefusal(again, 403, "APPROVAL_DENIED");
    expect(again.body.error.retryAfterMs).toBeGreaterThan(1_000);
    await ask("do_network", "b", { token });
  });

  test("APR-02: other arguments are another call", async () => {
    const before = service.deeds.length;
    const { token, id } = await ask("do_write", "a");
    await service.decide(id, "approve");
    expectRefusal(await service.call("do_write", "b", { token, approval: { id } }), 409, "APPROVAL_MISMATCH");
    expectRefusal(await service.call("do_network", "a", { token, approval: { id } }), 409, "APPROVAL_MISMATCH");
    expect(service.deeds).toHaveLength(before);
    expect((await service.call("do_write", "a", { token, approval: { id } })).http).toBe(200);
  });

  test("APR-35: another caller's approval looks like one that never existed", async () => {
    const { id } = await ask();
    await service.decide(id, "approve");
    const { token } = await newAgent();
    const theirs = await service.call("do_write", "a", { token, approval: { id } });
    const none = await service.call("do_write", "a", { token, approval: { id: crypto.randomUUID() } });
    expectRefusal(theirs, 404, "APPROVAL_NOT_FOUND");
    expect({ ...theirs.body, traceId: "" }).toEqual({ ...none.body, traceId: "" });
  });

  test.each(["constructor", "__proto__", "toString", "' OR 1=1 --"])("APR-05: %s is not an approval id", async (id) => {
    const { token } = await newAgent();
    const reply = await service.call("do_write", "a", { token, approval: { id } });
    expect(reply.http).toBe(id.includes(" ") ? 400 : 404);
  });

  test("a claim before the decision gets the pending answer again", async () => {
    const { token, id } = await ask();
    const early = await service.call("do_write", "a", { token, approval: { id } });
    expect(early).toMatchObject({ http: 202, body: { approval: { id } } });
  });

  test("APR-55: the claim needs the same permissions again", async () => {
    const { sub, token } = await newAgent();
    const { id } = await ask("do_write", "a", { token });
    await service.decide(id, "approve");
    const weaker = await service.agent({ sub, permissions: [] });
    expectRefusal(await service.call("do_write", "a", { token: weaker, approval: { id } }), 403, "PERMISSION_DENIED");
    const expired = await service.agent({ sub, kind: "expired" });
    expect((await service.call("do_write", "a", { token: expired, approval: { id } })).http).toBe(401);
    expect((await service.call("do_write", "a", { token: await service.agent({ sub }), approval: { id } })).http).toBe(
      200,
    );
  });

  test("APR-62: the identical request is made once, and the number of different ones is limited", async () => {
    const { token, id } = await ask("do_write", "a");
    expect((await ask("do_write", "a", { token })).id).toBe(id);
    for (const [tool, what] of [
      ["do_write", "b"],
      ["do_write", "c"],
      ["do_network", "a"],
      ["do_network", "b"],
      ["do_network", "c"],
    ] as const) {
      await ask(tool, what, { token });
    }
    expectRefusal(await service.call("do_once", "a", { token }), 429, "RATE_LIMITED");
    expect((await ask("do_write", "a", { token })).id).toBe(id);
    await ask("do_network", "c");
  });

  test("a cancelled request is over, and a new one can be made", async () => {
    const { token, id } = await ask();
    expect((await service.send("DELETE", `/approvals/${id}`, { token })).http).toBe(200);
    expectRefusal(await service.call("do_write", "a", { token, approval: { id } }), 410, "APPROVAL_CANCELLED");
    expect((await service.decide(id, "approve")).http).toBe(410);
    expect((await ask("do_write", "a", { token })).id).not.toBe(id);
  });

  test("a revoked approval runs nothing", async () => {
    const { token, id } = await ask();
    await service.decide(id, "approve");
    expect(
      (await service.send("POST", `/approvals/${id}/revoke`, { token: await service.person(), body: {} })).http,
    ).toBe(200);
    expectRefusal(await service.call("do_write", "a", { token, approval: { id } }), 410, "APPROVAL_REVOKED");
  });

  test("a failed run has used its approval", async () => {
    const { token, id } = await ask("do_write", "fails");
    await service.decide(id, "approve");
    const failed = await service.call("do_write", "fails", { token, approval: { id } });
    expect(failed.body.error.code).toBe("TARGET_FAILED");
    const status = await service.send("GET", `/approvals/${id}`, { token });
    expect(status.body.approval.state).toBe("failed");
    expectRefusal(await service.call("do_write", "fails", { token, approval: { id } }), 409, "APPROVAL_CONSUMED");
  });

  test("64 concurrent claims run once", async () => {
    const before = service.deeds.length;
    const { token, id } = await ask("do_write", "c");
    await service.decide(id, "approve");
    const replies = await Promise.all(
      Array.from({ length: 64 }, () => service.call("do_write", "c", { token, approval: { id } })),
    );
    expect(replies.filter(({ http }) => http === 200)).toHaveLength(1);
    expect(service.deeds.slice(before)).toEqual(["c"]);
  });

  test("APR-53: a stop and a start lose neither request nor approval", async () => {
    const own = await new ApprovalService().start();
    try {
      const token = await own.agent();
      const asked = await own.call("do_write", "a", { token });
      await own.stop();
      await own.start();
      expect((await own.decide(asked.body.approval.id, "approve")).http).toBe(200);
      await own.stop();
      await own.start();
      expect((await own.call("do_write", "a", { token, approval: asked.body.approval })).http).toBe(400);
      const { id } = asked.body.approval;
      expect((await own.call("do_write", "a", { token, approval: { id } })).http).toBe(200);
      expect(own.deeds).toEqual(["a"]);
    } finally {
      await own.end();
    }
  });

  test("APR-11: a rule of the tool that changed between approval and run voids the approval", async () => {
    const own = await new ApprovalService().start();
    try {
      const token = await own.agent();
      const { id } = (await own.call("do_write", "a", { token })).body.approval;
      await own.decide(id, "approve");
      await own.stop();
      const rule = {
        name: "mine",
        when: { tool: "do_write" },
        verdict: "ask",
        examples: { matches: [{}], misses: [] },
      };
      await own.start({ rules: [rule] });
      const claimed = await own.call("do_write", "a", { token, approval: { id } });
      expect([claimed.http, claimed.body.error.code]).toEqual([409, "APPROVAL_MISMATCH"]);
      expect(own.deeds).toEqual([]);
    } finally {
      await own.end();
    }
  });
});

describe("Prefer: wait", () => {
  test("an approval in time runs the call in the request that asked, as one call", async () => {
    const { token } = await newAgent();
    const waiting = service.call("do_write", "a", { token, headers: { prefer: "wait=50" } });
    const id = await pendingOf(token);
    await service.decide(id, "approve");
    const reply = await waiting;
    expect(reply).toMatchObject({ http: 200, body: { result: { done: "a" } } });
    expect(reply.headers.get("preference-applied")).toBe("wait");
    const lines = service.entries().filter(({ approval }) => approval?.id === id);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ decision: "ALLOWED", approval: { id, by: "human:https://people.test|alice" } });
  });

  test("a denial in time is a denial", async () => {
    const { token } = await newAgent();
    const waiting = service.call("do_write", "b", { token, headers: { prefer: "respond-async, wait=50" } });
    await service.decide(await pendingOf(token), "deny", { reason: "no" });
    expectRefusal(await waiting, 403, "APPROVAL_DENIED");
  });

  test("nobody answers: 202 when the time is over", async () => {
    const { token } = await newAgent();
    const reply = await service.call("do_write", "a", { token, headers: { prefer: "wait=1" } });
    expect(reply.http).toBe(202);
    expect(service.entry(reply.body.traceId)?.decision).toBe("PENDING");
  });

  test("a disconnected client runs nothing; its approval stays claimable", async () => {
    const before = service.deeds.length;
    const { token } = await newAgent();
    const leaving = new AbortController();
    const gone = service.call("do_network", "c", { token, headers: { prefer: "wait=50" }, signal: leaving.signal });
    const id = await pendingOf(token);
    leaving.abort();
    await gone.catch(() => {});
    await until("the call's line", () => service.entries().find(({ approval }) => approval?.id === id));
    await service.decide(id, "approve");
    expect(service.deeds).toHaveLength(before);
    expect((await service.call("do_network", "c", { token, approval: { id } })).http).toBe(200);
    expect(service.deeds.slice(before)).toEqual(["c"]);
  });

  test("a drain answers waiting calls with 202", async () => {
    const own = await new ApprovalService().start();
    const token = await own.agent();
    const waiting = own.call("do_write", "a", { token, headers: { prefer: "wait=50" } });
    await until("the question", () => own.journal().find(({ type }) => type === "approval.asked"));
    const stopped = own.stop();
    expect((await waiting).http).toBe(202);
    await stopped;
    await own.end();
  });

  test("many may wait for one answer: one run", async () => {
    const before = service.deeds.length;
    const { token } = await newAgent();
    const waiting = Array.from({ length: 20 }, () =>
      service.call("do_network", "a", { token, headers: { prefer: "wait=50" } }),
    );
    await service.decide(await pendingOf(token), "approve");
    const codes = (await Promise.all(waiting)).map(({ http }) => http);
    expect(codes.filter((http) => http === 200)).toHaveLength(1);
    expect(service.deeds.slice(before)).toEqual(["a"]);
  });

  async function pendingOf(token: string): Promise<string> {
    return until("the question", async () => {
      const page = await service.send("GET", "/approvals?state=pending", { token });
      return page.body.approvals[0]?.id as string | undefined;
    });
  }
});

describe("sessions, modes and grants", () => {
  test("APR-40: an approval for the session covers exactly this call of this caller in this session", async () => {
    const { token, sub } = await newAgent({ sid: "s-1" });
    const { id, asked } = await ask("do_write", "a", { token });
    expect(asked.body.approval.options).toEqual(["cancel", "once", "session"]);
    expect((await service.decide(id, "approve", { scope: "session" })).http).toBe(200);
    expect((await service.call("do_write", "a", { token, approval: { id } })).http).toBe(200);
    const granted = await service.call("do_write", "a", { token });
    expect(granted.http).toBe(200);
    expect(service.entry(granted.body.traceId)?.approval?.by).toStartWith("grant:");
    expect((await service.call("do_write", "b", { token })).http).toBe(202);
    expect((await service.call("do_network", "a", { token })).http).toBe(202);
    const otherSession = await service.agent({ sub, claims: { sid: "s-2" } });
    expect((await service.call("do_write", "a", { token: otherSession })).http).toBe(202);
    const noSession = await service.agent({ sub });
    expect((await service.call("do_write", "a", { token: noSession })).http).toBe(202);
    expect((await service.call("do_write", "a", { token: noSession, session: "s-1" })).http).toBe(202);
    expect((await service.call("do_write", "a", { token: noSession, session: "sid:s-1" })).http).toBe(202);
    const stranger = await newAgent({ sid: "s-1" });
    expect((await service.call("do_write", "a", { token: stranger.token })).http).toBe(202);
  });

  test("APR-42: a session that an agent invents is ignored", async () => {
    const { token } = await newAgent();
    const { id, asked } = await ask("do_write", "a", { token, session: "my-own" });
    expect(asked.body.approval.options).toEqual(["cancel", "once"]);
    expect((await service.decide(id, "approve", { scope: "session" })).http).toBe(400);
  });

  test("APR-43: a grant ends with its session", async () => {
    const { token } = await newAgent();
    const opened = await service.send("POST", "/sessions", { token, body: {} });
    const session = opened.body.session.id as string;
    const { id } = await ask("do_write", "a", { token, session });
    await service.decide(id, "approve", { scope: "session" });
    expect((await service.call("do_write", "a", { token, session })).http).toBe(200);
    expect((await service.send("DELETE", `/sessions/${session}`, { token })).http).toBe(200);
    expect((await service.call("do_write", "a", { token, session })).body.error.code).toBe("APPROVAL_REVOKED");
    expect((await service.call("do_write", "a", { token })).http).toBe(202);
  });

  test("APR-44: destructive calls are never remembered", async () => {
    const { token } = await newAgent({ sid: "s-9" });
    const { id, asked } = await ask("do_destroy", "a", { token });
    expect(asked.body.approval.options).toEqual(["cancel", "once"]);
    expect((await service.decide(id, "approve", { scope: "session" })).http).toBe(400);
    expect((await service.decide(id, "approve")).http).toBe(200);
  });

  test("a manifest that offers no session scope gets none", async () => {
    const { token } = await newAgent({ sid: "s-3" });
    expect((await ask("do_once", "a", { token })).asked.body.approval.options).toEqual(["cancel", "once"]);
  });

  test("APR-26, APR-27: operators set a mode with an end; an agent cannot", async () => {
    const { token } = await newAgent();
    const session = (await service.send("POST", "/sessions", { token, body: {} })).body.session.id as string;
    const change = { body: { mode: "yolo", expiresInSeconds: 600 } };
    expect((await service.send("PUT", `/sessions/${session}/mode`, { token, ...change })).http).toBeOneOf([401, 403]);
    const person = await service.person();
    expect((await service.send("PUT", `/sessions/${session}/mode`, { token: person, ...change })).http).toBe(200);
    const ran = await service.call("do_network", "a", { token, session });
    expect(ran.http).toBe(200);
    expect(service.entry(ran.body.traceId)?.approval).toEqual({ by: "mode:yolo" });
    expect((await service.call("do_network", "a", { token })).http).toBe(202);
    expect((await service.call("do_destroy", "a", { token, session })).http).toBe(202);
    const stranger = await newAgent();
    expect((await service.call("do_network", "a", { token: stranger.token, session })).http).toBe(202);
  });

  test("autoEdit allows writes and nothing else", async () => {
    const { token, sub } = await newAgent({ sid: "s-4" });
    const change = { mode: "autoEdit", expiresInSeconds: 600, issuer: "https://idp.test", subject: sub };
    const person = await service.person();
    expect((await service.send("PUT", "/sessions/sid:s-4/mode", { token: person, body: change })).http).toBe(200);
    expect((await service.call("do_write", "a", { token })).http).toBe(200);
    expect((await service.call("do_network", "a", { token })).http).toBe(202);
  });

  test("a request cannot name its mode", async () => {
    const { token } = await newAgent();
    const body = { tool: "do_write", args: { what: "a" }, mode: "yolo" };
    expect((await service.send("POST", "/call", { token, body })).http).toBe(400);
  });
});

describe("who approves", () => {
  test("APR-33: an agent's token decides nothing, whatever permissions it carries", async () => {
    const { id } = await ask();
    const forged = await service.agent({ permissions: ["approvals:decide", "deeds:do"] });
    expect((await service.decide(id, "approve", { token: forged })).http).toBeOneOf([401, 403]);
    expect(service.journal()).toContainEqual(expect.objectContaining({ type: "approval.forged" }));
  });

  test("neither does an operator without the permission, nor the requester", async () => {
    const { token, sub } = await newAgent();
    const { id } = await ask("do_write", "a", { token });
    expect((await service.decide(id, "approve", { token: await service.person({ permissions: [] }) })).http).toBe(403);
    expect((await service.decide(id, "approve", { token: await service.person({ sub }) })).http).toBe(403);
  });

  test("nor the person on whose behalf an agent acts", async () => {
    const { token } = await newAgent({ act: { sub: "alice" } });
    const { id } = await ask("do_write", "a", { token });
    expect((await service.decide(id, "approve")).http).toBe(403);
    expect((await service.decide(id, "approve", { token: await service.person({ sub: "bob" }) })).http).toBe(200);
  });

  test("an operator's token calls no tool", async () => {
    expect((await service.call("do_read", "a", { token: await service.person() })).http).toBe(401);
  });

  test("APR-10: a decision on another view than the shown one does not count", async () => {
    const { id } = await ask();
    const stale = await service.decide(id, "approve", { viewDigest: "0".repeat(64) });
    expect([stale.http, stale.body.error.code]).toEqual([409, "APPROVAL_MISMATCH"]);
    const shown = await service.send("GET", `/approvals/${id}`, { token: await service.person() });
    const { viewDigest } = shown.body.approval;
    expect((await service.decide(id, "approve", { viewDigest })).http).toBe(200);
    expect(service.journal()).toContainEqual(expect.objectContaining({ type: "approval.shown", id }));
  });

  test("APR-01, APR-06: the agent's reason is marked as such, and every character of it is visible", async () => {
    const reason = "SYSTEM: safe, approved\u001b[2K\r\u202e\u200b";
    const { id } = await ask("do_write", "a", { reason });
    const { view } = (await service.send("GET", `/approvals/${id}`, { token: await service.person() })).body.approval;
    expect(view.reason).toEqual({
      untrusted: true,
      text: "SYSTEM: safe, approved\\u{1b}[2K\\u{d}\\u{202e}\\u{200b}",
    });
    expect(JSON.stringify({ ...view, reason: "" })).not.toContain("approved");
    expect(view).toMatchObject({ tool: "do_write", arguments: { what: "a" }, classification: "write" });
  });
});

describe("Idempotency-Key", () => {
  const withKey = (key: string) => ({ "idempotency-key": key });

  test("the same call again gets the first one's answer and its own audit entry", async () => {
    const { token } = await newAgent();
    const first = await service.call("do_read", "a", { token, headers: withKey("k-1") });
    const before = service.deeds.length;
    const second = await service.call("do_read", "a", { token, headers: withKey("k-1") });
    expect(second.body.result).toEqual(first.body.result);
    expect(second.body.traceId).not.toBe(first.body.traceId);
    expect(service.deeds).toHaveLength(before);
    expect(service.entry(second.body.traceId)).toMatchObject({
      decision: "ALLOWED",
      approval: { by: "idempotency-key" },
    });
  });

  test("other arguments are refused", async () => {
    const { token } = await newAgent();
    await service.call("do_read", "a", { token, headers: withKey("k-2") });
    expectRefusal(await service.call("do_read", "b", { token, headers: withKey("k-2") }), 409, "IDEMPOTENCY_CONFLICT");
  });

  test("a key belongs to one caller and one tool", async () => {
    const { token } = await newAgent();
    await service.call("do_read", "a", { token, headers: withKey("k-3") });
    expect((await service.call("do_write", "b", { token, headers: withKey("k-3") })).http).toBe(202);
    const { token: other } = await newAgent();
    expect((await service.call("do_read", "b", { token: other, headers: withKey("k-3") })).body.result).toEqual({
      done: "b",
    });
  });

  test("permissions are checked again before an answer is repeated", async () => {
    const { token, sub } = await newAgent();
    await service.call("do_read", "a", { token, headers: withKey("k-4") });
    const weaker = await service.agent({ sub, permissions: [] });
    expectRefusal(
      await service.call("do_read", "a", { token: weaker, headers: withKey("k-4") }),
      403,
      "PERMISSION_DENIED",
    );
  });

  test("it applies across request and claim", async () => {
    const before = service.deeds.length;
    const { token } = await newAgent();
    const asked = await service.call("do_write", "a", { token, headers: withKey("k-5") });
    const { id } = asked.body.approval;
    await service.decide(id, "approve");
    const ran = await service.call("do_write", "a", { token, approval: { id }, headers: withKey("k-5") });
    expect(ran.http).toBe(200);
    const again = await service.call("do_write", "a", { token, approval: { id }, headers: withKey("k-5") });
    expect([again.http, again.body.result]).toEqual([200, ran.body.result]);
    expect(service.deeds.slice(before)).toEqual(["a"]);
  });

  test("a change with an unknown outcome is not repeated", async () => {
    const { token } = await newAgent();
    const { id } = (await service.call("do_write", "fails", { token, headers: withKey("k-6") })).body.approval;
    await service.decide(id, "approve");
    await service.call("do_write", "fails", { token, approval: { id }, headers: withKey("k-6") });
    const before = service.deeds.length;
    expectRefusal(await service.call("do_write", "fails", { token, headers: withKey("k-6") }), 502, "OUTCOME_UNKNOWN");
    expect(service.deeds).toHaveLength(before);
  });

  test.each(["", " ", "a b", "ä", "x".repeat(256)])("%j is not a key", async (key) => {
    const { token } = await newAgent();
    const reply = await service.call("do_read", "a", { token, headers: withKey(encodeURI(key) === key ? key : "a b") });
    expect(reply.http).toBe(400);
  });
});
