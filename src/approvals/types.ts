import type { ApprovalState } from "../core/approval-states.ts";
import type { Category, Classification, Json, KeyUse } from "../core/types.ts";
import type { AnswerFault, WantedAnswer } from "./answer.ts";
import type { Decider, Requester, Scope } from "./identities.ts";
import type { Lacking, Objection } from "./policies/quorum.ts";
import type { Requirement, Vote } from "./policies/requirement.ts";

export type { ApprovalState, KeyUse };

/** How much a session asks. Set by operators, for a session, until a time. */
export type Mode = "default" | "autoEdit" | "yolo";

/** How bad a call can be. High and critical always ask and are never remembered. */
export type Risk = "low" | "medium" | "high" | "critical";

/** What the gate asks. Everything in it was computed by the service; only `reason` is the agent's word. */
export interface NewApproval {
  readonly requester: Requester;
  readonly tool: string;
  readonly category: Category;
  readonly classification: Classification;
  readonly risk: Risk;
  /** Which rules made it ask. */
  readonly rules: readonly string[];
  /** Hex SHA-256: exactly what will run, for whom. */
  readonly planDigest: string;
  /** The same in every session that the caller may name or open; after a no it is not asked again for a while in any of them. */
  readonly callDigest?: string | undefined;
  /** What the decider is shown, escaped and bounded; `viewDigest` is the hex SHA-256 of its JCS with the plan's digest. */
  readonly view: Json;
  readonly viewDigest: string;
  /** One line for lists and events: no arguments in it. */
  readonly summary: string;
  readonly scopes: readonly Scope[];
  /** What a session's yes would cover: hex SHA-256 over tool, manifest, arguments and target; absent when it covers nothing. */
  readonly grantKey: string | undefined;
  readonly traceId: string;
  /** What a yes needs; without it one decider is enough. */
  readonly requirement?: Requirement | undefined;
  /** What a yes must answer; without it a yes is enough. */
  readonly answer?: WantedAnswer | undefined;
}

/** One question and what became of it. Times in milliseconds since 1970. */
export interface Approval {
  readonly id: string;
  readonly state: ApprovalState;
  /** Counts its changes of state, and the votes on the way. */
  readonly version: number;
  readonly requester: Requester;
  readonly tool: string;
  readonly category: Category;
  readonly classification: Classification;
  readonly risk: Risk;
  readonly rules: readonly string[];
  readonly planDigest: string;
  readonly view: Json;
  readonly viewDigest: string;
  readonly summary: string;
  readonly scopes: readonly Scope[];
  readonly grantKey: string | undefined;
  readonly traceId: string;
  /** What it needs, as the policies were when it was asked; undefined: one decider. */
  readonly requirement: Requirement | undefined;
  /** Every yes that was counted, in order; none where one decider is enough. */
  readonly votes: readonly Vote[];
  /** What a yes must answer, and what was answered. */
  readonly answer?: WantedAnswer | undefined;
  readonly createdAt: number;
  readonly decideBy: number;
  /** Set by a yes. */
  readonly executeBy: number | undefined;
  readonly decidedAt: number | undefined;
  /** Who ended it: with the no, or with the yes that was missing. */
  readonly decidedBy: Decider | undefined;
  readonly scope: Scope | undefined;
  /** What the decider said to the agent. */
  readonly decisionReason: string | undefined;
}

export type Asked =
  /** A new question, or the identical one that already waits. */
  | { readonly outcome: "asked"; readonly approval: Approval; readonly joined: boolean }
  /** The same call was denied a moment ago. */
  | { readonly outcome: "denied_before"; readonly approval: Approval; readonly retryAfterMs: number }
  /** Too many questions of this caller or session wait. */
  | { readonly outcome: "backlog"; readonly limit: number; readonly retryAfterMs: number };

export interface Claim {
  readonly id: string;
  readonly requester: Requester;
  readonly planDigest: string;
  /** Of what the call needs by the policies of now; empty when no policy is about it. */
  readonly requirementDigest?: string | undefined;
}

export type Claimed =
  | { readonly outcome: "claimed"; readonly approval: Approval }
  /** Unknown, or somebody else's. */
  | { readonly outcome: "not_found" }
  /** Another call than the one that was asked about. */
  | { readonly outcome: "mismatch"; readonly approval: Approval }
  /** Not approved (any more, or yet): `approval.state` says what it is. */
  | { readonly outcome: "not_approved"; readonly approval: Approval };

