import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { defineTool, SafeToolCall, type ToolApprovalResult } from "../../src/index.ts";
import { AskingWorld, codeOf, PEOPLE, recordingTool } from "../approvals/asking-world.ts";
import { readConfig } from "../support/build.ts";
import { until } from "../support/until.ts";

const DECIDE = "approvals:decide";
const TEAM = { permissions: ["approvals:team"] };
const SECOPS = { permissions: ["approvals:secops"] };

const POLICIES = [
  { name: "two-of-team", when: { tools: ["deploy_*"] }, require: { deciders: TEAM, count: 2 } },
  {
    name: "staged",
    when: { systems: ["inline"], categories: ["network"] },
    require: {
      stages: [
        { name: "team", deciders: TEAM },
        { name: "secops", deciders: SECOPS },
      ],
    },
    ...{ reasonRequired: "deny", scopes: ["once"], decideBySeconds: 60, executeBySeconds: 30 },
  },
  { name: "risky", when: { risk: "high" }, require: { deciders: SECOPS } },
  {
    name: "by-name",
    when: { permissions: ["deeds:do"], tools: ["named"] },
    require: { deciders: { subjects: [{ issuer: PEOPLE, subject: "frida" }] } },
  },
];

const deeds: unknown[] = [];
const input = z.strictObject({ what: z.string().max(100) });
const tools = [
  recordingTool("plain", deeds, input),
  recordingTool("named", deeds, input),
  recordingTool("deploy_app", deeds, input),
  recordingTool("rotate", deeds, input, { category: "network" }),
  recordingTool("wipe", deeds, input, { classification: "destructive" }),
  recordingTool("deploy_wipe", deeds, input, { classification: "destructive" }),
];
const world = new AskingWorld({ tools, approvals: { policies: POLICIES, pendingPerCallerMax: 1_000 } });

beforeAll(async () => {
  await world.start();
});
afterAll(() => world.end());

const person = (sub: string, ...held: readonly string[]) => world.person({ sub, permissions: [DECIDE, ...held] });
const team = (sub: string) => person(sub, "approvals:team");
const secops = (sub: string) => person(sub, "approvals:secops");

let asked = 0;
async function ask(tool: string) {
  asked += 1;
  const args = { what: `${asked}` };
  return { id: await world.ask(tool, args), claim: (id: string) => world.call(tool, args, { approval: { id } }) };
}

async function vote(id: string, token: Promise<string>, more: Record<string, unknown> = {}, decision = "approve") {
  return world.decide(id, decision as "approve", { token: await token, ...more });
}

const view = async (id: string, token: Promise<string>) =>
  (await world.send("GET", `/approvals/${id}`, { token: await token })).body.approval;

