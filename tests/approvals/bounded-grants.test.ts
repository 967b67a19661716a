import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { CallExtras, Loose, Reply } from "../support/asking-service.ts";
import { AskingWorld, codeOf, recordingTool } from "./asking-world.ts";

const POLICIES = [
  {
    name: "two-people",
    when: { tools: ["paid_by_two"] },
    require: { deciders: { permissions: [] }, count: 2 },
  },
  { name: "one-by-one", when: { tools: ["never_granted"] }, require: { count: 1 }, scopes: ["once", "session"] },
];

const RULES = [
  { name: "blocking", when: { tool: "set_status", args: { status: ["BLOCKED"] } }, verdict: "ask", risk: "medium" },
  { name: "far", when: { tool: "set_status", args: { note: ["far"] } }, verdict: "ask", risk: "high" },
];

const statusInput = z.strictObject({
  customer: z.string().max(40),
  status: z.enum(["ACTIVE", "PAUSED", "BLOCKED", "CLOSED"]),
  note: z.string().max(200).optional(),
  amount: z.number().max(10_000).default(10),
  tags: z.array(z.string().max(20)).max(5).optional(),
});

const BOUNDS = {
  status: { oneOf: ["ACTIVE", "PAUSED", "BLOCKED"] },
  note: "any",
  amount: { max: 500 },
} as const;

const ARGS = { customer: "c-1", status: "ACTIVE", note: "first", amount: 100 };

function toolsOf(deeds: unknown[]): readonly unknown[] {
  const grants = { runs: 5, minutes: 30, arguments: BOUNDS };
  const deed = (name: string, more: Record<string, unknown> = {}) =>
    recordingTool(name, deeds, statusInput, { category: "network", approval: { grants }, ...more });
  return [
    deed("set_status"),
    deed("paid_by_two"),
    deed("never_granted"),
    deed("fails", {
      handler: (given: unknown) => {
        deeds.push(given);
        throw new Error("no");
      },
    }),
    deed("elevated", {
      permissions: {
        required: ["deeds:do"],
        elevatedIf: { when: ({ amount }: { amount: number }) => amount > 200, required: ["deeds:more"] },
      },
    }),
    deed("exactly", { approval: { grants: { runs: 3, minutes: 1 } } }),
    deed("plain", { approval: {} }),
  ];
}

class GrantWorld extends AskingWorld {
  override get tools(): readonly unknown[] {
    return toolsOf(this.deeds);
  }

  override get approvals(): Readonly<Record<string, unknown>> {
    return { policies: POLICIES, rules: RULES, grantSeconds: 28_800 };
  }

  override start(): Promise<this> {
    return super.start({ tools: this.tools, approvals: this.approvals });
  }

  /** Asks, and approves with a bounded grant. Returns the id of the request. */
  async grant(tool: string, args: unknown, grant?: Loose, extras: CallExtras = {}): Promise<string> {
    const id = await this.ask(tool, args, extras);
    const decided = await this.decide(id, "approve", { scope: "bounded", ...(grant !== undefined && { grant }) });
    if (decided.http !== 200) throw new Error(`not granted: ${decided.http} ${JSON.stringify(decided.body)}`);
    return id;
  }

  async grants(token?: string): Promise<readonly Loose[]> {
    const found = await this.send("GET", "/grants", { token: token ?? (await this.person()) });
    return found.body.grants;
  }
}

let world: GrantWorld;
/** The outcome of a call in one word, and how many deeds were done. */
const outcomes = async (calls: readonly Promise<Reply>[]) => (await Promise.all(calls)).map(codeOf);

beforeAll(async () => {
  world = await new GrantWorld().start();
});
afterAll(() => world.end());

let subject = 0;
let me: string;
beforeEach(async () => {
  world.deeds.length = 0;
  subject += 1;
  me = await world.agent({ sub: `agent-${subject}` });
});

