import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from "bun:test";
import { once } from "node:events";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { z } from "zod";
import { DEVELOPMENT_DIRECTORY } from "../../src/cli/development/environment.ts";
import { developmentKeys } from "../../src/cli/development/keys.ts";
import { defineTool } from "../../src/index.ts";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import { ENVELOPE, McpWorld, MODERN, TOOLS } from "../mcp/mcp-world.ts";
import type { Loose } from "../support/asking-service.ts";
import { blocksOf } from "../support/documented.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { environmentOf, runStc, STC } from "../support/stc.ts";
import { StdioClient } from "../support/stdio-client.ts";
import { Authority } from "../support/tls-files.ts";
import { until } from "../support/until.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-mcp-")));
const tokenFile = join(folder, "token");
const FIND = { order: "ord_1" };

/** Number of runs of the tool `count`. */
let counted = 0;
const COUNT = defineTool({
  name: "count",
  description: "Counts its calls",
  classification: "read",
  permissions: { required: ["orders:read"] },
  input: z.strictObject({}),
  output: z.object({ counted: z.int() }),
  outputPolicy: { counted: "allow" },
  handler: () => {
    counted += 1;
    return { counted };
  },
});

let world: McpWorld;
const started: StdioClient[] = [];

beforeAll(async () => {
  world = await new McpWorld().start({ tools: [...TOOLS, COUNT] });
  writeFileSync(tokenFile, await world.caller());
});
afterEach(async () => {
  for (const client of started.splice(0)) {
    client.child.kill("SIGKILL");
    await client.child.exited;
  }
});
afterAll(async () => {
  await world.end();
  rmSync(folder, { recursive: true, force: true });
});

/** `stc mcp` with a token in a file. */
function bridge(url = world.url, more: readonly string[] = []): StdioClient {
  const client = new StdioClient(["--url", url, "--token-file", tokenFile, ...more]);
  started.push(client);
  return client;
}

describe.each([MODERN, "2025-11-25", "2025-06-18"])(
  "the official client over stdio, protocol version %s",
  (version) => {
    test("lists and calls, and the audit names the client and the version", async () => {
      const client = new Client(
        { name: "desktop", version: "4.5.6" },
        version === MODERN
          ? { versionNegotiation: { mode: { pin: MODERN } } }
          : { versionNegotiation: { mode: "legacy" }, supportedProtocolVersions: [version] },
      );
      const [command, ...args] = [...STC, "mcp", "--url", world.url, "--token-file", tokenFile];
      await client.connect(new StdioClientTransport({ command, args, env: environmentOf({}), stderr: "ignore" }));
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toContain("orders_find");
      const found = await client.callTool({ name: "orders_find", arguments: FIND });
      expect(found.structuredContent).toEqual({ order: "ord_1", email: "a**@c********.example", total: 12.5 });
      expect(world.last()?.protocol).toEqual({ name: "mcp", version, client: { name: "desktop", version: "4.5.6" } });
      const refused = await client.callTool({ name: "orders_find", arguments: { order: "--help" } });
      expect(refused.isError).toBe(true);
      await client.close();
    });
  },
);

