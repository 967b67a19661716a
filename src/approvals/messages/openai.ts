import { isTable } from "../../core/json.ts";
import {
  type CallPart,
  listOf,
  type MessageMembers,
  membersOf,
  type ResultPart,
  type Shape,
  type Turn,
  textOf,
} from "./message-format.ts";

/** OpenAI chat completions: `tool_calls` and messages with the role `tool`, or the older `function_call` and `function`. */
export const openAiShape: Shape = {
  modelRole: "assistant",

  read(message) {
    return { message, calls: callsOf(message), results: resultsOf(message) };
  },

  keep({ message, calls }, staying) {
    if (isResult(message)) return { role: message["role"] };
    if (calls.every((call) => staying.has(call)) && !isEmptyList(message["tool_calls"])) return message;
    const { tool_calls: _, function_call: legacy, ...rest } = message;
    const kept = calls.filter((call) => staying.has(call)).map(({ part }) => part);
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
      [refusal, audio, calls, call].every((value) => value === undefined || value === null) && saysNothing(content)
    );
  },

  carry(results) {
    return results.map(({ part }) => membersOf(part));
  },

  join() {
    return undefined;
  },

  answers(output) {
    const { role, choices } = output;
    if (role !== undefined) return role === "assistant" ? [output] : undefined;
    if (!Array.isArray(choices)) return undefined;
    const messages = choices.map((choice) => membersOf(choice)["message"]);
    return messages.every(isTable) ? messages : undefined;
  },

  withAnswers(output, answers) {
    const [first = output] = answers;
    if (output["role"] !== undefined) return first;
    const choices = listOf(output["choices"]).map((choice, index) => ({
      ...membersOf(choice),
      message: answers[index],
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
    return { id: textOf(id), name: role === "assistant" ? textOf(name) : undefined, args: args ?? input, part };
  });
  if (legacy === undefined || legacy === null) return found;
  const { name, arguments: args } = membersOf(legacy);
  return [...found, { id: legacyId(name), name: role === "assistant" ? textOf(name) : undefined, args, part: legacy }];
}

function resultsOf(message: MessageMembers): readonly ResultPart[] {
  const { tool_calls: _, function_call: __, ...part } = message;
  const { role, tool_call_id: id, name, content } = message;
  if (role === "tool") return [{ id: textOf(id) ?? "", name: undefined, content, part }];
  return role === "function" ? [{ id: legacyId(name), name: undefined, content, part }] : [];
}

/** Returns an id for a legacy call, which has none: the next message with the role `function` and that name answers it. */
function legacyId(name: unknown): string {
  return `function:${String(name)}`;
}

function saysNothing(content: unknown): boolean {
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
