/**
 * The stages of the pipeline. `run`: what a refusal of this stage says about the run of the call, or of an earlier one with the same
 * `Idempotency-Key`: nothing, because the key was not looked up yet; that nothing has run; or that it may have.
 */
export const STAGES = {
  REQUEST: { run: "unread", ofCallsOnly: false },
  AUTH: { run: "unread", ofCallsOnly: false },
  REGISTRY: { run: "unread", ofCallsOnly: false },
  PERMISSION: { run: "unread", ofCallsOnly: false },
  LIMIT: { run: "unread", ofCallsOnly: false },
  VALIDATION: { run: "none", ofCallsOnly: true },
  APPROVAL: { run: "none", ofCallsOnly: false },
  EXECUTION: { run: "possible", ofCallsOnly: true },
  OUTPUT: { run: "possible", ofCallsOnly: true },
  AUDIT: { run: "possible", ofCallsOnly: false },
} as const satisfies Record<string, { readonly run: "unread" | "none" | "possible"; readonly ofCallsOnly: boolean }>;

/** The pipeline stage at which a call ended: `denial.stage` in the audit. */
export type Stage = keyof typeof STAGES;

export const STAGE_NAMES = Object.keys(STAGES) as readonly Stage[];

type RunStage = { [Name in Stage]: (typeof STAGES)[Name]["run"] extends "possible" ? Name : never }[Stage];

/**
 * Outcome of a change whose run ends with the code. `no`: nothing has changed. `cut` and `lost`: once the run has begun, the call ends as
 * OUTCOME_UNKNOWN; before, after `cut`, nothing has changed. `yes`: it may have changed something.
 */
type Ran = "no" | "cut" | "lost" | "yes";

/** Codes of stages at which a call may have run must say what that means for a change. */
type RefusalRow = RefusalColumns &
  ({ readonly stage: RunStage; readonly ran: Ran } | { readonly stage: Exclude<Stage, RunStage>; readonly ran?: Ran });

interface RefusalColumns {
  readonly decision: "DENIED" | "ERROR" | "PENDING";
  /** A status below 500 says that the caller is the cause; 410, that an approval has ended unused. */
  readonly http: number;
  /** True when the same call may succeed later; `"if-safe"`: only for read tools and idempotent tools. */
  readonly retryable: boolean | "if-safe";
  readonly cause: RefusalCause;
}

/** What ends a call. */
type RefusalCause =
  /** Its form, token, key or connection. */
  | "request"
  /** The configuration. */
  | "policy"
  /** Operators, or it is not known whether they do. */
  | "stop"
  | "quota"
  /** Too many calls at once. */
  | "load"
  | "approver"
  /** An approval that cannot be used: the same call without it asks again. */
  | "approval"
  | "target"
  | "run"
  | "service";

