import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { AskingWorld, codeOf, recordingTool } from "../approvals/asking-world.ts";
import type { CallExtras } from "../support/asking-service.ts";

const deeds: unknown[] = [];
const input = z.strictObject({
  what: z.string().max(100),
  count: z.number().default(1),
  note: z.string().max(100).nullable().optional(),
  tags: z.record(z.string().max(20), z.string().max(20)).optional(),
});
const world = new AskingWorld({
  tools: [recordingTool("deed", deeds, input), recordingTool("other_deed", deeds, input)],
  approvals: { pendingPerCallerMax: 1_000 },
});

beforeAll(async () => {
  await world.start();
});
afterAll(() => world.end());

let subjects = 0;
function newSub(): string {
  subjects += 1;
  return `binder-${subjects}`;
}

/** What becomes of a claim that differs from what was asked. */
async function claimed(
  asked: unknown,
  made: unknown,
  extras: { ask?: CallExtras; claim?: CallExtras; tool?: string } = {},
) {
  const sub = newSub();
  const token = await world.agent({ sub });
  const id = await world.ask("deed", asked, { token, ...extras.ask });
  expect((await world.decide(id, "approve")).http).toBe(200);
  const before = deeds.length;
  const reply = await world.call(extras.tool ?? "deed", made, { token, approval: { id }, ...extras.claim });
  const ran = deeds.slice(before);
  expect(ran).toHaveLength(reply.http === 200 ? 1 : 0);
  const entry = world.entry(reply.body.traceId);
  expect(entry?.error?.code).toBe(reply.body.error?.code);
  return { reply, ran: ran[0] };
}

describe("APR-02, APR-04: the same call in another spelling is the same call", () => {
  test.each([
    ["keys in another order", `{"what":"a","count":2}`, `{"count":2,"what":"a"}`],
    ["white space", `{"what":"a"}`, ` { "what" :\n"a" } `],
    ["a number in another spelling", `{"what":"a","count":100}`, `{"what":"a","count":1e2}`],
    ["a number with a fraction of nothing", `{"what":"a","count":1}`, `{"what":"a","count":1.0}`],
    ["a letter by its escape", `{"what":"é"}`, `{"what":"\\u00e9"}`],
    ["a default that is written out", `{"what":"a"}`, `{"what":"a","count":1}`],
    ["a record in another order", `{"what":"a","tags":{"x":"1","y":"2"}}`, `{"what":"a","tags":{"y":"2","x":"1"}}`],
    ["an escaped slash", `{"what":"a/b"}`, `{"what":"a\\/b"}`],
  ])("%s", async (_title, asked, made) => {
    expect((await claimed(asked, made)).reply.http).toBe(200);
  });

  test("another reason and another model id change nothing", async () => {
    const { reply } = await claimed(`{"what":"a"}`, `{"what":"a"}`, {
      ask: { reason: "one", callId: "c-1" },
      claim: { reason: "two", callId: "c-2" },
    });
    expect(reply.http).toBe(200);
  });
});

describe("APR-02: a different call is a different call, however similar", () => {
  test.each([
    ["another value", `{"what":"a"}`, `{"what":"b"}`],
    ["another case", `{"what":"a"}`, `{"what":"A"}`],
    ["a space more", `{"what":"a"}`, `{"what":"a "}`],
    ["a letter that looks alike", `{"what":"a"}`, `{"what":"\u0430"}`],
    ["a letter that is composed", `{"what":"\u00e9"}`, `{"what":"e\u0301"}`],
    ["an invisible character", `{"what":"a"}`, `{"what":"a\u200b"}`],
    ["absent and null", `{"what":"a"}`, `{"what":"a","note":null}`],
    ["null and empty", `{"what":"a","note":null}`, `{"what":"a","note":""}`],
    ["the least of a difference", `{"what":"a","count":0.1}`, `{"what":"a","count":0.10000000000000002}`],
    ["a sign", `{"what":"a","count":5}`, `{"what":"a","count":-5}`],
    ["a member more", `{"what":"a","tags":{}}`, `{"what":"a","tags":{"x":""}}`],
    ["no record and an empty one", `{"what":"a"}`, `{"what":"a","tags":{}}`],
    ["key and value changed about", `{"what":"a","tags":{"x":"y"}}`, `{"what":"a","tags":{"y":"x"}}`],
    ["APR-03: a boundary moved", `{"what":"a\\nb","note":"c"}`, `{"what":"a","note":"b\\nc"}`],
    ["APR-03: JSON within text", `{"what":"a","note":"\\",\\"t\\":\\""}`, `{"what":"a\\",\\"note\\":\\"","note":""}`],
  ])("%s", async (_title, asked, made) => {
    expect(codeOf((await claimed(asked, made)).reply)).toBe("APPROVAL_MISMATCH");
  });

  test("another tool with the same arguments", async () => {
    expect(codeOf((await claimed({ what: "a" }, { what: "a" }, { tool: "other_deed" })).reply)).toBe(
      "APPROVAL_MISMATCH",
    );
  });

  test.each([
    ["one more", undefined, "s-2"],
    ["none", "s-1", undefined],
    ["another", "s-1", "s-2"],
    ["one that poses as a token's", "s-1", "sid:s-1"],
  ])("another session name chosen by the agent: %s", async (_title, asked, made) => {
    const named = (session: string | undefined): CallExtras => (session === undefined ? {} : { session });
    const { reply } = await claimed({ what: "a" }, { what: "a" }, { ask: named(asked), claim: named(made) });
    expect(codeOf(reply)).toBe("APPROVAL_MISMATCH");
  });
});