describe("the token", () => {
  test("is read again for each request", async () => {
    const client = bridge();
    writeFileSync(tokenFile, await world.caller({ sub: "first" }));
    await client.call(1, "orders_find", FIND);
    expect(world.last()?.caller?.sub).toBe("first");
    writeFileSync(tokenFile, await world.caller({ kind: "expired" }));
    expect(await client.call(2, "orders_find", FIND)).toMatchObject({
      id: 2,
      error: { code: -32_000, message: expect.stringMatching(/^UNAUTHENTICATED: /) },
    });
    writeFileSync(tokenFile, await world.caller({ sub: "second" }));
    expect((await client.call(3, "orders_find", FIND)).result.isError).toBeUndefined();
    expect(world.last()?.caller?.sub).toBe("second");
  });

  test("does not come from standard input, which carries the protocol", async () => {
    const { code, out } = await runStc(["mcp", "--token-file", "-"], { stdin: await world.caller() });
    expect([code, out]).toEqual([64, ""]);
  });

  test.each(["http://198.51.100.7:8787", "http://stc.example"])("is not sent unprotected to %s", async (url) => {
    const { code, out, err } = await runStc(["mcp", "--url", url, "--token-file", tokenFile]);
    expect([code, out]).toEqual([64, ""]);
    expect(err).toContain("sends the token unprotected");
  });

  test("does not follow a redirect", async () => {
    const seen: string[] = [];
    const other = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        seen.push(new URL(request.url).pathname);
        return Response.redirect("/elsewhere", 307);
      },
    });
    const answer = await bridge(`http://127.0.0.1:${other.port}`).call(1, "count", {});
    await other.stop(true);
    expect(answer.result.isError).toBe(true);
    expect(seen).toEqual(["/mcp"]);
  });

  test("on the development stand is signed when it is needed, also after the first one has expired", async () => {
    const { agents } = await developmentKeys(DEVELOPMENT_DIRECTORY);
    const stand = await new McpWorld().start({
      tools: [...TOOLS, defineTool({ ...COUNT_LIKE, permissions: { required: ["customer-data:read"] } })],
      jwt: { issuers: [{ ...agents, algorithms: ["ES256"] }] },
      approvals: undefined,
    });
    const clock = join(folder, "clock");
    const preload = join(folder, "clock.ts");
    writeFileSync(clock, "0");
    writeFileSync(
      preload,
      `import { readFileSync } from "node:fs"; const now = Date.now; Date.now = () => now() + Number(readFileSync(${JSON.stringify(clock)}, "utf8"));`,
    );
    const [bun = "", ...rest] = STC;
    const client = new StdioClient(["--dev", "--url", stand.url], {
      command: [bun, "--preload", preload, ...rest, "mcp"],
    });
    started.push(client);
    try {
      expect((await client.call(1, "read_one", {})).result.structuredContent).toEqual({ one: 1 });
      const twoHours = 7_200_000;
      setSystemTime(new Date(Date.now() + twoHours));
      writeFileSync(clock, String(twoHours));
      expect((await client.call(2, "read_one", {})).result.structuredContent).toEqual({ one: 1 });
      expect(stand.entries().map(({ decision }) => decision)).toEqual(["ALLOWED", "ALLOWED"]);
    } finally {
      setSystemTime();
      await stand.end();
    }
  });
});

const COUNT_LIKE = {
  name: "read_one",
  description: "Reads one",
  classification: "read",
  input: z.strictObject({}),
  output: z.object({ one: z.int() }),
  outputPolicy: { one: "allow" },
  handler: () => ({ one: 1 }),
} as const;

describe("standard output", () => {
  test("carries nothing but messages, whatever arrives", async () => {
    const client = bridge();
    const call = { jsonrpc: "2.0", id: "c", method: "tools/call", params: { name: "orders_find", arguments: FIND } };
    for (const line of ["", "   ", "nonsense", '{"id":1', "[]", JSON.stringify([call, call]), "7", "null", '"text"']) {
      client.send(line);
    }
    client.send({ jsonrpc: "2.0", id: null, method: "ping" });
    client.send({ jsonrpc: "2.0", id: { a: 1 }, method: "ping" });
    client.send(`{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"${"y".repeat(5_000_000)}"}}`);
    client.send("\u0000\u0001");
    expect(await client.request("last", "ping")).toEqual({ jsonrpc: "2.0", id: "last", result: {} });
    const others = client.messages().filter(({ id }) => id !== "last");
    expect(others.map(({ id, error }) => [id, error.code])).toEqual(
      [-32_700, -32_700, -32_600, -32_600, -32_600, -32_600, -32_600, -32_600, -32_600, -32_700, -32_700].map(
        (code) => [null, code],
      ),
    );
    expect(await client.end()).toBe(0);
  });

  test("keeps each message on one line and unchanged", async () => {
    const client = bridge();
    const id = "separators \u2028 \u0085 é \u{1f600}";
    expect((await client.request(id, "ping")).id).toBe(id);
    expect(client.lines).toHaveLength(1);
  });

  test("carries the service's refusal of a request that is too large, with the request's id", async () => {
    const answer = await bridge().call("big", "orders_find", { order: "x".repeat(1_100_000) });
    expect(answer).toMatchObject({ id: "big", error: { message: expect.stringMatching(/^PAYLOAD_TOO_LARGE: /) } });
  });

  test("closed by its reader ends the process", async () => {
    const client = new StdioClient(["--url", world.url, "--token-file", tokenFile], {
      command: ["sh", "-c", '"$@" | head -n 1', "sh", ...STC, "mcp"],
    });
    started.push(client);
    await client.request(1, "ping");
    client.send({ jsonrpc: "2.0", id: 2, method: "ping" });
    expect(await client.child.exited).toBe(0);
  });
});