/** Every way a call can end early: what is known of a code is in its row, and nowhere else. */
export const REFUSALS = {
  MALFORMED_REQUEST: { stage: "REQUEST", decision: "DENIED", http: 400, retryable: false, cause: "request" },
  UNSUPPORTED_MEDIA_TYPE: { stage: "REQUEST", decision: "DENIED", http: 415, retryable: false, cause: "request" },
  PAYLOAD_TOO_LARGE: { stage: "REQUEST", decision: "DENIED", http: 413, retryable: false, cause: "request" },
  REQUEST_TIMEOUT: { stage: "REQUEST", decision: "DENIED", http: 408, retryable: false, cause: "request" },
  HOST_NOT_ALLOWED: { stage: "REQUEST", decision: "DENIED", http: 403, retryable: false, cause: "request" },
  UNAUTHENTICATED: { stage: "AUTH", decision: "DENIED", http: 401, retryable: false, cause: "request" },
  AUTH_UNAVAILABLE: { stage: "AUTH", decision: "ERROR", http: 503, retryable: true, cause: "service" },
  TOOL_NOT_FOUND: { stage: "REGISTRY", decision: "DENIED", http: 404, retryable: false, cause: "policy" },
  PERMISSION_DENIED: { stage: "PERMISSION", decision: "DENIED", http: 403, retryable: false, cause: "policy" },
  POLICY_DENIED: { stage: "PERMISSION", decision: "DENIED", http: 403, retryable: false, cause: "policy" },
  HALTED: { stage: "PERMISSION", decision: "DENIED", http: 403, retryable: false, cause: "stop", ran: "cut" },
  QUOTA_EXCEEDED: { stage: "LIMIT", decision: "DENIED", http: 429, retryable: true, cause: "quota" },
  POLICY_STATE_UNAVAILABLE: {
    stage: "PERMISSION",
    decision: "ERROR",
    http: 503,
    retryable: "if-safe",
    cause: "stop",
    ran: "no",
  },
  INVALID_INPUT: { stage: "VALIDATION", decision: "DENIED", http: 400, retryable: false, cause: "policy" },
  IDEMPOTENCY_CONFLICT: { stage: "VALIDATION", decision: "DENIED", http: 409, retryable: false, cause: "request" },
  RATE_LIMITED: { stage: "LIMIT", decision: "DENIED", http: 429, retryable: true, cause: "load" },
  OVERLOADED: { stage: "LIMIT", decision: "DENIED", http: 503, retryable: true, cause: "load", ran: "no" },
  SHUTTING_DOWN: { stage: "LIMIT", decision: "DENIED", http: 503, retryable: true, cause: "load", ran: "cut" },
  CALL_IN_PROGRESS: { stage: "LIMIT", decision: "DENIED", http: 409, retryable: true, cause: "request" },
  APPROVAL_REQUIRED: { stage: "APPROVAL", decision: "PENDING", http: 202, retryable: false, cause: "approver" },
  APPROVAL_NOT_FOUND: { stage: "APPROVAL", decision: "DENIED", http: 404, retryable: false, cause: "request" },
  APPROVAL_MISMATCH: { stage: "APPROVAL", decision: "DENIED", http: 409, retryable: false, cause: "approval" },
  APPROVAL_CONSUMED: { stage: "APPROVAL", decision: "DENIED", http: 409, retryable: false, cause: "approval" },
  APPROVAL_EXPIRED: { stage: "APPROVAL", decision: "DENIED", http: 410, retryable: false, cause: "approval" },
  APPROVAL_CANCELLED: { stage: "APPROVAL", decision: "DENIED", http: 410, retryable: false, cause: "approval" },
  APPROVAL_REVOKED: { stage: "APPROVAL", decision: "DENIED", http: 410, retryable: false, cause: "approval" },
  APPROVAL_UNAVAILABLE: { stage: "APPROVAL", decision: "ERROR", http: 503, retryable: true, cause: "service" },
  APPROVAL_DENIED: { stage: "APPROVAL", decision: "DENIED", http: 403, retryable: false, cause: "approver" },
  TARGET_REFUSED: { stage: "EXECUTION", decision: "ERROR", http: 422, retryable: false, cause: "target", ran: "no" },
  TARGET_FAILED: { stage: "EXECUTION", decision: "ERROR", http: 502, retryable: false, cause: "target", ran: "yes" },
  TARGET_UNAVAILABLE: {
    stage: "EXECUTION",
    decision: "ERROR",
    http: 503,
    retryable: "if-safe",
    cause: "target",
    ran: "no",
  },
  DEADLINE_EXCEEDED: {
    stage: "EXECUTION",
    decision: "ERROR",
    http: 504,
    retryable: "if-safe",
    cause: "run",
    ran: "cut",
  },
  CANCELLED: { stage: "EXECUTION", decision: "ERROR", http: 499, retryable: false, cause: "run", ran: "cut" },
  OUTCOME_UNKNOWN: { stage: "EXECUTION", decision: "ERROR", http: 502, retryable: false, cause: "run", ran: "yes" },
  INVALID_OUTPUT: { stage: "OUTPUT", decision: "ERROR", http: 500, retryable: false, cause: "run", ran: "yes" },
  OUTPUT_TOO_LARGE: { stage: "OUTPUT", decision: "ERROR", http: 500, retryable: false, cause: "run", ran: "lost" },
  AUDIT_UNAVAILABLE: { stage: "AUDIT", decision: "ERROR", http: 503, retryable: false, cause: "service", ran: "yes" },
  INTERNAL: { stage: "EXECUTION", decision: "ERROR", http: 500, retryable: false, cause: "service", ran: "lost" },
} as const satisfies Record<string, RefusalRow>;

export type RefusalCode = keyof typeof REFUSALS;

/** Returns the outcome of a change whose run ends with this code; undefined for codes with which no run ends. */
export function ranOf(code: RefusalCode): Ran | undefined {
  const row: RefusalRow = REFUSALS[code];
  return row.ran;
}

/** What operators can do about a refusal of their own request, where its message does not say so. */
export const OPERATOR_ADVICE: { readonly [Code in RefusalCode]?: string } = {
  UNAUTHENTICATED: "Sign in again.",
  PERMISSION_DENIED: "Your token does not permit this. Ask whoever manages operators' permissions.",
  RATE_LIMITED: "Too many requests. Wait a moment, then repeat.",
  OVERLOADED: "The service is busy. Wait a moment, then repeat.",
  SHUTTING_DOWN: "The service is restarting. Wait a moment, then repeat.",
  AUTH_UNAVAILABLE: "The service cannot check tokens at the moment. Repeat in a minute.",
  POLICY_STATE_UNAVAILABLE: "The service cannot read or write its database. Look what is in force, then repeat.",
  AUDIT_UNAVAILABLE: "The service cannot write its audit, so it does nothing. Its operators have to repair the disk.",
  APPROVAL_UNAVAILABLE: "The store of approvals is not available. Look at the state, then repeat.",
  APPROVAL_MISMATCH: "The request has changed since you read it. Read it again, then decide.",
  HOST_NOT_ALLOWED:
    "This address is not one that the console accepts: set `publicUrl` or `allowedHosts` of its listener.",
  INTERNAL: "The service's log has the cause.",
};
