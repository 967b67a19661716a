import type { Approvals } from "../types.ts";

/** Upper bounds of the times to decide, in seconds: two seconds are what nobody reads in. */
export const DECISION_SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600] as const;

/** What was decided through this process since it began. */
export interface Tally {
  /** `approved`, `denied`, `cancelled`, `revoked`, `expired`. */
  readonly ended: ReadonlyMap<string, number>;
  /** Decisions by the first bound that they did not pass; the last counts those that passed all. */
  readonly decisionCounts: readonly number[];
  readonly decisionSecondsSum: number;
}

const SECOND_MS = 1_000;

/** Counts what passes through; what other replicas decide they count themselves. */
export class DecisionTally implements Tally {
  readonly ended = new Map<string, number>();
  readonly decisionCounts: number[] = Array.from({ length: DECISION_SECONDS.length + 1 }, () => 0);
  decisionSecondsSum = 0;

  /** The part of the approvals through which people's answers go. */
  counted({ decide, cancel, revoke }: Approvals): Pick<Approvals, "decide" | "cancel" | "revoke"> {
    return {
      decide: async (decision) => {
        const decided = await decide(decision);
        if (decided.outcome === "decided") {
          const { createdAt, decidedAt = createdAt } = decided.approval;
          this.#add(decision.decision === "approve" ? "approved" : "denied");
          this.#observe((decidedAt - createdAt) / SECOND_MS);
        }
        return decided;
      },
      cancel: async (id, requester) => {
        const cancelled = await cancel(id, requester);
        if (cancelled !== undefined) this.#add("cancelled");
        return cancelled;
      },
      revoke: async (id, by) => {
        const revoked = await revoke(id, by);
        if (revoked !== undefined) this.#add("revoked");
        return revoked;
      },
    };
  }

  /** Of a line that was journaled: the clock's endings have no other sign. */
  noteLine({ type }: { readonly type: string }): void {
    if (type === "approval.expired") this.#add("expired");
  }

  #add(outcome: string): void {
    this.ended.set(outcome, (this.ended.get(outcome) ?? 0) + 1);
  }

  #observe(seconds: number): void {
    const bucket = DECISION_SECONDS.findIndex((bound) => seconds <= bound);
    const at = bucket === -1 ? DECISION_SECONDS.length : bucket;
    this.decisionCounts[at] = (this.decisionCounts[at] ?? 0) + 1;
    this.decisionSecondsSum += seconds;
  }
}