const CLIENT_INFO = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "hand", version: "1" } };
const REFUND = { order: "ord_1", cents: 5 };

async function openApproval(target = world): Promise<string> {
  return until("an approval request", async () => {
    const { body } = await target.send("GET", "/approvals", { token: await target.person() });
    return body.approvals.find(({ state }: Loose) => state === "pending")?.id;
  });
}

describe("a call that waits for a person", () => {
  test("reports progress, then its result", async () => {
    const client = bridge();
    await client.request(0, "initialize", CLIENT_INFO);
    const params = { name: "orders_refund", arguments: REFUND, _meta: { progressToken: "p" } };
    const answer = client.request(1, "tools/call", params);
    const id = await openApproval();
    const progress = await until("progress", () => client.messages().find(({ method }) => method !== undefined));
    expect(progress).toMatchObject({ method: "notifications/progress", params: { progressToken: "p" } });
    await world.decide(id, "approve");
    expect((await answer).result.structuredContent).toEqual({ refunded: 5 });
  });

  test("is cancelled by the client: it gets no answer, and an approval runs nothing", async () => {
    const client = bridge();
    const arguments_ = { order: "ord_2", cents: 6 };
    const params = { name: "orders_refund", arguments: arguments_, _meta: { ...ENVELOPE, progressToken: 1 } };
    client.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const id = await openApproval();
    client.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
    // The call's line is written when the service sees that its client has disconnected.
    await until("the end of the call", () => world.entries().find(({ approval }) => approval?.id === id));
    await world.decide(id, "approve");
    expect(await client.request(2, "ping")).toEqual({ jsonrpc: "2.0", id: 2, result: {} });
    expect(client.messages().filter((each) => each.id === 1)).toEqual([]);
    expect(world.entries().filter(({ approval, decision }) => approval?.id === id && decision === "ALLOWED")).toEqual(
      [],
    );
  });
});

describe("a client of 2026-07-28 that can do more than wait", () => {
  const approvals = { store: "sqlite://./approvals.sqlite", pageUrl: "https://people.example/{id}" };
  let paged: McpWorld;
  beforeAll(async () => {
    paged = await new McpWorld({ issuers: world.issuers }).start({ approvals });
    writeFileSync(tokenFile, await paged.caller());
  });
  afterAll(() => paged.end());

  test("gets a task, polls it across a restart of the service, and gets the result after the approval", async () => {
    const tasks = { extensions: { [TASKS_EXTENSION]: {} } };
    const _meta = { ...ENVELOPE, "io.modelcontextprotocol/clientCapabilities": tasks };
    const client = bridge(paged.url);
    const created = await client.request(1, "tools/call", { name: "orders_refund", arguments: REFUND, _meta });
    const { taskId } = created.result;
    expect(created.result).toMatchObject({ resultType: "task", status: "working" });
    expect((await client.request(2, "tasks/get", { taskId, _meta })).result.status).toBe("working");
    const { port } = new URL(paged.url);
    await paged.decide(created.result._meta["safe-tool-call/approval"].id, "approve");
    await paged.stop();
    const polled = client.request(3, "tasks/get", { taskId, _meta });
    await paged.start({ server: { port: Number(port) }, approvals });
    expect((await polled).result).toMatchObject({
      status: "completed",
      result: { structuredContent: { refunded: REFUND.cents } },
    });
    const foreign = await client.request(4, "tasks/cancel", { taskId: "A".repeat(32), _meta });
    expect(foreign.error).toMatchObject({ code: -32_602 });
    expect(paged.entries().map(({ decision }) => decision)).toEqual(["PENDING", "ALLOWED"]);
  });

  test("opens the page of the request, and its call runs after the approval", async () => {
    const client = new Client(
      { name: "desktop", version: "1" },
      { capabilities: { elicitation: { url: {} } }, versionNegotiation: { mode: { pin: MODERN } } },
    );
    const shown: string[] = [];
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      const { url = "" } = params as { readonly url?: string };
      shown.push(url);
      await paged.decide(new URL(url).pathname.slice(1), "approve");
      return { action: "accept" };
    });
    const [command, ...args] = [...STC, "mcp", "--url", paged.url, "--token-file", tokenFile];
    await client.connect(new StdioClientTransport({ command, args, env: environmentOf({}), stderr: "ignore" }));
    const { structuredContent } = await client.callTool({
      name: "orders_refund",
      arguments: { ...REFUND, cents: 9 },
    });
    expect(structuredContent).toEqual({ refunded: 9 });
    expect(shown).toEqual([`https://people.example/${paged.last()?.approval?.id}`]);
    await client.close();
  });
});

