import type { Approver } from "../identities.ts";
import type { ApprovalJournalLine } from "../store/database.ts";
import type { Approvals, Decided, Decision } from "../types.ts";

const MS_PER_SECOND = 1_000;
/** An approval sooner than this was probably given without reading. */
export const QUICK_MS = 3_000;
/** Approvers who are counted by name; further ones share one count, so that the number of time series is bounded. */
const NAMED_MAX = 100;
const OTHERS: Approver = { issuer: "", subject: "other" };

/** Bucket bounds for the time to decide, in seconds. The bound 2 separates decisions made without reading. */
export const DECISION_SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600] as const;

/** Decisions of one approver. */
export interface ApproverCounts {
  readonly approver: Approver;
  readonly approve: number;
  readonly deny: number;
  /** Approvals within three seconds of the request. */
  readonly quick: number;
}

export interface Tally {
  /** Approval requests that were made. */
  readonly asked: number;
  /** Counts by outcome: `approved`, `denied`, `cancelled`, `revoked`, `expired`. */
  readonly ended: ReadonlyMap<string, number>;
  /** Escalation steps by policy. */
  readonly escalated: ReadonlyMap<string, number>;
  /** Grants by what happened: `created`, `used` (a run of a bounded grant), `revoked`. */
  readonly grants: ReadonlyMap<string, number>;
  /** Decisions per bucket of `DECISION_SECONDS`; the last bucket is unbounded. */
  readonly decisionCounts: readonly number[];
  readonly decisionSecondsSum: number;
  approvers(): Iterable<ApproverCounts>;
}

/** Counts decisions of this process. Other replicas count their own. */
export class DecisionTally implements Tally {
  asked = 0;
  readonly ended = new Map<string, number>();
  readonly escalated = new Map<string, number>();
  readonly grants = new Map<string, number>();
  readonly decisionCounts: number[] = Array.from({ length: DECISION_SECONDS.length + 1 }, () => 0);
  decisionSecondsSum = 0;
  readonly #approvers = new Map<string, { -readonly [Key in keyof ApproverCounts]: ApproverCounts[Key] }>();

  approvers(): Iterable<ApproverCounts> {
    return this.#approvers.values();
  }

  counted({ decide, cancel, revoke }: Approvals): Pick<Approvals, "decide" | "cancel" | "revoke"> {
    return {
      decide: async (decision) => {
        const decided = await decide(decision);
        this.#countApprover(decision, decided);
        if (decided.outcome === "decided") {
          const { createdAt, decidedAt = createdAt } = decided.approval;
          this.#add(decision.decision === "approve" ? "approved" : "denied");
          this.#observe((decidedAt - createdAt) / MS_PER_SECOND);
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

  /** Counts requests, expirations, escalations and grants from journal lines, their only source. */
  noteLine({ type, ...line }: ApprovalJournalLine): void {
    if (type === "approval.asked") this.asked += 1;
    if (type === "approval.expired") this.#add("expired");
    if (type.startsWith("grant.")) {
      const change = type.slice("grant.".length);
      this.grants.set(change, (this.grants.get(change) ?? 0) + 1);
    }
    const { policy } = line;
    if (type === "approval.escalated" && typeof policy === "string")
      this.escalated.set(policy, (this.escalated.get(policy) ?? 0) + 1);
  }

  #countApprover({ by, decision }: Decision, decided: Decided): void {
    if (decided.outcome !== "decided" && decided.outcome !== "counted") return;
    const { createdAt, decidedAt, votes } = decided.approval;
    const name = JSON.stringify([by.issuer, by.subject]);
    const isNamed = this.#approvers.has(name) || this.#approvers.size < NAMED_MAX;
    const key = isNamed ? name : "others";
    const approver = isNamed ? { issuer: by.issuer, subject: by.subject } : OTHERS;
    const counts = this.#approvers.get(key) ?? { approver, approve: 0, deny: 0, quick: 0 };
    this.#approvers.set(key, counts);
    counts[decision] += 1;
    const at = decidedAt ?? votes.at(-1)?.at ?? createdAt;
    if (decision === "approve" && at - createdAt <= QUICK_MS) counts.quick += 1;
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