describe("APR-04: arguments that readers understand differently are refused before anybody is asked", () => {
  test.each([
    ["a key twice", `{"what":"a","what":"b"}`],
    ["an integer beyond what is exact", `{"what":"a","count":9007199254740993}`],
    ["a prototype", `{"what":"a","tags":{"__proto__":"x"}}`],
    ["half a character", `{"what":"\\ud800"}`],
    ["too deep", `{"what":${"[".repeat(40)}${"]".repeat(40)}}`],
    ["a number without end", `{"what":"a","count":1e999}`],
  ])("%s", async (_title, args) => {
    const reply = await world.call("deed", args);
    expect(codeOf(reply)).toBe("MALFORMED_REQUEST");
    expect(world.entry(reply.body.traceId)?.error?.code).toBe("MALFORMED_REQUEST");
  });
});

describe("APR-33: an approval is for its requester", () => {
  test("for any chain of actors: alice's approval does not run a call made on alice's behalf", async () => {
    const sub = newSub();
    const id = await world.ask("deed", { what: "a" }, { token: await world.agent({ sub }) });
    await world.decide(id, "approve");
    const through = await world.agent({ sub, claims: { act: { sub: "alice" } } });
    expect(codeOf(await world.call("deed", { what: "a" }, { token: through, approval: { id } }))).toBe(
      "APPROVAL_MISMATCH",
    );
    const alone = await world.agent({ sub });
    expect((await world.call("deed", { what: "a" }, { token: alone, approval: { id } })).http).toBe(200);
  });

  test("a call on alice's behalf does not hide behind another pending approval request", async () => {
    const sub = newSub();
    const first = await world.ask("deed", { what: "a" }, { token: await world.agent({ sub }) });
    const through = await world.agent({ sub, claims: { act: { sub: "alice" } } });
    const second = await world.ask("deed", { what: "a" }, { token: through });
    expect(second).not.toBe(first);
    expect(codeOf(await world.decide(second, "approve"))).toBe("PERMISSION_DENIED");
  });

  test("a renewed token with the same chain can claim", async () => {
    const order = { sub: newSub(), claims: { act: { sub: "carol", act: { sub: "dave" } }, sid: "s-1" } };
    const id = await world.ask("deed", { what: "a" }, { token: await world.agent(order) });
    await world.decide(id, "approve");
    const renewed = await world.agent({ ...order, permissions: ["deeds:do", "more:than:before"] });
    expect((await world.call("deed", { what: "a" }, { token: renewed, approval: { id } })).http).toBe(200);
  });

  test("the same name at another issuer is another caller", async () => {
    const sub = newSub();
    const id = await world.ask("deed", { what: "a" }, { token: await world.agent({ sub }) });
    await world.decide(id, "approve");
    const twin = await world.agent({ kind: "other issuer", sub });
    expect(codeOf(await world.call("deed", { what: "a" }, { token: twin, approval: { id } }))).toBe(
      "APPROVAL_NOT_FOUND",
    );
    expect((await world.send("GET", `/approvals/${id}`, { token: twin })).http).toBe(404);
    expect((await world.send("DELETE", `/approvals/${id}`, { token: twin })).http).toBe(404);
    expect(await world.ask("deed", { what: "a" }, { token: twin })).not.toBe(id);
  });
});