/** A TCP relay to the service that can stop relaying answers. */
class Relay {
  mode: "open" | "cut" | "silent" = "open";
  requests = 0;
  readonly #server: Bun.TCPSocketListener<{ up?: Bun.Socket }>;

  constructor(target: string) {
    const { port } = new URL(target);
    this.#server = Bun.listen<{ up?: Bun.Socket }>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open: (down) => {
          this.requests += 1;
          down.data = {};
        },
        data: async (down, bytes) => {
          const copy = Buffer.from(bytes);
          down.data.up ??= await this.#connect(Number(port), down);
          down.data.up.write(copy);
        },
        close: (down) => void down.data.up?.end(),
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  close(): void {
    this.#server.stop(true);
  }

  #connect(port: number, down: Bun.Socket<{ up?: Bun.Socket }>): Promise<Bun.Socket> {
    return Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        data: (_, bytes) => {
          if (this.mode === "open") down.write(bytes);
          if (this.mode === "cut") down.terminate();
        },
        close: () => void (this.mode === "open" && down.end()),
      },
    });
  }
}

describe("a broken connection", () => {
  let relay: Relay;
  beforeAll(() => {
    relay = new Relay(world.url);
  });
  afterAll(() => relay.close());

  test("leaves the outcome of a call unknown: the call is not repeated, and the next one works", async () => {
    const client = bridge(relay.url);
    const before = counted;
    relay.mode = "cut";
    const cut = await client.call(1, "count", {});
    expect(cut.result.isError).toBe(true);
    expect(cut.result.content[0].text).toMatch(/^OUTCOME_UNKNOWN: .*may have taken effect\. Check whether it did/);
    expect(counted).toBe(before + 1);
    relay.mode = "open";
    expect((await client.call(2, "count", {})).result.structuredContent).toEqual({ counted: before + 2 });
  });

  test("is an error of the protocol for any other request", async () => {
    const client = bridge(relay.url);
    relay.mode = "cut";
    expect(await client.request(1, "tools/list")).toMatchObject({ id: 1, error: { code: -32_000 } });
    relay.mode = "open";
  });

  test("marks the result as complete for clients of 2026-07-28", async () => {
    const client = bridge(relay.url);
    relay.mode = "cut";
    const { result } = await client.request(1, "tools/call", { name: "count", arguments: {}, _meta: ENVELOPE });
    expect(result).toMatchObject({ isError: true, resultType: "complete" });
    relay.mode = "open";
  });

  test("does not let requests pile up: the 65th is refused at once", async () => {
    const client = bridge(relay.url);
    relay.mode = "silent";
    for (let id = 1; id <= 64; id += 1) client.send({ jsonrpc: "2.0", id, method: "ping" });
    expect(await client.request(65, "ping")).toMatchObject({
      error: { message: expect.stringContaining("OVERLOADED") },
    });
    for (let id = 1; id <= 64; id += 1) {
      client.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
    }
    relay.mode = "open";
    expect((await client.request(66, "ping")).result).toEqual({});
  });
});

test("a restart of the service is waited for: a call that was not sent is sent once", async () => {
  const own = await new McpWorld().start({ tools: [...TOOLS, COUNT] });
  writeFileSync(tokenFile, await own.caller());
  const client = bridge(own.url);
  const { port } = new URL(own.url);
  expect((await client.call(1, "count", {})).result.isError).toBeUndefined();
  await own.stop();
  const call = client.call(2, "count", {});
  await own.start({ tools: [...TOOLS, COUNT], server: { port: Number(port) } });
  expect((await call).result.isError).toBeUndefined();
  expect(own.entries().filter(({ tool }) => tool?.name === "count")).toHaveLength(2);
  await own.end();
  writeFileSync(tokenFile, await world.caller());
});

test("a service that does not come back: the call was not sent, and the client learns it", async () => {
  const unused = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const url = `http://127.0.0.1:${unused.port}`;
  unused.stop(true);
  const { result } = await bridge(url).call(1, "count", {});
  expect(result.isError).toBe(true);
  expect(result.content[0].text).toMatch(/^SERVICE_UNREACHABLE: .*was not sent/);
});

