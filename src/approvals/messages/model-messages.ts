import { isTable } from "../../core/json.ts";
import { type Conversation, copyOf, type FoundResult, readConversation, shapeOf } from "./conversation.ts";
import {
  type CallPart,
  isClientTool,
  type MessageFormat,
  MessageFormatError,
  type MessageMembers,
  type Turn,
} from "./message-format.ts";

/**
 * Returns a copy of the conversation for a model: without the application's own calls and their results, without unanswered
 * calls, and without results that belong to no call. Puts results directly after their call.
 *
 * @throws {MessageFormatError} when an item is not a valid message
 */
export function prepareMessagesForLLM<Message extends object>(
  messages: readonly Message[],
  { format }: { readonly format: MessageFormat },
): Message[] {
  const conversation = readConversation(messages, format);
  const prepared = new Prepared(conversation);
  for (const turn of conversation.turns) prepared.add(turn);
  // The copies have the members of the input messages, except for the removed parts.
  return prepared.messages as unknown as Message[];
}

class Prepared {
  readonly messages: MessageMembers[] = [];
  readonly #conversation: Conversation;
  /** Messages whose results are in the last prepared message, while that message is still the last one. */
  #sources: ReadonlySet<Turn> = new Set();

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
  }

  add(turn: Turn): void {
    const { shape, answers } = this.#conversation;
    const staying = turn.calls.filter((call) => stays(call, answers));
    const kept = shape.keep(turn, new Set(staying));
    if (kept === turn.message || !shape.isEmpty(kept)) this.#put(kept, turn);
    if (staying.length > 0) this.#addResults(staying.flatMap((call) => answers.get(call) ?? []));
  }

  /** Adds a message. Other content of a message with results stays together with these results. */
  #put(kept: MessageMembers, turn: Turn): void {
    const last = this.messages.at(-1);
    const joined = last !== undefined && this.#sources.has(turn) && this.#conversation.shape.join(last, kept);
    if (joined) this.messages[this.messages.length - 1] = joined;
    else this.messages.push(kept);
    this.#sources = new Set();
  }

  #addResults(found: readonly FoundResult[]): void {
    const [first] = found;
    if (first === undefined) return;
    const results = found.map(({ result }) => result);
    this.messages.push(...this.#conversation.shape.resultMessages(results, first.turn.message));
    this.#sources = new Set(found.map(({ turn }) => turn));
  }
}

function stays(call: CallPart, answers: Conversation["answers"]): boolean {
  return call.name !== undefined && !isClientTool(call.name) && answers.has(call);
}

/** A call that was removed because the model must not make it. */
export interface DroppedCall {
  readonly id: string | undefined;
  /** Undefined when the name could not be read. */
  readonly name: string | undefined;
}

export interface JudgedOutput<Output> {
  /** Copy of the output without the dropped calls. */
  readonly output: Output;
  /** Dropped calls, which only the application may make. Log them when there are any. */
  readonly dropped: readonly DroppedCall[];
}

/**
 * Removes calls of client tools from a model's output: with such a call, the model could ask a person in the application's
 * name. Accepts a complete response or its assistant message; for a stream, pass the assembled message.
 *
 * @throws {MessageFormatError} when the output is not in the format: unreadable output must not pass unchecked
 */
export function assertNoClientTools<Output extends object>(
  modelOutput: Output,
  { format }: { readonly format: MessageFormat },
): JudgedOutput<Output> {
  const shape = shapeOf(format);
  const output: unknown = copyOf(modelOutput);
  const answers = isTable(output) ? shape.modelMessages(output) : undefined;
  if (!isTable(output) || answers === undefined) {
    throw new MessageFormatError(`this is not a model's answer in the format ${format}`);
  }
  const dropped: DroppedCall[] = [];
  const kept = answers.map((message) => {
    const turn = shape.read({ ...message, role: shape.modelRole });
    const staying = new Set(turn.calls.filter(({ name }) => name !== undefined && !isClientTool(name)));
    const gone = turn.calls.filter((call) => !staying.has(call));
    for (const { id, name } of gone) dropped.push({ id, name });
    return gone.length === 0 ? message : shape.keep({ ...turn, message }, staying);
  });
  // The copy has the members of the input, except for the dropped calls.
  return { output: shape.withModelMessages(output, kept as readonly MessageMembers[]) as unknown as Output, dropped };
}
