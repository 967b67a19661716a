import { isTable } from "../../core/json.ts";

/** Whose messages: OpenAI's chat completions, Anthropic's messages, Google's contents. */
export type MessageFormat = "openai" | "anthropic" | "google";

/** What stands where messages should is none of that format: nothing in it can be judged. */
export class MessageFormatError extends Error {
  override readonly name = "MessageFormatError";
}

/** A JSON object of which nothing is known yet. */
export type MessageMembers = Readonly<Record<string, unknown>>;

export function membersOf(value: unknown): MessageMembers {
  return isTable(value) ? value : {};
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A call that stands in a message. */
export interface CallPart {
  readonly id: string | undefined;
  /** Undefined: it cannot be read. */
  readonly name: string | undefined;
  /** JSON text, or the value itself. */
  readonly args: unknown;
  readonly part: unknown;
}

/** The answer to a call. */
export interface ResultPart {
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly content: unknown;
  readonly part: unknown;
}

/** One message, read. Only the model's side calls, only the other side answers. */
export interface Turn {
  readonly message: MessageMembers;
  readonly calls: readonly CallPart[];
  readonly results: readonly ResultPart[];
}

/** How one provider writes calls and their answers. */
export interface Shape {
  readonly modelRole: string;
  read(message: MessageMembers): Turn;
  /** The message without its results and without those of its calls that do not stay; the same object when all of it stays. */
  keep(turn: Turn, staying: ReadonlySet<CallPart>): MessageMembers;
  /** Whether a message has nothing in it that a model would read. */
  isEmpty(message: MessageMembers): boolean;
  /** Messages that carry these results. `like` is the message that one of them stood in. */
  carry(results: readonly ResultPart[], like: MessageMembers): readonly MessageMembers[];
  /** Puts what else stood in the message of the results behind them; undefined where results stand alone. */
  join(carried: MessageMembers, rest: MessageMembers): MessageMembers | undefined;
  /** The messages of a model's answer, undefined when it is none, and how to put others in their place. */
  answers(output: MessageMembers): readonly MessageMembers[] | undefined;
  withAnswers(output: MessageMembers, answers: readonly MessageMembers[]): MessageMembers;
}
