import { asString, isTable } from "../../core/json.ts";
import {
  type CallPart,
  listOf,
  type MessageMembers,
  membersOf,
  type ResultPart,
  type Shape,
  type Turn,
} from "./message-format.ts";

/** A provider's format for messages that are lists of blocks. */
interface Blocks {
  readonly list: "content" | "parts";
  readonly model: string;
  callOf(block: MessageMembers): CallPart | undefined;
  resultOf(block: MessageMembers): ResultPart | undefined;
  /** Returns whether a message with only this block is worth sending. */
  isSubstance(block: MessageMembers): boolean;
  modelMessages: Shape["modelMessages"];
  withModelMessages: Shape["withModelMessages"];
}

/** Creates a shape for messages that are lists of blocks: one message may contain calls, results and text. */
function blockShape(blocks: Blocks): Shape {
  const { list, model } = blocks;
  const blocksOf = (message: MessageMembers): readonly MessageMembers[] => listOf(message[list]).map(membersOf);
  return {
    modelRole: model,

    read(message) {
      const isModel = message["role"] === model;
      const held = blocksOf(message);
      const calls = held.flatMap((block) => blocks.callOf(block) ?? []);
      const results = held.flatMap((block) => blocks.resultOf(block) ?? []);
      return {
        message,
        // Only the model makes calls, and it returns no results: drop calls and results of other roles.
        calls: isModel ? calls : calls.map((call) => ({ ...call, name: undefined })),
        results: isModel ? [] : results,
      };
    },

    keep({ message, calls }, keptCalls) {
      const parts = new Set(calls.filter((call) => keptCalls.has(call)).map(({ part }) => part));
      const held = listOf(message[list]);
      const kept = held.filter((part) => {
        const block = membersOf(part);
        return parts.has(part) || (blocks.callOf(block) ?? blocks.resultOf(block)) === undefined;
      });
      return kept.length === held.length ? message : { ...message, [list]: kept };
    },

    isEmpty(message) {
      const content = message[list];
      if (Array.isArray(content)) return !content.some((block) => isTable(block) && blocks.isSubstance(block));
      return content === undefined || content === null || content === "";
    },

    resultMessages(results, like) {
      return results.length === 0 ? [] : [{ ...like, [list]: results.map(({ part }) => part) }];
    },

    join(carried, rest) {
      return { ...rest, [list]: [...listOf(carried[list]), ...listOf(rest[list])] };
    },

    modelMessages: blocks.modelMessages,
    withModelMessages: blocks.withModelMessages,
  };
}

const THOUGHTS: readonly unknown[] = ["thinking", "redacted_thinking"];

/** Anthropic messages: `tool_result` blocks at the start of the next user message answer `tool_use` blocks. */
export const anthropicShape = blockShape({
  list: "content",
  model: "assistant",
  callOf(block) {
    if (block["type"] !== "tool_use") return undefined;
    const { id, name, input } = block;
    return { id: asString(id) ?? "", name: asString(name), args: input, part: block };
  },
  resultOf(block) {
    if (block["type"] !== "tool_result") return undefined;
    const { tool_use_id: id, content } = block;
    return { id: asString(id) ?? "", name: undefined, content, part: block };
  },
  isSubstance({ type, text }) {
    return !THOUGHTS.includes(type) && !(type === "text" && text === "");
  },
  modelMessages(output) {
    return Array.isArray(output["content"]) || typeof output["content"] === "string" ? [output] : undefined;
  },
  withModelMessages(output, [first = output]) {
    return first;
  },
});

/** Google contents: a `functionResponse` answers a `functionCall`. Often without ids: names and order then pair them. */
export const googleShape = blockShape({
  list: "parts",
  model: "model",
  callOf(block) {
    const call = callIn(block);
    if (call === undefined) return undefined;
    const { id, name, args } = call;
    return { id: asString(id), name: resultIn(block) === undefined ? asString(name) : undefined, args, part: block };
  },
  resultOf(block) {
    const result = resultIn(block);
    if (result === undefined || callIn(block) !== undefined) return undefined;
    const { id, name, response } = result;
    return { id: asString(id), name: asString(name), content: response, part: block };
  },
  isSubstance({ thought, text }) {
    return thought !== true && text !== "";
  },
  modelMessages(output) {
    const { role, candidates } = output;
    if (candidates === undefined) return Array.isArray(output["parts"]) && isModel(role) ? [output] : undefined;
    if (!Array.isArray(candidates)) return undefined;
    // A blocked or truncated candidate may have no content, or content without parts.
    const contents = candidates.map((candidate) => contentOf(membersOf(candidate)));
    return contents.every(({ role: said, parts = [] }) => Array.isArray(parts) && isModel(said)) ? contents : undefined;
  },
  withModelMessages(output, modelMessages) {
    const [first = output] = modelMessages;
    if (output["candidates"] === undefined) return first;
    const candidates = listOf(output["candidates"]).map((candidate, index) => {
      const members = membersOf(candidate);
      if (isTable(members["content"])) return { ...members, content: modelMessages[index] };
      return Array.isArray(members["content"]) ? { ...members, content: modelMessages[index]?.["parts"] } : candidate;
    });
    return { ...output, candidates };
  },
});

