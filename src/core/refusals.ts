/** The pipeline stage at which a call ended: `denial.stage` in the audit. */
export type Stage =
  | "REQUEST"
  | "AUTH"
  | "LIMIT"
  | "REGISTRY"
  | "PERMISSION"
  | "VALIDATION"
  | "APPROVAL"
  | "EXECUTION"
  | "OUTPUT"
  | "AUDIT";

interface RefusalRow {
  readonly stage: Stage;
  readonly decision: "DENIED" | "ERROR" | "PENDING";
  readonly http: number;
  /** True when the same call may succeed later; `"if-safe"`: only for read tools and idempotent tools. */
  readonly retryable: boolean | "if-safe";
}

/** Every way a call can end early: the only definition of each code's stage, decision and HTTP status. */
export const REFUSALS = {
  MALFORMED_REQUEST: { stage: "REQUEST", decision: "DENIED", http: 400, retryable: false },
  UNSUPPORTED_MEDIA_TYPE: { stage: "REQUEST", decision: "DENIED", http: 415, retryable: false },
  PAYLOAD_TOO_LARGE: { stage: "REQUEST", decision: "DENIED", http: 413, retryable: false },
  REQUEST_TIMEOUT: { stage: "REQUEST", decision: "DENIED", http: 408, retryable: false },
  HOST_NOT_ALLOWED: { stage: "REQUEST", decision: "DENIED", http: 403, retryable: false },
  UNAUTHENTICATED: { stage: "AUTH", decision: "DENIED", http: 401, retryable: false },
  AUTH_UNAVAILABLE: { stage: "AUTH", decision: "ERROR", http: 503, retryable: true },
  TOOL_NOT_FOUND: { stage: "REGISTRY", decision: "DENIED", http: 404, retryable: false },
  PERMISSION_DENIED: { stage: "PERMISSION", decision: "DENIED", http: 403, retryable: false },
  POLICY_DENIED: { stage: "PERMISSION", decision: "DENIED", http: 403, retryable: false },
  HALTED: { stage: "PERMISSION", decision: "DENIED", http: 403, retryable: false },
  QUOTA_EXCEEDED: { stage: "LIMIT", decision: "DENIED", http: 429, retryable: true },
  POLICY_STATE_UNAVAILABLE: { stage: "PERMISSION", decision: "ERROR", http: 503, retryable: "if-safe" },
  INVALID_INPUT: { stage: "VALIDATION", decision: "DENIED", http: 400, retryable: false },
  IDEMPOTENCY_CONFLICT: { stage: "VALIDATION", decision: "DENIED", http: 409, retryable: false },
  RATE_LIMITED: { stage: "LIMIT", decision: "DENIED", http: 429, retryable: true },
  OVERLOADED: { stage: "LIMIT", decision: "DENIED", http: 503, retryable: true },
  SHUTTING_DOWN: { stage: "LIMIT", decision: "DENIED", http: 503, retryable: true },
  CALL_IN_PROGRESS: { stage: "LIMIT", decision: "DENIED", http: 409, retryable: true },
  APPROVAL_REQUIRED: { stage: "APPROVAL", decision: "PENDING", http: 202, retryable: false },
  APPROVAL_NOT_FOUND: { stage: "APPROVAL", decision: "DENIED", http: 404, retryable: false },
  APPROVAL_MISMATCH: { stage: "APPROVAL", decision: "DENIED", http: 409, retryable: false },
  APPROVAL_CONSUMED: { stage: "APPROVAL", decision: "DENIED", http: 409, retryable: false },
  APPROVAL_EXPIRED: { stage: "APPROVAL", decision: "DENIED", http: 410, retryable: false },
  APPROVAL_CANCELLED: { stage: "APPROVAL", decision: "DENIED", http: 410, retryable: false },
  APPROVAL_REVOKED: { stage: "APPROVAL", decision: "DENIED", http: 410, retryable: false },
  APPROVAL_UNAVAILABLE: { stage: "APPROVAL", decision: "ERROR", http: 503, retryable: true },
  APPROVAL_DENIED: { stage: "APPROVAL", decision: "DENIED", http: 403, retryable: false },
  TARGET_REFUSED: { stage: "EXECUTION", decision: "ERROR", http: 422, retryable: false },
  TARGET_FAILED: { stage: "EXECUTION", decision: "ERROR", http: 502, retryable: false },
  TARGET_UNAVAILABLE: { stage: "EXECUTION", decision: "ERROR", http: 503, retryable: "if-safe" },
  DEADLINE_EXCEEDED: { stage: "EXECUTION", decision: "ERROR", http: 504, retryable: "if-safe" },
  CANCELLED: { stage: "EXECUTION", decision: "ERROR", http: 499, retryable: false },
  OUTCOME_UNKNOWN: { stage: "EXECUTION", decision: "ERROR", http: 502, retryable: false },
  INVALID_OUTPUT: { stage: "OUTPUT", decision: "ERROR", http: 500, retryable: false },
  OUTPUT_TOO_LARGE: { stage: "OUTPUT", decision: "ERROR", http: 500, retryable: false },
  AUDIT_UNAVAILABLE: { stage: "AUDIT", decision: "ERROR", http: 503, retryable: false },
  INTERNAL: { stage: "EXECUTION", decision: "ERROR", http: 500, retryable: false },
} as const satisfies Record<string, RefusalRow>;

export type RefusalCode = keyof typeof REFUSALS;
