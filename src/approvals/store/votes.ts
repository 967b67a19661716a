import { sha256Hex } from "../../core/digest.ts";
import { present } from "../../core/present.ts";
import type { ApprovalScope, Json } from "../../core/types.ts";
import { vouchableIn } from "../../core/vouching.ts";
import { type Lacking, lackingOf, type Voter, voteResultOf } from "../approver-policies/quorum.ts";
import type { Vote } from "../approver-policies/requirement.ts";
import { chosenTerms, type GrantTerms, narrowest, termsJson } from "../grants.ts";
import type { Approval, Decision } from "../types.ts";
import type { WriteTransaction } from "./database.ts";
import { type ApprovalLimits, SECOND_MS } from "./store.ts";
import { identity, noteTransition } from "./transitions.ts";

const REASON_CHARACTERS_MAX = 500;
const MINUTE_SECONDS = 60;

export function voterOf({ by, permissions = [], actors = [] }: Decision): Voter {
  return { ...identity(by), permissions, actors };
}

/**
 * Counts the vote in one conditional statement, and ends the request when it was the last missing vote. Returns undefined when
 * the approval has changed since it was read: two votes cannot fill the same slot.
 */
export async function vote(
  tx: WriteTransaction,
  decision: Decision,
  { approval, limits }: { readonly approval: Approval; readonly limits: ApprovalLimits },
): Promise<Approval | undefined> {
  const { id, by } = decision;
  const counted = countedWith(decision, approval, tx.now);
  const { state, votes, scope, granted } = counted;
  const isOver = state !== "pending";
  const reason = boundedReason(decision.reason);
  const answer = answerWith(decision, approval);
  const executeBySeconds = Math.min(
    limits.executeBySeconds,
    approval.requirement?.executeBySeconds ?? limits.executeBySeconds,
    ...(granted === undefined ? [] : [granted.minutes * MINUTE_SECONDS]),
  );
  const rows = await tx.sql`
    UPDATE approvals SET state = ${state}, version = version + 1, votes = ${JSON.stringify(votes)}, answer = ${answer},
      scope = ${isOver ? scope : null}, granted = ${isOver && granted !== undefined ? JSON.stringify(granted) : null},
      execute_by = ${state === "approved" ? tx.now + executeBySeconds * SECOND_MS : null},
      ended_at = ${state === "denied" ? tx.now : null}, decided_at = ${isOver ? tx.now : null},
      decided_issuer = ${isOver ? by.issuer : null}, decided_subject = ${isOver ? by.subject : null},
      decision_reason = ${isOver ? (reason ?? null) : null}
    WHERE id = ${id} AND state = 'pending' AND decide_by > ${tx.now} AND view_digest = ${approval.viewDigest}
      AND version = ${approval.version}
    RETURNING *`;
  return noteTransition(tx, rows, {
    event: isOver ? `approval.${state}` : "approval.voted",
    journal: "approval.voted",
    summary: isOver ? undefined : progressLine(approval, votes),
    more: {
      decider: identity(by),
      decision: decision.decision,
      scope: decision.decision === "approve" ? (decision.scope ?? "once") : undefined,
      viewDigest: approval.viewDigest,
      reason,
      // The answer may be a secret; its hash shows which one it was.
      ...(decision.decision === "approve" &&
        decision.answer !== undefined && { answerHash: sha256Hex(decision.answer) }),
      ...(granted !== undefined && { granted: termsJson(granted) }),
      ...vouchedIn(decision, approval),
      ...positionsOf(approval, votes, state),
    },
  });
}

/** Returns for which arguments the vote vouches. A value may be a secret; its hash shows which one it was. */
function vouchedIn({ decision, vouch = [] }: Decision, approval: Approval): { vouched?: Json } {
  if (decision === "deny" || vouch.length === 0) return {};
  const chosen = vouchableIn(approval).filter(({ value }) => vouch.includes(value));
  return { vouched: chosen.map(({ argument, value }) => ({ argument, valueHash: sha256Hex(value) })) };
}

/** Returns the `answer` column after this vote. */
function answerWith({ decision, answer }: Decision, { answer: wanted }: Approval): string | null {
  if (wanted === undefined) return null;
  const text =
    decision === "approve" ? (wanted.text ?? answer?.toWellFormed().replaceAll("\0", "\u{fffd}")) : undefined;
  return JSON.stringify({ ...wanted, ...(text !== undefined && { text }) });
}

interface Counted {
  readonly state: "pending" | "approved" | "denied";
  readonly votes: readonly Vote[];
  readonly scope: ApprovalScope | null;
  /** Set for scope `bounded`. */
  readonly granted?: GrantTerms | undefined;
}

function countedWith(decision: Decision, approval: Approval, at: number): Counted {
  const { requirement, votes, viewDigest, version } = approval;
  if (decision.decision === "deny") return { state: "denied", votes, scope: null };
  const { by, actors = [], scope = "once" } = decision;
  const grant = termsIn(decision, approval);
  if (requirement === undefined) return { state: "approved", votes, scope, granted: grant };
  const result = voteResultOf(requirement, votes, voterOf(decision));
  const places = "places" in result ? result.places : [];
  const reason = boundedReason(decision.reason);
  const own: Vote = { ...identity(by), actors, at, scope, grant, reason, viewDigest, version, places };
  const all = [...votes, own];
  const isEnough = lackingOf(requirement, all).length === 0;
  // Approvals of different scopes have only this call in common.
  const common = all.every((one) => one.scope === scope) ? scope : "once";
  const [first, ...others] = common === "bounded" ? all.flatMap((one) => one.grant ?? []) : [];
  const granted = first === undefined ? undefined : narrowest([first, ...others]);
  return { state: isEnough ? "approved" : "pending", votes: all, scope: common, granted };
}

/** Returns the terms of an approval of scope `bounded`. */
function termsIn({ scope, grant = {} }: Decision, { offer }: Approval): GrantTerms | undefined {
  if (scope !== "bounded") return undefined;
  const chosen = offer && chosenTerms(offer.terms, grant);
  if (chosen === undefined || "field" in chosen) throw new Error("an approval grants more than its request offers");
  return chosen;
}

export function lackingIn({ requirement, votes }: Approval): readonly Lacking[] {
  return requirement === undefined ? [] : lackingOf(requirement, votes);
}

/** Returns the progress for event listeners, without names of people or arguments. */
function progressLine({ summary, requirement }: Approval, votes: readonly Vote[]): string {
  const lacking = requirement === undefined ? [] : lackingOf(requirement, votes);
  const parts = lacking.map(({ policy, stage, have, needed }) => `${policy}, ${stage}: ${have} of ${needed}`);
  return `${summary}; ${parts.join("; ")}`;
}

/** Returns the stages in which the vote counted, and what is missing after it. */
function positionsOf(
  { requirement }: Approval,
  votes: readonly Vote[],
  state: Counted["state"],
): { counted?: Json; lacking?: Json } {
  if (requirement === undefined || state === "denied") return {};
  const counted = (votes.at(-1)?.places ?? []).map(({ policy, stage }) => {
    const { name, stages } = present(requirement.policies[policy], "the policy of a vote");
    return { policy: name, stage: present(stages[stage], "the stage of a vote").name };
  });
  return { counted, lacking: lackingOf(requirement, votes).map((one) => ({ ...one })) };
}

/** Truncates the reason, and replaces lone surrogates and NUL, which not every database can store. */
export function boundedReason(reason: string | undefined): string | undefined {
  return reason?.slice(0, REASON_CHARACTERS_MAX).toWellFormed().replaceAll("\0", "\u{fffd}");
}
