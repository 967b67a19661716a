import { isTable } from "../../core/json.ts";
import { isClientTool } from "./client-tools.ts";
import { copyOf, shapeOf } from "./conversation.ts";
import { type MessageFormat, MessageFormatError, type MessageMembers } from "./message-format.ts";

/** A call that the model must not make, as it made it. */
export interface DroppedCall {
  readonly id: string | undefined;
  /** Undefined: it could not be read. */
  readonly name: string | undefined;
}

export interface JudgedOutput<Output> {
  /** A copy without the calls that were dropped. */
  readonly output: Output;
  /** Not empty: the model tried what only the application may do. Worth a line in its log. */
  readonly dropped: readonly DroppedCall[];
}

/**
 * Takes out of a model's answer the calls of the application's own tools, which a model has no business with: it would be asking
 * a person in the application's name. Takes a whole answer or its assistant message; of a stream, what it came to.
 *
 * @throws {MessageFormatError} when it is no answer of that format: what cannot be judged does not pass
 */
export function assertNoClientTools<Output extends object>(
  modelOutput: Output,
  { format }: { readonly format: MessageFormat },
): JudgedOutput<Output> {
  const shape = shapeOf(format);
  const output: unknown = copyOf(modelOutput);
  const answers = isTable(output) ? shape.answers(output) : undefined;
  if (!isTable(output) || answers === undefined) {
    throw new MessageFormatError(`this is no answer of a model in the format ${format}`);
  }
  const dropped: DroppedCall[] = [];
  const kept = answers.map((message) => {
    const turn = shape.read({ ...message, role: shape.modelRole });
    const staying = new Set(turn.calls.filter(({ name }) => name !== undefined && !isClientTool(name)));
    const gone = turn.calls.filter((call) => !staying.has(call));
    for (const { id, name } of gone) dropped.push({ id, name });
    return gone.length === 0 ? message : shape.keep({ ...turn, message }, staying);
  });
  // Members of the output that came in, less some.
  return { output: shape.withAnswers(output, kept as readonly MessageMembers[]) as unknown as Output, dropped };
}
