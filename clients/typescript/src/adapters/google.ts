import type { Content, Part, Tool } from "@google/genai";
import type { SafeToolCallClient } from "../client.ts";
import { type AdapterOptions, type ConversationPart, ModelCalls, toolsIn } from "./core.ts";

/** The caller's tools for Google's generateContent. */
export interface GoogleTools {
  readonly tools: Tool[];
  /** Makes the calls in `contents` that have no response yet. Returns the parts of the next user content. */
  answer(contents: readonly Content[]): Promise<Part[]>;
}

/** Reads the caller's tools, for a loop over `ai.models.generateContent`. */
export async function googleTools(client: SafeToolCallClient, options?: AdapterOptions): Promise<GoogleTools> {
  const calls = new ModelCalls(client, options);
  const functionDeclarations = await toolsIn("google", client, options);
  return {
    tools: functionDeclarations.length === 0 ? [] : [{ functionDeclarations }],
    answer: (contents) =>
      calls.answer(contents.flatMap(partsOf), ({ id, name }, { content }) => ({
        functionResponse: { ...(id !== name && { id }), name, response: content },
      })),
  };
}

/** A call without an id is paired with the next response of its name. */
function partsOf({ parts = [] }: Content): ConversationPart[] {
  return parts.flatMap(({ functionCall: call, functionResponse: response }): ConversationPart[] => {
    if (call?.name !== undefined)
      return [{ kind: "call", id: call.id ?? call.name, name: call.name, args: call.args ?? {} }];
    const id = response?.id ?? response?.name;
    return id === undefined ? [] : [{ kind: "result", id, content: response?.response }];
  });
}
