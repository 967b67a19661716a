import { z } from "zod";
import { Refusal } from "../core/errors.ts";
import { visible } from "../core/terminal-text.ts";

/** UTF-16 units of an answer's text. */
export const ANSWER_CHARACTERS_MAX = 4_000;
const CHOICES_MAX = 10;
const CHOICE_CHARACTERS_MAX = 200;

/** What a question wants to hear beside the yes, and what it has heard. */
export interface WantedAnswer {
  /** One of these; without them, any text. */
  readonly choices?: readonly string[] | undefined;
  /** Of the first whose yes was counted: who says yes after them says yes to it. */
  readonly text?: string | undefined;
}

/** What is wrong with an answer. `differs`: somebody's yes to another one was counted already. */
export type AnswerFault = "missing" | "not_wanted" | "too_long" | "no_choice" | "differs";

const stored = z.strictObject({ choices: z.array(z.string()).optional(), text: z.string().optional() });

/** Undefined: damaged. */
export function readAnswer(value: unknown): WantedAnswer | undefined {
  return stored.safeParse(value).data;
}

/**
 * What a manifest asks for, in the words of one call.
 *
 * @throws {Refusal} INVALID_INPUT when it is no list of choices
 */
export function wantedAnswer(choices: unknown): WantedAnswer {
  if (choices === undefined) return {};
  const isList = Array.isArray(choices) && choices.length > 0 && choices.length <= CHOICES_MAX;
  if (isList && choices.every((choice) => isReadable(choice) && choice.length <= CHOICE_CHARACTERS_MAX)) {
    return { choices: choices.map(String) };
  }
  throw new Refusal("INVALID_INPUT", "The choices must be a few short texts that a person can read.");
}

/** Why a yes with this answer does not count; undefined: it does. */
export function answerFault(wanted: WantedAnswer | undefined, given: string | undefined): AnswerFault | undefined {
  if (wanted === undefined) return given === undefined ? undefined : "not_wanted";
  const { choices, text } = wanted;
  if (given === undefined) return text === undefined ? "missing" : undefined;
  if (given.length > ANSWER_CHARACTERS_MAX) return "too_long";
  if (!isReadable(given)) return "missing";
  if (choices !== undefined && !choices.includes(given)) return "no_choice";
  return text === undefined || text === given ? undefined : "differs";
}

/** Whether somebody can see anything in it. */
export function isReadable(text: unknown): text is string {
  if (typeof text !== "string") return false;
  return [...text].some((character) => character.trim() !== "" && visible(character) === character);
}