describe("who approves", () => {
  test("a call without a matching policy needs one approver", async () => {
    const { id, claim } = await ask("plain");
    expect((await view(id, person("olga"))).quorum).toBeUndefined();
    expect((await vote(id, person("olga"))).body.approval).toMatchObject({ state: "approved" });
    expect(codeOf(await claim(id))).toBe("HTTP 200");
  });

  test("two of a team: the first approval is counted, the second approves, and both are in the audit", async () => {
    const { id, claim } = await ask("deploy_app");
    const first = await vote(id, team("anna"));
    expect([first.http, first.body.approval.state]).toEqual([200, "pending"]);
    expect(first.body.approval.quorum.missing).toEqual([
      { policy: "two-of-team", stage: "deciders", have: 1, needed: 2 },
    ]);
    expect(codeOf(await claim(id))).toBe("PENDING");
    expect((await vote(id, team("bert"))).body.approval).toMatchObject({ state: "approved" });
    const ran = await claim(id);
    expect(codeOf(ran)).toBe("HTTP 200");
    expect(world.entry(ran.body.traceId)?.approval).toEqual({
      id,
      by: `human:${PEOPLE}|anna, human:${PEOPLE}|bert`,
    });
    expect(world.story(id)).toEqual([
      ...["approval.asked", "approval.voted", "approval.voted", "approval.claimed", "approval.settled"],
    ]);
  });

  test("an approver without the permission gets the name of the missing one, and an entry is written", async () => {
    const { id } = await ask("deploy_app");
    const refused = await vote(id, secops("cleo"));
    expect([refused.http, refused.body.error]).toMatchObject([
      403,
      {
        code: "PERMISSION_DENIED",
        message: "Policy two-of-team, stage deciders, wants a token that holds approvals:team.",
        details: { policy: "two-of-team", stage: "deciders", missingPermissions: ["approvals:team"] },
      },
    ]);
    const own = ["approval.refused", "approval.forged"];
    const lines = world.journal().filter((line) => own.includes(String(line.type)) && line["id"] === id);
    expect(lines.map((line) => [line.type, line["sub"], line["reason"]])).toEqual([
      ["approval.refused", "cleo", "not_eligible"],
    ]);
  });

  test("a policy's permission does not replace approvals:decide", async () => {
    const { id } = await ask("deploy_app");
    const token = world.person({ sub: "anna", permissions: ["approvals:team"] });
    const refused = await vote(id, token);
    expect(refused.body.error.details).toEqual({ missingPermissions: [DECIDE] });
  });

  test("APR-33, APR-64: an agent's token cannot vote, whatever it holds", async () => {
    const { id } = await ask("deploy_app");
    const token = world.agent({ sub: "judge", permissions: [DECIDE, "approvals:team"] });
    expect(codeOf(await vote(id, token))).toBe("PERMISSION_DENIED");
    expect((await world.show(id)).quorum.missing).toMatchObject([{ have: 0 }]);
  });

  test("APR-33: one person has one vote", async () => {
    const { id } = await ask("deploy_app");
    await vote(id, team("anna"));
    for (const sub of ["anna", "ANNA", "\uff41nna"]) {
      const again = await vote(id, team(sub));
      expect([again.http, codeOf(again)]).toEqual([409, "APPROVAL_CONSUMED"]);
      expect(again.body.error.details.missing).toEqual([
        { policy: "two-of-team", stage: "deciders", have: 1, needed: 2 },
      ]);
    }
  });

  test("people by name, character by character", async () => {
    const { id } = await ask("named");
    expect((await vote(id, person("Frida"))).body.error.message).toBe(
      "Policy by-name, stage deciders, wants one of the people that it names.",
    );
    expect((await vote(id, person("frida"))).body.approval.state).toBe("approved");
  });

  test("by risk; and a call with two policies needs both satisfied", async () => {
    const wipe = await ask("wipe");
    expect(codeOf(await vote(wipe.id, team("anna")))).toBe("PERMISSION_DENIED");
    expect((await vote(wipe.id, secops("cleo"))).body.approval.state).toBe("approved");
    const both = await ask("deploy_wipe");
    expect((await vote(both.id, secops("cleo"))).body.approval.quorum.missing).toEqual([
      { policy: "two-of-team", stage: "deciders", have: 0, needed: 2 },
    ]);
    await vote(both.id, team("anna"));
    expect((await vote(both.id, team("bert"))).body.approval.state).toBe("approved");
  });
});

test("a call that waits for its answer waits for the last approval, and runs then", async () => {
  const args = { what: "held" };
  const calling = world.call("deploy_app", args, { headers: { prefer: "wait=20" } });
  const id = await until("the question", async () => {
    const page = await world.send("GET", "/approvals?state=pending&limit=1", { token: await team("anna") });
    const [newest] = page.body.approvals;
    return newest?.tool === "deploy_app" && newest.quorum.missing[0].have === 0 ? (newest.id as string) : undefined;
  });
  const before = deeds.length;
  await vote(id, team("anna"));
  expect(deeds).toHaveLength(before);
  await vote(id, team("bert"));
  const reply = await calling;
  expect([reply.http, reply.headers.get("preference-applied"), deeds.at(-1)]).toEqual([200, "wait", args]);
});

test("an approval of all for the session lets the same call through without them", async () => {
  const token = await world.agent({ claims: { sid: "shared" } });
  const args = { what: "again" };
  const id = await world.ask("deploy_app", args, { token });
  for (const sub of ["anna", "bert"]) await vote(id, team(sub), { scope: "session" });
  expect(codeOf(await world.call("deploy_app", args, { token, approval: { id } }))).toBe("HTTP 200");
  expect(codeOf(await world.call("deploy_app", args, { token }))).toBe("HTTP 200");
  expect(codeOf(await world.call("deploy_app", { what: "other" }, { token }))).toBe("PENDING");
});

