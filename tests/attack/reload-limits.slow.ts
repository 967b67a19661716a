import { afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readKeys, signMessage } from "../../src/approvals/notify/signature.ts";
import { Receiver } from "../approvals/notify/receiver.ts";
import { manifest, ReloadService, type Reply } from "../support/reload-service.ts";
import { until } from "../support/until.ts";

const running: ReloadService[] = [];
const receivers: Receiver[] = [];
const gates: (() => void)[] = [];
afterEach(async () => {
  for (const open of gates.splice(0)) open();
  for (const service of running.splice(0)) await service.end();
  for (const receiver of receivers.splice(0)) await receiver.close();
});

/** In a day: a test drains nothing. */
const of = (calls: number) => ({ calls, seconds: 86_400 });
const rates = (caller: unknown, more: Readonly<Record<string, unknown>> = {}) => ({
  limits: { rates: { caller, ...more } },
});

async function started(changes: Readonly<Record<string, unknown>> = {}): Promise<ReloadService> {
  const service = new ReloadService(changes);
  running.push(service);
  return service.start();
}

/** What became of each of so many calls, one after the other. */
async function outcomes(service: ReloadService, calls: number): Promise<readonly string[]> {
  const said: string[] = [];
  for (let made = 0; made < calls; made += 1) said.push(await service.says());
  return said;
}

async function taken(service: ReloadService, changes: Readonly<Record<string, unknown>>): Promise<void> {
  service.configure(changes);
  const { http, body } = await service.reload();
  expect([http, body.status ?? body]).toEqual([200, "changed"]);
}

const NO = "RATE_LIMITED";

test("a used-up limit stays used up across a reload, and a higher one adds only the difference", async () => {
  const service = await started(rates(of(3)));
  expect(await outcomes(service, 4)).toEqual(["first", "first", "first", NO]);
  service.write("tools/hello.ts", manifest({ says: "second" }));
  await taken(service, rates(of(3)));
  expect(await outcomes(service, 1)).toEqual([NO]);
  await taken(service, rates(of(5)));
  expect(await outcomes(service, 3)).toEqual(["second", "second", NO]);
  await taken(service, rates(of(2)));
  expect(await outcomes(service, 1)).toEqual([NO]);
  await taken(service, rates("off"));
  expect(await outcomes(service, 2)).toEqual(["second", "second"]);
  expect(service.journal("configuration.changed").map(({ generation }) => generation)).toEqual([2, 3, 4, 5]);
});

test("a tool's own limit comes and goes", async () => {
  const service = await started();
  expect(await outcomes(service, 2)).toEqual(["first", "first"]);
  await taken(service, rates("off", { tools: { hello: { tool: of(1) } } }));
  expect(await outcomes(service, 2)).toEqual(["first", NO]);
  await taken(service, rates("off"));
  expect(await outcomes(service, 2)).toEqual(["first", "first"]);
});

test.each([
  ["a number that is none", { limits: { rates: { caller: { calls: -1, seconds: 60 } } } }, /limits\.rates\.caller/],
  ["a key that is none", { limits: { rate: {} } }, /limits\.rate: is not a known key/],
  ["a tool that is none", rates("off", { tools: { helo: { tool: "off" } } }), /limits\.rates\.tools\.helo: no tool/],
  ["what is shared with nobody", { limits: { shared: true } }, /limits\.shared: .*storeUrlFile/],
])("%s refuses the whole reload, and the former limits apply", async (_title, changes, problem) => {
  const service = await started(rates(of(2)));
  expect(await outcomes(service, 1)).toEqual(["first"]);
  service.write("tools/hello.ts", manifest({ says: "second" }));
  service.configure(changes);
  const { http, body } = await service.reload();
  expect(http).toBe(422);
  expect(body.problems.join("\n")).toMatch(problem);
  expect(await outcomes(service, 2)).toEqual(["first", NO]);
});

/** Calls that stay until the gate is opened. */
async function gated(changes: Readonly<Record<string, unknown>>): Promise<ReloadService> {
  const { promise, resolve } = Promise.withResolvers<void>();
  gates.push(resolve);
  Object.assign(globalThis, { reloadGate: promise, reloadEntered: 0 });
  const service = new ReloadService(changes);
  service.write(
    "tools/wait.ts",
    manifest({
      name: "wait",
      body: 'globalThis.reloadEntered += 1; await globalThis.reloadGate; return { said: "waited" };',
    }),
  );
  running.push(service);
  return service.start();
}