function callIn(block: MessageMembers): MessageMembers | undefined {
  const call = block["functionCall"] ?? block["function_call"];
  return call === undefined || call === null ? undefined : membersOf(call);
}

function resultIn(block: MessageMembers): MessageMembers | undefined {
  const result = block["functionResponse"] ?? block["function_response"];
  return result === undefined || result === null ? undefined : membersOf(result);
}

/** Returns a candidate's content; content that is not an object is passed on as its `parts`. */
function contentOf({ content = {} }: MessageMembers): MessageMembers {
  return isTable(content) ? content : { parts: content };
}

/** Returns whether the role is the model's; model output may omit the role. */
function isModel(role: unknown): boolean {
  return role === undefined || role === "model";
}

/** OpenAI chat completions: `tool_calls` and messages with the role `tool`, or the older `function_call` and `function`. */
export const openAiShape: Shape = {
  modelRole: "assistant",

  read(message) {
    return { message, calls: callsOf(message), results: resultsOf(message) };
  },

  keep({ message, calls }, keptCalls) {
    if (isResult(message)) return { role: message["role"] };
    if (calls.every((call) => keptCalls.has(call)) && !isEmptyList(message["tool_calls"])) return message;
    const { tool_calls: _, function_call: legacy, ...rest } = message;
    const kept = calls.filter((call) => keptCalls.has(call)).map(({ part }) => part);
    const tools = kept.filter((part) => part !== legacy);
    return {
      ...rest,
      ...(tools.length > 0 && { tool_calls: tools }),
      ...(tools.length < kept.length && { function_call: legacy }),
    };
  },

  isEmpty(message) {
    if (isResult(message)) return true;
    const { content, refusal, audio, tool_calls: calls, function_call: call } = message;
    return (
      [refusal, audio, calls, call].every((value) => value === undefined || value === null) && isEmptyContent(content)
    );
  },

  resultMessages(results) {
    return results.map(({ part }) => membersOf(part));
  },

  join() {
    return undefined;
  },

  modelMessages(output) {
    const { role, choices } = output;
    if (role !== undefined) return role === "assistant" ? [output] : undefined;
    if (!Array.isArray(choices)) return undefined;
    const messages = choices.map((choice) => membersOf(choice)["message"]);
    return messages.every(isTable) ? messages : undefined;
  },

  withModelMessages(output, modelMessages) {
    const [first = output] = modelMessages;
    if (output["role"] !== undefined) return first;
    const choices = listOf(output["choices"]).map((choice, index) => ({
      ...membersOf(choice),
      message: modelMessages[index],
    }));
    return { ...output, choices };
  },
};

function isResult({ role }: MessageMembers): boolean {
  return role === "tool" || role === "function";
}

function callsOf(message: MessageMembers): Turn["calls"] {
  const { role, tool_calls: calls, function_call: legacy } = message;
  const found = listOf(calls).map((part): CallPart => {
    const { id, function: called, custom } = membersOf(part);
    const { name, arguments: args, input } = membersOf(called ?? custom);
    // Only the model makes calls: drop calls in messages of other roles.
    return { id: asString(id), name: role === "assistant" ? asString(name) : undefined, args: args ?? input, part };
  });
  if (legacy === undefined || legacy === null) return found;
  const { name, arguments: args } = membersOf(legacy);
  return [
    ...found,
    { id: legacyId(name), name: role === "assistant" ? asString(name) : undefined, args, part: legacy },
  ];
}

function resultsOf(message: MessageMembers): readonly ResultPart[] {
  const { tool_calls: _, function_call: __, ...part } = message;
  const { role, tool_call_id: id, name, content } = message;
  if (role === "tool") return [{ id: asString(id) ?? "", name: undefined, content, part }];
  return role === "function" ? [{ id: legacyId(name), name: undefined, content, part }] : [];
}

/** Returns an id for a legacy call, which has none: the next message with the role `function` and that name answers it. */
function legacyId(name: unknown): string {
  return `function:${String(name)}`;
}

function isEmptyContent(content: unknown): boolean {
  if (Array.isArray(content)) return content.every((part) => isEmptyText(part));
  return content === undefined || content === null || content === "";
}

function isEmptyText(part: unknown): boolean {
  const { type, text } = membersOf(part);
  return type === "text" && text === "";
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