test("a client that listens is notified of a changed list, and still ends at once", async () => {
  const service = await new ReloadService().start();
  writeFileSync(tokenFile, await service.agent());
  const client = bridge(service.running.url);
  const params = { notifications: { toolsListChanged: true }, _meta: ENVELOPE };
  client.send({ jsonrpc: "2.0", id: "l", method: "subscriptions/listen", params });
  const notified = (method: string) => until(method, () => client.messages().find((each) => each.method === method));
  await notified("notifications/subscriptions/acknowledged");
  service.write("tools/bye.ts", manifest({ name: "bye" }));
  expect((await service.reload()).http).toBe(200);
  await notified("notifications/tools/list_changed");
  expect(await client.end()).toBe(0);
  await service.end();
  writeFileSync(tokenFile, await world.caller());
});

test("the subscription of a client of 2026-07-28 outlives a restart of the service: the client is notified, and lists again", async () => {
  const service = await new ReloadService().start();
  writeFileSync(tokenFile, await service.agent());
  const lists: (readonly string[])[] = [];
  const client = new Client(
    { name: "desktop", version: "1" },
    {
      versionNegotiation: { mode: { pin: MODERN } },
      listChanged: { tools: { onChanged: (_, tools) => void lists.push((tools ?? []).map(({ name }) => name)) } },
    },
  );
  const [command, ...args] = [...STC, "mcp", "--url", service.running.url, "--token-file", tokenFile];
  await client.connect(new StdioClientTransport({ command, args, env: environmentOf({}), stderr: "ignore" }));
  await until("the stream", () => service.journal("tools.followed")[0]);
  const { port } = new URL(service.running.url);
  await service.running.drain();
  service.write("tools/later.ts", manifest({ name: "later" }));
  service.configure({ server: { port: Number(port) } });
  await service.start();
  expect(await until("the notification", () => lists[0])).toEqual(["hello", "later"]);
  service.remove("tools/later.ts");
  expect((await service.reload()).http).toBe(200);
  expect(await until("the next notification", () => lists[1])).toEqual(["hello"]);
  await client.close();
  await service.end();
  writeFileSync(tokenFile, await world.caller());
});

test("a subscription for nothing, and one that is refused, end with the service's answer", async () => {
  const client = bridge();
  const listen = (id: string, notifications: unknown) =>
    client.request(id, "subscriptions/listen", { notifications, _meta: ENVELOPE });
  expect((await listen("nothing", {})).result.resultType).toBe("complete");
  expect((await listen("refused", 7)).error.code).toBe(-32_602);
  expect(await client.end()).toBe(0);
});

describe("a client before 2026-07-28", () => {
  const notified = (client: StdioClient, times: number) =>
    until(`${times} notifications`, () => {
      const changes = client.messages().filter(({ method }) => method === "notifications/tools/list_changed");
      return changes.length >= times ? changes : undefined;
    });
  const introduce = async (client: StdioClient, version: string): Promise<Loose> => {
    const answer = await client.request("i", "initialize", { ...CLIENT_INFO, protocolVersion: version });
    client.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    return answer.result;
  };

  test.each(["2025-11-25", "2025-06-18"])(
    "of %s is notified of a changed list, also of a change while the service restarts, and still ends at once",
    async (version) => {
      const service = await new ReloadService().start();
      writeFileSync(tokenFile, await service.agent());
      const client = bridge(service.running.url);
      expect((await introduce(client, version)).capabilities).toEqual({ tools: { listChanged: true } });
      const line = await until("the stream", () => service.journal("tools.followed")[0]);
      expect(line["protocol"]).toEqual({ name: "mcp", version, client: CLIENT_INFO.clientInfo });
      service.write("tools/bye.ts", manifest({ name: "bye" }));
      expect((await service.reload()).http).toBe(200);
      expect(await notified(client, 1)).toEqual([{ jsonrpc: "2.0", method: "notifications/tools/list_changed" }]);
      const { port } = new URL(service.running.url);
      await service.running.drain();
      service.write("tools/later.ts", manifest({ name: "later" }));
      service.configure({ server: { port: Number(port) } });
      await service.start();
      await notified(client, 2);
      expect(await client.end()).toBe(0);
      await service.end();
      writeFileSync(tokenFile, await world.caller());
    },
  );

  test("goes on without a stream where the service has none, and relays nothing but notifications", async () => {
    const messages = [
      { jsonrpc: "2.0", id: 1, method: "sampling/createMessage", params: {} },
      { jsonrpc: "2.0", id: 2, result: {} },
      { jsonrpc: "2.0", method: "notifications/tools/list_changed" },
    ];
    const events = messages.map((message) => `data: ${JSON.stringify(message)}\n\n`).join("");
    const asked: string[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      async fetch(request) {
        asked.push(request.method);
        const stream = { headers: { "content-type": "text/event-stream" } };
        if (request.method === "GET") {
          const isFirst = asked.filter((method) => method === "GET").length === 1;
          return isFirst
            ? new Response(`: open\n\ndata: nonsense\n\n${events}`, stream)
            : new Response("", { status: 405 });
        }
        const { id } = (await request.json()) as Loose;
        if (id === undefined) return new Response(null, { status: 202 });
        return Response.json({ jsonrpc: "2.0", id, result: { protocolVersion: "2025-11-25" } });
      },
    });
    const client = bridge(`http://127.0.0.1:${server.port}`);
    await introduce(client, "2025-11-25");
    await notified(client, 1);
    await until("the second GET", () => (asked.filter((method) => method === "GET").length === 2 ? true : undefined));
    expect(client.messages().filter(({ id }) => id !== "i")).toEqual([messages[2]]);
    expect((await client.request("last", "ping")).result).toBeDefined();
    expect(await client.end()).toBe(0);
    expect(asked.filter((method) => method === "GET")).toHaveLength(2);
    await server.stop(true);
  });
});

