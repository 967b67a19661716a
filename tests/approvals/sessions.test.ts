import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { CallExtras, Loose } from "../support/asking-service.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { AskingWorld, codeOf, recordingTool } from "./asking-world.ts";

const deeds: unknown[] = [];
const input = z.strictObject({ what: z.string().max(100) });
const grants = { runs: 5, minutes: 30, arguments: { what: "any" } } as const;

const world = new AskingWorld({
  tools: [
    recordingTool("deed", deeds, input),
    recordingTool("offered", deeds, input, { approval: { grants } }),
    recordingTool("look", deeds, input, { classification: "read", category: "read" }),
  ],
  approvals: { pendingPerCallerMax: 1_000, pendingPerSessionMax: 1_000 },
});

beforeAll(() => world.start());
afterAll(() => world.end());

let subject: string;
let sid: string;
let noSid: string;
beforeEach(async () => {
  subject = `agent-${crypto.randomUUID()}`;
  sid = await world.agent({ sub: subject, claims: { sid: "s-1" } });
  noSid = await world.agent({ sub: subject });
});

const ARGS = { what: "it" };

async function open(token: string): Promise<string> {
  const { body } = await world.send("POST", "/sessions", { token });
  return body.session.id;
}

async function approve(tool: string, extras: CallExtras, scope: "session" | "bounded"): Promise<Loose> {
  const id = await world.ask(tool, ARGS, extras);
  const decided = await world.decide(id, "approve", { scope });
  expect(decided.http).toBe(200);
  expect(codeOf(await world.call(tool, ARGS, { ...extras, approval: { id } }))).toBe("HTTP 200");
}

async function codes(tool: string, all: readonly CallExtras[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const extras of all) found.push(codeOf(await world.call(tool, ARGS, extras)));
  return found;
}

async function setMode(session: string, mode: string): Promise<void> {
  const body = { mode, expiresInSeconds: 600, issuer: AGENTS_ISSUER, subject };
  expect((await world.send("PUT", `/sessions/${session}/mode`, { token: await world.person(), body })).http).toBe(200);
}

describe.each([
  ["a token with a sid", () => sid],
  ["a token without a sid", () => noSid],
])("in a session that the service opened, with %s,", (_title, tokenOf) => {
  test.each([
    ["deed", "session"],
    ["offered", "bounded"],
  ] as const)("an approval of %s covers this session and no other", async (tool, scope) => {
    const token = tokenOf();
    const [first, second] = [await open(token), await open(token)];
    await approve(tool, { token, session: first }, scope);
    const other = token === sid ? noSid : sid;
    expect(
      await codes(tool, [
        { token, session: first },
        { token, session: second },
        { token },
        { token, session: "invented" },
        { token, session: "sid:s-1x" },
        { token: other, session: first },
        { token: other },
        { token, session: first },
      ]),
    ).toEqual(["HTTP 200", ...Array.from({ length: 6 }, () => "PENDING"), "HTTP 200"]);
  });

  test("the mode counts for this session and no other", async () => {
    const token = tokenOf();
    const [first, second] = [await open(token), await open(token)];
    await setMode(first, "yolo");
    const all = [first, second, "invented"].map((session) => ({ token, session }));
    expect(await codes("deed", [...all, { token }])).toEqual(["HTTP 200", "PENDING", "PENDING", "PENDING"]);
  });

  test("calls are refused when it has ended, by its approvals too, and run without it and in another", async () => {
    const token = tokenOf();
    const session = await open(token);
    await approve("deed", { token, session }, "session");
    await setMode(session, "yolo");
    const id = await world.ask("offered", ARGS, { token });
    expect((await world.send("DELETE", `/sessions/${session}`, { token })).http).toBe(200);
    const refused = await world.call("deed", ARGS, { token, session });
    expect([refused.http, refused.body.error]).toMatchObject([
      410,
      {
        ...{ code: "APPROVAL_REVOKED", stage: "APPROVAL", retryable: false, details: { session } },
        message: expect.stringMatching(/^The session has ended, .* Open another \(POST \/sessions\), or make the call/),
      },
    ]);
    const { request, decision, error } = world.entry(refused.body.traceId) ?? {};
    expect([decision, error?.code, request?.session]).toEqual([
      "DENIED",
      "APPROVAL_REVOKED",
      token === sid ? `sid:s-1 ${session}` : session,
    ]);
    const another = await open(token);
    await world.decide(id, "approve");
    expect(
      await codes("offered", [
        { token, session, approval: { id } },
        { token, session },
        { token, approval: { id } },
      ]),
    ).toEqual(["APPROVAL_REVOKED", "APPROVAL_REVOKED", "HTTP 200"]);
    expect(await codes("deed", [{ token, session: another }])).toEqual(["PENDING"]);
    // A tool that reads passes in every session.
    expect(await codes("look", [{ token, session }])).toEqual(["HTTP 200"]);
  });
});

