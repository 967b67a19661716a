import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { readKeys, signMessage } from "../../src/approvals/notify/signature.ts";
import { defineTool } from "../../src/index.ts";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { blocksOf } from "../support/documented.ts";
import { OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { freePorts } from "../support/ports.ts";
import { run } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** A service with a tool that posts any text. */
class NoteService extends AskingService {
  readonly notes: string[] = [];

  async start(sections: Readonly<Record<string, unknown>>): Promise<void> {
    const post = defineTool({
      ...({ name: "post_note", description: "Posts a note", classification: "write", category: "write" } as const),
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({ text: z.string().max(100_000) }),
      output: z.object({ posted: z.number() }),
      outputPolicy: { posted: "allow" },
      handler: ({ text }) => ({ posted: this.notes.push(text) }),
    });
    await this.run({ tools: [post], ...sections });
  }

  async post(text: string, more: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
    const body = { tool: "post_note", args: { text }, ...more };
    return this.send("POST", "/call", { token: await this.agent(), body });
  }
}

interface Posted {
  readonly path: string;
  readonly body: Loose;
}

/** A stand-in for Slack: accepts an app's messages, and those that answer a button. */
class Slack {
  readonly posted: Posted[] = [];
  status = 200;
  readonly #server = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch: async (request) => {
      this.posted.push({ path: new URL(request.url).pathname, body: await request.json() });
      return new Response(this.status === 200 ? "ok" : "no_service", { status: this.status });
    },
  });

  get origin(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  async untilPosted(count: number): Promise<readonly Posted[]> {
    return until(`${count} messages in Slack`, () => (this.posted.length >= count ? this.posted : undefined));
  }

  close(): Promise<void> {
    return this.#server.stop(true);
  }
}

const blocks = blocksOf("docs/webhooks.md").filter(({ text }) => text.includes("slack"));
const inLanguage = (wanted: string) => blocks.flatMap(({ language, text }) => (language === wanted ? [text] : []));
const [makeKeys = "", startRelay = ""] = inLanguage("sh");
const [configuration = ""] = inLanguage("yaml");
const SIGNING_SECRET = "0123456789abcdef0123456789abcdef";

const slack = new Slack();
const service = new NoteService();
const port = freePorts();
const relays: Bun.Subprocess[] = [];
let relay = "";

/** Starts the relay as the guide says, on a port of the test's. */
async function runRelay(): Promise<string> {
  const line = startRelay
    .replace("http://127.0.0.1:8787", `http://127.0.0.1:${port}`)
    .replace("RELAY_PORT=8790", "RELAY_PORT=0")
    .replace("npx -y bun@1.4.5 ", `exec '${process.execPath}' `)
    .replace("docs/examples", `'${join(PROJECT, "docs/examples")}'`);
  const child = Bun.spawn(["sh", "-ec", line], { cwd: service.folder, stdout: "pipe", stderr: "inherit" });
  relays.push(child);
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream() as never) as ReadableStream<string>) {
    const [, url] = /^listening on (\S+)\/$/m.exec(text) ?? [];
    if (url !== undefined) return url;
  }
  throw new Error("the relay did not start");
}

beforeAll(async () => {
  const { code, err } = await run(["sh", "-ec", makeKeys], { cwd: service.folder });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(readFileSync(join(service.folder, "slack/signing-secret"), "utf8").trim()).toBe(SIGNING_SECRET);
  writeFileSync(join(service.folder, "slack/url"), `${slack.origin}/services/T0/B0/secret\n`);
  relay = await runRelay();
  const written = configuration
    .replace("http://127.0.0.1:8790", relay)
    .replaceAll("https://idp.example/people", OPERATORS_ISSUER)
    .replace("./var/", "./");
  await service.start({ server: { port }, ...(parse(written) as object) });
});

afterAll(async () => {
  for (const child of relays) child.kill("SIGKILL");
  await Promise.all(relays.map((child) => child.exited));
  await service.end();
  await slack.close();
});

beforeEach(() => {
  slack.posted.length = 0;
  service.notes.length = 0;
});
afterEach(() => {
  slack.status = 200;
});

interface Asked {
  readonly id: string;
  readonly message: Loose;
}

/** Posts a note, for which the channel is asked. */
async function ask(text: string, more: Readonly<Record<string, unknown>> = {}): Promise<Asked> {
  const { body } = await service.post(text, more);
  const [posted] = await slack.untilPosted(1);
  slack.posted.length = 0;
  return { id: body.approval.id, message: posted?.body };
}

const buttonsOf = ({ blocks }: Loose): readonly Loose[] =>
  blocks.flatMap(({ type, elements }: Loose) => (type === "actions" ? elements : []));
