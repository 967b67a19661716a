import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { until } from "../support/until.ts";
import { type Members, membersOf } from "./approval-stand.ts";
import { EventClient } from "./event-reader.ts";

const change = defineTool({
  name: "counter_set",
  description: "Sets the counter",
  classification: "write",
  category: "network",
  permissions: { required: ["counter:write"] },
  input: z.strictObject({ to: z.int().min(0).max(9) }),
  target: { system: "counter", handler: async () => ({ set: true }) },
  output: z.strictObject({ set: z.boolean() }),
  outputPolicy: { set: "allow" },
  examples: { accepts: [{ to: 1 }], rejects: [{ to: 10 }] },
});

const note = defineTool({
  name: "note_set",
  description: "Sets a note",
  classification: "write",
  category: "network",
  permissions: { required: ["counter:write"] },
  input: z.strictObject({ title: z.string(), text: z.string(), kind: z.enum(["long", "short"]) }),
  inputPolicy: { title: "allow" },
  target: { system: "counter", handler: async () => ({ set: true }) },
  output: z.strictObject({ set: z.boolean() }),
  outputPolicy: { set: "allow" },
});

const folder = mkdtempSync(join(tmpdir(), "stc-approvals-"));
const issuers = new LiveIssuers();
let service: RunningService;
let agent: string;
let olga: string;

async function start(name: string, approvals: Record<string, unknown>, server = {}): Promise<RunningService> {
  const written = {
    ...{ server: { port: 0, ...server }, log: { level: "silent" }, audit: { dir: join(folder, name) }, approvals },
    tools: [change, note],
    jwt: { issuers: issuers.profiles() },
  };
  return startService(readConfig(written, { folder, environment: { PATH: process.env["PATH"] }, origin: name }));
}

const startAsking = (name: string, server = {}): Promise<RunningService> =>
  start(name, { store: `sqlite://${join(folder, name)}.sqlite` }, server);

beforeAll(async () => {
  service = await startAsking("asking");
  const permissions = ["counter:write", "approvals:decide"];
  agent = await issuers.token({ kind: "good", sub: "agent-1", permissions });
  olga = await issuers.token({ kind: "operator", sub: "olga", permissions });
});
afterAll(async () => {
  await service.drain();
  rmSync(folder, { recursive: true, force: true });
});

interface Answered {
  readonly status: number;
  readonly body: Members;
}

