import { isTable } from "./json.ts";
import type { RefusalCode, Stage } from "./refusals.ts";
import type { Json } from "./types.ts";

/** Paths of arguments that contained a secret. Rotate it: the audit does not store it, but the conversation may. */
type SecretsSent = readonly string[];

/** What would become of a call, the mildest first. `ask`: a person would be asked. */
export const VERDICTS = ["allow", "ask", "deny"] as const;

export type DryRunVerdict = (typeof VERDICTS)[number];

/** The agent's result for a call that ran. */
export interface Success<Result = Json> {
  readonly status: "success";
  readonly tool: string;
  /** The target's result is data: `result` must not be treated as instructions. */
  readonly untrusted: true;
  readonly result: Result;
  /** Paths of the fields that were masked, redacted or stripped. */
  readonly filteredFields: readonly string[];
  /**
   * Set when the result exceeded the tool's limit: lists and texts in `result` are cut. If the result of a change
   * cannot be cut, the change is made and `result` is null.
   */
  readonly truncated?: true;
  readonly traceId: string;
  readonly durationMs: number;
  readonly secretsSent?: SecretsSent;
}

/** The agent's result for a call that did not run, or failed. */
export interface Failure {
  readonly status: "denied" | "error";
  readonly error: {
    readonly code: RefusalCode;
    readonly stage: Stage;
    /** Tells how to fix the call. Never contains a path, a stack trace, a secret, or text of a target. */
    readonly message: string;
    /** With `untrusted: true`, has filtered text of the target: `message`, or `output` of a script that timed out. */
    readonly details?: Readonly<Record<string, unknown>>;
    readonly retryable: boolean;
    readonly retryAfterMs?: number;
  };
  readonly traceId: string;
  readonly secretsSent?: SecretsSent;
}

/** The agent's result while an approval is pending. After it, the agent repeats the call with `approval: { id }`. */
export interface Pending {
  readonly status: "pending";
  readonly approval: {
    readonly id: string;
    /** Expiry of the approval request, in ISO 8601. */
    readonly decideBy: string;
    /** URL of the approval's status, relative to the service. */
    readonly statusUrl: string;
    /** The decisions that the approver can make. */
    readonly options: readonly ("cancel" | "once" | "session" | "bounded")[];
    readonly message: string;
  };
  /** Library only: the waiting call in a form that may be shown to people; secrets in its arguments are hidden. */
  readonly call?: { readonly tool: string; readonly args: Json };
  readonly traceId: string;
  readonly secretsSent?: SecretsSent;
}

/** The agent's result for a dry run: what would happen to the call. Nothing was run, requested or used up. */
export interface DryRun {
  readonly status: "dryRun";
  readonly tool: string;
  /** `ask`: a person would be asked. */
  readonly verdict: DryRunVerdict;
  /** With `deny`: the refusal that the call would get. */
  readonly error?: Failure["error"];
  readonly traceId: string;
  readonly secretsSent?: SecretsSent;
}

export type ToolCallResult<Result = Json> = Success<Result> | Pending | Failure;

/** A call that did not succeed, as an exception. */
export class ToolCallError extends Error {
  override readonly name: string = "ToolCallError";
  readonly code: RefusalCode;
  readonly stage: Stage;
  readonly details: Readonly<Record<string, unknown>>;
  readonly retryable: boolean;
  readonly traceId: string;

  constructor({ error, traceId }: Failure) {
    super(error.message);
    this.code = error.code;
    this.stage = error.stage;
    this.details = error.details ?? {};
    this.retryable = error.retryable;
    this.traceId = traceId;
  }
}

export class RequestError extends ToolCallError {
  override readonly name = "RequestError";
}

export class AuthenticationError extends ToolCallError {
  override readonly name = "AuthenticationError";
}

export class LimitError extends ToolCallError {
  override readonly name = "LimitError";
}

export class ToolNotFoundError extends ToolCallError {
  override readonly name = "ToolNotFoundError";
}

/** `details.missingPermissions` lists the permissions that the token lacks. */
export class PermissionDeniedError extends ToolCallError {
  override readonly name = "PermissionDeniedError";
}

