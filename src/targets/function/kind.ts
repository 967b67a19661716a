import { Refusal } from "../../core/errors.ts";
import { copyOf } from "../../core/json.ts";
import { unless } from "../../core/manifest/checks.ts";
import type { TargetKind } from "../../core/target-kind.ts";
import type { Binding, Handler, InlineContext, InlineTarget, Json, RunContext, Tool } from "../../core/types.ts";

/** Tools that are functions. The plan is the parsed input. */
export const inline: TargetKind = {
  name: "inline",
  key: "handler",
  data: false,
  check: (handler) => unless(typeof handler === "function", "target.handler", "must be a function"),
  category: (isRead) => (isRead ? "network" : undefined),
  open: () => inlineHandler,
};

export const inlineHandler: Handler = { bind, close: async () => {} };

/** The part of the run's context for functions. Creates the signal only when it is read. */
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
    planIsInput: true,
    fixedParts: ({ kind }) => ({ kind }),
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
