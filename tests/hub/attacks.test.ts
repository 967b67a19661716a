import { afterEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { z } from "zod";
import { Halts } from "../../src/halts/halts.ts";
import type { HubClient, HubMethod, PushSource } from "../../src/hub/contract.ts";
import { HubUnavailable } from "../../src/hub/errors.ts";
import { hubApprovals } from "../../src/hub/methods/hub-approvals.ts";
import { hubState } from "../../src/hub/methods/state.ts";
import { Quotas } from "../../src/quotas/quotas.ts";
import { callerOf, run, toolOf } from "../quotas/world.ts";
import { AGENT } from "../support/approvals.ts";
import { until } from "../support/until.ts";
import { openConnection, openHub, openMember, slowMethod } from "./world.ts";

const closings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closings.splice(0).reverse()) await close();
});

const HUB = "https://hub.test";
const { issuer, subject } = AGENT;

/** Answers that a test expects must not depend on the time limit: such a test gives a long one. */
function memberAt(port: number, token = "a", requestMs = 100): HubClient {
  const client = openMember({ port, token: () => token, requestMs });
  closings.push(() => client.close());
  return client;
}

/** A server that is not a hub, or a wrong one: answers each request with what `answer` says. */
function wrongHub(answer: (id: string, path: string) => Response | Promise<Response>): number {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const body = (await request.json().catch(() => ({}))) as { id?: string };
      return answer(body.id ?? "", new URL(request.url).pathname);
    },
  });
  closings.push(() => server.stop(true));
  return server.port ?? 0;
}

