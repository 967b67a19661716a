import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Loose } from "../../support/asking-service.ts";
import { assemble, readConfig } from "../../support/build.ts";
import { HttpServer } from "./http-server.ts";
import { HostileWorld, hostileTool, textOf } from "./world.ts";

/** Values that no rule for secrets would find in a text. */
const TOKEN = "orchid/lamp+river&Ox";
const PAIR = "ann:orchid/lamp+river";
const BASIC = Buffer.from(PAIR).toString("base64");

const code = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
const escaped = (text: string): string => [...text].map(code).join("");

describe("a server over HTTP that shows the credentials of its requests", () => {
  const world = new HostileWorld();
  const server = new HttpServer();
  const usual = { call: server.call, list: server.list };
  const entry = { url: server.url, plaintext: true, addresses: ["loopback"] };
  const tools = [hostileTool("echo", { filtered: true }), hostileTool("echo", { filtered: true, change: true })];
  const structured = hostileTool("echo", { result: "structured" });

  beforeAll(() => {
    writeFileSync(join(world.folder, "token"), TOKEN);
    writeFileSync(join(world.folder, "pair"), PAIR);
  });
  afterEach(async () => {
    Object.assign(server, usual);
    await world.stop();
  });
  afterAll(async () => {
    await world.end();
    await server.close();
  });

  /** Answers calls with the JSON of a result, as it is written. */
  const answerWith = (result: string): void => {
    server.call = (id) =>
      new Response(`{"jsonrpc":"2.0","id":${id},"result":${result}}`, {
        headers: { "content-type": "application/json" },
      });
  };

  test.each<[string, string, string]>([
    ["as it is", TOKEN, "[REDACTED]"],
    ["as its header", `authorization: Bearer ${TOKEN}`, "authorization: Bearer [REDACTED]"],
    ["with escapes", escaped(TOKEN), "[REDACTED]"],
    ["with one escape", TOKEN.replace("/", "\\/"), "[REDACTED]"],
    ["with a code for one character", TOKEN.replace("+", "\\u002B"), "[REDACTED]"],
    ["in JSON that is a text", `{\\"token\\":\\"${TOKEN.replace("&", "\\\\u0026")}\\"}`, '{"token":"[REDACTED]"}'],
    ["more than once", `${TOKEN} and ${TOKEN}`, "[REDACTED] and [REDACTED]"],
  ])("in a text, %s", async (_how, shown, expected) => {
    await world.startWith(tools, { ...entry, auth: { bearerFile: "token" } });
    answerWith(`{"content":[{"type":"text","text":"${shown}"}]}`);
    expect(textOf(await world.call("echo"))).toBe(expected);
  });

  test("in structured content: values, lists and keys", async () => {
    await world.startWith([structured], { ...entry, auth: { bearerFile: "token", header: "x-api-key" } });
    const values = `["${TOKEN}","${escaped(TOKEN)}",{"a":"x ${TOKEN}"}]`;
    answerWith(`{"content":[],"structuredContent":{"name":{"${TOKEN}":1,"list":${values}}}}`);
    const { result } = (await world.call("echo")).body;
    expect(result).toEqual({ name: { "[REDACTED]": 1, list: ["[REDACTED]", "[REDACTED]", { a: "x [REDACTED]" }] } });
  });

  test("in an error of the tool and an error of the protocol", async () => {
    await world.startWith(tools, { ...entry, auth: { bearerFile: "token" } });
    for (const shown of [`no: ${TOKEN}`, `no: ${escaped(TOKEN)}`]) {
      answerWith(`{"isError":true,"content":[{"type":"text","text":"${shown}"}]}`);
      const failed = await world.call("change_echo");
      expect(failed.body.error).toMatchObject({ code: "TARGET_FAILED", details: { message: "no: [REDACTED]" } });
      server.call = (id) =>
        new Response(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32602,"message":"${shown}"}}`, {
          ...{ status: 400, headers: { "content-type": "application/json" } },
        });
      const refused = await world.call("echo");
      expect(refused.body.error).toMatchObject({ code: "TARGET_REFUSED", details: { message: "no: [REDACTED]" } });
    }
    expect(JSON.stringify([world.entries(), world.journal()])).not.toMatch(/orchid|u006f/);
  });

  test("in a stream of events, and credentials that were replaced meanwhile", async () => {
    await world.startWith(tools, { ...entry, auth: { bearerFile: "token" } });
    await world.call("echo");
    writeFileSync(join(world.folder, "token"), "maple-window-9");
    server.call = (id) => {
      const content = [{ type: "text", text: `maple-window-9, before: ${TOKEN}` }];
      return server.events({ jsonrpc: "2.0", id, result: { content } });
    };
    expect(textOf(await world.call("echo"))).toBe("[REDACTED], before: [REDACTED]");
    writeFileSync(join(world.folder, "token"), TOKEN);
  });

  test("basic authentication, as its Base64, its pair and its password", async () => {
    await world.startWith(tools, { ...entry, auth: { basicFile: "pair" } });
    for (const shown of [BASIC, BASIC.replace(/=+$/, ""), PAIR, escaped(BASIC), BASIC.replace("b", "\\u0062")]) {
      answerWith(`{"content":[{"type":"text","text":"got ${shown}"}]}`);
      expect(textOf(await world.call("echo"))).toMatch(/^got \[REDACTED\]=*$/);
    }
    answerWith(`{"content":[{"type":"text","text":"ann has orchid/lamp+river"}]}`);
    expect(textOf(await world.call("echo"))).toBe("ann has [REDACTED]");
  });

  test.each(["clientCredentials", "tokenExchange"])("the token of %s", async (kind) => {
    const issued = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0 },
      fetch: () => Response.json({ access_token: "maple.window.77", token_type: "Bearer", expires_in: 60 }),
    });
    const tokenUrl = `http://127.0.0.1:${issued.port}/token`;
    const auth = { [kind]: { tokenUrl, clientId: "stc", clientSecretFile: "token" } };
    await world.startWith(tools, { ...entry, auth });
    server.call = (id) => {
      const { authorization = "" } = server.of("tools/call").at(-1)?.headers ?? {};
      return server.json({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: `got ${authorization}` }] } });
    };
    expect(textOf(await world.call("echo"))).toBe("got Bearer [REDACTED]");
    await issued.stop(true);
  });

  test("the caller assertion", async () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    writeFileSync(join(world.folder, "assertion.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
    const assertion = { issuer: "https://stc.test", keyFile: "assertion.pem" };
    await world.startWith(tools, { ...entry, assertion: true, auth: { bearerFile: "token" } }, { assertion });
    server.call = (id) => {
      const { "x-caller-assertion": sent = "", authorization } = server.of("tools/call").at(-1)?.headers ?? {};
      const text = `got ${escaped(sent)} ${authorization}`;
      return server.json({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } });
    };
    expect(textOf(await world.call("echo"))).toBe("got [REDACTED] Bearer [REDACTED]");
  });

  test("in the definitions: the pinned definition does not depend on the token", async () => {
    const list = (id: number) =>
      server.json({
        ...{ jsonrpc: "2.0", id },
        result: { tools: [{ name: "echo", description: `For ${server.seen.at(-1)?.headers["authorization"]}` }] },
      });
    server.list = list;
    await world.startWith(tools, { ...entry, auth: { bearerFile: "token" } });
    expect((await world.call("echo")).http).toBe(200);
    writeFileSync(join(world.folder, "token"), "maple-window-9");
    const token = await world.agent({ sub: "agent-with-a-new-session" });
    expect((await world.call("echo", "x", { token })).http).toBe(200);
    expect(JSON.stringify([world.entries(), world.journal()])).not.toMatch(/orchid|maple/);
    writeFileSync(join(world.folder, "token"), TOKEN);
  });

  test("what only resembles the credentials stays", async () => {
    await world.startWith(tools, { ...entry, auth: { bearerFile: "token" } });
    const text = `orchid/lamp+River&Ox, orchid\\\\/lamp, Bearer, \\u006frchid lamp`;
    answerWith(`{"content":[{"type":"text","text":"${text}"}]}`);
    expect(textOf(await world.call("echo"))).toBe("orchid/lamp+River&Ox, orchid\\/lamp, Bearer, orchid lamp");
  });
});