describe("a request", () => {
  test("offers the grant that the manifest declares, in words", async () => {
    const asked = await world.call("set_status", ARGS, { token: me });
    expect(asked.body.approval.options).toEqual(["cancel", "once", "bounded"]);
    const shown = await world.show(asked.body.approval.id);
    expect(shown.offer).toEqual({ runs: 5, minutes: 30, arguments: BOUNDS });
    expect(shown.view.grant).toEqual({
      covers:
        "Up to 5 runs of set_status by this caller within 30 minutes of the approval, this call included, without asking again. You may grant less.",
      runs: 5,
      minutes: 30,
      arguments: {
        customer: "as in this call",
        status: 'one of "ACTIVE", "PAUSED", "BLOCKED"',
        note: "any value, or none",
        amount: "a number from 0 to 500",
        tags: "as in this call",
      },
    });
  });

  test.each([
    ["a tool that declares none", "plain", ARGS],
    ["a policy whose scopes leave it out", "never_granted", ARGS],
    ["a call outside the bounds itself", "set_status", { ...ARGS, amount: 501 }],
    ["a status outside the set", "set_status", { ...ARGS, status: "CLOSED" }],
    ["a call of high risk", "set_status", { ...ARGS, note: "far" }],
  ])("offers none for %s", async (_title, tool, args) => {
    const id = await world.ask(tool, args, { token: me });
    const shown = await world.show(id);
    expect(shown.options).not.toContain("bounded");
    expect(shown.offer).toBeUndefined();
    expect(shown.view.grant).toBeUndefined();
    const forced = await world.decide(id, "approve", { scope: "bounded" });
    expect(forced.body.error).toMatchObject({ code: "INVALID_INPUT", details: { offered: ["once"] } });
  });

  test("a manifest's bounds are covered by the digest that an approver decides about", async () => {
    const id = await world.ask("set_status", ARGS, { token: me });
    const { viewDigest } = await world.show(id);
    const decided = await world.decide(id, "approve", { scope: "bounded", viewDigest });
    expect(decided.http).toBe(200);
    const other = await world.ask("set_status", { ...ARGS, customer: "c-2" }, { token: me });
    const stale = await world.decide(other, "approve", { scope: "bounded", viewDigest });
    expect(stale.body.error.code).toBe("APPROVAL_MISMATCH");
  });
});

