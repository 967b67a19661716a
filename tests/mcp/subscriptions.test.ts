import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Loose } from "../support/asking-service.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { until } from "../support/until.ts";
import { ENVELOPE, MODERN } from "./mcp-world.ts";

let service: ReloadService;
beforeAll(async () => {
  service = await new ReloadService().start();
});
afterAll(() => service.end());

async function post(params: Loose, token?: string): Promise<Response> {
  return fetch(`${service.running.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token ?? (await service.agent())}`,
      "content-type": "application/json",
      ...{ "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen" },
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 5,
      method: "subscriptions/listen",
      params: { ...params, _meta: ENVELOPE },
    }),
  });
}

const LEGACY = "2025-11-25";

interface Followed {
  readonly token?: string;
  readonly lastId?: string;
  readonly version?: string;
  readonly signal?: AbortSignal;
}

/** Opens the stream of a client of an earlier version. */
async function follow({ token, lastId, version = LEGACY, signal }: Followed = {}, of = service): Promise<Response> {
  return fetch(`${of.running.url}/mcp`, {
    headers: {
      authorization: `Bearer ${token ?? (await of.agent())}`,
      accept: "text/event-stream",
      "mcp-protocol-version": version,
      ...(lastId !== undefined && { "last-event-id": lastId }),
    },
    ...(signal && { signal }),
  });
}

/** Reads a stream until its text matches, and closes it. */
async function readUntil(response: Response, pattern: RegExp): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (pattern.test(text)) return text;
  }
  throw new Error(`the stream ended: ${text}`);
}

const OPENED = /id: (\d{1,20})\ndata:\n\n/;

async function listIdOf(response: Response): Promise<string> {
  return OPENED.exec(await readUntil(response, OPENED))?.[1] ?? "";
}

function messagesIn(text: string): readonly Loose[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

test("a client that listens is notified when a reload has changed its tools, and the call list follows", async () => {
  const notified: string[] = [];
  const client = new Client(
    { name: "listener", version: "1" },
    {
      versionNegotiation: { mode: { pin: MODERN } },
      listChanged: { tools: { onChanged: () => notified.push("changed") } },
    },
  );
  const headers = { authorization: `Bearer ${await service.agent()}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${service.running.url}/mcp`), { requestInit: { headers } }),
  );
  await until("the journal line", () => service.journal("tools.followed")[0]);
  service.write("tools/bye.ts", manifest({ name: "bye" }));
  expect((await service.reload()).http).toBe(200);
  await until("the notification", () => notified[0]);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(["bye", "hello"]);
  await client.close();
});

test("a client that listens is notified when a role of its caller has ended, once its token was verified again", async () => {
  const roles = { greeter: { tools: ["hello"] } };
  const bound = (group: string) => ({ roles, bindings: [{ role: "greeter", group }] });
  const other = new ReloadService();
  other.configure(bound("greeters"));
  await other.start();
  const claims = { groups: ["greeters"] };
  const token = await other.issuers.token({ kind: "good", sub: "agent-9", permissions: [], claims });
  const stream = await follow({ token }, other);
  const notified = readUntil(stream, /list_changed"\}\n\n/);
  await until("the journal line", () => other.journal("tools.followed")[0]);
  other.configure(bound("others"));
  expect((await other.reload()).http).toBe(200);
  expect(await other.says({}, token)).toBe("PERMISSION_DENIED");
  expect(await notified).toContain("list_changed");
  await other.end();
});

test("a reload that changes nothing for the caller, and a filter for nothing, notify nobody", async () => {
  const nothing = await post({ notifications: {} });
  const [acknowledged, end] = messagesIn(await nothing.text());
  expect(acknowledged).toMatchObject({
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: {}, _meta: { "io.modelcontextprotocol/subscriptionId": 5 } },
  });
  expect(end).toMatchObject({
    id: 5,
    result: { resultType: "complete", _meta: { "io.modelcontextprotocol/subscriptionId": 5 } },
  });
});

test("a filter that is no object is an invalid parameter", async () => {
  const answer = (await (await post({})).json()) as Loose;
  expect(answer).toMatchObject({ id: 5, error: { code: -32_602 } });
});

test("one caller has a limited number of streams", async () => {
  const token = await service.agent();
  const opened = await Promise.all(
    Array.from({ length: 9 }, () => post({ notifications: { toolsListChanged: true } }, token)),
  );
  const refused = opened.filter(({ status }) => status === 429);
  expect(refused.length).toBe(1);
  expect(await refused[0]?.json()).toMatchObject({ error: { data: { code: "RATE_LIMITED" } } });
  for (const stream of opened) if (stream.status === 200) await stream.body?.cancel();
});

test("a client that disconnects before its stream begins takes no stream from others", async () => {
  const token = await service.agent();
  const { port, hostname, host } = new URL(service.running.url);
  const params = { notifications: { toolsListChanged: true }, _meta: ENVELOPE };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 5, method: "subscriptions/listen", params });
  const head = [
    "POST /mcp HTTP/1.1",
    `Host: ${host}`,
    `Authorization: Bearer ${token}`,
    "Content-Type: application/json",
    `MCP-Protocol-Version: ${MODERN}`,
    "Mcp-Method: subscriptions/listen",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  const before = service.journal("tools.followed").length;
  for (let client = 0; client < 12; client += 1) {
    const socket = connect(Number(port), hostname);
    socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
    await pause(client % 6);
    socket.destroy();
  }
  await until("the requests", () => (service.journal("tools.followed").length >= before + 8 ? true : undefined));
  const stream = await until("a free stream", async () => {
    const next = await post({ notifications: { toolsListChanged: true } }, token);
    return next.status === 200 ? next : undefined;
  });
  await stream.body?.cancel();
});

