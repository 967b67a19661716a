import { isTable } from "../../core/json.ts";
import {
  type CallPart,
  type MessageFormat,
  MessageFormatError,
  type ResultPart,
  type Shape,
  type Turn,
} from "./message-format.ts";
import { anthropicShape, googleShape, openAiShape } from "./shapes.ts";

const MESSAGES_MAX = 10_000;

const SHAPES = { openai: openAiShape, anthropic: anthropicShape, google: googleShape } as const satisfies Record<
  MessageFormat,
  Shape
>;

/**
 * Returns the shape of a format.
 *
 * @throws {MessageFormatError} when the format is unknown
 */
export function shapeOf(format: MessageFormat): Shape {
  if (Object.hasOwn(SHAPES, format)) return SHAPES[format];
  throw new MessageFormatError(`format must be one of ${Object.keys(SHAPES).join(", ")}`);
}

/**
 * Copies plain data, so that changes do not affect the caller's original.
 *
 * @throws {MessageFormatError} when the value is not plain data
 */
export function copyOf<T>(value: T): T {
  try {
    return structuredClone(value);
  } catch (cause) {
    throw new MessageFormatError("messages must be plain data", { cause });
  }
}

export interface FoundResult {
  readonly result: ResultPart;
  readonly turn: Turn;
}

export interface Conversation {
  readonly shape: Shape;
  readonly turns: readonly Turn[];
  /** Answered calls, each with the first result that came after it. */
  readonly answers: ReadonlyMap<CallPart, FoundResult>;
}

/**
 * Parses a copy of untrusted messages.
 *
 * @throws {MessageFormatError} when they are not messages
 */
export function readConversation(messages: readonly unknown[], format: MessageFormat): Conversation {
  const shape = shapeOf(format);
  if (!Array.isArray(messages)) throw new MessageFormatError("messages must be a list");
  if (messages.length > MESSAGES_MAX) throw new MessageFormatError(`more than ${MESSAGES_MAX} messages`);
  const turns = copyOf(messages).map((message: unknown, index) => {
    if (!isTable(message)) throw new MessageFormatError(`message ${index} is not an object`);
    return shape.read(message);
  });
  return { shape, turns, answers: pair(turns) };
}

/** Pairs results with calls by id, or by name and order when there is no id. */
function pair(turns: readonly Turn[]): ReadonlyMap<CallPart, FoundResult> {
  const answers = new Map<CallPart, FoundResult>();
  const byId = new Map<string, CallPart>();
  const byName = new CallQueues();
  const withoutId = new CallQueues();
  for (const turn of turns) {
    for (const result of turn.results) {
      const { id, name } = result;
      const named = id === undefined ? undefined : byId.get(id);
      const isNamed = named !== undefined && (name === undefined || name === named.name);
      const queue = id === undefined ? byName : withoutId;
      const call = isNamed ? named : queue.next(name ?? "", answers);
      if (call !== undefined && !answers.has(call)) answers.set(call, { result, turn });
    }
    for (const call of turn.calls) {
      if (call.name === undefined) continue;
      byName.add(call.name, call);
      if (call.id === undefined) withoutId.add(call.name, call);
      else byId.set(call.id, call);
    }
  }
  return answers;
}

/** Calls that may still get a result, by name, in the order in which they were made. */
class CallQueues {
  readonly #byName = new Map<string, { readonly calls: CallPart[]; at: number }>();

  add(name: string, call: CallPart): void {
    const queue = this.#byName.get(name) ?? { calls: [], at: 0 };
    queue.calls.push(call);
    this.#byName.set(name, queue);
  }

  /** Returns the oldest call of this name without an answer. */
  next(name: string, answers: ReadonlyMap<CallPart, FoundResult>): CallPart | undefined {
    const queue = this.#byName.get(name);
    if (queue === undefined) return undefined;
    for (let call = queue.calls[queue.at]; call !== undefined; call = queue.calls[queue.at]) {
      if (!answers.has(call)) return call;
      queue.at += 1;
    }
    return undefined;
  }
}
