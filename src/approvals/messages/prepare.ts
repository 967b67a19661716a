import { type Conversation, type FoundResult, readConversation } from "./conversation.ts";
import { type CallPart, isClientTool, type MessageFormat, type MessageMembers, type Turn } from "./message-format.ts";

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
    if (staying.length > 0) this.#carry(staying.flatMap((call) => answers.get(call) ?? []));
  }

  /** Adds a message. Other content of a message with results stays together with these results. */
  #put(kept: MessageMembers, turn: Turn): void {
    const last = this.messages.at(-1);
    const joined = last !== undefined && this.#sources.has(turn) && this.#conversation.shape.join(last, kept);
    if (joined) this.messages[this.messages.length - 1] = joined;
    else this.messages.push(kept);
    this.#sources = new Set();
  }

  #carry(found: readonly FoundResult[]): void {
    const [first] = found;
    if (first === undefined) return;
    const results = found.map(({ result }) => result);
    this.messages.push(...this.#conversation.shape.carry(results, first.turn.message));
    this.#sources = new Set(found.map(({ turn }) => turn));
  }
}

function stays(call: CallPart, answers: Conversation["answers"]): boolean {
  return call.name !== undefined && !isClientTool(call.name) && answers.has(call);
}