describe("the approver of a call sees which secrets the server gets, and none of their values", () => {
  const world = new HostileWorld();
  const server = new HttpServer();
  const gated = hostileTool("echo", { change: true, gated: true });
  /** `words`: another call each time, because the request of an identical call is the same. */
  const viewOf = async (words: string): Promise<Loose> => {
    const { id } = (await world.call("change_echo", words)).body.approval;
    const { body } = await world.send("GET", `/approvals/${id}`, { token: await world.person() });
    expect(JSON.stringify(body)).not.toContain("orchid");
    return body.approval.view;
  };
  beforeAll(() => {
    writeFileSync(join(world.folder, "token"), TOKEN);
    writeFileSync(join(world.folder, "pair"), PAIR);
  });
  afterEach(() => world.stop());
  afterAll(async () => {
    await world.end();
    await server.close();
  });

  test.each<[string, object, readonly string[]]>([
    ["none", {}, []],
    ["a bearer token", { auth: { bearerFile: "token" } }, ["authorization (bearerFile)"]],
    ["an API key", { auth: { bearerFile: "token", header: "x-api-key" } }, ["x-api-key (bearerFile)"]],
    ["basic authentication", { auth: { basicFile: "pair" } }, ["authorization (basicFile)"]],
  ])("%s", async (what, auth, headers) => {
    await world.startWith([gated], { url: server.url, plaintext: true, addresses: ["loopback"], ...auth });
    const { notes, confinement } = await viewOf(what);
    expect(notes).toEqual(headers.map((header) => `the service adds these headers: ${header}`));
    expect(confinement).toBe("not applicable");
  });

  test("variables of a program, and whether it is confined", async () => {
    const secretEnv = [{ name: "TOKEN", valueFile: "token" }];
    await world.startWith([gated], world.serverEntry({ secretEnv }), { confinement: "off" });
    const { notes, confinement } = await viewOf("program");
    expect([notes, confinement]).toEqual([["the program has secrets in these variables: TOKEN"], "none"]);
  });
});

