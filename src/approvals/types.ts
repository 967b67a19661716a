import {
  type ApprovalDecision,
  type ApprovalScope,
  type ApprovalState,
  type Category,
  type EpochMs,
  type Json,
  type KeyUse,
  MODES,
  type Mode,
  RISKS,
  type Risk,
  type ToolClassification,
  type UsedKey,
} from "../core/types.ts";
import type { AnswerProblem, WantedAnswer } from "./answer.ts";
import type { Lacking, Objection } from "./approver-policies/quorum.ts";
import type { Escalation, Requirement, Vote } from "./approver-policies/requirement.ts";
import type { BoundedCall, ChosenTerms, GrantBounds, GrantTerms, TermsProblem } from "./grants.ts";
import type { Approver, Requester } from "./identities.ts";

export { type ApprovalState, type KeyUse, MODES, type Mode, RISKS, type Risk };

/** The facts of an approval request. The service computed every member; only the reason in `view` comes from the agent. */
interface RequestFacts {
  readonly requester: Requester;
  readonly tool: string;
  readonly category: Category;
  readonly classification: ToolClassification;
  readonly risk: Risk;
  readonly rules: readonly string[];
  /** Hex SHA-256 of exactly what will run and for whom. */
  readonly planDigest: string;
  /** Shown to the approver, escaped and bounded. `viewDigest` is the hex SHA-256 of its JCS together with the plan digest. */
  readonly view: Json;
  readonly viewDigest: string;
  /** One line for lists and events, without arguments. */
  readonly summary: string;
  readonly scopes: readonly ApprovalScope[];
  /**
   * Identifies the calls that an approval for the session covers: hex SHA-256 over tool, manifest, arguments and target.
   * Undefined when the call cannot be approved for a session.
   */
  readonly grantKey: string | undefined;
  /** The widest bounded grant that approvers may give; when absent, none. */
  readonly offer?: GrantBounds | undefined;
  readonly traceId: string;
  /** Requirement of the policies at the time of the request; when absent, one approver is enough. */
  readonly requirement?: Requirement | undefined;
  /** Answer that an approval must carry; when absent, no answer is expected. */
  readonly answer?: WantedAnswer | undefined;
}

/** A new approval request of the gate. */
export interface NewApproval extends RequestFacts {
  /**
   * Identifies the call across all sessions of the caller. After a denial, the same call is not requested again for a while in
   * any of these sessions.
   */
  readonly callDigest?: string | undefined;
  /** Approvals that this call may use, if one was given since `priorOf` was read. */
  readonly attach?: Attachable | undefined;
  /** The earlier approvals of the call that the view names (`Prior.earlier`). Undefined: the caller of `ask` has not looked for any. */
  readonly shownPriors?: readonly Pick<Approval, "id" | "state">[] | undefined;
  /** Whether `ask` claims the approval that this call may use, if there is one: nothing more has to be checked before it is used. */
  readonly claims?: boolean | undefined;
}

/** The approvals that a call may use without naming one: any of the same call, or only the one with this id. */
export type Attachable = "any" | { readonly id: string };

/** Earlier approvals of a call. */
export interface Prior {
  /** The approval of exactly this call in this session: approved and not claimed, or claimed by a run in progress. */
  readonly usable: PriorApproval | undefined;
  /** At most five approvals of the call, in any session, whose run is possible, in progress, recent or of unknown outcome. */
  readonly earlier: readonly PriorApproval[];
}

export const NO_PRIOR: Prior = { usable: undefined, earlier: [] };

/** The part of an earlier approval that the gate and approvers see. */
export type PriorApproval = Pick<Approval, "id" | "state" | "scope" | "decidedAt">;

/** An approval request and its outcome. Times are in Unix milliseconds. */
export interface Approval extends RequestFacts {
  readonly id: string;
  readonly state: ApprovalState;
  /** Incremented by each change of state, each vote and each escalation. */
  readonly version: number;
  readonly votes: readonly Vote[];
  /** Escalation steps that were taken, in order; `requirement` has their approvers. */
  readonly escalations: readonly Escalation[];
  readonly createdAt: number;
  readonly decideBy: number;
  readonly executeBy: number | undefined;
  readonly decidedAt: number | undefined;
  /** Approver who ended the request: with a denial, or with the last vote that was missing. */
  readonly decidedBy: Approver | undefined;
  readonly scope: ApprovalScope | undefined;
  /** The terms of the grant, for scope `bounded`. */
  readonly granted: GrantTerms | undefined;
  readonly decisionReason: string | undefined;
  /** The members of the hub that asked, the first one first; when absent, the service with the store itself. */
  readonly members?: readonly string[] | undefined;
}

