import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createMCPClient } from "@ai-sdk/mcp";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Agent, MCPServerStreamableHttp, type Model, Runner, setTracingDisabled, Usage } from "@openai/agents-core";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { McpWorld, MODERN, TOOLS } from "../mcp/mcp-world.ts";
import type { Loose } from "../support/asking-service.ts";
import { blockNamed } from "../support/documented.ts";
import { environmentOf } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** Each client as its users run it; where it belongs to an agent, a scripted model makes the calls. */
interface ConnectedClient {
  tools(): Promise<readonly string[]>;
  /** Returns the text that a model gets. */
  call(name: string, args: object, signal?: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

interface Target {
  readonly url: string;
  readonly token: string;
}

type Connect = (target: Target) => Promise<ConnectedClient>;

interface ContentPart {
  readonly text?: string;
}

function textOf(content: unknown): string {
  return (content as readonly ContentPart[]).map(({ text }) => text).join("\n");
}

const official =
  (version: string): Connect =>
  async ({ url, token }) => {
    const client = new Client(
      { name: "official", version: "1" },
      version === MODERN
        ? { versionNegotiation: { mode: { pin: MODERN } } }
        : { versionNegotiation: { mode: "legacy" }, supportedProtocolVersions: [version] },
    );
    const headers = { authorization: `Bearer ${token}` };
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    return {
      tools: async () => (await client.listTools()).tools.map(({ name }) => name),
      call: async (name, args, signal) => {
        const options = { ...(signal && { signal }) };
        return textOf((await client.callTool({ name, arguments: args as Loose }, options)).content);
      },
      close: () => client.close(),
    };
  };

const INSPECTOR = fileURLToPath(import.meta.resolve("@modelcontextprotocol/inspector/clients/launcher/build/index.js"));

const inspector: Connect = async ({ url, token }) => {
  const run = async (method: readonly string[], signal?: AbortSignal): Promise<Loose> => {
    const child = Bun.spawn(
      [
        ...[process.execPath, INSPECTOR, "--cli", url, "--transport", "http", "--format", "json"],
        ...["--header", `Authorization: Bearer ${token}`, ...method],
      ],
      { env: environmentOf({}), stdin: "ignore", stdout: "pipe", stderr: "pipe" },
    );
    signal?.addEventListener("abort", () => child.kill("SIGKILL"));
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    await child.exited;
    if (signal?.aborted === true) throw new Error("cancelled");
    try {
      return JSON.parse(out);
    } catch {
      throw new Error(`${out}${err}`);
    }
  };
  return {
    tools: async () => resultOf(await run(["--method", "tools/list"])).tools.map(({ name }: Loose) => name),
    call: async (name, args, signal) => {
      const call = ["--method", "tools/call", "--tool-name", name, "--tool-args-json", JSON.stringify(args)];
      return textOf(resultOf(await run(call, signal)).content);
    },
    close: async () => {},
  };
};

function resultOf(printed: Loose): Loose {
  return printed.result ?? printed;
}

const vercel: Connect = async ({ url, token }) => {
  const client = await createMCPClient({
    transport: { type: "http", url, headers: { authorization: `Bearer ${token}` } },
  });
  const tools = await client.tools();
  return {
    tools: async () => Object.keys(tools),
    async call(toolName, args, abortSignal) {
      const call = { type: "tool-call", toolCallId: "1", toolName, input: JSON.stringify(args) } as const;
      const common = { usage: NO_USAGE, warnings: [] };
      const model = new MockLanguageModelV4({
        doGenerate: [
          { ...common, content: [call], finishReason: { unified: "tool-calls", raw: undefined } },
          { ...common, content: [{ type: "text", text: "done" }], finishReason: { unified: "stop", raw: undefined } },
        ],
      });
      const { steps } = await generateText({
        ...{ model, tools, prompt: "go", stopWhen: isStepCount(2) },
        ...(abortSignal && { abortSignal }),
      });
      const [part] = steps[0]?.content.filter(({ type }) => type === "tool-result" || type === "tool-error") ?? [];
      return part?.type === "tool-result" ? textOf((part.output as Loose).content) : String((part as Loose)?.error);
    },
    close: () => client.close(),
  };
};

const NO_USAGE = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 },
};