async function inside(service: ReloadService, calls: number): Promise<readonly Promise<Reply>[]> {
  const token = await service.agent();
  const made = Array.from({ length: calls }, () => service.call({ tool: "wait" }, token));
  const entered = () => (globalThis as { reloadEntered?: number }).reloadEntered ?? 0;
  await until("the calls", () => (entered() >= calls ? true : undefined));
  return made;
}

test("calls in progress keep their slots under another limit and free each once", async () => {
  const bounded = (calls: number) => ({
    limits: { concurrentCallsPerCallerMax: calls, concurrentCallsMax: calls, rates: { caller: "off" } },
  });
  const service = await gated(bounded(3));
  const made = await inside(service, 3);
  expect(await service.says()).toBe("OVERLOADED");
  await taken(service, bounded(4));
  expect(await service.says()).toBe("first");
  await taken(service, bounded(1));
  expect(await service.says()).toBe("OVERLOADED");
  gates.pop()?.();
  const answers = await Promise.all(made);
  expect(answers.map(({ body }) => body.result?.said)).toEqual(["waited", "waited", "waited"]);
  await until("the places", async () => ((await service.says()) === "first" ? true : undefined));
  expect(await outcomes(service, 3)).toEqual(["first", "first", "first"]);
});

test("reloads during heavy load: no call is lost, none is counted twice", async () => {
  const service = await started(rates(of(40)));
  const token = await service.agent();
  let isOver = false;
  const said: string[] = [];
  const press = async (): Promise<void> => {
    while (!isOver) said.push(await service.says({}, token));
  };
  const pressing = Promise.all([press(), press(), press()]);
  for (const calls of [50, 45, 60, 55]) {
    service.configure(rates(of(calls)));
    const replies = await Promise.all([service.reload(), service.reload(), service.reload()]);
    expect(replies.map(({ http }) => http)).toEqual([200, 200, 200]);
  }
  // Three calls may be under way since before the last limit.
  const before = said.length + 3;
  await until("the limit", () => (said.indexOf(NO, before) >= 0 ? true : undefined));
  isOver = true;
  await pressing;
  const served = said.filter((outcome) => outcome === "first").length;
  // Of 50 that were made, 45 are what a limit of 45 knows: the next one gives 15 more.
  expect(served).toBeGreaterThanOrEqual(55);
  expect(served).toBeLessThanOrEqual(65);
  expect(new Set(said)).toEqual(new Set(["first", NO]));
});

const SECRET = `whsec_${Buffer.alloc(32, 5).toString("base64")}\n`;
const STORE = { store: "sqlite://./approvals.sqlite" };

function receiver(): Receiver {
  const made = new Receiver();
  receivers.push(made);
  return made;
}

async function asking(changes: Readonly<Record<string, unknown>>): Promise<ReloadService> {
  const service = new ReloadService({ approvals: { ...STORE, ...changes } });
  service.write("tools/hello.ts", manifest({ classification: "write" }));
  writeFileSync(join(service.folder, "key"), SECRET);
  running.push(service);
  return service.start();
}

const chat = ({ url }: Receiver) => ({ name: "chat", url, secretFile: "./key" });
const told = (...webhooks: readonly unknown[]) => ({ approvals: { ...STORE, webhooks } });

test("a webhook that changes: a delivery in progress ends unchanged, later ones go to the new address", async () => {
  const [former, next] = [receiver(), receiver()];
  const service = await asking({ webhooks: [chat(former)] });
  const { promise, resolve } = Promise.withResolvers<Response>();
  former.answer = () => promise;
  const first = (await service.call()).body.approval.id;
  await former.untilArrived(1);
  await taken(service, { ...told(chat(next)), ...rates(of(1_000)) });
  const second = (await service.call({ session: "other" })).body.approval.id;
  resolve(new Response(null, { status: 204 }));
  const [arrived] = await next.untilArrived(1);
  expect([former.arrived[0]?.json.data.id, arrived?.json.data.id]).toEqual([first, second]);
  expect(former.arrived).toHaveLength(1);
});