export type Asked =
  /** A new approval request, or the identical one that is already pending. */
  | { readonly outcome: "asked"; readonly approval: Approval; readonly joined: boolean }
  /** There is an approval that the call may use, or the view does not name the earlier ones: `prior` has them. */
  | { readonly outcome: "outdated"; readonly prior: Prior }
  /** With `claims`: the call may run. */
  | Extract<Claimed, { outcome: "claimed" }>
  | NotAsked;

/** The reason why nobody is asked about a call that needs an approval. */
export type NotAsked =
  | {
      readonly outcome: "denied_before";
      readonly approval: Approval;
      readonly retryAfterMs: number;
      /** From this time on, the same call may ask again. */
      readonly askAgainAt: EpochMs;
    }
  /** Too many requests of this caller or session are pending, or the caller has withdrawn too many. */
  | { readonly outcome: "backlog"; readonly limit: number; readonly retryAfterMs: number };

export interface Claim {
  readonly id: string;
  readonly requester: Requester;
  readonly planDigest: string;
  /** Digest of what the current policies require of the call; empty when no policy applies. */
  readonly requirementDigest?: string | undefined;
}

/** A call whose earlier approvals are searched. */
export interface PriorCall extends Omit<Claim, "id"> {
  readonly callDigest: string;
  readonly attach: Attachable | undefined;
}

export type Claimed =
  | { readonly outcome: "claimed"; readonly approval: Approval }
  | { readonly outcome: "not_found" }
  | { readonly outcome: "mismatch"; readonly approval: Approval }
  /** Not yet or no longer approved: `approval.state` has the state. */
  | { readonly outcome: "not_approved"; readonly approval: Approval };

/**
 * A remembered approval: until `expiresAt`, this caller may make exactly this call in this session; with `bounded`, so many calls
 * within bounds.
 */
export interface Grant {
  readonly id: string;
  readonly issuer: string;
  readonly subject: string;
  /** Empty for a bounded grant of a caller without a session. */
  readonly session: string;
  readonly tool: string;
  readonly grantKey: string;
  readonly summary: string;
  readonly approvalId: string;
  readonly grantedBy: Approver;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly bounded?: { readonly bounds: GrantBounds; readonly runsUsed: number } | undefined;
}

/** Restricts a list of grants to those of one caller, of one session, or both. */
export interface GrantFilter {
  readonly requester?: Pick<Requester, "issuer" | "subject"> | undefined;
  readonly session?: string | undefined;
}