describe("stages", () => {
  test("APR-33: two stages need two people, one after the other", async () => {
    const { id, claim } = await ask("rotate");
    const both = person("gina", "approvals:team", "approvals:secops");
    const early = await vote(id, secops("cleo"));
    expect([early.http, early.body.error.message]).toEqual([
      403,
      "Your stage (secops) comes later: policy staged waits for stage team first.",
    ]);
    expect(early.body.error.details).toEqual({ policy: "staged", stage: "team", yours: "secops" });
    expect((await vote(id, both)).body.approval.quorum.policies[0].stages).toMatchObject([
      { name: "team", state: "complete", have: 1, needed: 1, voters: [{ sub: "gina", iss: PEOPLE }] },
      { name: "secops", state: "open", have: 0, needed: 1, voters: [] },
    ]);
    expect((await vote(id, both)).http).toBe(409);
    expect((await vote(id, secops("cleo"))).body.approval.state).toBe("approved");
    expect(codeOf(await claim(id))).toBe("HTTP 200");
  });

  test("a denial by an approver of any stage ends the request at once, with its reason", async () => {
    const { id, claim } = await ask("rotate");
    await vote(id, team("anna"));
    const silent = await vote(id, secops("cleo"), {}, "deny");
    expect([silent.http, silent.body.error.code, silent.body.error.details]).toEqual([
      400,
      "INVALID_INPUT",
      { field: "reason" },
    ]);
    expect(codeOf(await vote(id, person("x"), { reason: "no" }, "deny"))).toBe("PERMISSION_DENIED");
    const denied = await vote(id, team("bert"), { reason: "not today" }, "deny");
    expect(denied.body.approval).toMatchObject({ state: "denied", decisionReason: "not today" });
    expect((await claim(id)).body.error).toMatchObject({ code: "APPROVAL_DENIED", details: { reason: "not today" } });
  });

  test("deadlines and scopes are the strictest ones", async () => {
    const { id } = await ask("rotate");
    const shown = await view(id, secops("cleo"));
    expect(Date.parse(shown.decideBy) - Date.parse(shown.createdAt)).toBe(60_000);
    expect(shown.options).toEqual(["cancel", "once"]);
    await vote(id, team("anna"));
    const { approval } = (await vote(id, secops("cleo"))).body;
    expect(Date.parse(approval.executeBy) - Date.parse(approval.decidedAt)).toBe(30_000);
  });
});

describe("what people see", () => {
  test("an operator sees whether they may approve, why not, and who voted; the requester sees none of it", async () => {
    const { id } = await ask("rotate");
    expect((await view(id, team("anna"))).canDecide).toEqual({ approve: true, deny: true });
    expect((await view(id, secops("cleo"))).canDecide).toEqual({
      ...{ approve: false, deny: true },
      because: "Your stage (secops) comes later: policy staged waits for stage team first.",
    });
    expect((await view(id, person("x"))).canDecide).toMatchObject({ approve: false, deny: false });
    const before = await world.send("GET", `/approvals/${id}`, { token: await world.agent() });
    await vote(id, team("anna"));
    expect(await view(id, team("anna"))).toMatchObject({ decidable: false, canDecide: { approve: false, deny: true } });
    const own = await world.send("GET", `/approvals/${id}`, { token: await world.agent() });
    expect(own.body).toEqual(before.body);
    expect(own.headers.get("etag")).toBe(before.headers.get("etag"));
    expect(JSON.stringify(own.body)).not.toContain("anna");
    await vote(id, secops("cleo"));
    const after = await world.send("GET", `/approvals/${id}`, { token: await world.agent() });
    expect([after.body.approval.state, after.headers.get("etag")]).toEqual(["approved", '"2"']);
    const listed = await world.send("GET", "/approvals?limit=1&state=all", { token: await team("bert") });
    expect(listed.body.approvals[0]).toMatchObject({ id, quorum: { missing: [] } });
    expect(listed.body.approvals[0].quorum.policies[0].stages[0].deciders).toBeUndefined();
    expect((await view(id, team("bert"))).quorum.policies[0].stages[0].deciders).toEqual(TEAM);
  });

  test("events: operators get each vote, the requester only the end", async () => {
    const leave = new AbortController();
    const heard = { operators: "", agents: "" };
    const follow = async (side: keyof typeof heard, token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      const { body } = await fetch(`${world.url}/events`, { headers, signal: leave.signal });
      const decoder = new TextDecoder();
      for await (const chunk of body ?? []) heard[side] += decoder.decode(chunk, { stream: true });
    };
    const following = [
      follow("operators", await person("olga")).catch(() => {}),
      follow("agents", await world.agent()).catch(() => {}),
    ];
    await until("both streams", () => (heard.operators && heard.agents ? true : undefined));
    const { id } = await ask("deploy_app");
    await vote(id, team("anna"));
    await vote(id, team("bert"));
    const types = (text: string) => [...text.matchAll(/^event: (.*)$/gm)].map(([, type]) => type);
    await until("the end", () => (types(heard.agents).length === 2 ? true : undefined));
    await until("all of it", () => (types(heard.operators).length === 3 ? true : undefined));
    leave.abort();
    await Promise.all(following);
    expect(types(heard.agents)).toEqual(["approval.requested", "approval.approved"]);
    expect(types(heard.operators)).toEqual(["approval.requested", "approval.voted", "approval.approved"]);
    expect(heard.operators).toContain("two-of-team, deciders: 1 of 2");
    expect(heard.operators).not.toContain("anna");
  });

  test("JSON-RPC: what counts, what is missing and why not", async () => {
    const { id } = await ask("rotate");
    const rpc = async (method: string, token: Promise<string>, params: Record<string, unknown> = {}) => {
      const body = { jsonrpc: "2.0", id: 1, method, params };
      return (await world.send("POST", "/rpc", { token: await token, body })).body;
    };
    const approve = { approvalId: id };
    const listed = async (token: Promise<string>) =>
      (await rpc("exec.list", token)).result.approvals.map((one: { approvalId: string }) => one.approvalId);
    expect(await listed(secops("cleo"))).not.toContain(id);
    expect(await listed(team("anna"))).toContain(id);
    expect((await rpc("exec.approve", secops("cleo"), approve)).error).toMatchObject({ code: -32602 });
    expect((await rpc("exec.approve", team("anna"), approve)).result).toEqual({
      ...{ ok: true, state: "pending" },
      missing: "staged, secops: 0 of 1",
    });
    expect((await rpc("exec.deny", secops("cleo"), approve)).error.message).toBe("reason: a policy requires one");
    expect((await rpc("exec.approve", secops("cleo"), approve)).result).toEqual({ ok: true });
  });
});

