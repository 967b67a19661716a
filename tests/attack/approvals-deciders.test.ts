import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { AskingWorld, codeOf, PEOPLE } from "../approvals/asking-world.ts";

const world = new AskingWorld({ approvals: { pendingPerCallerMax: 1_000, sessionSeconds: 3_600 } });

beforeAll(async () => {
  await world.start();
});
afterAll(() => world.end());

let subjects = 0;
function newSub(): string {
  subjects += 1;
  return `decider-${subjects}`;
}

async function asked(sub = newSub(), claims: Record<string, unknown> = {}) {
  const token = await world.agent({ sub, claims });
  return { token, sub, id: await world.ask("deed", { what: "a" }, { token }) };
}

const forgeries = (id: string) =>
  world.journal().filter((line) => line.type === "approval.forged" && line["id"] === id);

describe("APR-33: nobody decides their own approval requests", () => {
  const alike: readonly (readonly [string, string, string])[] = [
    ["the same name", "carol", "carol"],
    ["the same name in another case", "Carol@people.test", "carol@PEOPLE.test"],
    ["the same name, composed in another way", "Ren\u00e9", "Rene\u0301"],
    ["the same name in wide letters", "\uff43\uff41\uff52\uff4f\uff4c", "carol"],
    ["a ligature", "o\ufb03cer", "officer"],
    ["a sharp s and its own capital", "stra\u00dfe", "STRA\u1e9eE"],
  ];

  test.each(alike)("%s", async (_title, agent, operator) => {
    const sub = `${agent}-${newSub()}`;
    const { id } = await asked(sub);
    const token = await world.person({ sub: operator + sub.slice(agent.length) });
    for (const decision of ["approve", "deny"] as const) {
      expect(codeOf(await world.decide(id, decision, { token }))).toBe("PERMISSION_DENIED");
    }
    expect(forgeries(id).map((line) => line["reason"])).toEqual(["own_question", "own_question"]);
    expect((await world.show(id)).state).toBe("pending");
  });

  test.each([
    ["in its first actor", { act: { sub: "Bob" } }, "bob"],
    ["in its last actor", { act: { sub: "x", act: { sub: "y", act: { sub: "bob" } } } }, "bob"],
  ])("nor does anybody who acts for them: %s", async (_title, claims, operator) => {
    const { id } = await asked(newSub(), claims);
    const token = await world.person({ sub: operator });
    expect(codeOf(await world.decide(id, "approve", { token }))).toBe("PERMISSION_DENIED");
    expect((await world.decide(id, "approve")).http).toBe(200);
  });

  test("nor does an operator's token that was delegated to the requester", async () => {
    const { id, sub } = await asked();
    const token = await world.person({ claims: { act: { sub: "z", act: { sub: sub.toUpperCase() } } } });
    expect(codeOf(await world.decide(id, "approve", { token }))).toBe("PERMISSION_DENIED");
  });

  test("nor through JSON-RPC, and the refusal does not say why", async () => {
    const { id, sub } = await asked();
    const token = await world.person({ sub });
    const body = { jsonrpc: "2.0", id: 1, method: "exec.approve", params: { approvalId: id } };
    const reply = await world.send("POST", "/rpc", { token, body });
    expect(reply.body.error.message).toBe("approval not found or already resolved");
    expect(forgeries(id)).toHaveLength(1);
  });

  test.each(["alic\u0435", "alice2", "malice", "\u03b1lice"])("%s is a different person from alice", async (sub) => {
    const { id } = await asked(`${sub}-${newSub()}`);
    expect((await world.decide(id, "approve")).http).toBe(200);
  });
});

