import type { Announced } from "../audit/entry.ts";
import { Refusal } from "../core/errors.ts";
import { type Approved, type Executed, mint } from "../core/evidence.ts";
import { ranOf } from "../core/refusals.ts";
import type { CallerContext, GivenAnswer, Json, RequestTracer, RunContext, Tool } from "../core/types.ts";
import type { Detector } from "../detection/sensitive.ts";
import type { CallBudget } from "../quotas/quotas.ts";
import type { CallScope } from "./call-scope.ts";
import { keepOutputSoFar, outputReleasedWith } from "./output-filter.ts";

export interface Execution {
  readonly scope: CallScope;
  readonly traceId: string;
  readonly traceparent: string | undefined;
  readonly tracestate?: string | undefined;
  readonly requests?: RequestTracer | undefined;
  readonly callerToken?: (() => string | undefined) | undefined;
  readonly detector: Detector;
  /** What the call has taken of the quotas; it is charged when the run begins. */
  readonly budget?: CallBudget | undefined;
  /** Makes durable what data flow must know before a changing call runs. */
  readonly beforeChange?: (() => Promise<void> | undefined) | undefined;
  /** Returns what the audit entry will say about the call, as far as it is known before the call runs. */
  readonly announced: () => Announced;
}

export interface ExecutorOptions {
  /** Makes the intent durable, before a changing call runs. */
  readonly intend: (announced: Announced) => Promise<void>;
  /** Makes facts of a change durable while it runs, before it becomes final. */
  readonly record?: ((traceId: string, facts: Readonly<Record<string, Json>>) => Promise<void>) | undefined;
  /** Number of processes among which the limits of tools are divided; 1 when left out. */
  readonly workers?: number | undefined;
}

export interface Executor {
  execute(approved: Approved, execution: Execution): Promise<Executed>;
}

/** Creates an executor. The target receives only the plan, not the arguments, and its result stays `unknown`. */
export function createExecutor({ intend, record, workers = 1 }: ExecutorOptions): Executor {
  const running = new Map<string, number>();

  return {
    async execute(approved, execution) {
      const { tool, binding, plan, outputPolicy, inputPolicy, scan, identity } = approved;
      const { scope } = execution;
      const changes = tool.classification !== "read";
      const leave = enter(running, tool, workers);
      const run = new ScopedRun(approved, execution, record);
      let work: Promise<unknown>;
      try {
        scope.assertOpen();
        if (changes) {
          await execution.beforeChange?.();
          await intend(execution.announced());
          scope.followThrough();
        }
        scope.startRun();
        execution.budget?.start();
        work = binding.run(plan, run);
      } catch (error) {
        leave();
        throw error;
      }
      try {
        // A handler that ignores its signal keeps its slot until it has ended.
        const raw = await scope.within(work, leave);
        return mint<Executed>({ tool, binding, outputPolicy, inputPolicy, scan, identity, raw });
      } catch (error) {
        if (error instanceof Refusal) {
          keepOutputSoFar(approved, error, execution.detector);
          const partial = outputReleasedWith(error);
          if (partial !== undefined) await execution.budget?.charge(partial.result);
        }
        throw runError(error, changes, run.hasBegun || binding.callsBegin !== true);
      }
    },
  };
}

/** The context that a handler receives in addition to the plan. The signal is created only when it is read. */
class ScopedRun implements RunContext {
  readonly deadline: number;
  readonly traceId: string;
  readonly caller: CallerContext;
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  readonly requests: RequestTracer | undefined;
  readonly answer: GivenAnswer | undefined;
  readonly callerToken: (() => string | undefined) | undefined;
  readonly record: RunContext["record"];
  readonly #scope: CallScope;
  hasBegun = false;

  constructor(
    { caller, answer }: Pick<Approved, "caller" | "answer">,
    execution: Execution,
    record: ExecutorOptions["record"],
  ) {
    this.deadline = execution.scope.deadline;
    this.traceId = execution.traceId;
    this.caller = caller;
    this.answer = answer;
    this.traceparent = execution.traceparent;
    this.tracestate = execution.tracestate;
    this.requests = execution.requests;
    this.callerToken = execution.callerToken;
    this.record = record && ((facts) => record(execution.traceId, facts));
    this.#scope = execution.scope;
  }

  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  readonly begin = (): void => {
    this.#scope.assertOpen();
    this.hasBegun = true;
  };
}

function enter(running: Map<string, number>, tool: Tool, workers: number): () => void {
  const count = running.get(tool.name) ?? 0;
  if (count >= Math.floor(tool.limits.concurrentCallsMax / workers)) {
    throw new Refusal("OVERLOADED", "Too many calls of this tool are in progress.", { retryAfterMs: 1_000 });
  }
  running.set(tool.name, count + 1);
  return () => void running.set(tool.name, (running.get(tool.name) ?? 1) - 1);
}

/** A changing call without a definite result is OUTCOME_UNKNOWN, never retryable, unless it ended before it began. */
function runError(error: unknown, changes: boolean, hasBegun: boolean): unknown {
  const code = error instanceof Refusal ? error.code : "INTERNAL";
  const ran = ranOf(code);
  if (!changes || (ran !== "cut" && ran !== "lost")) return error;
  if (!hasBegun && code === "DEADLINE_EXCEEDED") {
    const message = "The target was not ready in time. Nothing was sent, and nothing has changed.";
    return new Refusal("TARGET_UNAVAILABLE", message, { cause: error });
  }
  if (!hasBegun) return error;
  return new Refusal("OUTCOME_UNKNOWN", "It is not known whether the change happened. Check before you call again.", {
    cause: error,
    findings: error instanceof Refusal ? error.findings : undefined,
  });
}