/** A remembered yes: this caller, in this session, may make exactly this call until then. */
export interface Grant {
  readonly id: string;
  readonly issuer: string;
  readonly subject: string;
  readonly session: string;
  readonly tool: string;
  readonly grantKey: string;
  readonly summary: string;
  /** The approval it came from. */
  readonly approvalId: string;
  readonly grantedBy: Decider;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** A session that the service knows: minted here, or a token's `sid` that an operator has set a mode for. */
export interface Session {
  readonly id: string;
  readonly issuer: string;
  readonly subject: string;
  readonly mode: Mode;
  /** When the mode falls back to `default`. */
  readonly modeUntil: number | undefined;
  readonly modeSetBy: Decider | undefined;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** What happened to an approval, grant or session, in order. Never holds arguments. */
export interface ApprovalEvent {
  /** Grows by the order of commits; the `id` of a server-sent event. */
  readonly seq: number;
  readonly at: number;
  readonly type:
    | "approval.requested"
    /** A yes that is not enough yet. For operators: who asks is not told who looks at it. */
    | "approval.voted"
    | "approval.approved"
    | "approval.denied"
    | "approval.expired"
    | "approval.cancelled"
    | "approval.revoked"
    | "approval.claimed"
    | "approval.executed"
    | "approval.failed"
    | "approval.in_doubt"
    | "grant.created"
    | "grant.revoked"
    | "session.mode"
    | "session.ended";
  /** Of the approval, grant or session. */
  readonly id: string;
  readonly tool: string | undefined;
  readonly summary: string | undefined;
  /** Whose it is: for showing callers their own alone. */
  readonly issuer: string;
  readonly subject: string;
}

export interface ApprovalFilter {
  readonly state?: ApprovalState | undefined;
  /** Only those of this caller. */
  readonly requester?: Pick<Requester, "issuer" | "subject"> | undefined;
  /** At most 200. */
  readonly limit: number;
  /** Of the page before. */
  readonly cursor?: string | undefined;
}

export interface ApprovalPage {
  /** Newest first. */
  readonly approvals: readonly Approval[];
  readonly cursor: string | undefined;
}

/** The answer of a call that may be sent twice, as it was released. */
export interface StoredAnswer {
  readonly result: Json;
  readonly filteredFields: readonly string[];
  readonly truncated?: true | undefined;
  readonly outputHash: string;
}

export type KeyState =
  /** First use, or the use before ended without running: go on. */
  | { readonly outcome: "begin" }
  | { readonly outcome: "answered"; readonly answer: StoredAnswer }
  /** The key came with other arguments before. */
  | { readonly outcome: "other_args" }
  /** The first call is still under way. */
  | { readonly outcome: "running" }
  /** The first call changed something, or not: nobody knows. */
  | { readonly outcome: "unknown" };

export type KeyEnd = "not_run" | "unknown";

/** Who said yes, durably. Everything that can be decided twice is decided by one conditional statement of the store. */
export interface Approvals {
  ask(question: NewApproval): Promise<Asked>;
  decide(decision: Decision): Promise<Decided>;
  claim(claim: Claim): Promise<Claimed>;
  /** The end of a claimed one. A no-op when the lease was lost already. */
  settle(id: string, outcome: "executed" | "failed" | "in_doubt"): Promise<void>;
  /** By the caller who asked, while pending or approved; undefined: unknown, not the caller's, or too late. */
  cancel(id: string, requester: Pick<Requester, "issuer" | "subject">): Promise<Approval | undefined>;
  /** By an operator, after a yes and before the claim. */
  revoke(id: string, by: Decider): Promise<Approval | undefined>;
  get(id: string): Promise<Approval | undefined>;
  list(filter: ApprovalFilter): Promise<ApprovalPage>;
  /** Waits until the approval is no longer pending, the time is over, or the signal says so; then tells how it stands. */
  wait(
    id: string,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Approval | undefined>;

  findGrant(requester: Requester, grantKey: string): Promise<Grant | undefined>;
  listGrants(filter: { readonly requester?: Pick<Requester, "issuer" | "subject"> }): Promise<readonly Grant[]>;
  revokeGrant(id: string, by: Decider): Promise<boolean>;
  /** All that let calls of these tools through, whoever's they are. */
  revokeGrantsFor(tools: readonly string[], by: Decider): Promise<void>;

  /** A new random session of this caller. */
  openSession(requester: Pick<Requester, "issuer" | "subject">): Promise<Session>;
  /** Undefined when it is unknown, ended, or somebody else's. */
  findSession(id: string, requester: Pick<Requester, "issuer" | "subject">): Promise<Session | undefined>;
  /** Sets a mode until a time; for a token's `sid` the session is made when it is not known. */
  setMode(change: {
    readonly id: string;
    /** Needed for a `sid` that the service has not seen. */
    readonly requester?: Pick<Requester, "issuer" | "subject"> | undefined;
    readonly mode: Mode;
    readonly until: number;
    readonly by: Decider;
  }): Promise<Session | undefined>;
  listSessions(): Promise<readonly Session[]>;
  /** Its mode and its grants end with it. By its owner (agent) or by an operator. */
  endSession(id: string, by: Pick<Requester, "issuer" | "subject"> | Decider): Promise<boolean>;

  beginKey(use: KeyUse): Promise<KeyState>;
  /**
   * What became of a begun key: its answer, nothing ran, or nobody knows. Of an answer that is too large to keep, only that there
   * was one is kept, and its result is withheld from the repeated call; with `unkept: "not_run"` that call runs again.
   */
  endKey(use: KeyUse, end: StoredAnswer | KeyEnd, unkept?: KeyEnd): Promise<void>;

  /** Events after `seq`, oldest first, at most `limit`. */
  eventsAfter(seq: number, limit: number): Promise<readonly ApprovalEvent[]>;
  /** Called after each commit that made events, and now and then besides; answers how to stop. A hint: read `eventsAfter`. */
  onEvents(listener: () => void): () => void;
  /** Of the newest event. */
  lastSeq(): Promise<number>;

  /** Ends what is out of time and forgets what is old. Runs by itself; callable for tests and at start. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

/** The message that carries a decision: a program says who made it. Each counts once, in the very transaction of its decision. */
export interface Relay {
  readonly webhook: string;
  readonly messageId: string;
  /** The program's own name for the decider. */
  readonly user: string;
}

/** A decision as it came in; the decider is verified already. */
export interface Decision {
  readonly id: string;
  readonly by: Decider;
  /** What the decider's token holds; without it, nothing that a policy could ask for. */
  readonly permissions?: readonly string[] | undefined;
  /** `sub`s of its `act` chain: whoever holds somebody's token is that person here, and themselves. */
  readonly actors?: readonly string[] | undefined;
  readonly decision: "approve" | "deny";
  readonly scope?: Scope | undefined;
  readonly reason?: string | undefined;
  /** To a question that wants one, with a yes. */
  readonly answer?: string | undefined;
  /** What the decider saw. When given it must be what is stored. */
  readonly viewDigest?: string | undefined;
  /** Where no token came with it. */
  readonly relay?: Relay | undefined;
}

export type Decided =
  | { readonly outcome: "decided"; readonly approval: Approval }
  /** The yes was counted, and others are still missing. */
  | { readonly outcome: "counted"; readonly approval: Approval; readonly lacking: readonly Lacking[] }
  /** A policy does not take this decider, or not now, or has counted this person. */
  | Objection
  /** A policy wants to know why. */
  | { readonly outcome: "reason_missing" }
  /** The question wants an answer, and not this one; or none at all. */
  | { readonly outcome: "answer_refused"; readonly fault: AnswerFault; readonly wanted: WantedAnswer | undefined }
  /** Unknown, or no longer pending. */
  | { readonly outcome: "not_pending"; readonly approval: Approval | undefined }
  /** The decider asked it, or stands in the asker's `act` chain. */
  | { readonly outcome: "own_question" }
  /** The message that carries it was received before. */
  | { readonly outcome: "replayed" }
  /** The decider saw something else. */
  | { readonly outcome: "stale_view" }
  /** The scope was not offered. */
  | { readonly outcome: "scope_not_offered"; readonly offered: readonly Scope[] };
