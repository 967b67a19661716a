import { isTable } from "../../core/json.ts";
import { blockShape } from "./block-shape.ts";
import { listOf, type MessageMembers, membersOf, textOf } from "./message-format.ts";

/** Google contents: a `functionResponse` answers a `functionCall`. Often without ids: names and order then pair them. */
export const googleShape = blockShape({
  list: "parts",
  model: "model",
  callOf(block) {
    const call = callIn(block);
    if (call === undefined) return undefined;
    const { id, name, args } = call;
    return { id: textOf(id), name: resultIn(block) === undefined ? textOf(name) : undefined, args, part: block };
  },
  resultOf(block) {
    const result = resultIn(block);
    if (result === undefined || callIn(block) !== undefined) return undefined;
    const { id, name, response } = result;
    return { id: textOf(id), name: textOf(name), content: response, part: block };
  },
  isSubstance({ thought, text }) {
    return thought !== true && text !== "";
  },
  answers(output) {
    const { role, candidates } = output;
    if (candidates === undefined) return Array.isArray(output["parts"]) && isModel(role) ? [output] : undefined;
    if (!Array.isArray(candidates)) return undefined;
    // A blocked or truncated candidate may have no content, or content without parts.
    const contents = candidates.map((candidate) => contentOf(membersOf(candidate)));
    return contents.every(({ role: said, parts = [] }) => Array.isArray(parts) && isModel(said)) ? contents : undefined;
  },
  withAnswers(output, answers) {
    const [first = output] = answers;
    if (output["candidates"] === undefined) return first;
    const candidates = listOf(output["candidates"]).map((candidate, index) => {
      const members = membersOf(candidate);
      if (isTable(members["content"])) return { ...members, content: answers[index] };
      return Array.isArray(members["content"]) ? { ...members, content: answers[index]?.["parts"] } : candidate;
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
