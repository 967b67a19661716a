import type { PartialAnswer } from "./partial-answer.ts";

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

/** One reason of a policy point that did not allow a call. */
export interface PolicyFinding {
  readonly point: string;
  readonly verdict: "deny" | "requireApproval";
  readonly reason: string;
  /** Whether an approval for the session may satisfy the point. */
  readonly rememberable: boolean;
}

export interface RefusalOptions {
  /** Details for the agent: the fields, permissions or status concerned. Never a target's text, a path or a secret. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterMs?: number | undefined;
  /** True when the same call fails until an operator acts, although the code can mean a passing state. */
  readonly isLasting?: boolean | undefined;
  /** Reasons of the policy points, for the audit only. */
  readonly findings?: readonly PolicyFinding[] | undefined;
  /** Cause for the operator: written to the log, never sent to the client. */
  readonly cause?: unknown;
  /** The target's own text, if the manifest allows releasing it. `pipeline/target-text.ts` filters it first. */
  readonly targetText?: string | undefined;
  /** Output that a script had written when it timed out. Released only after the tool's output policy and redaction. */
  readonly outputSoFar?: PartialAnswer | undefined;
}

/** Ends a call early. `message` tells the agent how to fix the call, `cause` tells the operator what happened. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: RefusalCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterMs: number | undefined;
  readonly isLasting: boolean;
  readonly findings: readonly PolicyFinding[] | undefined;
  /** Private so that code that serializes or logs the error does not include it. */
  readonly #targetText: string | undefined;
  readonly #outputSoFar: PartialAnswer | undefined;

  constructor(code: RefusalCode, message: string, options: RefusalOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.details = options.details;
    this.retryAfterMs = options.retryAfterMs;
    this.isLasting = options.isLasting === true;
    this.findings = options.findings;
    this.#targetText = options.targetText;
    this.#outputSoFar = options.outputSoFar;
  }

  /** Returns the target's own text, unfiltered. */
  static targetTextOf(refusal: Refusal): string | undefined {
    return #targetText in refusal ? refusal.#targetText : undefined;
  }

  /** Returns the output that the target had written, unfiltered. */
  static outputSoFarOf(refusal: Refusal): PartialAnswer | undefined {
    return #targetText in refusal ? refusal.#outputSoFar : undefined;
  }
}

/** One error in a manifest or a configuration, with the field to fix. */
export interface Fault {
  readonly field: string;
  readonly message: string;
}

/** All errors in one tool's manifest. */
export class ManifestError extends Error {
  override readonly name = "ManifestError";
  readonly tool: string;
  readonly faults: readonly Fault[];

  constructor(tool: string, faults: readonly Fault[]) {
    super(`tool ${tool}: ${faults.map((fault) => `${fault.field}: ${fault.message}`).join("; ")}`);
    this.tool = tool;
    this.faults = faults;
  }
}

/** All problems that prevent the service from starting; each line names the file, the field and the fix. */
export class StartupError extends Error {
  override readonly name = "StartupError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`cannot start:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
    this.problems = problems;
  }
}

/** Thrown by `ToolConfig` when the configuration lacks a value. The tool is not registered; this is not an error. */
export class NotRegistered extends Error {
  override readonly name = "NotRegistered";

  constructor(reason: string) {
    super(`not registered: ${reason}`);
  }
}