describe("a service that sends more than any service may", () => {
  const serve = (stream: () => ReadableStream<Uint8Array>) =>
    Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Response(stream(), { headers: { "content-type": "text/event-stream" } }),
    });

  test("one event without an end: it is given up, and the model learns that the outcome is unknown", async () => {
    let sent = 0;
    const piece = Buffer.from("x".repeat(1_048_576));
    const server = serve(
      () =>
        new ReadableStream({
          pull(controller) {
            controller.enqueue(sent === 0 ? Buffer.from("data: ") : piece);
            sent += 1;
          },
        }),
    );
    const client = bridge(`http://127.0.0.1:${server.port}`);
    const { result } = await client.call(1, "count", {});
    expect([result.isError, result.content[0].text]).toEqual([true, expect.stringMatching(/^OUTCOME_UNKNOWN: /)]);
    expect(sent).toBeLessThan(80);
    await server.stop(true);
  });

  test("a long notification: the request ends without an answer, and the next one works", async () => {
    const long = { jsonrpc: "2.0", method: "notifications/progress", params: { message: "x".repeat(70_000) } };
    const answer = { jsonrpc: "2.0", id: 1, result: {} };
    let requests = 0;
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch() {
        requests += 1;
        if (requests > 1) return Response.json({ jsonrpc: "2.0", id: 2, result: {} });
        const events = [long, answer].map((message) => `data: ${JSON.stringify(message)}\n\n`);
        return new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
      },
    });
    const client = bridge(`http://127.0.0.1:${server.port}`);
    expect(await client.request(1, "ping")).toMatchObject({ id: 1, error: { code: -32_000 } });
    expect((await client.request(2, "ping")).result).toEqual({});
    expect(client.lines.join("").length).toBeLessThan(1_000);
    await server.stop(true);
  });

  test("the longest answer that a service may send arrives whole", async () => {
    const text = '"'.repeat(8_388_608);
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => {
        const result = { content: [{ type: "text", text: JSON.stringify({ text }) }], structuredContent: { text } };
        return new Response(`data: ${JSON.stringify({ jsonrpc: "2.0", id: 1, result })}\n\n`, {
          headers: { "content-type": "text/event-stream" },
        });
      },
    });
    const client = bridge(`http://127.0.0.1:${server.port}`);
    const { result } = await client.call(1, "count", {});
    expect(result.structuredContent.text.length).toBe(text.length);
    await server.stop(true);
  });
});

describe("standard input", () => {
  test("that ends, ends the process after the answers", async () => {
    const client = bridge();
    client.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "orders_find", arguments: FIND } });
    expect(await client.end()).toBe(0);
    expect(await client.answerTo(1)).toMatchObject({ result: { structuredContent: { order: "ord_1" } } });
  });

  test("that ends while a call waits for a person, ends the process too", async () => {
    const client = bridge();
    const params = { name: "orders_refund", arguments: { order: "ord_3", cents: 7 } };
    client.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const id = await openApproval();
    expect(await client.end()).toBe(0);
    await world.decide(id, "deny");
  });
});

