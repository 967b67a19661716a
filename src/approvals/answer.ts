import { z } from "zod";
import { Refusal } from "../core/errors.ts";
import { visible } from "../core/terminal-text.ts";

/** Maximum length of an answer's text, in UTF-16 units. */
export const ANSWER_CHARACTERS_MAX = 4_000;
const CHOICES_MAX = 10;
const CHOICE_CHARACTERS_MAX = 200;

/** Answer that a request wants along with the approval, and the answer given so far. */
export interface WantedAnswer {
  /** Allowed answers; when absent, any text is allowed. */
  readonly choices?: readonly string[] | undefined;
  /** Answer of the first approver whose vote was counted; later approvers approve this answer. */
  readonly text?: string | undefined;
}

/** Problem with an answer. `differs`: a vote with another answer was already counted. */
export type AnswerProblem = "missing" | "not_wanted" | "too_long" | "no_choice" | "differs";

/** A wanted answer as it is stored. */
export const wantedAnswerSchema = z.strictObject({
  choices: z.array(z.string()).optional(),
  text: z.string().optional(),
});

export function readAnswer(value: unknown): WantedAnswer | undefined {
  return wantedAnswerSchema.safeParse(value).data;
}

/**
 * Returns the answer that a request wants, with the choices that the tool's manifest returned for a call.
 *
 * @throws {Refusal} INVALID_INPUT when `choices` is not a valid list
 */
export function wantedAnswer(choices: unknown): WantedAnswer {
  if (choices === undefined) return {};
  const isList = Array.isArray(choices) && choices.length > 0 && choices.length <= CHOICES_MAX;
  if (!isList || !choices.every((choice) => isReadable(choice) && choice.length <= CHOICE_CHARACTERS_MAX))
    throw new Refusal("INVALID_INPUT", "The choices must be a few short texts that a person can read.");
  const texts = choices.map(String);
  if (new Set(texts.map(withoutSpaces)).size < texts.length)
    throw new Refusal(
      "INVALID_INPUT",
      "The choices must differ in more than spaces: a person could not tell them apart.",
    );
  return { choices: texts };
}

function withoutSpaces(text: string): string {
  return text.replace(/\s+/g, "");
}

/** Returns why an approval with this answer does not count; undefined when it counts. */
export function answerProblem(wanted: WantedAnswer | undefined, given: string | undefined): AnswerProblem | undefined {
  if (wanted === undefined) return given === undefined ? undefined : "not_wanted";
  const { choices, text } = wanted;
  if (given === undefined) return text === undefined ? "missing" : undefined;
  if (given.length > ANSWER_CHARACTERS_MAX) return "too_long";
  if (!isReadable(given)) return "missing";
  if (choices !== undefined && !choices.includes(given)) return "no_choice";
  return text === undefined || text === given ? undefined : "differs";
}

export function isReadable(text: unknown): text is string {
  if (typeof text !== "string") return false;
  return [...text].some((character) => character.trim() !== "" && visible(character) === character);
}