test("the secrets of a program's environment are removed from its answers and from what is logged of it", async () => {
  const world = new HostileWorld();
  try {
    writeFileSync(join(world.folder, "token"), `${TOKEN}\n`);
    world.tell("says", `starting with ${TOKEN}`);
    const mcp = world.serverEntry({ secretEnv: [{ name: "TOKEN", valueFile: "token" }] });
    const tools = [hostileTool("shows_token"), hostileTool("shows_token", { change: true, result: "structured" })];
    await world.startWith(tools, mcp);
    expect(textOf(await world.call("shows_token"))).toBe("TOKEN=[REDACTED]");
    const { result } = (await world.call("change_shows_token")).body;
    expect(result).toEqual({ name: { "[REDACTED]": ["[REDACTED]", "[REDACTED]"] } });
    const logged: string[] = [];
    const written = {
      ...{ tools, systems: { hostile: { mcp } }, commands: { launchers: 0 }, audit: { dir: "logged" } },
      ...{ jwt: { issuers: world.issuers.profiles() } },
    };
    const config = readConfig(written, { folder: world.folder, environment: { PATH: "" }, origin: "test" });
    const parts = await assemble(config, { onUpstream: ({ reason }) => void logged.push(reason) });
    await parts.close();
    expect(logged).toContain("stderr: starting with [REDACTED]");
    expect(JSON.stringify([logged, world.entries(), world.journal()])).not.toContain("orchid");
  } finally {
    await world.end();
  }
});