/** The program and arguments that a block of the guide, which contains this text, gives a client. */
const DOCUMENTED: readonly (readonly [string, (text: string) => readonly string[]])[] = [
  ["claude mcp add", (text) => text.split(" -- ")[1]?.trim().split(" ") ?? []],
  ['"mcpServers"', (text) => commandIn(JSON.parse(text).mcpServers)],
  ['"servers"', (text) => commandIn(JSON.parse(text).servers)],
  ["[mcp_servers", (text) => commandIn((Bun.TOML.parse(text) as Loose).mcp_servers)],
];

function commandIn({ "safe-tool-call": { command, args } }: Loose): readonly string[] {
  return [command, ...args];
}

test.each(DOCUMENTED)("the guide's configuration with %s connects a client", async (part, read) => {
  const [{ text } = { text: "" }, ...more] = blocksOf("docs/mcp.md").filter((block) => block.text.includes(part));
  expect(more).toEqual([]);
  const [program, ...args] = read(text);
  expect(program).toBe("/usr/local/bin/stc");
  const own = args.map((word) => word.replace("https://tools.example", world.url).replace(/^\/run\/.*/, tokenFile));
  const client = new StdioClient(own, { command: STC });
  started.push(client);
  const { result } = await client.request(1, "tools/list");
  expect(result.tools.map(({ name }: Loose) => name)).toContain("orders_find");
});

test("a call over TLS whose connection is disturbed after it was sent is not repeated", async () => {
  const authority = await Authority.create("servers");
  writeFileSync(join(folder, "disturbed-ca.pem"), authority.pem);
  let calls = 0;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    tls: await authority.issue("server"),
    async fetch(request) {
      await request.text();
      calls += 1;
      return Response.json({});
    },
  });
  const between = createServer((down) => {
    const up = connect(server.port ?? 0, "127.0.0.1");
    down.pipe(up);
    // A TLS alert that anybody on the way can send.
    up.on("data", (bytes) => down.write(calls === 0 ? bytes : Buffer.from([0x15, 3, 3, 0, 2, 2, 40])));
    down.on("close", () => up.destroy());
    for (const socket of [up, down]) socket.on("error", () => {});
  });
  between.listen(0, "127.0.0.1");
  await once(between, "listening");
  const { port } = between.address() as AddressInfo;
  const client = bridge(`https://127.0.0.1:${port}`, ["--ca-file", join(folder, "disturbed-ca.pem")]);
  const { result } = await client.call(1, "count", {});
  expect(result.content[0].text).toMatch(/^OUTCOME_UNKNOWN: .*Check whether it did before you call again/);
  expect(calls).toBe(1);
  between.close();
  await server.stop(true);
});

test("a message is one line also for clients that end lines at other characters", async () => {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => Response.json({ jsonrpc: "2.0", id: 1, result: { text: "a\u2028b\u2029c\u0085d" } }),
  });
  const client = bridge(`http://127.0.0.1:${server.port}`);
  expect((await client.request(1, "ping")).result).toEqual({ text: "a\u2028b\u2029c\u0085d" });
  expect(client.lines.join("")).not.toMatch(/[\u0085\u2028\u2029]/);
  await server.stop(true);
});

test("a service behind TLS and one behind a socket are reached", async () => {
  const authority = await Authority.create("servers");
  const { cert, key } = await authority.issue("server");
  for (const [name, text] of Object.entries({ "ca.pem": authority.pem, "server.pem": cert, "server-key.pem": key })) {
    writeFileSync(join(folder, name), text);
  }
  const tls = { certFile: join(folder, "server.pem"), keyFile: join(folder, "server-key.pem") };
  const socket = join(folder, "call.sock");
  const own = await new McpWorld().start({ server: { port: 0, tls, socket } });
  writeFileSync(tokenFile, await own.caller());
  const { port } = new URL(own.url);
  const overTls = bridge(`https://127.0.0.1:${port}`, ["--ca-file", join(folder, "ca.pem")]);
  expect((await overTls.call(1, "orders_find", FIND)).result.isError).toBeUndefined();
  const overSocket = bridge(`unix:${socket}`);
  expect((await overSocket.call(1, "orders_find", FIND)).result.isError).toBeUndefined();
  await own.end();
});