const langchain: Connect = async ({ url, token }) => {
  const client = new MultiServerMCPClient({
    mcpServers: { stc: { transport: "http", url, headers: { authorization: `Bearer ${token}` } } },
    useStandardContentBlocks: false,
  });
  const tools = await client.getTools();
  return {
    tools: async () => tools.map(({ name }) => name),
    async call(name, args, signal) {
      const tool = tools.find((each) => each.name === name);
      if (tool === undefined) throw new Error(`no tool ${name}`);
      try {
        const answer: unknown = await tool.invoke(args, { ...(signal && { signal }) });
        return typeof answer === "string" ? answer : textOf([answer].flat());
      } catch (error) {
        // A result with `isError` is an exception here, whose message an agent gets.
        if (signal?.aborted === true || !(error instanceof Error)) throw error;
        return error.message;
      }
    },
    close: () => client.close(),
  };
};

const openai: Connect = async ({ url, token }) => {
  setTracingDisabled(true);
  const server = new MCPServerStreamableHttp({
    url,
    requestInit: { headers: { authorization: `Bearer ${token}` } },
    clientSessionTimeoutSeconds: 60,
  });
  await server.connect();
  return {
    tools: async () => (await server.listTools()).map(({ name }) => name),
    async call(name, args, signal) {
      const answers: Loose[] = [];
      const model: Model = {
        async getResponse({ input }) {
          const given = typeof input === "string" ? [] : input;
          const answer = given.find(({ type }) => type === "function_call_result");
          if (answer !== undefined) answers.push(answer);
          const call = {
            type: "function_call",
            callId: "1",
            name,
            arguments: JSON.stringify(args),
            status: "completed",
          };
          const done = {
            type: "message",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: "done" }],
          };
          return { usage: new Usage(), output: [answer === undefined ? call : done] as Loose };
        },
        async *getStreamedResponse() {},
      };
      const agent = new Agent({ name: "agent", model, mcpServers: [server] });
      await new Runner({ tracingDisabled: true }).run(agent, "go", { ...(signal && { signal }) });
      const { output } = answers[0] ?? {};
      return typeof output === "string" ? output : textOf(Array.isArray(output) ? output : [output]);
    },
    close: () => server.close(),
  };
};

const CLIENTS: readonly (readonly [string, Connect])[] = [
  ["the official client, 2026-07-28", official(MODERN)],
  ["the official client, 2025-11-25", official("2025-11-25")],
  ["the official client, 2025-06-18", official("2025-06-18")],
  ["MCP Inspector", inspector],
  ["Vercel AI SDK", vercel],
  ["LangChain", langchain],
  ["OpenAI Agents SDK", openai],
];

let world: McpWorld;
/** The same without holding calls: the pending result comes at once. */
let hasty: McpWorld;

beforeAll(async () => {
  world = await new McpWorld().start();
  hasty = await new McpWorld().start({ mcp: { holdSeconds: 0 } });
});
afterAll(async () => {
  await world.end();
  await hasty.end();
});

const FOUND = { order: "ord_1", email: "a**@c********.example", total: 12.5 };

async function openApproval(service: McpWorld, sub: string): Promise<string> {
  return until("an approval request", async () => {
    const { body } = await service.send("GET", "/approvals", { token: await service.person() });
    return body.approvals.find(({ state, requester }: Loose) => state === "pending" && requester.sub === sub)?.id;
  });
}

