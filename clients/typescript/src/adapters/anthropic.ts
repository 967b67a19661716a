import type { MessageParam, Tool, ToolResultBlockParam } from "@anthropic-ai/sdk/resources/messages";
import type { SafeToolCallClient } from "../client.ts";
import { type AdapterOptions, type ConversationPart, ServiceTools } from "./core.ts";

/** The caller's tools for Anthropic's messages. */
export interface AnthropicTools {
  readonly tools: Tool[];
  /** Makes the calls in `messages` that have no result yet. Returns the content of the next user message. */
  answer(messages: readonly MessageParam[]): Promise<ToolResultBlockParam[]>;
}

/** Reads the caller's tools, for a loop over `anthropic.messages`. */
export async function anthropicTools(client: SafeToolCallClient, options?: AdapterOptions): Promise<AnthropicTools> {
  const service = await ServiceTools.load(client, options);
  return {
    tools: service.offered.map(({ name, description, schema }) => ({
      ...{ name, description },
      input_schema: { ...schema, required: [...(schema.required ?? [])] },
    })),
    answer: (messages) =>
      service.answer(messages.flatMap(partsOf), ({ id }, { text, isError }) => ({
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