describe("a bounded grant", () => {
  test("covers as many runs as were granted, the approved call included", async () => {
    await world.grant("set_status", ARGS, { runs: 3 }, { token: me });
    const calls = [ARGS, { ...ARGS, status: "PAUSED" }, { ...ARGS, note: "second" }, ARGS];
    const codes: string[] = [];
    for (const args of calls) codes.push(codeOf(await world.call("set_status", args, { token: me })));
    expect(codes).toEqual(["HTTP 200", "HTTP 200", "HTTP 200", "PENDING"]);
    expect(world.deeds).toHaveLength(3);
  });

  test("names itself in the audit, and each of its runs in the journal", async () => {
    const approvalId = await world.grant("set_status", ARGS, { runs: 2, minutes: 5 }, { token: me });
    const [grant] = await world.grants(me);
    expect(grant).toMatchObject({
      ...{ tool: "set_status", approvalId, subject: `agent-${subject}` },
      bounded: { runs: 2, runsUsed: 0, arguments: { note: "any value, or none", amount: "a number from 0 to 500" } },
    });
    expect(Date.parse(grant.expiresAt) - Date.parse(grant.createdAt)).toBe(300_000);
    const ran = await world.call("set_status", { ...ARGS, note: "x" }, { token: me });
    expect(world.entry(ran.body.traceId)?.approval).toMatchObject({ by: `grant:${grant.id}` });
    expect((await world.grants(me))[0].bounded.runsUsed).toBe(1);
    await world.call("set_status", ARGS, { token: me });
    expect(await world.grants(me)).toEqual([]);
    const lines = world.journal().filter((line) => line["id"] === grant.id);
    expect(lines.map(({ type }) => type)).toEqual(["grant.created", "grant.used", "grant.used"]);
    expect(lines[0]).toMatchObject({ bounds: { runs: 2, minutes: 5, arguments: BOUNDS }, approvalId });
    expect(lines[1]).toMatchObject({ run: 1, of: 2, traceId: ran.body.traceId });
    expect(JSON.stringify(lines)).not.toContain(`"c-1"`);
  });

  test("counts the claim of the approved call as a run", async () => {
    const id = await world.grant("set_status", ARGS, { runs: 2 }, { token: me });
    const claim = { token: me, approval: { id } };
    expect(codeOf(await world.call("set_status", ARGS, claim))).toBe("HTTP 200");
    expect(codeOf(await world.call("set_status", { ...ARGS, note: "x" }, { token: me }))).toBe("HTTP 200");
    expect(codeOf(await world.call("set_status", { ...ARGS, note: "x" }, { token: me }))).toBe("PENDING");
    expect(codeOf(await world.call("set_status", ARGS, claim))).toBe("APPROVAL_CONSUMED");
    expect(world.deeds).toHaveLength(2);
  });

  test("is used up by other calls, and its approval cannot be claimed any more", async () => {
    const id = await world.grant("set_status", ARGS, { runs: 1 }, { token: me });
    expect(codeOf(await world.call("set_status", { ...ARGS, note: "x" }, { token: me }))).toBe("HTTP 200");
    const claimed = await world.call("set_status", ARGS, { token: me, approval: { id } });
    expect(codeOf(claimed)).toBe("APPROVAL_CONSUMED");
    expect(world.deeds).toHaveLength(1);
  });

  test("counts a run that fails", async () => {
    await world.grant("fails", ARGS, { runs: 1 }, { token: me });
    expect(codeOf(await world.call("fails", ARGS, { token: me }))).toBe("TARGET_FAILED");
    expect(codeOf(await world.call("fails", ARGS, { token: me }))).toBe("PENDING");
  });

  test("lets a waiting call run as its first run", async () => {
    const waiting = world.call("set_status", ARGS, { token: me, headers: { prefer: "wait=20" } });
    const id = await pendingOf(`agent-${subject}`);
    await world.decide(id, "approve", { scope: "bounded", grant: { runs: 1 } });
    expect(codeOf(await waiting)).toBe("HTTP 200");
    expect(codeOf(await world.call("set_status", ARGS, { token: me }))).toBe("PENDING");
  });

  test("never runs more often than granted, however many calls come at once", async () => {
    const id = await world.grant("set_status", ARGS, { runs: 4 }, { token: me });
    const calls = Array.from({ length: 24 }, (_, at) =>
      world.call("set_status", { ...ARGS, note: at % 2 === 0 ? "same" : `${at}` }, { token: me }),
    );
    const claims = Array.from({ length: 4 }, () => world.call("set_status", ARGS, { token: me, approval: { id } }));
    const codes = await outcomes([...calls, ...claims]);
    expect(codes.filter((code) => code === "HTTP 200")).toHaveLength(4);
    expect(world.deeds).toHaveLength(4);
  });

  test("uses no run for a repeated idempotency key", async () => {
    await world.grant("set_status", ARGS, { runs: 2 }, { token: me });
    const keyed = () => world.call("set_status", ARGS, { token: me, headers: { "idempotency-key": `k-${subject}` } });
    expect(await outcomes([keyed()])).toEqual(["HTTP 200"]);
    expect(await outcomes([keyed(), keyed(), keyed()])).toEqual(["HTTP 200", "HTTP 200", "HTTP 200"]);
    expect(world.deeds).toHaveLength(1);
    expect((await world.grants(me))[0].bounded.runsUsed).toBe(1);
  });

  test("without bounds covers the approved call alone, several times", async () => {
    await world.grant("exactly", ARGS, undefined, { token: me });
    expect(codeOf(await world.call("exactly", ARGS, { token: me }))).toBe("HTTP 200");
    expect(codeOf(await world.call("exactly", { ...ARGS, note: "x" }, { token: me }))).toBe("PENDING");
    expect(codeOf(await world.call("exactly", ARGS, { token: me }))).toBe("HTTP 200");
  });
});