describe("a member of a hub, or of a network, that answers wrongly", () => {
  const approval = { id: "x", state: "claimed", planDigest: "p", requester: { issuer, subject, actors: [] } };
  const grant = {
    ...{ id: "g", issuer, subject, session: AGENT.session ?? "", grantKey: "k", approvalId: "x" },
    grantedBy: { issuer, subject },
  };
  const claim = (value: unknown) => ["claim", value] as const;
  const findGrant = (value: unknown) => ["findGrant", value] as const;

  test.each([
    claim(undefined),
    claim(null),
    claim(true),
    claim({ outcome: "claimed" }),
    claim({ outcome: "claimed", approval: { ...approval, id: "another" } }),
    claim({ outcome: "claimed", approval: { ...approval, planDigest: "another" } }),
    claim({ outcome: "claimed", approval: { ...approval, state: "pending" } }),
    claim({ outcome: "claimed", approval: { ...approval, requester: { issuer, subject: "another" } } }),
    findGrant(true),
    findGrant({}),
    findGrant({ ...grant, subject: "another" }),
    findGrant({ ...grant, session: "another" }),
    findGrant({ ...grant, grantKey: "another" }),
    ["useGrant", true],
    ["useGrant", { ...grant, id: "another" }],
    ["hasSessionEnded", undefined],
    ["hasSessionEnded", null],
    ["findSession", { mode: "auto" }],
    ["findSession", { id: "another", issuer, subject, mode: "default" }],
    ["beginKey", { outcome: "go" }],
    ["beginKey", null],
    ["get", { ...approval, id: "another" }],
    ["priorOf", { usable: true, earlier: [] }],
  ] as const)("%s takes no %j for an answer", async (method, value) => {
    const port = wrongHub((id) => Response.json({ id, value, now: 1 }));
    const member = hubApprovals(memberAt(port), { hub: HUB });
    const acts = {
      claim: () => member.claim({ id: "x", requester: AGENT, planDigest: "p" }),
      findGrant: () => member.findGrant(AGENT, "k"),
      useGrant: () => member.useGrant("g", "t"),
      hasSessionEnded: () => member.hasSessionEnded("s", AGENT),
      findSession: () => member.findSession("s", AGENT),
      beginKey: () => member.beginKey({ issuer, subject, tool: "t", keyHash: "k", argsHash: "a" }),
      get: () => member.get("x"),
      priorOf: () => member.priorOf({ requester: AGENT, planDigest: "p", callDigest: "c", attach: "any" } as never),
    };
    await expect(acts[method]()).rejects.toBeInstanceOf(HubUnavailable);
  });

  test("what a hub does answer is taken", async () => {
    const port = wrongHub((id, path) =>
      Response.json({ id, value: path.endsWith("claim") ? { outcome: "claimed", approval } : grant, now: 1 }),
    );
    const member = hubApprovals(memberAt(port, "a", 60_000), { hub: HUB });
    expect((await member.claim({ id: "x", requester: AGENT, planDigest: "p" })).outcome).toBe("claimed");
    expect(await member.findGrant(AGENT, "k")).toMatchObject({ id: "g" });
  });

  test.each([
    ["to another request", () => Response.json({ id: "another", value: true, now: 1 })],
    ["without an id", () => Response.json({ value: true, now: 1 })],
    ["without a time", (id: string) => Response.json({ id, value: true })],
    ["with a time that is none", (id: string) => Response.json({ id, value: true, now: 1e300 })],
    ["with a time before all", (id: string) => Response.json({ id, value: true, now: -1 })],
    ["that is a list", () => Response.json([true])],
    ["that is cut off", (id: string) => new Response(`{"id":"${id}","value":true,"now":`)],
    ["with a prototype", (id: string) => new Response(`{"__proto__":{"id":"${id}"},"value":true,"now":1}`)],
    ["with too many values", (id: string) => new Response(`{"id":"${id}","now":1,"value":[${"1,".repeat(300_000)}1]}`)],
    ["of a page", () => new Response("<html>", { headers: { "content-type": "text/html" } })],
    ["of a proxy", () => new Response("", { status: 502 })],
  ])("an answer %s counts as none", async (_title, answer) => {
    const port = wrongHub(answer);
    await expect(memberAt(port).call("echo", {})).rejects.toBeInstanceOf(HubUnavailable);
  });

  test("a redirection is not followed, and the token goes nowhere else", async () => {
    let followed = 0;
    const other = wrongHub((id) => {
      followed += 1;
      return Response.json({ id, value: true, now: 1 });
    });
    const port = wrongHub(() => Response.redirect(`http://127.0.0.1:${other}/hub/v1/echo`, 307));
    await expect(memberAt(port).call("echo", {})).rejects.toBeInstanceOf(HubUnavailable);
    expect(followed).toBe(0);
  });

  const answering = (value: unknown): HubClient => ({
    call: async () => ({ value, now: 1_000 }),
    isConnected: true,
    pushed: () => undefined,
    watch: () => () => {},
    close: async () => {},
  });
  const clocks = { clock: () => 1_000, monotonic: () => 1_000, log: () => {} };
  const call = {
    tool: toolOf("write_things", { classification: "write", category: "network" }),
    caller: callerOf("ann"),
    session: undefined,
  };

  test("halts that cannot be read are unknown, and those that were known stay", async () => {
    const halt = {
      ...{ id: "h", target: { kind: "all", issuer: "", value: "" }, reason: "r", cancelRunning: false },
      ...{ setBy: { issuer, subject }, setAt: 1 },
    };
    let value: unknown;
    const client: HubClient = { ...answering(undefined), call: async () => ({ value, now: 1_000 }) };
    const opened = () =>
      new Halts({
        ...clocks,
        ...{ state: hubState(client, { hub: HUB }), file: undefined, journal: async () => {} },
        ...{ newId: () => "id", whenUnknown: "keepLast" },
      });
    const known = opened();
    value = [halt];
    await known.start();
    for (const wrong of [undefined, null, {}, [null], [{}], [{ ...halt, target: "all" }], "none"]) {
      value = wrong;
      await known.refresh().catch(() => {});
      expect(known.refusalFor(call)?.code).toBe("HALTED");
      const fresh = opened();
      await fresh.start();
      expect(fresh.refusalFor(call)?.code).toBe("POLICY_STATE_UNAVAILABLE");
      fresh.close();
    }
    known.close();
  });

  test.each([
    ["nothing", undefined],
    ["no row", []],
    ["an empty row", [{}]],
    ["no amount", [{ granted: null, used: 0, epoch: 0, startsAt: 0, endsAt: 9e12 }]],
    ["less than nothing", [{ granted: -5, used: 0, epoch: 0, startsAt: 0, endsAt: 9e12 }]],
  ])("a quota that is answered with %s lets no call pass", async (_title, value) => {
    const rules = [{ name: "daily", per: ["caller"], calls: 3, window: "day" }] as const;
    const quotas = new Quotas({ rules, state: hubState(answering(value), { hub: HUB }), ...clocks });
    expect(await run(quotas, call)).toBe("POLICY_STATE_UNAVAILABLE");
  });
});

