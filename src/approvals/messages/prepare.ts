import { isClientTool } from "./client-tools.ts";
import { type Conversation, type FoundResult, readConversation } from "./conversation.ts";
import type { CallPart, MessageFormat, MessageMembers, Turn } from "./message-format.ts";

/**
 * The conversation as a model may see it, in copies: without the application's own calls and their results, without calls that
 * nobody answered and results that nobody asked for. What answers a call stands right behind it.
 *
 * @throws {MessageFormatError} when something in it is no message
 */
export function prepareMessagesForLLM<Message extends object>(
  messages: readonly Message[],
  { format }: { readonly format: MessageFormat },
): Message[] {
  const conversation = readConversation(messages, format);
  const prepared = new Prepared(conversation);
  for (const turn of conversation.turns) prepared.add(turn);
  // Members of the messages that came in, less some.
  return prepared.messages as unknown as Message[];
}

class Prepared {
  readonly messages: MessageMembers[] = [];
  readonly #conversation: Conversation;
  /** Whose results stand in the last message, while nothing stands behind it. */
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

  /** What stood beside the results stays beside them. */
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