async function pendingOf(sub: string): Promise<string> {
  for (;;) {
    const { body } = await world.send("GET", "/approvals?state=pending&limit=200", { token: await world.person() });
    const found = body.approvals.find(({ requester }: Loose) => requester.sub === sub);
    if (found !== undefined) return found.id;
    await Bun.sleep(10);
  }
}

describe("an agent that varies its calls finds", () => {
  const inside: readonly (readonly [string, unknown])[] = [
    ["the same call", ARGS],
    ["a number in another spelling", '{"customer":"c-1","status":"ACTIVE","note":"first","amount":1e2}'],
    ["a fraction within the range", { ...ARGS, amount: 0.5 }],
    ["zero with a sign", '{"customer":"c-1","status":"ACTIVE","note":"first","amount":-0}'],
    ["the ends of the range", { ...ARGS, amount: 500 }],
    ["an argument left out that may have any value", { customer: "c-1", status: "ACTIVE", amount: 100 }],
    ["a default within the range", { customer: "c-1", status: "ACTIVE", note: "first" }],
    ["another order of the members", { amount: 1, note: "", status: "PAUSED", customer: "c-1" }],
    ["text of any kind where any is allowed", { ...ARGS, note: "\u202e{}[]\\u0000 ￿ ../../etc" }],
  ];
  test.each(inside)("%s covered", async (_title, args) => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    expect(codeOf(await world.call("set_status", args, { token: me }))).toBe("HTTP 200");
  });

  const outside: readonly (readonly [string, unknown])[] = [
    ["another value of an argument without a bound", { ...ARGS, customer: "c-2" }],
    ["a letter that looks the same", { ...ARGS, customer: "с-1" }],
    ["an invisible character", { ...ARGS, customer: "c-1\u200b" }],
    ["full-width forms", { ...ARGS, customer: "ｃ-1" }],
    ["a composed letter", { ...ARGS, customer: "c-1\u0301" }],
    ["other case", { ...ARGS, customer: "C-1" }],
    ["white space", { ...ARGS, customer: "c-1 " }],
    ["a value outside the set", { ...ARGS, status: "CLOSED" }],
    ["a number above the range", { ...ARGS, amount: 500.000001 }],
    ["a number below the range", { ...ARGS, amount: -1 }],
    ["a huge exponent", '{"customer":"c-1","status":"ACTIVE","amount":5.01e2}'],
    ["an argument that the approved call left out", { ...ARGS, tags: [] }],
    ["a list in its place", { ...ARGS, tags: ["c-1"] }],
  ];
  test.each(outside)("%s not covered", async (_title, args) => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    expect(codeOf(await world.call("set_status", args, { token: me }))).toBe("PENDING");
    expect(world.deeds).toEqual([]);
    expect((await world.grants(me))[0].bounded.runsUsed).toBe(0);
  });

  const invalid: readonly (readonly [string, unknown])[] = [
    ["an array for a text", { ...ARGS, customer: ["c-1"] }],
    ["a text for a number", { ...ARGS, amount: "100" }],
    ["an unknown key", { ...ARGS, customer2: "c-1" }],
    ["a null for a required argument", { ...ARGS, customer: null }],
    ["a key of the prototype", '{"customer":"c-1","status":"ACTIVE","constructor":1}'],
  ];
  test.each(invalid)("%s refused as ever", async (_title, args) => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    expect(codeOf(await world.call("set_status", args, { token: me }))).toBe("INVALID_INPUT");
    expect((await world.grants(me))[0].bounded.runsUsed).toBe(0);
  });

  test("a list of arguments no call at all", async () => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    expect(codeOf(await world.call("set_status", [ARGS], { token: me }))).toBe("MALFORMED_REQUEST");
    expect((await world.grants(me))[0].bounded.runsUsed).toBe(0);
  });

  test("a rule that newly matches, and a higher risk, not covered", async () => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    for (const args of [
      { ...ARGS, status: "BLOCKED" },
      { ...ARGS, note: "far" },
    ]) {
      expect(codeOf(await world.call("set_status", args, { token: me }))).toBe("PENDING");
    }
    await world.grant("set_status", { ...ARGS, status: "BLOCKED" }, undefined, { token: me });
    expect(codeOf(await world.call("set_status", { ...ARGS, status: "BLOCKED" }, { token: me }))).toBe("HTTP 200");
    expect(codeOf(await world.call("set_status", { ...ARGS, status: "PAUSED" }, { token: me }))).toBe("HTTP 200");
  });

  test("an elevated call covered only when the approved one was elevated", async () => {
    const token = await world.agent({ sub: `agent-${subject}`, permissions: ["deeds:do", "deeds:more"] });
    await world.grant("elevated", ARGS, undefined, { token });
    expect(codeOf(await world.call("elevated", { ...ARGS, amount: 201 }, { token }))).toBe("PENDING");
    expect(codeOf(await world.call("elevated", { ...ARGS, amount: 200 }, { token }))).toBe("HTTP 200");
    await world.grant("elevated", { ...ARGS, amount: 300 }, undefined, { token });
    expect(codeOf(await world.call("elevated", { ...ARGS, amount: 400 }, { token }))).toBe("HTTP 200");
    const lesser = await world.call("elevated", { ...ARGS, amount: 400 }, { token: me });
    expect(codeOf(lesser)).toBe("PERMISSION_DENIED");
  });
});

