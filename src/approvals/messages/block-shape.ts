import { isTable } from "../../core/json.ts";
import {
  type CallPart,
  listOf,
  type MessageMembers,
  membersOf,
  type ResultPart,
  type Shape,
} from "./message-format.ts";

/** A provider's format for messages that are lists of blocks. */
export interface Blocks {
  /** Member of the message that contains the blocks. */
  readonly list: "content" | "parts";
  /** Role name of the model. */
  readonly model: string;
  /** Reads a call; undefined when the block is not a call. */
  callOf(block: MessageMembers): CallPart | undefined;
  /** Reads a result; undefined when the block is not a result. */
  resultOf(block: MessageMembers): ResultPart | undefined;
  /** Returns whether a message with only this block is worth sending. */
  isSubstance(block: MessageMembers): boolean;
  answers: Shape["answers"];
  withAnswers: Shape["withAnswers"];
}

/** Creates a shape for messages that are lists of blocks: one message may contain calls, results and text. */
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
        // Only the model makes calls, and it returns no results: drop calls and results in other places.
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