describe.each(CLIENTS)("%s", (title, connect) => {
  let client: ConnectedClient;
  let impatient: ConnectedClient;
  const open = async (service: McpWorld): Promise<ConnectedClient> =>
    connect({ url: `${service.url}/mcp`, token: await service.caller({ sub: title }) });

  beforeAll(async () => {
    client = await open(world);
    impatient = await open(hasty);
  });
  afterAll(async () => {
    await client.close();
    await impatient.close();
  });

  test("lists the tools and calls one", async () => {
    expect((await client.tools()).toSorted()).toEqual(["orders_find", "orders_refund", "reports_read"]);
    expect(JSON.parse(await client.call("orders_find", { order: "ord_1" }))).toEqual(FOUND);
    expect(world.last()).toMatchObject({ decision: "ALLOWED", caller: { sub: title }, protocol: { name: "mcp" } });
  });

  test("gives the model the reason of a refusal, and the corrected call runs", async () => {
    // LangChain checks arguments itself.
    expect(await client.call("orders_find", { order: "--help" })).toMatch(
      /INVALID_INPUT: |did not match expected schema/,
    );
    const tooMuch = await client.call("orders_refund", { order: "ord_1", cents: 5_000 });
    expect(tooMuch).toContain("PERMISSION_DENIED: ");
    expect(JSON.parse(await client.call("orders_find", { order: "ord_1" }))).toEqual(FOUND);
  });

  test("waits for the approver and gets the result", async () => {
    const answer = client.call("orders_refund", { order: "ord_1", cents: 5 });
    await world.decide(await openApproval(world, title), "approve");
    expect(JSON.parse(await answer)).toEqual({ refunded: 5 });
  });

  test("gets the denial", async () => {
    const answer = client.call("orders_refund", { order: "ord_1", cents: 6 });
    await world.decide(await openApproval(world, title), "deny");
    expect(await answer).toContain("APPROVAL_DENIED");
  });

  test("is told that a call is pending, and the same call again gets its result", async () => {
    const call = () => impatient.call("orders_refund", { order: "ord_2", cents: 7 });
    expect(await call()).toContain("APPROVAL_REQUIRED");
    await hasty.decide(await openApproval(hasty, title), "approve");
    expect(JSON.parse(await call())).toEqual({ refunded: 7 });
  });

  test("cancels a call that waits, and disconnects: nothing runs", async () => {
    const cancelling = new AbortController();
    const leaving = await open(world);
    const answer = leaving.call("orders_refund", { order: "ord_3", cents: 8 }, cancelling.signal);
    const cancelled = answer.then(
      () => "answered",
      () => "cancelled",
    );
    const id = await openApproval(world, title);
    cancelling.abort();
    expect(await cancelled).toBe("cancelled");
    // Before 2026-07-28, clients only notify when they cancel; the connection tells the service.
    await leaving.close();
    await until("the call's line", () => world.entries().find(({ approval }) => approval?.id === id));
    await world.decide(id, "approve");
    expect(world.entries().some(({ approval, decision }) => approval?.id === id && decision === "ALLOWED")).toBe(false);
  });

  test("gets a long result cut", async () => {
    const text = await client.call("reports_read", { characters: 200_000 });
    expect(text).toContain("The result was too long");
    expect(text.length).toBeLessThan(70_000);
  });
});

/** Calls of the tool below wait here until a test lets them end. */
let started: PromiseWithResolvers<void>;
let finish: PromiseWithResolvers<void>;

const SLOW = defineTool({
  name: "orders_ship",
  description: "Ships an order",
  classification: "write",
  category: "write",
  permissions: { required: ["orders:refund"] },
  input: z.strictObject({ order: z.string() }),
  output: z.object({ shipped: z.string() }),
  outputPolicy: { shipped: "allow" },
  async handler({ order }) {
    started.resolve();
    await finish.promise;
    return { shipped: order };
  },
});

/** Clients that open the stream of notifications; the others do without, or are of 2026-07-28. */
const FOLLOWERS = ["the official client, 2025-11-25", "the official client, 2025-06-18", "LangChain"];