describe("only the caller itself uses its grant:", () => {
  test.each([
    ["another subject", { sub: "mallory" }],
    ["an actor in its name", { claims: { act: { sub: "helper" } } }],
    ["a session of the token", { claims: { sid: "s-1" } }],
    ["another issuer", { kind: "other issuer" as const }],
  ])("not %s", async (_title, order) => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    const other = await world.agent({ sub: `agent-${subject}`, ...(order as object) });
    expect(codeOf(await world.call("set_status", { ...ARGS, note: "x" }, { token: other }))).toBe("PENDING");
    expect(world.deeds).toEqual([]);
  });

  test("nor a session that the caller opens later, while a session's own grant ends with it", async () => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    const opened = await world.send("POST", "/sessions", { token: me });
    const { id: session } = opened.body.session;
    expect(codeOf(await world.call("set_status", ARGS, { token: me, session }))).toBe("PENDING");
    await world.grant("set_status", { ...ARGS, customer: "c-9" }, undefined, { token: me, session });
    const inSession = () => world.call("set_status", { ...ARGS, customer: "c-9" }, { token: me, session });
    expect(codeOf(await inSession())).toBe("HTTP 200");
    await world.send("DELETE", `/sessions/${session}`, { token: me });
    expect(codeOf(await inSession())).toBe("APPROVAL_REVOKED");
  });

  test("nor with the grant's id as that of an approval", async () => {
    await world.grant("set_status", ARGS, undefined, { token: me });
    const [{ id }] = await world.grants(me);
    expect(codeOf(await world.call("set_status", ARGS, { token: me, approval: { id } }))).toBe("APPROVAL_NOT_FOUND");
  });
});

