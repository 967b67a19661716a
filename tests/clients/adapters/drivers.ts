import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { type Content, GoogleGenAI, type Part } from "@google/genai";
import { HumanMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { generateText, stepCountIs, streamText } from "ai";
import { createAgent } from "langchain";
import OpenAI from "openai";
import { aiTools } from "../../../clients/typescript/src/adapters/ai-sdk.ts";
import { anthropicTools } from "../../../clients/typescript/src/adapters/anthropic.ts";
import type { StrictOptions } from "../../../clients/typescript/src/adapters/core.ts";
import { googleTools } from "../../../clients/typescript/src/adapters/google.ts";
import { langchainTools } from "../../../clients/typescript/src/adapters/langchain.ts";
import { chatCompletionTools, responsesTools } from "../../../clients/typescript/src/adapters/openai.ts";
import { agentTools } from "../../../clients/typescript/src/adapters/openai-agents.ts";
import type { SafeToolCallClient } from "../../../clients/typescript/src/client.ts";
import type { ModelServer } from "../../support/model-server.ts";

export interface AgentRun {
  readonly client: SafeToolCallClient;
  readonly model: ModelServer;
  readonly options?: StrictOptions;
}

/** Runs one conversation with a framework, as its users do. Returns the model's last text. */
type Driver = (run: AgentRun) => Promise<string>;

const PROMPT = "Do it.";
const KEY = { apiKey: "model-key" };
const TURNS_MAX = 10;

export function openAiOf(model: ModelServer): OpenAI {
  return new OpenAI({ ...KEY, baseURL: `${model.url}/v1`, maxRetries: 0 });
}

export function anthropicOf(model: ModelServer): Anthropic {
  return new Anthropic({ ...KEY, baseURL: model.url, maxRetries: 0 });
}

export function googleOf(model: ModelServer): GoogleGenAI {
  return new GoogleGenAI({ ...KEY, httpOptions: { baseUrl: model.url } });
}

export function runnerOf(model: ModelServer): Runner {
  const modelProvider = new OpenAIProvider({ openAIClient: openAiOf(model), useResponses: true });
  return new Runner({ modelProvider, tracingDisabled: true, toolNotFoundBehavior: "return_error_to_model" });
}

export function aiModelOf(model: ModelServer) {
  return createOpenAICompatible({ ...KEY, name: "stub", baseURL: `${model.url}/v1` })("stub");
}

export function langchainModelOf(model: ModelServer): ChatOpenAI {
  const configuration = { baseURL: `${model.url}/v1` };
  return new ChatOpenAI({ ...KEY, model: "stub", configuration, maxRetries: 0 });
}

function chat(streamed: boolean): Driver {
  return async ({ client, model, options }) => {
    const openai = openAiOf(model);
    const { tools, answer } = await chatCompletionTools(client, options);
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: PROMPT }];
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const request = { model: "stub", messages, tools };
      const { choices } = streamed
        ? await openai.chat.completions.stream(request).finalChatCompletion()
        : await openai.chat.completions.create(request);
      const message = choices[0]?.message;
      if (message === undefined) break;
      messages.push(message);
      if (!message.tool_calls?.length) return message.content ?? "";
      messages.push(...(await answer(messages)));
    }
    throw new Error("no end");
  };
}

function responses(streamed: boolean): Driver {
  return async ({ client, model, options }) => {
    const openai = openAiOf(model);
    const { tools, answer } = await responsesTools(client, options);
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: PROMPT }];
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const request = { model: "stub", input, tools };
      const { output, output_text } = streamed
        ? await openai.responses.stream(request).finalResponse()
        : await openai.responses.create(request);
      // The SDK's types of items differ in `additional_tools` only, which no loop gets.
      input.push(...(output as OpenAI.Responses.ResponseInputItem[]));
      const results = await answer(input);
      if (results.length === 0) return output_text;
      input.push(...results);
    }
    throw new Error("no end");
  };
}