test.each([
  [
    "an address that is none",
    (url: string) => ({ url: url.replace("127.0.0.1", "169.254.0.1") }),
    /webhooks\[0\]\.url/,
  ],
  ["a key that is not there", () => ({ secretFile: "./gone" }), /webhooks\[0\]\.secretFile: .*ENOENT/],
  ["a key that is none", () => ({ secretFile: "./stc.yaml" }), /webhooks\[0\]\.secretFile: .*line 1/],
])("%s refuses the whole reload, and the former webhook continues", async (_title, change, problem) => {
  const former = receiver();
  const service = await asking({ webhooks: [chat(former)] });
  service.configure(told({ ...chat(former), ...change(former.url) }));
  const { http, body } = await service.reload();
  expect(http).toBe(422);
  expect(body.problems.join("\n")).toMatch(problem);
  expect(JSON.stringify(body)).not.toMatch(/BQUF|BgYG/);
  await service.call();
  await former.untilArrived(1);
});

test("a changed key file is adopted, and so is the address of links", async () => {
  const former = receiver();
  const service = await asking({ webhooks: [chat(former)] });
  await service.call();
  const [first] = await former.untilArrived(1);
  writeFileSync(join(service.folder, "key"), SECRET.replace("BQUF", "BgYG"));
  await taken(service, { approvals: { ...told(chat(former)).approvals, publicUrl: "https://stc.example" } });
  await service.call({ session: "other" });
  const [, second] = await former.untilArrived(2);
  expect(first?.signature).toMatch(/^v1,/);
  expect(second?.signature).toMatch(/^v1,/);
  expect([first?.json.data.link, second?.json.data.link]).toEqual([
    expect.stringMatching(/^\/approvals\//),
    expect.stringMatching(/^https:\/\/stc\.example\/approvals\//),
  ]);
  const metrics = await service.send("GET", "/metrics", { token: await service.operator() });
  expect(metrics.body).toContain('stc_webhook_failures{webhook="chat"} 0');
});

test("the first webhook that decides is accepted, and the removed one is not", async () => {
  const former = receiver();
  const service = await asking({ webhooks: [chat(former)] });
  const secret = SECRET.replace("BQUF", "BgYG");
  writeFileSync(join(service.folder, "in"), secret);
  const keys = readKeys(secret, "sign");
  const sent = async (id: string): Promise<number> => {
    const body = "{}";
    const signed = signMessage({ id, body }, { keys, nowMs: Date.now() });
    const init = { method: "POST", headers: { ...signed, "content-type": "application/json" }, body };
    return (await fetch(`${service.running.url}/webhooks/chat/decisions`, init)).status;
  };
  expect(await sent("msg_1")).toBe(401);
  await taken(service, told({ ...chat(former), decisions: { secretFile: "./in", people: {} } }));
  expect(await sent("msg_2")).toBe(400);
  await taken(service, told(chat(former)));
  expect(await sent("msg_3")).toBe(401);
});

test("requests other than calls, and wrong tokens, obey the current limits", async () => {
  const service = await started({ limits: { rates: { requests: of(2) } } });
  const tools = async (): Promise<number> =>
    (await service.send("GET", "/tools", { token: await service.agent() })).http;
  expect([await tools(), await tools(), await tools()]).toEqual([200, 200, 429]);
  await taken(service, { limits: { rates: { requests: of(3) } } });
  expect([await tools(), await tools()]).toEqual([200, 429]);
  await taken(service, { limits: { rates: { requests: "off" } } });
  expect([await tools(), await tools()]).toEqual([200, 200]);
  await taken(service, { limits: { wrongTokensPerMinuteMax: 1, rates: { requests: "off" } } });
  expect([await service.says({}, "nobody"), await service.says({}, "nobody")]).toEqual(["UNAUTHENTICATED", NO]);
});

test("more than twice as many concurrent calls as at the start", async () => {
  const bounded = (calls: number) => ({ limits: { concurrentCallsPerCallerMax: 100, concurrentCallsMax: calls } });
  const service = await gated(bounded(2));
  await inside(service, 2);
  expect(await service.says()).toBe("OVERLOADED");
  await taken(service, bounded(20));
  await inside(service, 18);
  expect(await service.says()).toBe("OVERLOADED");
});
