import type { MessageParam, Tool, ToolResultBlockParam } from "@anthropic-ai/sdk/resources/messages";
import type { SafeToolCallClient } from "../client.ts";
import { type ConversationPart, ModelCalls, type StrictOptions, toolsIn } from "./core.ts";

/** The caller's tools for Anthropic's messages. */
export interface AnthropicTools {
  readonly tools: Tool[];
  /** Makes the calls in `messages` that have no result yet. Returns the content of the next user message. */
  answer(messages: readonly MessageParam[]): Promise<ToolResultBlockParam[]>;
}

/** Reads the caller's tools, for a loop over `anthropic.messages`. */
export async function anthropicTools(client: SafeToolCallClient, options?: StrictOptions): Promise<AnthropicTools> {
  const calls = new ModelCalls(client, options);
  return {
    tools: await toolsIn("anthropic", client, options),
    answer: (messages) =>
      calls.answer(messages.flatMap(partsOf), ({ id }, { text, isError }) => ({
        ...{ type: "tool_result", tool_use_id: id, content: text },
        ...(isError && { is_error: true }),
      })),
  };
}

function partsOf({ content }: MessageParam): ConversationPart[] {
  if (typeof content === "string") return [];
  return content.flatMap((block): ConversationPart[] => {
    if (block.type === "tool_use") return [{ kind: "call", id: block.id, name: block.name, args: block.input }];
    return block.type === "tool_result" ? [{ kind: "result", id: block.tool_use_id, content: block.content }] : [];
  });
}
