import type { MessageFormat } from "../../../src/approvals/messages/message-format.ts";

type Message = Record<string, unknown>;

export interface Called {
  readonly id: string;
  readonly name: string;
  readonly args?: Record<string, unknown>;
}

export interface Answered {
  readonly id: string;
  readonly name: string;
  readonly content: Record<string, unknown>;
}

/** How a test writes a conversation in one provider's manner. */
export interface Writer {
  user(text: string): Message;
  says(text: string): Message;
  calls(calls: readonly Called[], text?: string): Message;
  /** One message for each, or one for all, as the provider has it. */
  results(results: readonly Answered[]): Message[];
  /** A whole answer of the model. */
  output(message: Message): Message;
}

const openai: Writer = {
  user: (content) => ({ role: "user", content }),
  says: (content) => ({ role: "assistant", content }),
  calls: (calls, text) => ({
    ...{ role: "assistant", content: text ?? null },
    tool_calls: calls.map(({ id, name, args = {} }) => ({
      ...{ id, type: "function" },
      function: { name, arguments: JSON.stringify(args) },
    })),
  }),
  results: (results) =>
    results.map(({ id, content }) => ({ role: "tool", tool_call_id: id, content: JSON.stringify(content) })),
  output: (message) => ({ id: "chatcmpl-1", choices: [{ index: 0, finish_reason: "tool_calls", message }] }),
};

const anthropic: Writer = {
  user: (content) => ({ role: "user", content }),
  says: (text) => ({ role: "assistant", content: [{ type: "text", text }] }),
  calls: (calls, text) => ({
    role: "assistant",
    content: [
      ...(text === undefined ? [] : [{ type: "text", text }]),
      ...calls.map(({ id, name, args: input = {} }) => ({ type: "tool_use", id, name, input })),
    ],
  }),
  results: (results) => [
    {
      role: "user",
      content: results.map(({ id, content }) => ({
        ...{ type: "tool_result", tool_use_id: id },
        content: [{ type: "text", text: JSON.stringify(content) }],
      })),
    },
  ],
  output: (message) => ({ id: "msg_1", type: "message", stop_reason: "tool_use", ...message }),
};

const google: Writer = {
  user: (text) => ({ role: "user", parts: [{ text }] }),
  says: (text) => ({ role: "model", parts: [{ text }] }),
  calls: (calls, text) => ({
    role: "model",
    parts: [
      ...(text === undefined ? [] : [{ text }]),
      ...calls.map(({ id, name, args = {} }) => ({ functionCall: { id, name, args } })),
    ],
  }),
  results: (results) => [
    {
      role: "user",
      parts: results.map(({ id, name, content }) => ({ functionResponse: { id, name, response: content } })),
    },
  ],
  output: (content) => ({ candidates: [{ content, finishReason: "STOP" }] }),
};

export const WRITERS: Readonly<Record<MessageFormat, Writer>> = { openai, anthropic, google };

export const FORMATS = ["openai", "anthropic", "google"] as const satisfies readonly MessageFormat[];

/** Every call with its result, to check by: nobody's name for it but the test's own. */
export function pairsIn(messages: readonly Message[], format: MessageFormat): { calls: string[]; results: string[] } {
  const found = { calls: [] as string[], results: [] as string[] };
  for (const message of messages as readonly Loose[]) {
    if (format === "openai") {
      for (const call of message.tool_calls ?? []) found.calls.push(call.id);
      if (message.role === "tool") found.results.push(message.tool_call_id);
    }
    const blocks = Array.isArray(message.content) ? message.content : (message.parts ?? []);
    for (const block of blocks) {
      if (block.type === "tool_use") found.calls.push(block.id);
      if (block.type === "tool_result") found.results.push(block.tool_use_id);
      if (block.functionCall) found.calls.push(block.functionCall.id);
      if (block.functionResponse) found.results.push(block.functionResponse.id);
    }
  }
  return found;
}

/** Whether each message with calls is followed by all of their results, before anything else. */
export function isConsistent(messages: readonly Message[], format: MessageFormat): boolean {
  const { calls, results } = pairsIn(messages, format);
  if (calls.length !== results.length) return false;
  return messages.every((message, index) => {
    const wanted = pairsIn([message], format).calls;
    const behind = messages.slice(index + 1, index + 1 + (format === "openai" ? wanted.length : 1));
    const given = pairsIn(behind, format).results;
    return JSON.stringify([...wanted].sort()) === JSON.stringify([...given].sort()) || wanted.length === 0;
  });
}

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;