const buttonOf = (message: Loose, name: string): Loose =>
  buttonsOf(message).find(({ action_id }) => action_id === name);
const stateOf = async (id: string): Promise<unknown> =>
  (await service.send("GET", `/approvals/${id}`, { token: await service.person() })).body.approval.state;

interface Press {
  readonly user?: string;
  readonly reason?: string;
  readonly value?: string;
  readonly ageSeconds?: number;
  readonly secret?: string;
  readonly responseUrl?: string;
}

interface Signed {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A press of a button, as Slack signs it. */
function pressed(message: Loose, name: "approve" | "deny", press: Press = {}): Signed {
  const { user = "U02ABCDEF", reason = null, ageSeconds = 0, secret = SIGNING_SECRET } = press;
  const payload = {
    ...{ type: "block_actions", user: { id: user, username: `name-of-${user}` }, message },
    actions: [{ action_id: name, value: press.value ?? buttonOf(message, name).value }],
    state: { values: { reason: { reason: { type: "plain_text_input", value: reason } } } },
    response_url: press.responseUrl ?? `${slack.origin}/actions/T0/1/x`,
  };
  const body = new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  const seconds = String(Math.floor(Date.now() / 1_000) - ageSeconds);
  const signature = createHmac("sha256", secret).update(`v0:${seconds}:${body}`).digest("hex");
  return { body, headers: { "x-slack-request-timestamp": seconds, "x-slack-signature": `v0=${signature}` } };
}

const deliver = ({ body, headers }: Signed, to = relay): Promise<Response> =>
  fetch(`${to}/slack`, { method: "POST", body, headers });

/** The last block of the answer in Slack. */
async function told(): Promise<{ readonly text: string; readonly body: Loose }> {
  const [answer] = await slack.untilPosted(1);
  return { text: answer?.body.blocks.at(-1).text.text, body: answer?.body };
}

test("the channel is asked with what will run, its risk and who asks; an approval runs the call and replaces the buttons", async () => {
  const { id, message } = await ask("hello");
  const text = JSON.stringify(message);
  for (const shown of [
    "Approve?: post_note",
    "Risk: medium",
    "agent-7",
    `stc approvals show ${id}`,
    `/approvals/${id}/page`,
  ])
    expect(text).toContain(shown);
  expect(text).toContain(JSON.stringify(JSON.stringify({ text: "hello" }, null, 1)).slice(1, -1));
  expect((await deliver(pressed(message, "approve"))).status).toBe(200);
  const { text: outcome, body } = await told();
  expect(outcome).toBe("Approved by name-of-U02ABCDEF.");
  expect(body).toMatchObject({ replace_original: true });
  expect(body.blocks.map(({ type }: Loose) => type)).not.toContain("actions");
  expect(slack.posted[0]?.path).toBe("/actions/T0/1/x");
  const ran = await service.post("hello", { approval: { id } });
  expect([ran.body.status, service.notes]).toEqual(["success", ["hello"]]);
  expect(service.entry(ran.body.traceId)?.approval).toMatchObject({ by: `human:${OPERATORS_ISSUER}|ann` });
});

test("a denial carries its reason to the agent", async () => {
  const { id, message } = await ask("denied");
  await deliver(pressed(message, "deny", { user: "U03GHIJKL", reason: "use <the> wiki" }));
  expect((await told()).text).toBe("Denied by name-of-U03GHIJKL.");
  const denied = await service.post("denied", { approval: { id } });
  expect(denied.body.error).toMatchObject({
    code: "APPROVAL_DENIED",
    message: expect.stringContaining("use <the> wiki"),
  });
});

describe("what decides nothing", () => {
  test.each([
    ["a wrong signature", { secret: "x".repeat(32) }, 401],
    ["an old timestamp", { ageSeconds: 301 }, 401],
    ["a timestamp of the future", { ageSeconds: -301 }, 401],
    ["a value of nobody's", { value: "approve.a.b.c.d" }, 400],
  ] as const)("%s", async (title, press, status) => {
    const { id, message } = await ask(title);
    expect((await deliver(pressed(message, "approve", press))).status).toBe(status);
    expect(await stateOf(id)).toBe("pending");
    expect(slack.posted).toEqual([]);
  });

  test("a signature of another body, and none", async () => {
    const { id, message } = await ask("other body");
    const { headers } = pressed(message, "deny");
    const { body } = pressed(message, "approve");
    expect((await deliver({ body, headers })).status).toBe(401);
    expect((await deliver({ body, headers: {} })).status).toBe(401);
    expect(await stateOf(id)).toBe("pending");
  });

  test("the value of another decision, or of another request", async () => {
    const { id, message } = await ask("swapped");
    const other = await ask("swapped too");
    const value: string = buttonOf(message, "deny").value;
    const values = [value.replace("deny", "approve"), value.replace(id, other.id)];
    for (const forged of values)
      expect((await deliver(pressed(message, "approve", { value: forged }))).status).toBe(400);
    expect([await stateOf(id), await stateOf(other.id)]).toEqual(["pending", "pending"]);
  });

  test("a user who is not in the table: only this user is told", async () => {
    const { id, message } = await ask("stranger");
    await deliver(pressed(message, "approve", { user: "U09STRANGER" }));
    const { text, body } = await told();
    expect(text).toBe("This webhook has no approver with that name.");
    expect(body).toMatchObject({ replace_original: false, response_type: "ephemeral" });
    expect(await stateOf(id)).toBe("pending");
  });

  test("a press that is sent again, to this relay or to one that has just started", async () => {
    const { message } = await ask("replayed");
    const press = pressed(message, "deny");
    expect((await deliver(press)).status).toBe(200);
    await told();
    expect((await deliver(press)).status).toBe(409);
    slack.posted.length = 0;
    const other = await runRelay();
    expect((await deliver(press, other)).status).toBe(200);
    expect((await told()).text).toBe("This message was received before: it counts once.");
  });

  test("a body that is no payload, another path, another method", async () => {
    const sign = (body: string): Signed => {
      const seconds = String(Math.floor(Date.now() / 1_000));
      const signature = createHmac("sha256", SIGNING_SECRET).update(`v0:${seconds}:${body}`).digest("hex");
      return { body, headers: { "x-slack-request-timestamp": seconds, "x-slack-signature": `v0=${signature}` } };
    };
    expect((await deliver(sign("payload=%7B"))).status).toBe(400);
    expect((await deliver(sign("payload=null"))).status).toBe(400);
    expect((await deliver(sign("payload={}"))).status).toBe(200);
    expect((await fetch(`${relay}/stc/x`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${relay}/slack`)).status).toBe(404);
  });
});

test("a request that was decided elsewhere says so, and loses its buttons", async () => {
  const { id, message } = await ask("elsewhere");
  await service.decide(id, "deny", { reason: "no" });
  await deliver(pressed(message, "approve"));
  const { text, body } = await told();
  expect(text).toBe("This was already decided.");
  expect(body).toMatchObject({ replace_original: true });
  expect(await stateOf(id)).toBe("denied");
});

test("an answer goes to Slack only, wherever the press says that it should go", async () => {
  const elsewhere = new Slack();
  const { id, message } = await ask("answer elsewhere");
  await deliver(pressed(message, "deny", { responseUrl: `${elsewhere.origin}/actions/x` }));
  expect(await stateOf(id)).toBe("denied");
  expect([...elsewhere.posted, ...slack.posted]).toEqual([]);
  await elsewhere.close();
});

test("a press on a message without blocks is answered, and the relay goes on", async () => {
  const { id, message } = await ask("no blocks");
  const press = pressed(message, "deny");
  const payload = JSON.parse(new URLSearchParams(press.body).get("payload") ?? "");
  const body = new URLSearchParams({ payload: JSON.stringify({ ...payload, message: { blocks: "none" } }) }).toString();
  const { "x-slack-request-timestamp": seconds = "" } = press.headers;
  const signature = createHmac("sha256", SIGNING_SECRET).update(`v0:${seconds}:${body}`).digest("hex");
  expect((await deliver({ body, headers: { ...press.headers, "x-slack-signature": `v0=${signature}` } })).status).toBe(
    200,
  );
  expect(await stateOf(id)).toBe("denied");
  expect((await fetch(`${relay}/slack`, { method: "POST" })).status).toBe(401);
});

test.each([
  ["signing-secret", ""],
  ["signing-secret", "short"],
  ["decide.key", "whsec_AAAA"],
  ["url", "hooks.slack.com"],
])("the relay does not start with %s: %j", async (name, text) => {
  const files = mkdtempSync(join(service.folder, "files-"));
  cpSync(join(service.folder, "slack"), files, { recursive: true });
  writeFileSync(join(files, name), text);
  const program = join(PROJECT, "docs/examples/slack-relay.ts");
  const environment = { env: { RELAY_FILES: files, RELAY_PORT: "0" }, cwd: service.folder };
  const { code, err } = await run([process.execPath, program], environment);
  expect([code, err.includes(`${name} must hold`)]).toEqual([1, true]);
  if (text !== "") expect(err).not.toContain(`"${text}"`);
});

/** Every text of a message, with the type of the element that has it. */
function textsOf(value: Loose, type = ""): readonly (readonly [type: string, text: string])[] {
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one) => textsOf(one));
  const { type: own = type, text } = value;
  const inner = Object.entries(value).flatMap(([, one]) => textsOf(one, own));
  return typeof text === "string" ? [[own, text], ...inner] : inner;
}

test.each([
  "<!channel> <!here> <@U02ABCDEF> <#C1>",
  "*bold* _it_ ~no~ `code` ```block``` > quote",
  "<https://evil.example|Approve here> https://evil.example mailto:x@y.example :white_check_mark:",
  '"}]},{"type":"section","text":{"type":"mrkdwn","text":"<!channel>"}}',
  "a\nRisk: low\nRequested by: nobody\u202e\u0000",
])("markup in arguments stays text: %j", async (hostile) => {
  const { message } = await ask(hostile, { reason: hostile });
  const { text: fallback, blocks } = message;
  expect(fallback).toBe("Approval request (medium risk)");
  for (const [type, text] of textsOf(blocks)) {
    expect(["plain_text", "text"]).toContain(type);
    expect(text).not.toMatch(/[\u0000\u202e]/);
    // A line of the header is never the agent's.
    if (text.startsWith("Risk:")) expect(text).not.toContain("nobody");
  }
  expect(JSON.stringify(blocks)).not.toContain('mrkdwn"');
  expect(JSON.stringify(blocks)).toContain("The agent says (nobody has checked it)");
});

test("a long value is cut visibly, and cannot be approved where it was cut", async () => {
  const { id, message } = await ask(`${"x".repeat(6_000)} and the rest`);
  const cut = textsOf(message.blocks).filter(([, text]) => text.includes("[CUT HERE: "));
  expect(cut.length).toBeGreaterThan(0);
  for (const [, text] of textsOf(message.blocks)) expect(text.length).toBeLessThanOrEqual(3_000);
  expect(buttonsOf(message).map(({ action_id }) => action_id)).toEqual(["deny"]);
  expect(JSON.stringify(message)).toContain(`To approve, read it in full: stc approvals show ${id}`);
  await deliver(pressed(message, "deny"));
  expect(await stateOf(id)).toBe("denied");
});

describe("notifications", () => {
  const secret = () => readFileSync(join(service.folder, "slack/notify.key"), "utf8");
  const data = {
    id: "1",
    tool: "t",
    state: "pending",
    risk: "low",
    decideBy: "",
    planDigest: "",
    viewDigest: "",
    link: "",
  };
  const body = (more: object = {}) =>
    JSON.stringify({ type: "approval.requested", timestamp: "", data: { ...data, ...more } });
  const notify = (text: string, { id = "msg_1", key = secret(), nowMs = Date.now() } = {}) =>
    fetch(`${relay}/stc`, {
      method: "POST",
      body: text,
      headers: { ...signMessage({ id, body: text }, { keys: readKeys(key, "sign"), nowMs }) },
    });

  test("one that the service did not sign, or not now, posts nothing", async () => {
    const decideKey = readFileSync(join(service.folder, "slack/decide.key"), "utf8");
    expect((await notify(body(), { key: decideKey })).status).toBe(401);
    expect((await notify(body(), { nowMs: Date.now() - 301_000 })).status).toBe(401);
    expect((await fetch(`${relay}/stc`, { method: "POST", body: body() })).status).toBe(401);
    expect(slack.posted).toEqual([]);
  });

  test("the same twice is posted once; one that Slack refuses is sent again", async () => {
    slack.status = 500;
    expect((await notify(body(), { id: "msg_2" })).status).toBe(502);
    slack.status = 200;
    expect((await notify(body(), { id: "msg_2" })).status).toBe(204);
    expect((await notify(body(), { id: "msg_2" })).status).toBe(204);
    expect(slack.posted).toHaveLength(2);
  });

  test("one without a view, one that wants an answer, and one that is decided", async () => {
    await notify(body(), { id: "msg_3" });
    await notify(body({ view: {}, wantsAnswer: true }), { id: "msg_4" });
    await notify(body({ view: {}, state: "denied" }), { id: "msg_5" });
    const buttons = slack.posted.map(({ body: message }) => buttonsOf(message).map(({ action_id }) => action_id));
    expect(buttons).toEqual([["deny"], ["deny"]]);
  });

  test("a rotated key: one of several signatures is enough", async () => {
    const both = `whsec_${Buffer.alloc(32, 7).toString("base64")}\n${secret()}`;
    expect((await notify(body(), { id: "msg_6", key: both })).status).toBe(204);
  });
});