describe("APR-11: a change between approval and run voids the approval", () => {
  const changes: readonly (readonly [string, Parameters<AskingWorld["start"]>[0]])[] = [
    ["the deployment", { approvals: { deployment: "another" } }],
    ["the tool's description", { tools: [recordingTool("deed", deeds, input, { description: "Does that" })] }],
    ["the tool's schema", { tools: [recordingTool("deed", deeds, input.extend({ more: z.boolean().optional() }))] }],
    ["the tool's version", { tools: [recordingTool("deed", deeds, input, { version: "2.0.0" })] }],
    ["what the tool does", { tools: [recordingTool("deed", deeds, input, { handler: () => ({ done: false }) })] }],
  ];

  test.each(changes)("%s", async (_title, change) => {
    const own = new AskingWorld({ tools: [recordingTool("deed", deeds, input)] });
    try {
      await own.start();
      const token = await own.agent({ claims: { sid: "s-1" } });
      const [once, always] = [
        await own.ask("deed", { what: "a" }, { token }),
        await own.ask("deed", { what: "b" }, { token }),
      ];
      await own.decide(once, "approve");
      await own.decide(always, "approve", { scope: "session" });
      await own.stop();
      await own.start(change);
      const before = deeds.length;
      expect(codeOf(await own.call("deed", { what: "a" }, { token, approval: { id: once } }))).toBe(
        "APPROVAL_MISMATCH",
      );
      expect(codeOf(await own.call("deed", { what: "b" }, { token }))).toBe("PENDING");
      await own.stop();
      await own.start();
      expect((await own.call("deed", { what: "a" }, { token, approval: { id: once } })).http).toBe(200);
      expect((await own.call("deed", { what: "b" }, { token })).http).toBe(200);
      expect(deeds).toHaveLength(before + 2);
    } finally {
      await own.end();
    }
  });
});

describe("APR-61: a denial is final", () => {
  const nags: readonly (readonly [string, CallExtras])[] = [
    ["another reason", { reason: "please" }],
    ["another id of the model's", { callId: "c-2" }],
    ["a session of its own naming", { session: "another" }],
    ["a session that poses as a token's", { session: "sid:s-1" }],
  ];
  test.each(nags)("the same call with %s does not create another approval request", async (_title, extras) => {
    const token = await world.agent({ sub: newSub() });
    await world.decide(await world.ask("deed", { what: "a" }, { token }), "deny", { reason: "never" });
    const again = await world.call("deed", { what: "a" }, { token, ...extras });
    expect(codeOf(again)).toBe("APPROVAL_DENIED");
    expect(again.body.error.message).toStartWith("Denied by user: never (denied at ");
    expect((await world.call("deed", { what: "b" }, { token, ...extras })).http).toBe(202);
  });

  test("neither does a session that the agent opens for it", async () => {
    const token = await world.agent({ sub: newSub() });
    await world.decide(await world.ask("deed", { what: "a" }, { token }), "deny");
    const opened = await world.send("POST", "/sessions", { token, body: {} });
    const { id: session } = opened.body.session;
    expect(codeOf(await world.call("deed", { what: "a" }, { token, session }))).toBe("APPROVAL_DENIED");
    const other = (await world.send("POST", "/sessions", { token, body: {} })).body.session.id;
    await world.decide(await world.ask("deed", { what: "b" }, { token, session }), "deny");
    expect(codeOf(await world.call("deed", { what: "b" }, { token, session: other }))).toBe("APPROVAL_DENIED");
  });

  test("another session that the issuer names may ask", async () => {
    const sub = newSub();
    const sessionOf = (sid: string) => world.agent({ sub, claims: { sid } });
    await world.decide(await world.ask("deed", { what: "a" }, { token: await sessionOf("s-1") }), "deny");
    expect((await world.call("deed", { what: "a" }, { token: await sessionOf("s-2") })).http).toBe(202);
    expect(codeOf(await world.call("deed", { what: "a" }, { token: await sessionOf("s-1") }))).toBe("APPROVAL_DENIED");
  });
});
