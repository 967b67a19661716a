import { blockShape } from "./block-shape.ts";
import { textOf } from "./message-format.ts";

const THOUGHTS: readonly unknown[] = ["thinking", "redacted_thinking"];

/** Anthropic messages: `tool_result` blocks at the start of the next user message answer `tool_use` blocks. */
export const anthropicShape = blockShape({
  list: "content",
  model: "assistant",
  callOf(block) {
    if (block["type"] !== "tool_use") return undefined;
    const { id, name, input } = block;
    return { id: textOf(id) ?? "", name: textOf(name), args: input, part: block };
  },
  resultOf(block) {
    if (block["type"] !== "tool_result") return undefined;
    const { tool_use_id: id, content } = block;
    return { id: textOf(id) ?? "", name: undefined, content, part: block };
  },
  isSubstance({ type, text }) {
    return !THOUGHTS.includes(type) && !(type === "text" && text === "");
  },
  answers(output) {
    return Array.isArray(output["content"]) || typeof output["content"] === "string" ? [output] : undefined;
  },
  withAnswers(output, [first = output]) {
    return first;
  },
});
