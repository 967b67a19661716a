import { Refusal } from "../../../../src/core/errors.ts";
import type { Binding, RunContext } from "../../../../src/core/types.ts";
import { runContext } from "./tool.ts";

export async function call(binding: Binding, input: unknown, context: RunContext = runContext()): Promise<unknown> {
  return binding.run(await binding.plan(input, { signal: context.signal }), context);
}

/** Returns the refusal; fails when there is none. */
export async function refusal(work: Promise<unknown>): Promise<Refusal> {
  const error: unknown = await work.then(
    (value) => new Error(`answered ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof Refusal)) throw error;
  return error;
}