/** `details.issues` lists each invalid field and its error. */
export class ValidationError extends ToolCallError {
  override readonly name = "ValidationError";
}

/** An approval is pending. `details.approval` has the ID to claim it with. */
export class ApprovalRequiredError extends ToolCallError {
  override readonly name = "ApprovalRequiredError";
  readonly toolName: string | undefined;
  /** Shown to people, so secrets are hidden. To repeat the call, use the original arguments. */
  readonly toolArgs: Json | undefined;
  readonly options: Pending["approval"]["options"];

  constructor(pending: Pending) {
    super(asFailure(pending));
    this.toolName = pending.call?.tool;
    this.toolArgs = pending.call?.args;
    this.options = pending.approval.options;
  }
}

export class ApprovalDeniedError extends ToolCallError {
  override readonly name = "ApprovalDeniedError";
}

export class ExecutionError extends ToolCallError {
  override readonly name = "ExecutionError";
}

export class OutputError extends ToolCallError {
  override readonly name = "OutputError";
}

export class AuditError extends ToolCallError {
  override readonly name = "AuditError";
}

const BY_STAGE = {
  REQUEST: RequestError,
  AUTH: AuthenticationError,
  LIMIT: LimitError,
  REGISTRY: ToolNotFoundError,
  PERMISSION: PermissionDeniedError,
  VALIDATION: ValidationError,
  APPROVAL: ApprovalDeniedError,
  EXECUTION: ExecutionError,
  OUTPUT: OutputError,
  AUDIT: AuditError,
} as const satisfies Record<Stage, typeof ToolCallError>;

/**
 * Returns the result of a call that succeeded.
 *
 * @throws {ToolCallError} the subclass for the stage at which the call ended
 */
export function unwrap<Result>(result: ToolCallResult<Result>): Result {
  if (result.status === "success") return result.result;
  if (result.status === "pending") throw new ApprovalRequiredError(result);
  throw new BY_STAGE[result.error.stage](result);
}

function asFailure({ approval, traceId }: Pending): Failure {
  const { message } = approval;
  const error = {
    code: "APPROVAL_REQUIRED",
    stage: "APPROVAL",
    message,
    details: { approval },
    retryable: false,
  } as const;
  return { status: "denied", error, traceId };
}

/** The error in a message of role `tool`. */
export interface ToolError {
  /** The tool's own code if it has one (`ENOENT`, `E_SANDBOX_VIOLATION`, …), else the refusal's code. */
  readonly code: string;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** A result as one flat object: `JSON.stringify` of it is a message of role `tool`. */
export type ToolResult =
  | ({ readonly ok: true; readonly untrusted: true } & Readonly<Record<string, Json>>)
  | ToolFailure;

export interface ToolFailure {
  readonly ok: false;
  readonly error: ToolError;
}

/**
 * Converts the result of a call to `{ ok: true, untrusted: true, ...data }` or `{ ok: false, error }`, the shape that
 * agents know from file tools. `untrusted` marks the data as data, not instructions. `truncated: true` is added when
 * only part of the result was released. Data is nested under `data` when it is not an object, or when it has a field
 * with the name of one of these marks.
 */
export function toToolResult(result: ToolCallResult): ToolResult {
  if (result.status === "success") return succeeded(result.result, result.truncated);
  if (result.status === "pending") {
    const { message, ...approval } = result.approval;
    return { ok: false, error: { code: "APPROVAL_REQUIRED", message, details: { approval } } };
  }
  const { code, message, details } = result.error;
  const own = details?.["code"];
  const error = { code: typeof own === "string" ? own : code, message };
  return { ok: false, error: details === undefined ? error : { ...error, details } };
}

function succeeded(data: Json, truncated: true | undefined): ToolResult {
  const marks = { ok: true, untrusted: true, ...(truncated && { truncated }) } as const;
  const isFlat = isTable(data) && !Object.hasOwn(data, "ok") && !Object.hasOwn(data, "untrusted");
  const conflicts = isFlat && truncated && Object.hasOwn(data, "truncated") && data["truncated"] !== true;
  return isFlat && !conflicts ? { ...marks, ...data } : { ...marks, data };
}
