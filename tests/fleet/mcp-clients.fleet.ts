import { expect, test } from "bun:test";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Connect, testClients } from "../mcp/client-suite.ts";
import { McpWorld, MODERN } from "../mcp/mcp-world.ts";
import { blockNamed } from "../support/documented.ts";
import { pythonWith } from "../support/python.ts";
import { environmentOf, run } from "../support/stc.ts";

const PROGRAM = fileURLToPath(import.meta.resolve("./clients.py"));

interface Reply {
  readonly id: number;
  readonly answer?: unknown;
  readonly error?: string;
}

interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Runs one of the clients of `clients.py`. */
const python =
  (requirements: string, ...client: readonly string[]): Connect =>
  async ({ url, token }) => {
    const child = Bun.spawn([await pythonWith(join(import.meta.dir, requirements)), "-u", PROGRAM, ...client], {
      env: environmentOf({ CLIENT_URL: url, CLIENT_TOKEN: token, PYTHONDONTWRITEBYTECODE: "1" }),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    const waiting = new Map<number, Waiting>();
    let last = 0;
    const answerTo = (id: number): Promise<unknown> =>
      new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
    const send = (request: object): void => {
      child.stdin.write(`${JSON.stringify(request)}\n`);
      child.stdin.flush();
    };
    const ask = (request: object): { readonly id: number; readonly answer: Promise<unknown> } => {
      last += 1;
      send({ id: last, ...request });
      return { id: last, answer: answerTo(last) };
    };
    const connected = answerTo(0);
    const errors = new Response(child.stderr).text();
    void (async () => {
      for await (const line of linesOf(child.stdout)) {
        const { id, answer, error } = JSON.parse(line) as Reply;
        const { resolve, reject } = waiting.get(id) ?? {};
        waiting.delete(id);
        if (error === undefined) resolve?.(answer);
        else reject?.(new Error(error));
      }
      const ended = new Error(`${client.join(" ")} ended with ${await child.exited}: ${await errors}`);
      for (const { reject } of waiting.values()) reject(ended);
    })();
    await connected;
    return {
      tools: async () => (await ask({ do: "tools" }).answer) as readonly string[],
      async call(name, args, signal) {
        const { id, answer } = ask({ do: "call", name, args });
        signal?.addEventListener("abort", () => send({ do: "cancel", id }));
        return String(await answer);
      },
      async close() {
        child.stdin.end();
        await child.exited;
      },
    };
  };

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

testClients([
  { title: "the official Python client, 2026-07-28", connect: python("requirements.txt", "official", MODERN) },
  { title: "the official Python client, negotiating", connect: python("requirements.txt", "official", "auto") },
  {
    title: "the official Python client, 2025-11-25",
    connect: python("requirements.txt", "official", "legacy"),
    follows: true,
  },
  { title: "OpenAI Agents SDK for Python", connect: python("requirements.txt", "openai-agents") },
  { title: "LangChain for Python", connect: python("requirements-langchain.txt", "langchain") },
]);

/** The guide's programs: the packages of each, and what lists its tools. */
const PROGRAMS = [
  ["docs/mcp.md: import httpx2", "requirements.txt", "return await names()"],
  [
    "docs/mcp.md: from agents import Agent",
    "requirements.txt",
    "async with server: return [tool.name for tool in await server.list_tools()]",
  ],
  [
    "docs/mcp.md: from langchain_mcp_adapters",
    "requirements-langchain.txt",
    "return [tool.name for tool in await client.get_tools()]",
  ],
] as const;

test.each(PROGRAMS)("the guide's program connects: %s", async (begin, requirements, list) => {
  const world = await new McpWorld().start();
  const program = [
    "import asyncio, json, os",
    'token = os.environ["CLIENT_TOKEN"]',
    blockNamed(begin).text.replaceAll("https://tools.example", world.url),
    `async def listed():\n    ${list}`,
    "print(json.dumps(asyncio.run(listed())))",
  ].join("\n");
  const env = { CLIENT_TOKEN: await world.caller() };
  const { code, out, err } = await run([await pythonWith(join(import.meta.dir, requirements)), "-c", program], { env });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(JSON.parse(out).toSorted()).toEqual(["orders_find", "orders_refund", "reports_read"]);
  await world.end();
});