/** The member is the token, so that a test has as many as it needs. */
const tokens = {
  verify: async (authorization = "") =>
    ({
      caller: { issuer: "k8s", subject: authorization.replace("Bearer ", ""), expiresAt: Date.now() / 1_000 + 60 },
    }) as never,
};
const rules = [{ subject: "*" }];
const echo: HubMethod<{ readonly text: string }> = {
  name: "echo",
  input: z.strictObject({ text: z.string() }),
  handle: async ({ text }) => ({ value: text, now: 1 }),
};

async function hubOf(options: Parameters<typeof openHub>[0]) {
  const hub = await openHub({ tokens, rules, ...options });
  closings.push(() => hub.listener.close());
  return hub;
}

/** Sends bytes, and returns what comes back until the other end closes. */
function raw(port: number, text: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let answer = "";
  const socket = connect(port, "127.0.0.1", () => socket.write(text));
  socket.on("data", (piece) => {
    answer += piece.toString();
  });
  socket.on("close", () => resolve(answer));
  socket.on("error", () => {});
  return promise;
}

const HEAD = "Host: hub\r\nAuthorization: Bearer a\r\nStc-Instance: log-1\r\n";
const BODY = '{"id":"0123456789abcdef","input":{"text":"one"}}';
const post = (path: string, head = "", body = BODY) =>
  `POST ${path} HTTP/1.1\r\n${HEAD}${head}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

describe("what anybody may send to a hub", () => {
  test.each([
    ["a path with dots", post("/hub/v1/../v1/echo")],
    ["an escaped path", post("/hub/v1/%65cho")],
    ["a doubled slash", post("/hub//v1/echo")],
    ["a query", post("/hub/v1/echo?token=a")],
    ["a whole URL", post("http://hub/hub/v1/echo")],
    ["another HTTP method", post("/hub/v1/echo").replace("POST", "PUT")],
    ["a stream that is posted", post("/hub/v1/events")],
    ["another path", post("/metrics")],
  ])("%s is not found, and says nothing of what is there", async (_title, text) => {
    const hub = await hubOf({ methods: [echo] });
    const answer = await raw(hub.port, text);
    expect(answer).toStartWith("HTTP/1.1 404");
    expect(answer).toContain("ROUTE_NOT_FOUND");
  });

  test("an outsider learns no name of a method", async () => {
    const hub = await hubOf({ methods: [echo] });
    const outside = (path: string) => raw(hub.port, post(path).replace("Authorization: Bearer a\r\n", ""));
    const [known, unknown] = [await outside("/hub/v1/echo"), await outside("/hub/v1/nothing")];
    expect(known).toStartWith("HTTP/1.1 401");
    const same = (text: string) => text.replace(/Date: .*/i, "");
    expect(same(unknown)).toBe(same(known));
  });

  test.each([
    ["two lengths", post("/hub/v1/echo", "Content-Length: 5\r\n")],
    ["a length and chunks", post("/hub/v1/echo", "Transfer-Encoding: chunked\r\n")],
    ["a length that is none", post("/hub/v1/echo").replace(/Content-Length: \d+/, "Content-Length: +48")],
    ["another transfer encoding", post("/hub/v1/echo", "Transfer-Encoding: xchunked\r\n")],
    ["a head that is too long", post("/hub/v1/echo", `X: ${"x".repeat(20_000)}\r\n`)],
  ])("a request with %s is not carried out", async (_title, text) => {
    const hub = await hubOf({ methods: [echo] });
    expect(await raw(hub.port, text)).not.toContain("HTTP/1.1 200");
    expect(hub.observed.filter((outcome) => outcome === "echo answered")).toEqual([]);
  });
});

describe("what a member may take of a hub", () => {
  test("a text with more values than a view may have is refused before it is read", async () => {
    const hub = await hubOf({ methods: [echo] });
    const body = `{"id":"0123456789abcdef","input":[${"[],".repeat(2_000_000)}[]]}`;
    const answer = await raw(hub.port, post("/hub/v1/echo", "", body));
    expect(answer).toStartWith("HTTP/1.1 400");
    expect(answer).toContain("more than 300000 values");
  });

  test("the bytes of its open requests are limited, and others are answered", async () => {
    const slow = slowMethod();
    const hub = await hubOf({ methods: [slow.method, echo] });
    const greedy = openMember({ port: hub.port, token: () => "a", requestMs: 60_000 });
    closings.push(() => greedy.close());
    const big = "x".repeat(7 * 1024 * 1024);
    const held = Array.from({ length: 4 }, () => greedy.call("slow", { big }));
    await until("four requests", () => slow.running() === 4 || undefined);
    const once = openConnection({ port: hub.port, token: () => "a" });
    closings.push(async () => once.close());
    await expect(once.post("echo", big, { timeoutMs: 60_000 })).rejects.toThrow("too many bytes");
    expect((await memberAt(hub.port, "b").call("echo", { text: "ok" }, { timeoutMs: 60_000 })).value).toBe("ok");
    slow.open();
    await Promise.all(held);
    expect((await greedy.call("echo", { text: "ok" })).value).toBe("ok");
  });

  test("a name of an instance has four streams", async () => {
    const hub = await hubOf({});
    const heads = `GET /hub/v1/events HTTP/1.1\r\n${HEAD}\r\n`;
    const sockets = Array.from({ length: 4 }, () => connect(hub.port, "127.0.0.1"));
    for (const socket of sockets) socket.write(heads);
    await until("four streams", () => hub.streams.size === 4 || undefined);
    expect(await raw(hub.port, heads)).toStartWith("HTTP/1.1 429");
    for (const socket of sockets) socket.destroy();
    await until("their end", () => hub.streams.size === 0 || undefined);
  });

  test("a member whose instances have too many names does not take the place of others in the list", async () => {
    const hub = await hubOf({});
    const noisy = { name: "a", speaksFor: () => true };
    for (let index = 0; index < 2_000; index += 1) {
      hub.connected.enter({ ...noisy, instance: `log-${index}` }, {}, "request")();
    }
    hub.connected.enter({ ...noisy, name: "b", instance: "log-1" }, {}, "request")();
    const names = hub.connected.list().map(({ name }) => name);
    expect([names.length, names.at(-1)]).toEqual([1_025, "b"]);
  });
});

test("a stream whose hub's clock was set back is opened again", async () => {
  let now = Date.now();
  let notify = (): void => {};
  const source: PushSource = {
    name: "halts.list",
    current: async () => ({ value: [], now }),
    watch(changed) {
      notify = changed;
      const timer = setInterval(notify, 100);
      return () => clearInterval(timer);
    },
  };
  const advance = setInterval(() => {
    now += 50;
  }, 50);
  closings.push(async () => clearInterval(advance));
  const hub = await hubOf({ sources: [source] });
  const member = memberAt(hub.port);
  await until("the first push", () => member.pushed("halts.list"));
  now -= 3_600_000;
  await until("the doubt", () => !member.isConnected || undefined);
  await until("the next stream", () => member.pushed("halts.list"));
  expect(member.pushed("halts.list")?.now).toBeLessThan(Date.now() - 3_500_000);
}, 30_000);