test("APR-34: a decision carries no arguments, so nobody approves their own edit", async () => {
  const { id } = await ask("deploy_app");
  expect(codeOf(await vote(id, team("anna"), { args: { what: "x" } }))).toBe("MALFORMED_REQUEST");
});

describe("APR-51: a policy that changes while a request is pending", () => {
  const changed = POLICIES.map((policy) =>
    policy.name === "two-of-team" ? { ...policy, require: { deciders: TEAM, count: 1 } } : policy,
  );
  test.each([
    ["becomes laxer", changed],
    ["is gone", []],
  ])("and %s: a request made under the old one is made again", async (_title, policies) => {
    const own = new AskingWorld({ tools, approvals: { policies: POLICIES } });
    try {
      await own.start();
      const id = await own.ask("deploy_app", { what: "a" });
      for (const sub of ["anna", "bert"]) {
        const token = await own.person({ sub, permissions: [DECIDE, "approvals:team"] });
        await own.decide(id, "approve", { token });
      }
      await own.stop();
      await own.start({ approvals: { policies } });
      expect((await own.show(id)).state).toBe("approved");
      expect(codeOf(await own.call("deploy_app", { what: "a" }, { approval: { id } }))).toBe("APPROVAL_MISMATCH");
      const anew = await own.ask("deploy_app", { what: "a" });
      expect(anew).not.toBe(id);
    } finally {
      await own.end();
    }
  });

  test("and the approvers of a request are those of its time", async () => {
    const own = new AskingWorld({ tools, approvals: { policies: POLICIES } });
    try {
      await own.start();
      const id = await own.ask("deploy_app", { what: "a" });
      await own.stop();
      await own.start({ approvals: { policies: [] } });
      expect(codeOf(await own.decide(id, "approve"))).toBe("PERMISSION_DENIED");
    } finally {
      await own.end();
    }
  });

  test("and another policy, about other tools, changes nothing", async () => {
    const own = new AskingWorld({ tools, approvals: { policies: POLICIES } });
    try {
      await own.start();
      const id = await own.ask("plain", { what: "a" });
      await own.decide(id, "approve");
      await own.stop();
      await own.start({
        approvals: { policies: POLICIES.filter(({ name }) => name === "risky" || name === "staged") },
      });
      // Any call may become risky: that policy counts in every tool's digest, the one that went does not.
      expect(codeOf(await own.call("plain", { what: "a" }, { approval: { id } }))).toBe("HTTP 200");
    } finally {
      await own.end();
    }
  });
});

