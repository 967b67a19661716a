import type {
  ChatCompletionFunctionTool,
  ChatCompletionMessageParam,
  ChatCompletionToolMessageParam,
} from "openai/resources/chat/completions";
import type { FunctionTool, ResponseInputItem, ResponseOutputItem } from "openai/resources/responses/responses";
import type { SafeToolCallClient } from "../client.ts";
import { type ConversationPart, ModelCalls, type StrictOptions, toolsIn } from "./core.ts";

/** The caller's tools for OpenAI's chat completions. */
export interface ChatCompletionTools {
  readonly tools: ChatCompletionFunctionTool[];
  /** Makes the calls in `messages` that have no result yet. Returns the messages to append. */
  answer(messages: readonly ChatCompletionMessageParam[]): Promise<ChatCompletionToolMessageParam[]>;
}

/** Reads the caller's tools, for a loop over `openai.chat.completions`. */
export async function chatCompletionTools(
  client: SafeToolCallClient,
  options?: StrictOptions,
): Promise<ChatCompletionTools> {
  const calls = new ModelCalls(client, options);
  return {
    tools: await toolsIn("openai", client, options),
    answer: (messages) =>
      calls.answer(messages.flatMap(partsOfMessage), ({ id }, { text }) => ({
        ...{ role: "tool", tool_call_id: id, content: text },
      })),
  };
}

function partsOfMessage(message: ChatCompletionMessageParam): ConversationPart[] {
  if (message.role === "tool") return [{ kind: "result", id: message.tool_call_id, content: message.content }];
  if (message.role !== "assistant") return [];
  return (message.tool_calls ?? []).map((call) => {
    const { name, args } =
      call.type === "function"
        ? { name: call.function.name, args: call.function.arguments }
        : { name: call.custom.name, args: call.custom.input };
    return { kind: "call", id: call.id, name, args };
  });
}

/** The caller's tools for OpenAI's Responses. */
export interface ResponsesTools {
  readonly tools: FunctionTool[];
  /** Makes the calls in `items`, an input or a response's output, that have no output yet. Returns the items to send next. */
  answer(items: readonly (ResponseInputItem | ResponseOutputItem)[]): Promise<ResponseInputItem.FunctionCallOutput[]>;
}

/** Reads the caller's tools, for a loop over `openai.responses`. */
export async function responsesTools(client: SafeToolCallClient, options?: StrictOptions): Promise<ResponsesTools> {
  const calls = new ModelCalls(client, options);
  return {
    tools: await toolsIn("openai-responses", client, options),
    answer: (items) =>
      calls.answer(items.flatMap(partsOfItem), ({ id }, { text }) => ({
        ...{ type: "function_call_output", call_id: id, output: text },
      })),
  };
}

function partsOfItem(item: ResponseInputItem | ResponseOutputItem): ConversationPart[] {
  if (item.type === "function_call") {
    return [{ kind: "call", id: item.call_id, name: item.name, args: item.arguments }];
  }
  if (item.type !== "function_call_output" || !item.call_id) return [];
  return [{ kind: "result", id: item.call_id, content: item.output }];
}
