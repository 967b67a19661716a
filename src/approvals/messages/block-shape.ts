import { isTable } from "../../core/json.ts";
import {
  type CallPart,
  listOf,
  type MessageMembers,
  membersOf,
  type ResultPart,
  type Shape,
} from "./message-format.ts";

/** How a provider writes the blocks that its messages are lists of. */
export interface Blocks {
  /** The message's member that holds them. */
  readonly list: "content" | "parts";
  /** The model's role. */
  readonly model: string;
  /** Undefined: not a call. */
  callOf(block: MessageMembers): CallPart | undefined;
  /** Undefined: not a result. */
  resultOf(block: MessageMembers): ResultPart | undefined;
  /** Whether it is worth sending when nothing else is left of its message. */
  isSubstance(block: MessageMembers): boolean;
  answers: Shape["answers"];
  withAnswers: Shape["withAnswers"];
}

/** Messages that are lists of blocks: a message may hold calls, results and text at once. */
export function blockShape(blocks: Blocks): Shape {
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
        // Nobody but the model calls, and it answers nothing itself: what stands elsewhere is kept from it.
        calls: isModel ? calls : calls.map((call) => ({ ...call, name: undefined })),
        results: isModel ? [] : results,
      };
    },

    keep({ message, calls }, staying) {
      const parts = new Set(calls.filter((call) => staying.has(call)).map(({ part }) => part));
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

    carry(results, like) {
      return results.length === 0 ? [] : [{ ...like, [list]: results.map(({ part }) => part) }];
    },

    join(carried, rest) {
      return { ...rest, [list]: [...listOf(carried[list]), ...listOf(rest[list])] };
    },

    answers: blocks.answers,
    withAnswers: blocks.withAnswers,
  };
}