test("the guide's policies are valid", () => {
  const guide = readFileSync(join(import.meta.dir, "../../docs/approvals.md"), "utf8");
  const [, block = ""] = /^```yaml\n(approvals:\n {2}policies:[\s\S]*?)^```/m.exec(guide) ?? [];
  const { approvals } = parse(block);
  const written = { tools: ["."], audit: { dir: "a" }, jwt: { issuers: world.issuers.profiles() }, approvals };
  const { policies } = readConfig(written, { folder: "/srv", environment: {}, origin: "guide" }).approvals;
  expect(policies.map(({ name }) => name)).toEqual(["production", "money"]);
});

test("a policy that nobody can satisfy prevents the start", async () => {
  const policies = [
    { ...POLICIES[3], require: { deciders: { subjects: [{ issuer: PEOPLE, subject: "frida" }] }, count: 2 } },
  ];
  const own = new AskingWorld({ tools, approvals: { policies } });
  await expect(own.start()).rejects.toThrow(
    "approvals.policies[0] (by-name): nobody can approve named: stage deciders needs 2, and 1 of those who may decide",
  );
  await own.end();
});

describe("in the library", () => {
  const ONE = { name: "one", when: { tools: ["send"] }, require: { count: 1 } };
  const told: string[] = [];
  const send = defineTool({
    ...({ name: "send", description: "Sends", classification: "write", category: "network" } as const),
    permissions: { required: ["deeds:do"] },
    input: z.strictObject({ what: z.string().max(20) }),
    ...{ output: z.object({ done: z.boolean() }), outputPolicy: { done: "allow" } as const },
    handler: () => ({ done: true }),
  });

  async function outcomeOf(approvals: Record<string, unknown>, answer: ToolApprovalResult = true): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), "stc-policies-"));
    const stc = SafeToolCall.create({
      ...{ tools: [send], folder, audit: { dir: "./audit" }, jwt: { issuers: world.issuers.profiles() as never } },
      approvals,
      onToolApprove: ({ name }) => {
        told.push(name);
        return answer;
      },
    });
    try {
      const token = await world.agent();
      const result = await stc.call("send", { what: "a" }, token);
      const [waiting] = await stc.pendingApprovals();
      if (result.status !== "pending" || waiting === undefined)
        return "error" in result ? result.error.code : result.status;
      const by = { issuer: "https://embedder.example", subject: "anna" };
      const first = await stc.decide({ id: waiting.id, by, decision: "approve" });
      const second = await stc.decide({ id: waiting.id, by, decision: "approve", permissions: ["approvals:prod"] });
      return `${result.status}, ${first.outcome}, ${second.outcome}`;
    } finally {
      await stc.close();
      rmSync(folder, { recursive: true, force: true });
    }
  }

  const store = "sqlite://./approvals.sqlite";
  const prod = { ...ONE, name: "prod", require: { deciders: { permissions: ["approvals:prod"] } } };
  const risky = { ...prod, name: "risky", when: { risk: "high" } };
  const rules = [{ name: "loud", when: { tool: "send", args: { what: "loud" } }, verdict: "ask", risk: "high" }];
  const ROWS: readonly (readonly [string, Record<string, unknown>, ToolApprovalResult, string, number])[] = [
    ["without a policy the callback decides, as ever", {}, true, "success", 1],
    ["a policy that names it: it decides", { policies: [{ ...ONE, callback: true }] }, true, "success", 1],
    ["and may say no", { policies: [{ ...ONE, callback: true }] }, false, "APPROVAL_DENIED", 1],
    ["a policy that does not: it is not asked", { policies: [ONE] }, true, "APPROVAL_DENIED", 0],
    ["people are, where there is a store", { policies: [prod], store }, true, "pending, not_eligible, decided", 0],
    ["one policy of two that does not", { policies: [{ ...ONE, callback: true }, prod] }, true, "APPROVAL_DENIED", 0],
    [
      "APR-14: arguments that make it another policy's question are no yes",
      { policies: [{ ...ONE, callback: true }, risky], rules },
      { approved: true, params: { what: "loud" } },
      "APPROVAL_DENIED",
      1,
    ],
  ];

  test.each(ROWS)("%s", async (_title, approvals, answer, outcome, times) => {
    told.length = 0;
    expect(await outcomeOf(approvals, answer)).toBe(outcome);
    expect(told).toHaveLength(times);
  });
});