/** This agent lists the tools before its model sees an answer: a run that the restart interrupts there ends with that error. */
const LISTS_FIRST = "OpenAI Agents SDK";

/** Returns the answer to a call during a restart, or the client's own error. */
function endOf(call: Promise<string>): Promise<string> {
  return call.catch(String);
}

function isTold(title: string, end: string, answer: string): boolean {
  return end.includes(answer) || (title === LISTS_FIRST && end.includes("Unable to connect"));
}

test.each(CLIENTS)(
  "%s: a drain loses no answer and repeats no change, and the client goes on with the next process",
  async (title, connect) => {
    started = Promise.withResolvers();
    finish = Promise.withResolvers();
    const tools = [...TOOLS, SLOW];
    const own = await new McpWorld().start({ tools });
    try {
      const port = Number(new URL(own.url).port);
      const client = await connect({ url: `${own.url}/mcp`, token: await own.caller({ sub: title }) });
      const streams = () => own.journal().filter(({ type }) => type === "tools.followed").length;
      if (FOLLOWERS.includes(title)) await until("the stream", () => (streams() === 1 ? true : undefined));

      const running = endOf(client.call("orders_ship", { order: "ord_1" }));
      await own.decide(await openApproval(own, title), "approve");
      await started.promise;
      const held = endOf(client.call("orders_refund", { order: "ord_2", cents: 2 }));
      const id = await openApproval(own, title);

      const stopped = own.stop();
      const pending = `APPROVAL_REQUIRED: A person is asked whether this call may run (approval ${id}`;
      expect(isTold(title, await held, pending), await held).toBe(true);
      finish.resolve();
      expect(isTold(title, await running, JSON.stringify({ shipped: "ord_1" })), await running).toBe(true);
      await stopped;

      await own.start({ tools, server: { port } });
      await own.decide(id, "approve");
      const again = await client.call("orders_refund", { order: "ord_2", cents: 2 });
      expect(JSON.parse(again)).toEqual({ refunded: 2 });
      const ran = own.entries().filter(({ decision }) => decision === "ALLOWED");
      expect(ran.map(({ tool }) => tool?.name)).toEqual(["orders_ship", "orders_refund"]);
      if (FOLLOWERS.includes(title)) await until("the next stream", () => (streams() === 2 ? true : undefined));
      await client.close();
    } finally {
      finish.resolve();
      await own.end();
    }
  },
);

/** The guide's programs, each with its export. */
const PROGRAMS: Readonly<Record<string, (exported: Loose) => Promise<readonly string[]>>> = {
  "docs/mcp.md: import { Agent, MCPServerStreamableHttp }": async ({ agent }) => {
    const names = (await agent.mcpServers[0].listTools()).map(({ name }: Loose) => name);
    await agent.mcpServers[0].close();
    return names;
  },
  "docs/mcp.md: import { MultiServerMCPClient }": async ({ tools }) => tools.map(({ name }: Loose) => name),
  "docs/mcp.md: import { createMCPClient }": async ({ tools }) => Object.keys(tools),
};

test.each(Object.entries(PROGRAMS))("the guide's program connects: %s", async (begin, listed) => {
  mkdirSync(join(PROJECT, "var"), { recursive: true });
  // Below the project's folder, so that packages are found.
  const folder = mkdtempSync(join(PROJECT, "var", "mcp-guide-"));
  const file = join(folder, "program.ts");
  const token = await world.caller();
  const text = blockNamed(begin)
    .text.replaceAll("https://tools.example", world.url)
    // The package that `@openai/agents` passes on.
    .replace('"@openai/agents"', '"@openai/agents-core"');
  writeFileSync(file, `const token = ${JSON.stringify(token)};\n${text}`);
  try {
    expect([...(await listed(await import(file)))].sort()).toEqual(["orders_find", "orders_refund", "reports_read"]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