/** A session that the service knows: created by the service, or a token's `sid`, stored when it first gets a mode or grant. */
export interface Session {
  readonly id: string;
  readonly issuer: string;
  readonly subject: string;
  readonly mode: Mode;
  /** Time at which the mode falls back to `default`. */
  readonly modeUntil: number | undefined;
  readonly modeSetBy: Approver | undefined;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/**
 * Types of events. Only operators see `approval.voted`, a vote after which others are still missing, and `approval.escalated`:
 * requesters do not learn who reviews the call.
 */
export const EVENT_TYPES = [
  ...(["approval.requested", "approval.voted", "approval.approved", "approval.denied", "approval.expired"] as const),
  ...([
    "approval.escalated",
    "approval.cancelled",
    "approval.revoked",
    "approval.claimed",
    "approval.executed",
    "approval.failed",
  ] as const),
  ...(["approval.in_doubt", "grant.created", "grant.used", "grant.revoked", "session.mode", "session.ended"] as const),
] as const;

/** A change of an approval, grant or session. Never contains arguments. */
export interface ApprovalEvent {
  /** Increases in commit order; used as the `id` of a server-sent event. */
  readonly seq: number;
  readonly at: number;
  readonly type: (typeof EVENT_TYPES)[number];
  readonly id: string;
  readonly tool: string | undefined;
  readonly summary: string | undefined;
  /** Owner: callers see only their own events. */
  readonly issuer: string;
  readonly subject: string;
  /** The webhooks that get the event, whatever they subscribe to; when absent, those that subscribe to its type. */
  readonly webhooks?: readonly string[] | undefined;
  /** The member of the hub that asked first for the approval. */
  readonly member?: string | undefined;
}

export interface ApprovalFilter {
  readonly state?: ApprovalState | undefined;
  readonly requester?: Pick<Requester, "issuer" | "subject"> | undefined;
  /** At most 200. */
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** A decision on another request for the same tool. */
export interface EarlierDecision {
  readonly id: string;
  readonly decision: ApprovalDecision;
  /** Unix milliseconds. */
  readonly at: number;
  readonly by: Approver;
  readonly reason: string | undefined;
}

export interface ApprovalPage {
  readonly approvals: readonly Approval[];
  readonly cursor: string | undefined;
}

/** The released result of a call that has an idempotency key. */
export interface StoredAnswer {
  readonly result: Json;
  readonly filteredFields: readonly string[];
  readonly truncated?: true | undefined;
  readonly outputHash: string;
}

export type KeyState =
  /** First use of the key, or nothing ran in the previous use: the call may run. `approvalId` is the request that it made then. */
  | { readonly outcome: "begin"; readonly approvalId?: string }
  | { readonly outcome: "answered"; readonly answer: StoredAnswer }
  | { readonly outcome: "other_args" }
  | { readonly outcome: "running" }
  | { readonly outcome: "unknown" };

export type KeyEnd = "not_run" | "unknown";

/** Nothing ran: a person is asked. The key remembers the request, and the call with this key finds it again. */
export interface KeyAsked {
  readonly approvalId: string;
}

/** A call to make when its approval request is decided. The store encrypts it: its arguments may contain secrets. */
export interface TaskCall {
  readonly tool: string;
  readonly args: Json;
  readonly idempotencyKey?: string;
}

export interface NewTask {
  readonly requester: Requester;
  readonly approvalId: string;
  readonly call: TaskCall;
}

export type TaskState =
  /** Approvers are asked until `decideBy`. */
  | { readonly state: "pending"; readonly decideBy: number }
  /** The request is decided: whoever has read this makes the call, and reports its end with `endTask`. */
  | { readonly state: "due"; readonly call: TaskCall }
  | { readonly state: "running" }
  | { readonly state: "answered"; readonly answer: Json }
  | { readonly state: "cancelled" };

/** A call of which its requester asks for the outcome later. Times are in Unix milliseconds. */
export type Task = TaskState & {
  /** Unguessable, known to the requester only. */
  readonly id: string;
  readonly tool: string;
  readonly approvalId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly expiresAt: number;
};

/** The end of a task's run. */
export interface TaskEnd {
  readonly answer: Json;
  /** Kept instead of an answer that is too large. */
  readonly short: Json;
  /** Set for a temporary refusal: the task runs again at its next reading, unless its approval was used. */
  readonly mayRunLater: boolean;
}

export type SettledAs = "executed" | "failed" | "in_doubt" | "unused";

/** Durable approvals. One conditional SQL statement settles each transition, so that no transition can happen twice. */
export interface Backlog {
  readonly waiting: number;
  /** Age of the oldest waiting request, by the store's clock; 0 when none waits. */
  readonly oldestMs: number;
}

/** An approval that was claimed and not settled. */
export interface LeftClaim {
  readonly id: string;
  /** `in_doubt`: its lease has ended. */
  readonly state: "claimed" | "in_doubt";
}

/** The outcome of a call that was unknown. */
export interface ResolvedDoubt {
  /** The process that claimed the approval. */
  readonly claimant: string;
  readonly approvalId: string | undefined;
  readonly key: UsedKey | undefined;
  /** The key counts only while it cannot have been used by a later call. */
  readonly startedAt: EpochMs;
  /** Whether the change has been made. */
  readonly isDone: boolean;
}

export interface Approvals {
  /** Each method is a request over the network: who asks looks for earlier approvals, and uses one, in `ask` itself. */
  readonly isRemote?: true;
  ask(request: NewApproval): Promise<Asked>;
  /** Returns why `ask` would ask nobody; undefined when it would. Writes nothing. */
  foresee(request: NewApproval): Promise<NotAsked | undefined>;
  decide(decision: Decision): Promise<Decided>;
  claim(claim: Claim): Promise<Claimed>;
  priorOf(call: PriorCall): Promise<Prior>;
  /**
   * Records the outcome of a claimed approval. Does nothing when the approval is no longer claimed. `unused`: its call was stopped
   * before it started, and the approval can be claimed again until it expires.
   */
  settle(id: string, outcome: SettledAs): Promise<void>;
  /**
   * Withdraws a pending or approved request for the caller who made it. Returns undefined when the request is unknown, belongs
   * to another caller, or has already ended.
   */
  cancel(id: string, requester: Pick<Requester, "issuer" | "subject">): Promise<Approval | undefined>;
  /** Takes back an approval for an operator, before the approval is claimed. */
  revoke(id: string, by: Approver): Promise<Approval | undefined>;
  get(id: string): Promise<Approval | undefined>;
  /** Returns how long ago the request was made, in milliseconds by the store's clock; undefined when it does not exist. */
  ageOf(id: string): Promise<number | undefined>;
  list(filter: ApprovalFilter): Promise<ApprovalPage>;
  /** Returns what waits for a decision now, of all callers and all processes that share the store. */
  backlog(): Promise<Backlog>;
  /** Returns the last decisions of people on other requests for the same tool, newest first, at most five. */
  earlierDecisions(of: Pick<Approval, "id" | "tool">): Promise<readonly EarlierDecision[]>;
  /** Waits until the approval is no longer pending, the timeout passes or the signal fires; then returns the current state. */
  wait(
    id: string,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Approval | undefined>;

  findGrant(requester: Requester, grantKey: string): Promise<Grant | undefined>;
  /** Returns the bounded grants that cover the call and have runs left, the one that ends first first. */
  findBoundedGrants(call: BoundedCall): Promise<readonly Grant[]>;
  /** Counts a run. It is durable when the promise resolves; undefined when the grant has no run left or has ended. */
  useGrant(id: string, traceId: string): Promise<Grant | undefined>;
  listGrants(filter: GrantFilter): Promise<readonly Grant[]>;
  revokeGrant(id: string, by: Approver): Promise<boolean>;
  revokeGrantsFor(tools: readonly string[], by: Approver): Promise<void>;

  openSession(requester: Pick<Requester, "issuer" | "subject">): Promise<Session>;
  /** Returns undefined when the session is unknown, has ended, or belongs to another caller. */
  findSession(id: string, requester: Pick<Requester, "issuer" | "subject">): Promise<Session | undefined>;
  /** Returns whether this caller has had the session: it was ended, or the service opened it and it has expired. */
  hasSessionEnded(id: string, requester: Pick<Requester, "issuer" | "subject">): Promise<boolean>;
  /** Sets a mode until a given time. With `requester`, creates the session when it is not known yet. */
  setMode(change: {
    readonly id: string;
    /** Required for a `sid` that the service has not stored yet. */
    readonly requester?: Pick<Requester, "issuer" | "subject"> | undefined;
    readonly mode: Mode;
    readonly until: number;
    readonly by: Approver;
  }): Promise<Session | undefined>;
  listSessions(owner?: Pick<Requester, "issuer" | "subject">): Promise<readonly Session[]>;
  /**
   * Ends a session with its mode and grants, for its owner (an agent) or for an operator. Without `owner`, an operator ends the
   * only live one with this id.
   */
  endSession(
    id: string,
    by: Pick<Requester, "issuer" | "subject"> | Approver,
    owner?: Pick<Requester, "issuer" | "subject">,
  ): Promise<boolean>;

  beginKey(use: KeyUse): Promise<KeyState>;
  /**
   * Records the end of a use that `beginKey` started: an answer, `not_run` or `unknown`. Of an answer that is too large to keep,
   * the store records only that it exists, and a repeated call gets no result; with `unkept: "not_run"` the call runs again.
   */
  endKey(use: KeyUse, end: StoredAnswer | KeyEnd | KeyAsked, unkept?: KeyEnd): Promise<void>;
  /** Records that the process ended which ran a call with this key, when the store does not know that process. */
  doubtKey(key: UsedKey): Promise<void>;

  /** Returns undefined when the caller has too many tasks, or no such approval. */
  createTask(task: NewTask): Promise<Task | undefined>;
  /** Returns undefined for an unknown or expired id, and for a task of another caller, chain of actors or session. */
  readTask(id: string, requester: Requester): Promise<Task | undefined>;
  /** Like `readTask`, without starting a run. */
  hasTask(id: string, requester: Requester): Promise<boolean>;
  /** Returns whether the answer is kept: it is not after a refusal that is temporary, and when the task was cancelled. */
  endTask(id: string, end: TaskEnd): Promise<boolean>;
  /** Cancels a task that does not run yet, with its approval request. Returns false when `readTask` would not find it. */
  cancelTask(id: string, requester: Requester): Promise<boolean>;

  /** Returns at most `limit` events after `seq`, oldest first. */
  eventsAfter(seq: number, limit: number): Promise<readonly ApprovalEvent[]>;
  /**
   * Calls `listener` after each commit that made events, and sometimes without one. The call is a hint: read `eventsAfter`.
   * @returns a function that removes the listener
   */
  onEvents(listener: () => void): () => void;
  lastSeq(): Promise<number>;

  /** Returns the approvals that a process has claimed and has not settled; also those whose leases have ended within the last day. */
  claimsOf(claimant: string): Promise<readonly LeftClaim[]>;
  /** Ends the claims and the uses of keys of a process that has ended: the outcomes of its calls are unknown. */
  doubtClaimsOf(claimant: string): Promise<void>;
  /** Settles what `doubtClaimsOf` and `doubtKey` have left, once the outcome of the call is known. Anything else stays as it is. */
  resolveDoubt(doubt: ResolvedDoubt): Promise<void>;

  /** Expires what is past its deadline and deletes old rows. Runs regularly; also callable at startup and in tests. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

/**
 * A message in which an integration reports somebody's decision. Each message counts once: it is recorded in the transaction of
 * its decision.
 */
export interface Relay {
  readonly webhook: string;
  readonly messageId: string;
  readonly user: string;
}

/** A received decision of an approver who is already authenticated. */
export interface Decision {
  readonly id: string;
  readonly by: Approver;
  /** Permissions in the approver's token; when absent, none that a policy could require. */
  readonly permissions?: readonly string[] | undefined;
  /** `sub`s of the token's `act` chain: whoever holds another person's token counts as both persons. */
  readonly actors?: readonly string[] | undefined;
  readonly decision: ApprovalDecision;
  readonly scope?: ApprovalScope | undefined;
  /** Narrows the grant of scope `bounded`; what is left out is as offered. */
  readonly grant?: ChosenTerms | undefined;
  readonly reason?: string | undefined;
  readonly answer?: string | undefined;
  /** Values of the view that the approver vouches for in later calls as well. */
  readonly vouch?: readonly string[] | undefined;
  /** Digest of the view that the approver saw; must match the stored one when given. */
  readonly viewDigest?: string | undefined;
  /** Set when an integration sent the decision instead of an approver with a token. */
  readonly relay?: Relay | undefined;
}

export type Decided =
  | { readonly outcome: "decided"; readonly approval: Approval }
  | { readonly outcome: "counted"; readonly approval: Approval; readonly lacking: readonly Lacking[] }
  /** A policy does not accept this approver, does not accept the vote yet, or has already counted this person. */
  | Objection
  | { readonly outcome: "reason_missing" }
  /** The answer is missing, not acceptable, or not wanted by the request. */
  | { readonly outcome: "answer_refused"; readonly fault: AnswerProblem; readonly wanted: WantedAnswer | undefined }
  | { readonly outcome: "not_pending"; readonly approval: Approval | undefined }
  /** The approver made the request, or is in the requester's `act` chain. */
  | { readonly outcome: "own_question" }
  | { readonly outcome: "replayed" }
  | { readonly outcome: "stale_view" }
  | { readonly outcome: "scope_not_offered"; readonly offered: readonly ApprovalScope[] }
  /** The view does not offer to vouch for one of the values, or others have to approve as well. */
  | { readonly outcome: "vouch_refused"; readonly fault: "not_offered" | "several_approvers" }
  /** The grant is wider than the offered one, or comes with another scope than `bounded`. */
  | { readonly outcome: "grant_refused"; readonly problem: TermsProblem };
