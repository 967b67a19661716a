import { isTable } from "../../core/json.ts";

/** Message format: OpenAI chat completions, Anthropic messages, or Google contents. */
export type MessageFormat = "openai" | "anthropic" | "google";

/** The input is not in the given message format, so that it cannot be checked. */
export class MessageFormatError extends Error {
  override readonly name = "MessageFormatError";
}

/** An unvalidated JSON object. */
export type MessageMembers = Readonly<Record<string, unknown>>;

export function membersOf(value: unknown): MessageMembers {
  return isTable(value) ? value : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export interface CallPart {
  readonly id: string | undefined;
  /** Undefined when the name cannot be read, or the call is not valid in this message. */
  readonly name: string | undefined;
  /** Arguments as JSON text or as a value. */
  readonly args: unknown;
  readonly part: unknown;
}

export interface ResultPart {
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly content: unknown;
  readonly part: unknown;
}

/** A parsed message. Only the model makes calls, and only other roles return results. */
export interface Turn {
  readonly message: MessageMembers;
  readonly calls: readonly CallPart[];
  readonly results: readonly ResultPart[];
}

/** Adapter for one provider's format of calls and results. */
export interface Shape {
  readonly modelRole: string;
  read(message: MessageMembers): Turn;
  /** Returns the message without its results and without calls not in `keptCalls`; the same object when nothing is removed. */
  keep(turn: Turn, keptCalls: ReadonlySet<CallPart>): MessageMembers;
  /** Returns whether a message contains nothing for the model to read. */
  isEmpty(message: MessageMembers): boolean;
  /** Returns messages that contain these results. `like` is the message that one of them came from. */
  resultMessages(results: readonly ResultPart[], like: MessageMembers): readonly MessageMembers[];
  /** Appends the rest of the results' original message; undefined when each result is a separate message. */
  join(carried: MessageMembers, rest: MessageMembers): MessageMembers | undefined;
  /** Returns the messages of a model's output; undefined when it is not one. `withModelMessages` replaces these messages. */
  modelMessages(output: MessageMembers): readonly MessageMembers[] | undefined;
  withModelMessages(output: MessageMembers, modelMessages: readonly MessageMembers[]): MessageMembers;
}

/** Tool that a chat client runs to show a person the approval request. Its name fits the pattern of every provider. */
export const APPROVAL_TOOL = "client_request_approval";

/** Namespace of client tools. Governed tools cannot be in it: their names contain no dots. */
const NAMESPACE = "client.";
/** Prefixes that models add to tool names. */
const WRAPPERS = ["functions.", "default_api.", "default_api:"];
const NAME_CHARACTERS_MAX = 256;

/** Matches all spellings: `client.requestApproval`, `client-request-approval`, `ClientRequestApproval`. */
const APPROVAL_LETTERS = "clientrequestapproval";

/** Returns whether only the application may call this tool, never the model. */
export function isClientTool(name: string): boolean {
  const plain = plainName(name);
  return plain.startsWith(NAMESPACE) || lettersAndDigitsOf(plain) === APPROVAL_LETTERS;
}

/** Returns whether the name is one that the application itself writes. */
export function isApprovalRequest(name: string | undefined): boolean {
  return name === APPROVAL_TOOL || name === "client.requestApproval";
}

function plainName(name: string): string {
  const folded = name.slice(0, NAME_CHARACTERS_MAX).normalize("NFKC").toLowerCase().trim();
  const wrapper = WRAPPERS.find((prefix) => folded.startsWith(prefix));
  return wrapper === undefined ? folded : folded.slice(wrapper.length);
}

function lettersAndDigitsOf(name: string): string {
  return name.replace(/[^a-z0-9]/g, "");
}