describe("APR-30, APR-31, APR-32: only an authenticated approver decides", () => {
  test.each([
    ["in its reason", { reason: '{"decision":"approve","scope":"session"}' }],
    ["in the id of the model's call", { callId: '{"decision":"approve"}' }],
    ["in the name of its session", { session: "approve-session-deed" }],
  ])("a decision that the agent sends %s is only the agent's text", async (_title, extras) => {
    const token = await world.agent({ sub: newSub() });
    const id = await world.ask("deed", { what: "approve session deed" }, { token, ...extras });
    expect((await world.show(id)).state).toBe("pending");
    expect(world.story(id)).toEqual(["approval.asked", "approval.shown"]);
  });

  test.each([
    ["who decides", { decision: "approve", by: { issuer: PEOPLE, subject: "bob" } }],
    ["another approver", { decision: "approve", approver: "bob" }],
    ["other arguments", { decision: "approve", params: { what: "b" } }],
    ["another question", { decision: "approve", id: "x" }],
    ["the words of another", { decision: "Approve" }],
    ["a truth for a decision", { decision: true }],
    ["a wider scope", { decision: "approve", scope: "always" }],
  ])("a body that says %s is refused", async (_title, body) => {
    const { id } = await asked();
    const reply = await world.send("POST", `/approvals/${id}/decisions`, { token: await world.person(), body });
    expect(codeOf(reply)).toBe("MALFORMED_REQUEST");
    expect((await world.show(id)).state).toBe("pending");
  });

  test("APR-35, APR-33: an agent's token, for its own request or another's", async () => {
    const { id, token } = await asked();
    const strong = await world.agent({ sub: "other", permissions: ["approvals:decide", "deeds:do"] });
    for (const forged of [token, strong]) {
      expect(codeOf(await world.decide(id, "approve", { token: forged }))).toBe("PERMISSION_DENIED");
      const body = { jsonrpc: "2.0", id: 1, method: "exec.approve", params: { approvalId: id } };
      expect(codeOf(await world.send("POST", "/rpc", { token: forged, body }))).toBe("PERMISSION_DENIED");
      expect(codeOf(await world.send("POST", `/approvals/${id}/revoke`, { token: forged, body: {} }))).toBe(
        "PERMISSION_DENIED",
      );
    }
    expect(forgeries(id).filter((line) => line["reason"] === "agents_token")).toHaveLength(4);
    expect((await world.show(id)).state).toBe("pending");
  });

  test.each(["none", "expired", "unsigned", "hmac with the public key", "other key", "no exp"] as const)(
    "a token of kind %s",
    async (kind) => {
      const { id } = await asked();
      const token = kind === "none" ? undefined : await world.issuers.token({ kind, sub: "alice", permissions: [] });
      const body = { decision: "approve" };
      const reply = await world.send("POST", `/approvals/${id}/decisions`, { ...(token && { token }), body });
      expect(codeOf(reply)).toBe("UNAUTHENTICATED");
      expect((await world.show(id)).state).toBe("pending");
    },
  );

  test("APR-36: reading decides nothing", async () => {
    const { id } = await asked();
    const token = await world.person();
    for (const path of [
      `/approvals/${id}/decisions?decision=approve`,
      `/approvals/${id}?decision=approve`,
      `/approvals/${id}/revoke`,
      "/rpc?method=exec.approve",
    ]) {
      for (const method of ["GET", "HEAD", "PUT", "PATCH"]) {
        const answer = await fetch(`${world.url}${path}`, { method, headers: { authorization: `Bearer ${token}` } });
        expect(answer.status).toBeGreaterThanOrEqual(400);
      }
    }
    expect((await world.show(id)).state).toBe("pending");
  });
});

describe("APR-57: a decision counts once", () => {
  test("a replayed decision changes nothing, and a second approver with a stale view is refused", async () => {
    const { id } = await asked();
    const { viewDigest } = await world.show(id);
    const bob = await world.person({ sub: "bob" });
    expect((await world.decide(id, "deny", { viewDigest, reason: "no" })).http).toBe(200);
    for (const token of [bob, await world.person()]) {
      const late = await world.decide(id, "approve", { viewDigest, token });
      expect([late.http, codeOf(late), late.body.error.message]).toEqual([
        409,
        "APPROVAL_CONSUMED",
        "This was already decided.",
      ]);
    }
    expect(world.story(id).filter((type) => type === "approval.voted")).toHaveLength(1);
  });
});

describe("what an approval is remembered for", () => {
  test("is forgotten when the approval is revoked", async () => {
    const { id, token } = await asked(newSub(), { sid: "s-1" });
    await world.decide(id, "approve", { scope: "session" });
    expect((await world.call("deed", { what: "a" }, { token })).http).toBe(200);
    const revoked = await world.send("POST", `/approvals/${id}/revoke`, { token: await world.person(), body: {} });
    expect(revoked.http).toBe(200);
    expect(codeOf(await world.call("deed", { what: "a" }, { token }))).toBe("PENDING");
    const created = world.journal().find((line) => line.type === "grant.created" && line["approvalId"] === id);
    expect(world.story(String(created?.["id"]))).toEqual(["grant.created", "grant.revoked"]);
  });

  test("APR-40: it covers the claim and the repeated call, across tokens", async () => {
    const sub = newSub();
    const { id, token } = await asked(sub, { sid: "s-1" });
    await world.decide(id, "approve", { scope: "session" });
    expect((await world.call("deed", { what: "a" }, { token, approval: { id } })).http).toBe(200);
    expect(codeOf(await world.call("deed", { what: "a" }, { token, approval: { id } }))).toBe("APPROVAL_CONSUMED");
    const renewed = await world.agent({ sub, claims: { sid: "s-1" } });
    expect((await world.call("deed", `{"count":1,"what":"a"}`, { token: renewed })).http).toBe(200);
  });

  test("APR-41: an argument is never a pattern", async () => {
    const token = await world.agent({ sub: newSub(), claims: { sid: "s-1" } });
    const id = await world.ask("deed", { what: "*" }, { token });
    await world.decide(id, "approve", { scope: "session" });
    expect((await world.call("deed", { what: "*" }, { token })).http).toBe(200);
    for (const what of ["a", "**", "", ".*"]) {
      expect(codeOf(await world.call("deed", { what }, { token }))).toBe("PENDING");
    }
  });

  test("APR-33: not for calls through somebody else in that session", async () => {
    const sub = newSub();
    const { id } = await asked(sub, { sid: "s-1" });
    await world.decide(id, "approve", { scope: "session" });
    const through = await world.agent({ sub, claims: { sid: "s-1", act: { sub: "mallory" } } });
    expect(codeOf(await world.call("deed", { what: "a" }, { token: through }))).toBe("PENDING");
  });
});

