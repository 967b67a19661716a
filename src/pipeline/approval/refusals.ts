import type { Approval, Claimed, NotAsked } from "../../approvals/types.ts";
import { Refusal } from "../../core/errors.ts";
import type { CallOutcome } from "../../core/evidence.ts";
import type { RefusalCode } from "../../core/refusals.ts";
import type { EpochMs, Tool } from "../../core/types.ts";

const POLL_AFTER_MS = 2_000;

const STATES = {
  denied: ["APPROVAL_DENIED", "An approver denied this call."],
  expired: ["APPROVAL_EXPIRED", "This approval has expired. Make the call again without it to request another."],
  cancelled: ["APPROVAL_CANCELLED", "This approval was cancelled. Make the call again without it to request another."],
  revoked: ["APPROVAL_REVOKED", "This approval was revoked before the call ran."],
  claimed: ["APPROVAL_CONSUMED", "This approval was already used: one approval is one run."],
  executed: ["APPROVAL_CONSUMED", "This approval was already used: one approval is one run."],
  failed: ["APPROVAL_CONSUMED", "This approval was already used: one approval is one run."],
  in_doubt: ["APPROVAL_CONSUMED", "This approval was already used; it is not known whether the change happened."],
} as const satisfies Partial<Record<Approval["state"], readonly [RefusalCode, string]>>;

export function pendingRefusal(approval: Approval): Refusal {
  const { id, decideBy, scopes, tool } = approval;
  return new Refusal("APPROVAL_REQUIRED", `An approver is asked whether ${tool} may run. ${NEXT_STEPS}`, {
    details: {
      approval: {
        id,
        decideBy: new Date(decideBy).toISOString(),
        statusUrl: `/approvals/${id}`,
        options: ["cancel", ...scopes],
      },
    },
    retryAfterMs: POLL_AFTER_MS,
  });
}

/** Returns the id of the approval request that a call waits for; undefined when it waits for none. */
export function approvalIdOf(outcome: CallOutcome): string | undefined {
  if (!(outcome instanceof Refusal) || outcome.code !== "APPROVAL_REQUIRED") return undefined;
  const approval = outcome.details?.["approval"];
  const id = typeof approval === "object" && approval !== null && "id" in approval ? approval.id : undefined;
  return typeof id === "string" ? id : undefined;
}

const NEXT_STEPS =
  "Poll statusUrl until its state is approved, then make the same call again with approval.id. Do not repeat the call meanwhile.";

export function claimRefusal(claimed: Exclude<Claimed, { outcome: "claimed" }>, tool: Tool): Refusal {
  if (claimed.outcome === "not_found") return approvalNotFound();
  if (claimed.outcome === "mismatch") {
    return new Refusal(
      "APPROVAL_MISMATCH",
      "This call differs from the approved one, or its effect has changed. Make it without approval.id to request another approval.",
      { details: { approval: { id: claimed.approval.id } } },
    );
  }
  return stateRefusal(claimed.approval, tool);
}

export function stateRefusal(approval: Approval, tool: Pick<Tool, "category">): Refusal {
  const { state, decisionReason } = approval;
  if (state === "pending" || state === "approved") return pendingRefusal(approval);
  const details = { approval: { id: approval.id, state } };
  if (state === "denied") {
    const reason = decisionReason === undefined ? undefined : { reason: decisionReason };
    return deniedRefusal(tool, { ...reason, details: { ...details, ...reason } });
  }
  // The reason given with an approval does not explain why the approval ended.
  const [code, message] = STATES[state];
  return new Refusal(code, message, { details });
}

const IN_PROGRESS_RETRY_MS = 1_000;

/** Another call of the same caller has claimed the approval of this call, which does not name it. */
export function inProgress(id: string): Refusal {
  return new Refusal("CALL_IN_PROGRESS", "The same call is running, with the approval that was requested for it.", {
    details: { approval: { id } },
    retryAfterMs: IN_PROGRESS_RETRY_MS,
  });
}

interface Denial {
  readonly reason?: string | undefined;
  /** When an earlier, identical call was denied, and from when on this one may ask again. */
  readonly earlier?: { readonly decidedAt: EpochMs; readonly askAgainAt: EpochMs };
  readonly details?: Readonly<Record<string, unknown>>;
  readonly retryAfterMs?: number;
}

/** Returns the refusal of a denied call. Its caller learns nothing about who decides, only that a person did. */
export function deniedRefusal(tool: Pick<Tool, "category">, { reason, earlier, ...options }: Denial): Refusal {
  const denied = tool.category === "command" ? "Command denied by user" : "Denied by user";
  const said = reason ? `${denied}: ${reason}` : denied;
  if (earlier === undefined) return new Refusal("APPROVAL_DENIED", reason ? said : `${said}.`, options);
  const [at, from] = [earlier.decidedAt, earlier.askAgainAt].map((ms) => new Date(ms).toISOString());
  return new Refusal("APPROVAL_DENIED", `${said} (denied at ${at}; the same call can ask again from ${from})`, options);
}

/** No person and no callback can be asked. */
export function nobodyToAsk(rules: readonly string[]): Refusal {
  return new Refusal("APPROVAL_DENIED", "This call needs a person's approval, and no approver is configured.", {
    details: { rule: rules[0] },
  });
}

/** Returns the refusal of a call for which no person is asked, although it needs an approval. */
export function notAsked(tool: Tool, asked: NotAsked): Refusal {
  const { retryAfterMs } = asked;
  if (asked.outcome === "denied_before") {
    const { askAgainAt, approval } = asked;
    const { id, decisionReason, decidedAt = askAgainAt - retryAfterMs } = approval;
    return deniedRefusal(tool, {
      reason: decisionReason,
      earlier: { decidedAt, askAgainAt },
      details: { approval: { id, state: "denied" }, askAgainAt: new Date(askAgainAt).toISOString() },
      retryAfterMs,
    });
  }
  return new Refusal(
    "RATE_LIMITED",
    "Too many of your approval requests are pending. Wait for their decisions first.",
    {
      details: { limit: "pendingApprovals", pendingApprovalsMax: asked.limit },
      retryAfterMs,
    },
  );
}

/** The callback failed or did not answer in time: no answer is a denial. */
export function unanswered(cause: unknown): Refusal {
  return new Refusal("APPROVAL_DENIED", "No approver answered whether this call may run.", { cause });
}

export function approvalNotFound(): Refusal {
  return new Refusal("APPROVAL_NOT_FOUND", "You have no such approval.");
}

/** The store failed: a call is not allowed because its approval could not be requested. */
export function approvalsUnavailable(cause: unknown): Refusal {
  return new Refusal("APPROVAL_UNAVAILABLE", "Approvals are unavailable at the moment. The call was not run.", {
    retryAfterMs: POLL_AFTER_MS,
    cause,
  });
}
