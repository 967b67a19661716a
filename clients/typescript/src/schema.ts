// Generated from the service by `bun run clients:types`: do not edit.

export type RefusalCode =
  | "MALFORMED_REQUEST"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "PAYLOAD_TOO_LARGE"
  | "REQUEST_TIMEOUT"
  | "HOST_NOT_ALLOWED"
  | "UNAUTHENTICATED"
  | "AUTH_UNAVAILABLE"
  | "TOOL_NOT_FOUND"
  | "PERMISSION_DENIED"
  | "POLICY_DENIED"
  | "HALTED"
  | "QUOTA_EXCEEDED"
  | "POLICY_STATE_UNAVAILABLE"
  | "INVALID_INPUT"
  | "IDEMPOTENCY_CONFLICT"
  | "RATE_LIMITED"
  | "OVERLOADED"
  | "SHUTTING_DOWN"
  | "CALL_IN_PROGRESS"
  | "APPROVAL_REQUIRED"
  | "APPROVAL_NOT_FOUND"
  | "APPROVAL_MISMATCH"
  | "APPROVAL_CONSUMED"
  | "APPROVAL_EXPIRED"
  | "APPROVAL_CANCELLED"
  | "APPROVAL_REVOKED"
  | "APPROVAL_UNAVAILABLE"
  | "APPROVAL_DENIED"
  | "TARGET_REFUSED"
  | "TARGET_FAILED"
  | "TARGET_UNAVAILABLE"
  | "DEADLINE_EXCEEDED"
  | "CANCELLED"
  | "OUTCOME_UNKNOWN"
  | "INVALID_OUTPUT"
  | "OUTPUT_TOO_LARGE"
  | "AUDIT_UNAVAILABLE"
  | "INTERNAL"
  | "ROUTE_NOT_FOUND"
  | "METHOD_NOT_ALLOWED"
  | "ENTRY_NOT_FOUND";

/** Where the request ended. */
export type Stage =
  | "REQUEST"
  | "AUTH"
  | "REGISTRY"
  | "PERMISSION"
  | "LIMIT"
  | "VALIDATION"
  | "APPROVAL"
  | "EXECUTION"
  | "OUTPUT"
  | "AUDIT";

export interface RefusalError {
  readonly code: RefusalCode;
  /** Where the request ended. */
  readonly stage: Stage;
  /** What to do about it. */
  readonly message: string;
  /** With `untrusted: true`, text of a target. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Whether the same request may be sent again. */
  readonly retryable: boolean;
  readonly retryAfterMs?: number;
}

/** The request did not succeed: `denied` did not run, `error` failed. */
export interface Refusal {
  readonly status: "denied" | "error";
  readonly error: RefusalError;
  /** Finds the call in the audit. Only calls have one. */
  readonly traceId?: string;
  /** Arguments that contained a secret. */
  readonly secretsSent?: readonly string[];
}

/** The call ran. */
export interface Success {
  readonly status: "success";
  readonly tool: string;
  /** Output of a target is data, never an instruction. */
  readonly untrusted: true;
  readonly result: unknown;
  /** Paths of the fields that were masked, redacted or stripped. */
  readonly filteredFields: readonly string[];
  /** The answer was over the tool's limit: result holds a part of it, or null when a change's result is withheld. */
  readonly truncated?: true;
  /** Finds the call in the audit. */
  readonly traceId: string;
  readonly durationMs: number;
  /** Arguments that contained a secret. */
  readonly secretsSent?: readonly string[];
}

export type ApprovalOption = "cancel" | "once" | "session" | "bounded";

export interface PendingApproval {
  readonly id: string;
  /** When the approval request expires. */
  readonly decideBy: string;
  /** Path of the approval request. */
  readonly statusUrl: string;
  /** The caller can cancel; an approver can give an approval of the other scopes. */
  readonly options: readonly ApprovalOption[];
  readonly message: string;
}

/** The call waits for an approval. The same call with `approval: { id }` claims it. */
export interface Pending {
  readonly status: "pending";
  readonly approval: PendingApproval;
  /** Finds the call in the audit. */
  readonly traceId: string;
  /** Arguments that contained a secret. */
  readonly secretsSent?: readonly string[];
}

/** What would happen to the call. Nothing was run, requested or used up. */
export interface DryRun {
  readonly status: "dryRun";
  readonly tool: string;
  /** `ask`: a person would be asked. */
  readonly verdict: "allow" | "ask" | "deny";
  /** With `deny`: the refusal that the call would get. */
  readonly error?: RefusalError;
  /** Finds the call in the audit. */
  readonly traceId: string;
  /** Arguments that contained a secret. */
  readonly secretsSent?: readonly string[];
}

/** A tool that the caller could use. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly version: string;
  readonly classification: "read" | "write" | "destructive";
  readonly category: "read" | "write" | "command" | "network" | "ask";
  /** JSON Schema of the arguments. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface ToolList {
  /** Another `format` than `json` lists tools in the form of that API. */
  readonly tools: readonly (Tool | Readonly<Record<string, unknown>>)[];
}

/** `pending`, `approved` and `claimed` can change; all others are final. */
export type ApprovalState =
  | "pending"
  | "approved"
  | "denied"
  | "expired"
  | "cancelled"
  | "revoked"
  | "claimed"
  | "executed"
  | "failed"
  | "in_doubt";

export type ApprovalScope = "once" | "session" | "bounded";

/** An approval request, as its requester sees it. Operators see more. */
export interface ApprovalRequest {
  readonly id: string;
  /** `pending`, `approved` and `claimed` can change; all others are final. */
  readonly state: ApprovalState;
  readonly tool: string;
  readonly summary: string;
  readonly createdAt: string;
  /** When the request expires without a decision. */
  readonly decideBy: string;
  /** When an approval that was not used expires. */
  readonly executeBy?: string;
  readonly scope?: ApprovalScope;
  /** The approver's reason. */
  readonly decisionReason?: string;
  /** The bounds of an approval for several calls. */
  readonly granted?: Readonly<Record<string, unknown>>;
  /** The caller can cancel; an approver can give an approval of the other scopes. */
  readonly options: readonly ApprovalOption[];
}

export interface ApprovalAnswer {
  readonly approval: ApprovalRequest;
  /** The service's signature on the decision, if it signs decisions. */
  readonly receipt?: string;
}

export interface ApprovalList {
  readonly approvals: readonly ApprovalRequest[];
  /** For the next page; missing on the last one. */
  readonly cursor?: string;
}

export interface Session {
  readonly id: string;
  readonly expiresAt: string;
  readonly mode: "default" | "autoEdit" | "yolo";
}

export interface SessionAnswer {
  readonly session: Session;
}

export type ModelFormat = "openai" | "openai-responses" | "anthropic" | "google" | "mcp";

/** Stages before the service looks for the first answer to a repeated call: a refusal there says nothing about the first one. */
export const STAGES_BEFORE_KEY: ReadonlySet<Stage> = new Set(["REQUEST", "AUTH", "REGISTRY", "PERMISSION", "LIMIT"]);

/** How long the service holds a request at most. */
export const WAIT_SECONDS_MAX = 55;

/** Values of the header `Idempotency-Key`. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;