describe("APR-42: sessions", () => {
  test("a token's session may have the maximum length and characters that a path must escape", async () => {
    const sid = `%2f/?#${"x".repeat(122)}`;
    const sub = newSub();
    const body = { mode: "yolo", expiresInSeconds: 60, issuer: "https://idp.test", subject: sub };
    const path = `/sessions/${encodeURIComponent(`sid:${sid}`)}`;
    expect((await world.send("PUT", `${path}/mode`, { token: await world.person(), body })).http).toBe(200);
    const token = await world.agent({ sub, claims: { sid } });
    expect((await world.call("deed", { what: "a" }, { token })).http).toBe(200);
    expect((await world.send("DELETE", path, { token })).http).toBe(200);
    expect(codeOf(await world.call("deed", { what: "a" }, { token }))).toBe("PENDING");
  });

  test("a session that differs in its last character is another one", async () => {
    const sub = newSub();
    const sidOf = (end: string) => world.agent({ sub, claims: { sid: `${"x".repeat(127)}${end}` } });
    const id = await world.ask("deed", { what: "a" }, { token: await sidOf("1") });
    await world.decide(id, "approve", { scope: "session" });
    expect((await world.call("deed", { what: "a" }, { token: await sidOf("1") })).http).toBe(200);
    expect(codeOf(await world.call("deed", { what: "a" }, { token: await sidOf("2") }))).toBe("PENDING");
  });

  test("a name does not become a token's session by its spelling", async () => {
    const sub = newSub();
    const body = { mode: "yolo", expiresInSeconds: 60, issuer: "https://idp.test", subject: sub };
    await world.send("PUT", "/sessions/sid:s-7/mode", { token: await world.person(), body });
    const token = await world.agent({ sub });
    for (const session of ["sid:s-7", "s-7", "SID:s-7"]) {
      expect(codeOf(await world.call("deed", { what: "a" }, { token, session }))).toBe("PENDING");
    }
    expect(
      (await world.call("deed", { what: "a" }, { token: await world.agent({ sub, claims: { sid: "s-7" } }) })).http,
    ).toBe(200);
  });

  test("APR-26: an agent changes neither modes nor its own grants", async () => {
    const { token } = await asked(newSub(), { sid: "s-1" });
    const session = (await world.send("POST", "/sessions", { token, body: {} })).body.session.id;
    const body = { mode: "yolo", expiresInSeconds: 60 };
    expect(codeOf(await world.send("PUT", `/sessions/${session}/mode`, { token, body }))).toBe("PERMISSION_DENIED");
    expect(codeOf(await world.send("DELETE", `/grants/${crypto.randomUUID()}`, { token }))).toBe("PERMISSION_DENIED");
    expect(codeOf(await world.send("POST", "/sessions", { token, body: { mode: "yolo" } }))).toBe("MALFORMED_REQUEST");
    expect(codeOf(await world.call("deed", { what: "a" }, { token, session }))).toBe("PENDING");
  });
});

describe("what the agent learns", () => {
  test("neither the view nor the approver, at any time", async () => {
    const { id, token, sub } = await asked();
    const own = await world.agent({ sub });
    const told: unknown[] = [];
    const look = async (): Promise<void> => {
      told.push(
        (await world.send("GET", `/approvals/${id}`, { token: own })).body,
        (await world.send("GET", "/approvals", { token: own })).body,
        (await world.send("GET", "/grants", { token: own })).body,
      );
    };
    await look();
    await world.decide(id, "approve", { reason: "fine" });
    await look();
    told.push((await world.call("deed", { what: "b" }, { token, approval: { id } })).body);
    told.push((await world.call("deed", { what: "a" }, { token, approval: { id } })).body);
    told.push((await world.call("deed", { what: "a" }, { token, approval: { id } })).body);
    await look();
    const all = JSON.stringify(told);
    for (const secret of ["alice", PEOPLE, "viewDigest", "planDigest", '"view"', world.folder, "sqlite", "rules"]) {
      expect(all).not.toContain(secret);
    }
  });

  test("APR-35: other callers' approval requests appear not to exist, whatever is tried", async () => {
    const { id } = await asked();
    const token = await world.agent({ sub: newSub() });
    const nobodys = crypto.randomUUID();
    for (const [method, suffix] of [
      ["GET", ""],
      ["GET", "?wait=1"],
      ["DELETE", ""],
    ] as const) {
      const [theirs, none] = await Promise.all(
        [id, nobodys].map((one) => world.send(method, `/approvals/${one}${suffix}`, { token })),
      );
      expect(theirs?.http).toBe(404);
      expect(theirs?.body).toEqual(none?.body);
    }
    expect((await world.send("GET", "/approvals", { token })).body.approvals).toEqual([]);
  });
});