describe("an approver", () => {
  test.each([
    ["more runs", { runs: 6 }, "grant.runs"],
    ["more time", { minutes: 31 }, "grant.minutes"],
    ["a wider set", { arguments: { status: { oneOf: ["ACTIVE", "CLOSED"] } } }, "grant.arguments.status"],
    ["any value instead of a set", { arguments: { status: "any" } }, "grant.arguments.status"],
    ["a wider range", { arguments: { amount: { max: 501 } } }, "grant.arguments.amount"],
    ["a range that begins lower", { arguments: { amount: { min: -1, max: 10 } } }, "grant.arguments.amount"],
    ["a set with a number outside the range", { arguments: { amount: { oneOf: [501] } } }, "grant.arguments.amount"],
    ["a bound for an argument without one", { arguments: { customer: "any" } }, "grant.arguments.customer"],
    ["a bound for no argument", { arguments: { constructor: "any" } }, "grant.arguments.constructor"],
  ])("cannot grant %s", async (_title, grant, field) => {
    const id = await world.ask("set_status", ARGS, { token: me });
    const refused = await world.decide(id, "approve", { scope: "bounded", grant });
    expect(refused.body.error).toMatchObject({ code: "INVALID_INPUT", details: { field } });
    expect((await world.show(id)).state).toBe("pending");
  });

  test.each([
    ["no runs", { runs: 0 }],
    ["half a run", { runs: 1.5 }],
    ["an unknown member", { seconds: 5 }],
    ["a bound of another kind", { arguments: { status: { prefix: "A" } } }],
  ])("cannot write %s", async (_title, grant) => {
    const id = await world.ask("set_status", ARGS, { token: me });
    const refused = await world.decide(id, "approve", { scope: "bounded", grant });
    expect(refused.http).toBe(400);
  });

  test("cannot add a grant to another scope", async () => {
    const id = await world.ask("set_status", ARGS, { token: me });
    const refused = await world.decide(id, "approve", { scope: "once", grant: { runs: 1 } });
    expect(refused.body.error).toMatchObject({ code: "INVALID_INPUT", details: { field: "grant" } });
  });

  test("narrows the bounds", async () => {
    const grant = { arguments: { status: { oneOf: ["PAUSED"] }, amount: { min: 50, max: 60 }, note: "equal" } };
    await world.grant("set_status", ARGS, grant, { token: me });
    const code = async (more: object) => codeOf(await world.call("set_status", { ...ARGS, ...more }, { token: me }));
    expect(await code({ status: "PAUSED", amount: 55, note: "x" })).toBe("PENDING");
    expect(await code({ status: "PAUSED", amount: 61 })).toBe("PENDING");
    expect(await code({ status: "ACTIVE", amount: 55 })).toBe("PENDING");
    expect(await code({ status: "PAUSED", amount: 55 })).toBe("HTTP 200");
  });

  test("revokes it, and with an unused approval both end", async () => {
    const id = await world.grant("set_status", ARGS, undefined, { token: me });
    const [grant] = await world.grants(me);
    const token = await world.person();
    expect((await world.send("DELETE", `/grants/${grant.id}`, { token })).http).toBe(200);
    expect(codeOf(await world.call("set_status", { ...ARGS, note: "x" }, { token: me }))).toBe("PENDING");
    const claimed = await world.call("set_status", ARGS, { token: me, approval: { id } });
    expect(codeOf(claimed)).toBe("APPROVAL_REVOKED");
    const second = await world.grant("set_status", { ...ARGS, customer: "c-2" }, undefined, { token: me });
    await world.send("POST", `/approvals/${second}/revoke`, { token });
    expect(await world.grants(me)).toEqual([]);
    expect(world.deeds).toEqual([]);
  });

  test("among several grants the narrowest terms", async () => {
    const id = await world.ask("paid_by_two", ARGS, { token: me });
    const [ann, bob] = [await world.person({ sub: "ann" }), await world.person({ sub: "bob" })];
    const first = await world.decide(id, "approve", { token: ann, scope: "bounded", grant: { runs: 4, minutes: 10 } });
    expect(first.body.approval.state).toBe("pending");
    const shown = await world.show(id);
    expect(shown.quorum.policies[0].stages[0].voters[0].grant).toMatchObject({ runs: 4, minutes: 10 });
    const second = { runs: 5, minutes: 5, arguments: { note: "equal" } };
    const decided = await world.decide(id, "approve", { token: bob, scope: "bounded", grant: second });
    const { note: _, ...left } = BOUNDS;
    expect(decided.body.approval).toMatchObject({
      scope: "bounded",
      granted: { runs: 4, minutes: 5, arguments: left },
    });
    expect(codeOf(await world.call("paid_by_two", { ...ARGS, note: "x" }, { token: me }))).toBe("PENDING");
    expect(codeOf(await world.call("paid_by_two", { ...ARGS, amount: 7 }, { token: me }))).toBe("HTTP 200");
  });

  test("who approves once makes the others' grants an approval of one call", async () => {
    const id = await world.ask("paid_by_two", ARGS, { token: me });
    await world.decide(id, "approve", { token: await world.person({ sub: "ann" }), scope: "bounded" });
    const decided = await world.decide(id, "approve", { token: await world.person({ sub: "bob" }), scope: "once" });
    expect(decided.body.approval.scope).toBe("once");
    expect(decided.body.approval.granted).toBeUndefined();
    expect(await world.grants(me)).toEqual([]);
  });

  test("of a chat cannot choose it", async () => {
    const id = await world.ask("set_status", ARGS, { token: me });
    const body = { jsonrpc: "2.0", id: 1, method: "exec.approve", params: { approvalId: id, scope: "bounded" } };
    const answered = await world.send("POST", "/rpc", { token: await world.person(), body });
    expect(answered.body.error).toBeDefined();
    expect((await world.show(id)).state).toBe("pending");
  });
});