function agents(streamed: boolean): Driver {
  return async ({ client, model, options }) => {
    const agent = new Agent({ name: "agent", model: "stub", tools: await agentTools(client, options) });
    const runner = runnerOf(model);
    if (!streamed) return String((await runner.run(agent, PROMPT)).finalOutput);
    const result = await runner.run(agent, PROMPT, { stream: true });
    for await (const _ of result.toTextStream());
    await result.completed;
    return String(result.finalOutput);
  };
}

function anthropic(streamed: boolean): Driver {
  return async ({ client, model, options }) => {
    const api = anthropicOf(model);
    const { tools, answer } = await anthropicTools(client, options);
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: PROMPT }];
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const request = { model: "stub", max_tokens: 1_000, messages, tools };
      const { content, stop_reason } = streamed
        ? await api.messages.stream(request).finalMessage()
        : await api.messages.create(request);
      messages.push({ role: "assistant", content });
      if (stop_reason !== "tool_use") return content.map((block) => (block.type === "text" ? block.text : "")).join("");
      messages.push({ role: "user", content: await answer(messages) });
    }
    throw new Error("no end");
  };
}

function google(streamed: boolean): Driver {
  return async ({ client, model, options }) => {
    const { models } = googleOf(model);
    const { tools, answer } = await googleTools(client, options);
    const contents: Content[] = [{ role: "user", parts: [{ text: PROMPT }] }];
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const request = { model: "stub", contents, config: { tools } };
      const parts: Part[] = [];
      if (streamed) {
        for await (const { candidates } of await models.generateContentStream(request)) {
          parts.push(...(candidates?.[0]?.content?.parts ?? []));
        }
      } else {
        const { candidates } = await models.generateContent(request);
        parts.push(...(candidates?.[0]?.content?.parts ?? []));
      }
      contents.push({ role: "model", parts });
      const results = await answer(contents);
      if (results.length === 0) return parts.map(({ text = "" }) => text).join("");
      contents.push({ role: "user", parts: results });
    }
    throw new Error("no end");
  };
}

function aiSdk(streamed: boolean): Driver {
  return async ({ client, model, options }) => {
    const { tools, toolApproval } = await aiTools(client, options);
    const settings = {
      model: aiModelOf(model),
      tools,
      toolApproval,
      prompt: PROMPT,
      maxRetries: 0,
      stopWhen: stepCountIs(TURNS_MAX),
    };
    return streamed ? await streamText(settings).text : (await generateText(settings)).text;
  };
}

function langchain(streamed: boolean): Driver {
  return async ({ client, model, options }) => {
    const agent = createAgent({ model: langchainModelOf(model), tools: await langchainTools(client, options) });
    const input = { messages: [new HumanMessage(PROMPT)] };
    if (!streamed) return String((await agent.invoke(input)).messages.at(-1)?.content);
    let last = "";
    for await (const [mode, state] of await agent.stream(input, { streamMode: ["messages", "values"] })) {
      if (mode === "values") last = String(state.messages.at(-1)?.content);
    }
    return last;
  };
}

export const DRIVERS: readonly (readonly [string, Driver])[] = [
  ["OpenAI chat completions", chat(false)],
  ["OpenAI chat completions, streamed", chat(true)],
  ["OpenAI Responses", responses(false)],
  ["OpenAI Responses, streamed", responses(true)],
  ["OpenAI Agents SDK", agents(false)],
  ["OpenAI Agents SDK, streamed", agents(true)],
  ["Anthropic", anthropic(false)],
  ["Anthropic, streamed", anthropic(true)],
  ["Google", google(false)],
  ["Google, streamed", google(true)],
  ["AI SDK", aiSdk(false)],
  ["AI SDK, streamed", aiSdk(true)],
  ["LangChain", langchain(false)],
  ["LangChain, streamed", langchain(true)],
];
