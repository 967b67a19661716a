import type { AuditEntry } from "../audit/entry.ts";
import { Refusal } from "../core/errors.ts";
import type { CallOutcome, Planned } from "../core/evidence.ts";
import type { DataLabel, Json } from "../core/types.ts";
import type { DataFlowPolicy, FlowJudgement, FollowedCall } from "../data-flow/flow.ts";
import type { ReadBackText } from "../data-flow/stored.ts";
import type { Detector } from "../detection/sensitive.ts";
import { isJudged } from "./dry-run.ts";
import { outputReleasedWith, withheld } from "./output-filter.ts";
import { releasableText } from "./target-text.ts";

/** Most arguments whose origins the audit names. */
const ARGUMENTS_MAX = 8;
const ORIGINS_MAX = 3;

/** Follows one call: what its caller has read before, and what its answer adds to that. */
export class CallFlow {
  readonly #policy: DataFlowPolicy;
  readonly #call: FollowedCall;
  #judgement: FlowJudgement | undefined;
  #before: readonly DataLabel[] | undefined;
  #after: readonly DataLabel[] | undefined;
  #stored: readonly ReadBackText[] = [];
  #planned: Pick<Planned, "tool" | "caller" | "input"> | undefined;

  constructor(policy: DataFlowPolicy, call: FollowedCall) {
    this.#policy = policy;
    this.#call = call;
  }

  /** Judges a plan; undefined when nothing that the caller has read matters to the tool. */
  judge({ tool, caller, input }: Planned): Promise<FlowJudgement> | undefined {
    const { session } = this.#call;
    this.#planned = { tool, caller, input };
    return this.#policy.judges(tool) ? this.#judged({ tool, caller, input, session }) : undefined;
  }

  async #judged(call: Parameters<DataFlowPolicy["judge"]>[0]): Promise<FlowJudgement> {
    const judgement = await this.#policy.judge(call);
    this.#judgement = judgement;
    this.#before = judgement.labels;
    return judgement;
  }

  /**
   * Makes durable what a call that changes something may store of what its caller has read, before it runs.
   *
   * @throws {Refusal} POLICY_STATE_UNAVAILABLE: nothing has run
   */
  beforeChange(): Promise<void> | undefined {
    const call = this.#planned;
    return (
      call &&
      this.#policy.write(call, this.#call.traceId).catch((cause: unknown) => {
        const message = "What this call may store cannot be followed now, so it was not made. Try again later.";
        throw new Refusal("POLICY_STATE_UNAVAILABLE", message, { cause });
      })
    );
  }

  /**
   * Makes what the outcome releases to the caller durable before it is released. When that fails, nothing is released: a read ends
   * with POLICY_STATE_UNAVAILABLE, a change keeps its outcome without its result.
   */
  async settle(outcome: CallOutcome, detector: Detector): Promise<CallOutcome> {
    const released = releasedBy(outcome, detector);
    if (released === undefined) return outcome;
    try {
      const { before, after, stored } = await this.#policy.remember(this.#call, released);
      this.#before ??= before.labels;
      this.#after = after.labels;
      this.#stored = stored;
      return outcome;
    } catch (cause) {
      this.#policy.withheld();
      return unreleased(outcome, this.#call, cause);
    }
  }

  /** Returns what the audit says of the call; undefined when nothing is known. */
  facts(): AuditEntry["dataFlow"] {
    const before = this.#before;
    const after = this.#after ?? before;
    if (before === undefined && after === undefined) return undefined;
    const stored = this.#stored.length === 0 ? undefined : this.#stored;
    return { before, after, stored, sources: this.#judgement && sourcesOf(this.#judgement) };
  }
}

/** Returns where the values of arguments appeared, as the audit names it; undefined when they appeared nowhere. */
export function sourcesOf({ origins: all }: Pick<FlowJudgement, "origins">): FlowSources {
  const sources = all.flatMap(({ argument, origins }) =>
    origins.slice(0, ORIGINS_MAX).map(({ tool, traceId, field, place, labels, isTrusted, isWhole }) => ({
      argument,
      tool,
      traceId,
      field,
      ...(place !== undefined && { place }),
      labels,
      ...(isTrusted && { trusted: true as const }),
      ...(!isWhole && { part: true as const }),
    })),
  );
  return sources.length === 0 ? undefined : sources.slice(0, ARGUMENTS_MAX * ORIGINS_MAX);
}

export type FlowSources = NonNullable<AuditEntry["dataFlow"]>["sources"];

/** Returns the part of the target's answer that an outcome releases to the caller; undefined when it releases none. */
function releasedBy(outcome: CallOutcome, detector: Detector): Json | undefined {
  if (isJudged(outcome)) return undefined;
  if (!(outcome instanceof Refusal)) return outcome.result ?? undefined;
  const text = releasableText(Refusal.targetTextOf(outcome), detector);
  return text?.message ?? outputReleasedWith(outcome)?.result;
}

function unreleased(outcome: CallOutcome, { tool }: FollowedCall, cause: unknown): CallOutcome {
  if (outcome instanceof Refusal) {
    const { code, message, details, retryAfterMs, isLasting, findings } = outcome;
    // Neither the target's text nor its output: they belong to the other refusal.
    return new Refusal(code, message, { details, retryAfterMs, isLasting, findings, cause: outcome.cause ?? cause });
  }
  if (tool.classification !== "read" && !isJudged(outcome)) return withheld(outcome);
  return new Refusal("POLICY_STATE_UNAVAILABLE", "The answer cannot be released now. Try again later.", { cause });
}