describe("the stream of clients before 2026-07-28", () => {
  test.each(["2025-11-25", "2025-06-18"])(
    "notifies the official client of %s when a reload has changed its tools",
    async (version) => {
      const notified: string[] = [];
      const client = new Client(
        { name: "old-listener", version: "1" },
        {
          versionNegotiation: { mode: "legacy" },
          supportedProtocolVersions: [version],
          listChanged: { tools: { onChanged: () => notified.push("changed"), autoRefresh: false } },
        },
      );
      const headers = { authorization: `Bearer ${await service.agent()}` };
      await client.connect(
        new StreamableHTTPClientTransport(new URL(`${service.running.url}/mcp`), { requestInit: { headers } }),
      );
      const followed = () =>
        service
          .journal("tools.followed")
          .find(
            ({ protocol }) =>
              (protocol as Loose).version === version && (protocol as Loose).client.name === "old-listener",
          );
      await until("the journal line", followed);
      service.write(
        `tools/since_${version.replaceAll("-", "_")}.ts`,
        manifest({ name: `since_${version.replaceAll("-", "_")}` }),
      );
      expect((await service.reload()).http).toBe(200);
      await until("the notification", () => notified[0]);
      await client.close();
    },
  );

  test("says when to connect again, and repeats no change that the client knows", async () => {
    const opened = await readUntil(await follow(), OPENED);
    expect(opened).toContain("retry: 5000\n");
    const id = OPENED.exec(opened)?.[1] ?? "";
    const leaving = new AbortController();
    const again = await follow({ lastId: id, signal: leaving.signal });
    expect(await readUntil(again, OPENED)).not.toContain("list_changed");
    // A reload that adds a tool for others changes nothing for this caller.
    service.write("tools/hidden.ts", manifest({ name: "hidden", permission: "others:only" }));
    expect((await service.reload()).http).toBe(200);
    expect(await listIdOf(await follow())).toBe(id);
  });

  test("notifies a client that connects again after its list has changed, once, with the id of the new list", async () => {
    const before = await listIdOf(await follow());
    service.write("tools/later.ts", manifest({ name: "later" }));
    expect((await service.reload()).http).toBe(200);
    const text = await readUntil(await follow({ lastId: before }), /list_changed"\}\n\n/);
    const [message, ...more] = messagesIn(text);
    expect([message, more]).toEqual([{ jsonrpc: "2.0", method: "notifications/tools/list_changed" }, []]);
    const after = await listIdOf(await follow());
    expect(after).not.toBe(before);
    expect(text).toEndWith(`id: ${after}\nevent: message\ndata: ${JSON.stringify(message)}\n\n`);
  });

  test("is 405 for the ninth of one caller, so that its client goes on without, and shares this limit with subscriptions", async () => {
    const token = await service.agent(["hello:say", "others:only"]);
    const subscribed = await post({ notifications: { toolsListChanged: true } }, token);
    const opened: Response[] = [subscribed];
    for (let stream = 1; stream < 8; stream += 1) opened.push(await follow({ token }));
    expect(opened.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
    const refused = await follow({ token });
    expect([refused.status, refused.headers.get("allow")]).toEqual([405, "POST"]);
    await Promise.all(opened.map(({ body }) => body?.cancel()));
    const free = await until("a free stream", async () => {
      const next = await follow({ token });
      return next.status === 200 ? next : undefined;
    });
    await free.body?.cancel();
  });

  test("ends with the token", async () => {
    const token = await service.issuers.token({
      ...({ kind: "good", sub: "agent-7" } as const),
      ...{ permissions: ["hello:say"], lifetime: "3 seconds" },
    });
    const stream = await follow({ token });
    expect(stream.status).toBe(200);
    expect(await stream.text()).toMatch(OPENED);
  });

  test("ends at a drain, and a client that connects again learns whether the new process has another list", async () => {
    const own = await new ReloadService().start();
    const stream = await follow({}, own);
    const text = stream.text();
    const drained = own.running.drain();
    const ended = await text;
    await drained;
    const id = OPENED.exec(ended)?.[1] ?? "";
    expect(messagesIn(ended.replace(OPENED, ""))).toEqual([]);
    await own.start();
    const same = await follow({ lastId: id }, own);
    expect(await listIdOf(same)).toBe(id);
    await own.running.drain();
    own.write("tools/bye.ts", manifest({ name: "bye" }));
    await own.start();
    expect(await readUntil(await follow({ lastId: id }, own), /list_changed/)).toContain("list_changed");
    await own.end();
  });
});

test("a drain ends the streams with their result", async () => {
  const closing = await new ReloadService().start();
  const before = service;
  service = closing;
  const stream = await post({ notifications: { toolsListChanged: true } }, await closing.agent());
  service = before;
  const text = stream.text();
  await closing.end();
  expect(messagesIn(await text).at(-1)).toMatchObject({ id: 5, result: { resultType: "complete" } });
});
