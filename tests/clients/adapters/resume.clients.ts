import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { Command, MemorySaver } from "@langchain/langgraph";
import { Agent, RunState } from "@openai/agents";
import { generateText, type ModelMessage, stepCountIs } from "ai";
import { createAgent } from "langchain";
import type OpenAI from "openai";
import { aiTools } from "../../../clients/typescript/src/adapters/ai-sdk.ts";
import type { AdapterOptions } from "../../../clients/typescript/src/adapters/core.ts";
import { langchainTools } from "../../../clients/typescript/src/adapters/langchain.ts";
import { chatCompletionTools } from "../../../clients/typescript/src/adapters/openai.ts";
import { agentTools } from "../../../clients/typescript/src/adapters/openai-agents.ts";
import { SafeToolCallClient } from "../../../clients/typescript/src/client.ts";
import { ApprovalService } from "../../support/approval-service.ts";
import { type Heard, ModelServer, type Script } from "../../support/model-server.ts";
import { aiModelOf, langchainModelOf, openAiOf, runnerOf } from "./drivers.ts";

const READS = { name: "do_read", args: { what: "a" } };
const WRITES = { name: "do_write", args: { what: "b" } };
const RETURN: AdapterOptions = { onPending: "return" };
const BOTH = [{ calls: [READS, WRITES] }, { text: "done" }];

const service = new ApprovalService({ coolDownSeconds: 1 });
let model: ModelServer;
let agents = 0;

beforeAll(async () => {
  await service.start();
});
afterAll(() => service.end());
afterEach(async () => {
  await model.end();
  expect(model.problems).toEqual([]);
});

/** Returns a function that makes a client, as each start of the program does. */
async function program(script: Script) {
  agents += 1;
  const sub = `resumed-${agents}`;
  const token = await service.agent({ sub });
  model = new ModelServer(script, [token]);
  const before = service.deeds.length;
  return {
    start: () => new SafeToolCallClient({ url: service.url, token }),
    deeds: () => service.deeds.slice(before),
    async decide(decision: "approve" | "deny") {
      const list = await service.send("GET", "/approvals?state=pending", { token: await service.person() });
      const own = list.body.approvals.filter((one: { requester: { sub: string } }) => one.requester.sub === sub);
      expect(own).toHaveLength(1);
      await service.decide(own[0].id, decision, { ...(decision === "deny" && { reason: "not today" }) });
      return own[0].id as string;
    },
  };
}

const WROTE = { untrusted: true, output: { done: "b" } };
/** A call that is made again after the denial also learns when it can ask. */
const DENIED = {
  error: { code: "APPROVAL_DENIED", message: expect.stringMatching(/^Denied by user: not today/) },
};
const DECISIONS = [
  ["approve", WROTE, ["a", "b"]],
  ["deny", DENIED, ["a"]],
] as const;

test.each(DECISIONS)("the Agents SDK continues a stored run after a restart: %s", async (decision, told, deeds) => {
  const { start, decide, ...ran } = await program(BOTH);
  const agentOf = async () => new Agent({ name: "agent", model: "stub", tools: await agentTools(start(), RETURN) });
  const first = await runnerOf(model).run(await agentOf(), "Do it.");
  expect(first.interruptions.map(({ name }) => name)).toEqual(["do_write"]);
  expect(ran.deeds()).toEqual(["a"]);
  const stored = first.state.toString();
  await decide(decision);

  const agent = await agentOf();
  const state = await RunState.fromString<undefined, typeof agent>(agent, stored);
  for (const interruption of state.getInterruptions()) state.approve(interruption);
  const second = await runnerOf(model).run(agent, state);
  expect(second.finalOutput).toBe("done");
  expect(model.results).toMatchObject([{ output: { done: "a" } }, told]);
  expect(ran.deeds()).toEqual([...deeds]);
});

test("a call that the program rejects in the Agents SDK is not made", async () => {
  const { start, decide, ...ran } = await program([{ calls: [WRITES] }, { text: "done" }]);
  const agent = new Agent({ name: "agent", model: "stub", tools: await agentTools(start(), RETURN) });
  const { state, interruptions } = await runnerOf(model).run(agent, "Do it.");
  await decide("approve");
  for (const interruption of interruptions) state.reject(interruption);
  expect((await runnerOf(model).run(agent, state)).finalOutput).toBe("done");
  expect(ran.deeds()).toEqual([]);
});