describe("a token's sid", () => {
  test.each([
    ["deed", "session"],
    ["offered", "bounded"],
  ] as const)(
    "keeps its approvals of %s, named by the call or not, and no session beside it has them",
    async (tool, scope) => {
      await approve(tool, { token: sid }, scope);
      const opened = await open(sid);
      const other = await world.agent({ sub: subject, claims: { sid: "s-2" } });
      expect(
        await codes(tool, [
          { token: sid },
          { token: sid, session: "sid:s-1" },
          { token: sid, session: "invented" },
          { token: sid, session: opened },
          { token: noSid, session: "sid:s-1" },
          { token: noSid, session: "s-1" },
          { token: other, session: "sid:s-1" },
        ]),
      ).toEqual(["HTTP 200", "HTTP 200", ...Array.from({ length: 5 }, () => "PENDING")]);
    },
  );

  test("that has ended leaves neither approvals nor a wider mode to the sessions beside it", async () => {
    await approve("deed", { token: sid }, "session");
    const session = await open(sid);
    await approve("deed", { token: sid, session }, "session");
    await approve("offered", { token: sid, session }, "bounded");
    const owner = new URLSearchParams({ issuer: AGENTS_ISSUER, subject });
    const ended = await world.send("DELETE", `/sessions/sid:s-1?${owner}`, { token: await world.person() });
    expect(ended.http).toBe(200);
    const all = [{ token: sid }, { token: sid, session }];
    expect(await codes("deed", all)).toEqual(["PENDING", "PENDING"]);
    expect(await codes("offered", all)).toEqual(["PENDING", "PENDING"]);
    await setMode(session, "yolo");
    expect(await codes("deed", all)).toEqual(["PENDING", "PENDING"]);
  });

  test("gives its mode to no session beside it", async () => {
    await setMode("sid:s-1", "yolo");
    const all = [{}, { session: "sid:s-1" }, { session: "invented" }, { session: await open(sid) }];
    const found = await codes(
      "deed",
      all.map((one) => ({ token: sid, ...one })),
    );
    expect(found).toEqual(["HTTP 200", "HTTP 200", "PENDING", "PENDING"]);
  });

  test("that is stricter than the configuration stays so in every session beside it", async () => {
    const lax = await new AskingWorld({
      tools: world.tools,
      issuers: world.issuers,
      approvals: { mode: "yolo" },
    }).start();
    const body = { mode: "autoEdit", expiresInSeconds: 600, issuer: AGENTS_ISSUER, subject };
    await lax.send("PUT", "/sessions/sid:s-1/mode", { token: await lax.person(), body });
    const opened = (await lax.send("POST", "/sessions", { token: sid })).body.session.id;
    for (const session of [undefined, "invented", opened]) {
      const asked = await lax.call("deed", ARGS, { token: sid, ...(session !== undefined && { session }) });
      expect([asked.http, lax.entry(asked.body.traceId)?.sessionMode]).toEqual([200, "autoEdit"]);
    }
    await lax.end();
  });
});

describe("a session that the agent has named itself", () => {
  test.each([
    ["a sid", () => sid],
    ["no sid", () => noSid],
  ])("offers an approval of one call, beside %s", async (_title, tokenOf) => {
    const extras = { token: tokenOf(), session: "mine" };
    for (const tool of ["deed", "offered"]) {
      const asked = await world.call(tool, ARGS, extras);
      expect([asked.http, asked.body.approval.options]).toEqual([202, ["cancel", "once"]]);
      await world.decide(asked.body.approval.id, "approve");
      expect(await codes(tool, [extras, extras])).toEqual(["HTTP 200", "PENDING"]);
    }
  });

  test("has no bounded grant of the caller without a session", async () => {
    await approve("offered", { token: noSid }, "bounded");
    expect(await codes("offered", [{ token: noSid, session: "mine" }, { token: noSid }])).toEqual([
      "PENDING",
      "HTTP 200",
    ]);
  });
});
