import { Refusal } from "../../core/errors.ts";
import type { Binding, Handler, InlineContext, InlineTarget, Json, RunContext, Tool } from "../../core/types.ts";

/** Tools that are functions. The plan is the parsed input. */
export const inlineHandler: Handler = { bind, close: async () => {} };

/** The part of the run's context that a function may see. The signal is made only if it is looked at. */
class FunctionContext implements InlineContext {
  readonly traceId: string;
  readonly caller: InlineContext["caller"];
  readonly answer: InlineContext["answer"];
  readonly #context: RunContext;

  constructor(context: RunContext) {
    const { issuer, subject, permissions } = context.caller;
    this.traceId = context.traceId;
    this.caller = { issuer, subject, permissions };
    this.answer = context.answer;
    this.#context = context;
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }
}

function bind(tool: Tool): Binding {
  const { handler } = tool.target as InlineTarget;
  return {
    plan: (input) => ({ input: input as Json, kind: "inline" }),
    async run(plan, context) {
      try {
        return await handler(copyOf(plan["input"]) as never, new FunctionContext(context));
      } catch (error) {
        if (error instanceof Refusal) throw error;
        throw new Refusal("TARGET_FAILED", "The tool failed.", { cause: error });
      }
    },
  };
}

/** The function may do with its input what it likes; what was sealed stays. `structuredClone` takes ten times as long for plain JSON. */
function copyOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf);
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value);
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    if (key === "__proto__") return structuredClone(value);
    copy[key] = copyOf((value as Readonly<Record<string, unknown>>)[key]);
  }
  return copy;
}