test.each(DECISIONS)("LangGraph continues a checkpointed graph after a restart: %s", async (decision, told, deeds) => {
  const { start, decide, ...ran } = await program(BOTH);
  const checkpointer = new MemorySaver();
  const agentOf = async () =>
    createAgent({ model: langchainModelOf(model), tools: await langchainTools(start(), RETURN), checkpointer });
  const thread = { configurable: { thread_id: "1" } };
  const prompt = { messages: [{ role: "user" as const, content: "Do it." }] };
  const first: { __interrupt__?: { id?: string; value?: unknown }[] } = await (await agentOf()).invoke(prompt, thread);
  const id = await decide(decision);
  expect(first.__interrupt__).toMatchObject([{ value: { tool: "do_write", args: WRITES.args, approval: { id } } }]);

  const resume = Object.fromEntries((first.__interrupt__ ?? []).map((one) => [one.id, true]));
  const { messages } = await (await agentOf()).invoke(new Command({ resume }), thread);
  expect(messages.at(-1)?.content).toBe("done");
  expect(model.results).toMatchObject([{ output: { done: "a" } }, told]);
  expect(ran.deeds()).toEqual([...deeds]);
});

test.each(DECISIONS)("the AI SDK continues stored messages after a restart: %s", async (decision, told, deeds) => {
  const { start, decide, ...ran } = await program(BOTH);
  const generate = async (messages: ModelMessage[]) => {
    const { tools, toolApproval } = await aiTools(start(), RETURN);
    const settings = { model: aiModelOf(model), tools, toolApproval, stopWhen: stepCountIs(5), maxRetries: 0 };
    return generateText({ ...settings, messages });
  };
  const messages: ModelMessage[] = [{ role: "user", content: "Do it." }];
  const first = await generate(messages);
  const id = await decide(decision);
  const [request, ...others] = first.content.flatMap((part) => (part.type === "tool-approval-request" ? [part] : []));
  expect([request?.reason?.startsWith(`Approval ${id}: `), others]).toEqual([true, []]);

  const response = { type: "tool-approval-response" as const, approvalId: request?.approvalId ?? "", approved: true };
  const stored = JSON.parse(JSON.stringify([...messages, ...first.responseMessages])) as ModelMessage[];
  const second = await generate([...stored, { role: "tool", content: [response] }]);
  expect(second.text).toBe("done");
  expect(model.results).toMatchObject([{ output: { done: "a" } }, told]);
  expect(ran.deeds()).toEqual([...deeds]);
});

test.each(DECISIONS)(
  "a stored conversation says which approval a repeated call uses: %s",
  async (decision, told, deeds) => {
    const again = ({ results }: Heard) => {
      expect(results.at(-1)).toMatchObject({ error: { code: "APPROVAL_REQUIRED" } });
      return { text: "It waits for a person." };
    };
    const { start, decide, ...ran } = await program([
      { calls: [READS, WRITES] },
      again,
      { calls: [WRITES] },
      { text: "done" },
    ]);
    const talk = async (messages: OpenAI.ChatCompletionMessageParam[]) => {
      const { tools, answer } = await chatCompletionTools(start(), RETURN);
      while (messages.at(-1)?.role !== "assistant") {
        const { choices } = await openAiOf(model).chat.completions.create({ model: "stub", messages, tools });
        messages.push(...choices.map(({ message }) => message));
        messages.push(...(await answer(messages)));
      }
      return messages;
    };
    const stored = JSON.stringify(await talk([{ role: "user", content: "Do it." }]));
    await decide(decision);
    const messages = await talk([...JSON.parse(stored), { role: "user", content: "Go on." }]);
    expect(messages.at(-1)?.content).toBe("done");
    expect(model.results.at(-1)).toMatchObject(told);
    expect(ran.deeds()).toEqual([...deeds]);
  },
);