async function send(request: string, token: string, body?: unknown, at = service): Promise<Answered> {
  const [method = "", path = ""] = request.split(" ");
  const answer = await fetch(`${at.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: membersOf(await answer.json()) };
}

const call = (to: number, more: Members = {}): Members => ({ tool: "counter_set", args: { to }, ...more });
const yes = { decision: "approve" };

test("requested, awaited, decided, run, and seen by everybody concerned", async () => {
  const streams = await Promise.all([olga, agent].map((token) => EventClient.open(service.url, token)));
  const asked = await send("POST /call", agent, call(1));
  const { id } = membersOf(asked.body["approval"]);
  expect([asked.status, asked.body["status"]]).toEqual([202, "pending"]);
  const awaited = send(`GET /approvals/${id}?wait=55`, agent);
  const read = membersOf((await send(`GET /approvals/${id}`, olga)).body["approval"]);
  expect(membersOf(read["view"])).toMatchObject({ tool: "counter_set", arguments: { to: 1 } });
  const decision = { ...yes, viewDigest: read["viewDigest"] };
  expect((await send(`POST /approvals/${id}/decisions`, olga, decision)).status).toBe(200);
  expect(membersOf((await awaited).body["approval"])["state"]).toBe("approved");
  expect((await send("POST /call", agent, call(1, { approval: { id } }))).body["result"]).toEqual({ set: true });
  expect(membersOf((await send(`GET /approvals/${id}`, agent)).body["approval"])["state"]).toBe("executed");
  for (const stream of streams) {
    const types = (await stream.take(4)).map(({ type }) => type);
    expect(types).toEqual(["requested", "approved", "claimed", "executed"].map((what) => `approval.${what}`));
  }
});

test("a token is valid for one audience: agents decide nothing, operators call nothing", async () => {
  const asked = await send("POST /call", agent, call(2));
  const { id } = membersOf(asked.body["approval"]);
  expect((await send(`POST /approvals/${id}/decisions`, agent, yes)).status).toBe(403);
  const params = { approvalId: id };
  expect((await send("POST /rpc", agent, { jsonrpc: "2.0", id: 1, method: "exec.approve", params })).status).toBe(403);
  for (const body of [call(2), call(2, { approval: { id } })]) {
    expect((await send("POST /call", olga, body)).status).toBe(401);
  }
  const pending = await send("POST /call", agent, call(2, { approval: { id } }));
  expect([pending.status, membersOf(pending.body["approval"])["id"]]).toEqual([202, id]);
});

test("a drain answers waiting clients and ends event streams", async () => {
  const draining = await startAsking("draining");
  const asked = await send("POST /call", agent, call(3), draining);
  const { id } = membersOf(asked.body["approval"]);
  const stream = await EventClient.open(draining.url, olga);
  const awaited = send(`GET /approvals/${id}?wait=55`, agent, undefined, draining);
  // Whatever was sent before it is in by the time that this is answered.
  expect((await send("GET /approvals?state=pending", olga, undefined, draining)).status).toBe(200);
  await draining.drain();
  expect(membersOf((await awaited).body["approval"])["state"]).toBe("pending");
  expect(await stream.rest()).toEqual([]);
});

test("waits and event streams go on in the shutdown delay, and end with the drain so that their clients come again", async () => {
  const ending = await startAsking("ending", { shutdownDelayMs: 600_000 });
  const hold = async (to: number): Promise<Answered> => {
    const headers = { authorization: `Bearer ${agent}`, "content-type": "application/json", prefer: "wait=55" };
    const answer = await fetch(`${ending.url}/call`, { method: "POST", headers, body: JSON.stringify(call(to)) });
    return { status: answer.status, body: membersOf(await answer.json()) };
  };
  const pending = (count: number): Promise<readonly Members[]> =>
    until("the approval requests", async () => {
      const { body } = await send("GET /approvals?state=pending", olga, undefined, ending);
      const found = (body["approvals"] as readonly Members[]).toReversed();
      return found.length === count ? found : undefined;
    });
  const headers = { authorization: `Bearer ${olga}` };
  const text = (await fetch(`${ending.url}/events`, { headers })).text();
  const approved = hold(4);
  const [first] = await pending(1);
  const stopped = ending.shutDown();
  const open = hold(5);
  const [, second] = await pending(2);
  const awaited = send(`GET /approvals/${second?.["id"]}?wait=55`, agent, undefined, ending);
  expect((await send(`POST /approvals/${first?.["id"]}/decisions`, olga, yes, ending)).status).toBe(200);
  expect(await approved).toMatchObject({ status: 200, body: { status: "success" } });
  expect((await send("GET /approvals?state=pending", olga, undefined, ending)).status).toBe(200);
  await ending.drain();
  await stopped;
  expect(await open).toMatchObject({ status: 202, body: { status: "pending", approval: { id: second?.["id"] } } });
  expect(membersOf((await awaited).body["approval"])["state"]).toBe("pending");
  const [opening, ...events] = (await text).trimEnd().split("\n\n");
  expect(opening).toMatch(/^: open\nretry: 1000\nid: \d+$/);
  expect(events.map((event) => /^event: (\S+)$/m.exec(event)?.[1])).toEqual(
    ["requested", "requested", "approved", "claimed", "executed"].map((what) => `approval.${what}`),
  );
});

test("without approvals there are no routes for them", async () => {
  const silent = await start("silent", {});
  const { url } = silent;
  for (const path of ["/approvals", "/events", "/grants", "/sessions"]) {
    const answer = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${olga}` } });
    expect([path, answer.status]).toEqual([path, 404]);
  }
  await silent.drain();
});

test("the list shows operators what waits, with the arguments that the audit may hold", async () => {
  const args = { title: `deploy with password=hunter2Secret9x ${"😀".repeat(250)}`, text: "dear Ann", kind: "long" };
  const asked = await send("POST /call", agent, { tool: "note_set", args });
  const { id } = membersOf(membersOf(asked.body)["approval"]);
  const listed = async (query: string, token = olga) => {
    const { body } = await send(`GET /approvals${query}`, token);
    return (body["approvals"] as readonly Members[]).find((one) => one["id"] === id);
  };
  const shown = await listed("");
  expect(shown).toMatchObject({ state: "pending", arguments: { text: "[not logged]", kind: "long" } });
  const { title } = membersOf(shown?.["arguments"]) as { title: string };
  expect(title).toMatch(/^deploy with password=\[REDACTED\] (?:😀)+\ufffd?…$/u);
  expect(title.length).toBe(257);
  expect(await listed("", agent)).not.toHaveProperty("arguments");

  await send(`POST /approvals/${id}/decisions`, olga, { decision: "deny" });
  for (const token of [olga, agent]) {
    expect(await listed("", token)).toBeUndefined();
    expect(await listed("?state=all", token)).toMatchObject({ id, state: "denied" });
    expect(await listed("?state=denied", token)).toMatchObject({ id, state: "denied" });
  }
  expect((await send("GET /approvals?state=every", olga)).status).toBe(400);
});
