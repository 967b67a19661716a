import { isTable } from "../../core/json.ts";
import { copyOf, shapeOf } from "./conversation.ts";
import { isClientTool, type MessageFormat, MessageFormatError, type MessageMembers } from "./message-format.ts";

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
  const answers = isTable(output) ? shape.answers(output) : undefined;
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
  return { output: shape.withAnswers(output, kept as readonly MessageMembers[]) as unknown as Output, dropped };
}