describe("after a restart", () => {
  let other: GrantWorld;
  afterEach(() => other.end());

  test("the runs that are left are left, unless the tool has changed", async () => {
    other = await new GrantWorld().start();
    const token = await other.agent();
    await other.grant("set_status", ARGS, { runs: 3 }, { token });
    await other.call("set_status", ARGS, { token });
    await other.stop();
    await other.start();
    expect((await other.grants(token))[0].bounded.runsUsed).toBe(1);
    expect(codeOf(await other.call("set_status", { ...ARGS, note: "2" }, { token }))).toBe("HTTP 200");
    await other.stop();
    const grants = { runs: 3, minutes: 30, arguments: { ...BOUNDS, customer: "any" } };
    const wider = recordingTool("set_status", other.deeds, statusInput, { category: "network", approval: { grants } });
    await AskingWorld.prototype.start.call(other, { tools: [wider], approvals: { rules: RULES } });
    expect(codeOf(await other.call("set_status", ARGS, { token }))).toBe("PENDING");
  });

  test.each([
    ["what concerns other tools", { tool: "plain" }, "HTTP 200"],
    ["a rule about the tool", { tool: "set_status" }, "APPROVAL_MISMATCH"],
  ])("an approval under a configuration that differs in %s: %s", async (_title, when, code) => {
    other = await new GrantWorld().start();
    const token = await other.agent();
    const id = await other.ask("set_status", ARGS, { token });
    await other.grant("set_status", { ...ARGS, customer: "c-2" }, undefined, { token });
    await other.decide(id, "approve");
    await other.stop();
    const rules = [...RULES, { name: "new", when, verdict: "ask" }];
    await AskingWorld.prototype.start.call(other, { approvals: { ...other.approvals, rules } });
    expect(codeOf(await other.call("set_status", ARGS, { token, approval: { id } }))).toBe(code);
    const under = await other.call("set_status", { ...ARGS, customer: "c-2" }, { token });
    expect(codeOf(under)).toBe(code === "HTTP 200" ? "HTTP 200" : "PENDING");
  });

  test("a second replica counts the same runs", async () => {
    other = await new GrantWorld().start();
    const token = await other.agent();
    const second = await new GrantWorld({ beside: other }).start();
    try {
      await other.grant("set_status", ARGS, { runs: 5 }, { token });
      const calls = Array.from({ length: 20 }, (_, at) =>
        (at % 2 === 0 ? other : second).call("set_status", { ...ARGS, note: `${at}` }, { token }),
      );
      const codes = await outcomes(calls);
      expect(codes.filter((code) => code === "HTTP 200")).toHaveLength(5);
      expect(other.deeds).toHaveLength(5);
    } finally {
      await second.stop();
    }
  });
});
