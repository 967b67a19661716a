import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createMCPClient } from "@ai-sdk/mcp";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Agent, MCPServerStreamableHttp, type Model, Runner, setTracingDisabled, Usage } from "@openai/agents-core";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { type Connect, testClients } from "../mcp/client-suite.ts";
import { McpWorld, MODERN } from "../mcp/mcp-world.ts";
import type { Loose } from "../support/asking-service.ts";
import { blockNamed } from "../support/documented.ts";
import { environmentOf } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

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
  // Each run has a connection of its own: two runs that list the tools of one at the same time fail.
  const servers: MCPServerStreamableHttp[] = [];
  const connected = async (): Promise<MCPServerStreamableHttp> => {
    const server = new MCPServerStreamableHttp({
      url,
      requestInit: { headers: { authorization: `Bearer ${token}` } },
      clientSessionTimeoutSeconds: 60,
    });
    servers.push(server);
    await server.connect();
    return server;
  };
  return {
    tools: async () => (await (await connected()).listTools()).map(({ name }) => name),
    async call(name, args, signal) {
      const server = await connected();
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
    async close() {
      for (const server of servers) await server.close();
    },
  };
};

testClients([
  { title: "the official client, 2026-07-28", connect: official(MODERN) },
  { title: "the official client, 2025-11-25", connect: official("2025-11-25"), follows: true },
  { title: "the official client, 2025-06-18", connect: official("2025-06-18"), follows: true },
  { title: "MCP Inspector", connect: inspector },
  { title: "Vercel AI SDK", connect: vercel },
  { title: "LangChain", connect: langchain, follows: true },
  { title: "OpenAI Agents SDK", connect: openai },
]);

let world: McpWorld;

beforeAll(async () => {
  world = await new McpWorld().start();
});
afterAll(() => world.end());

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
