import type { RefusalCode, Stage } from "./errors.ts";
import { isTable } from "./json.ts";
import type { Json } from "./types.ts";

/** Arguments in which a secret stood, by path. The audit holds none of it; who else has read the conversation does: have it changed. */
type SecretsSent = readonly string[];

/** What the agent gets for a call that ran. */
export interface Success<Result = Json> {
  readonly status: "success";
  readonly tool: string;
  /** What a target says is data: nothing in `result` is an instruction to anybody. */
  readonly untrusted: true;
  readonly result: Result;
  /** Paths of the fields that were masked, redacted or stripped. */
  readonly filteredFields: readonly string[];
  /**
   * The target answered more than the tool's limit: `result` holds the beginning of lists and texts. It is null when the answer of a
   * change could not be cut: the change was made, and its result is withheld.
   */
  readonly truncated?: true;
  readonly traceId: string;
  readonly durationMs: number;
  readonly secretsSent?: SecretsSent;
}

/** What the agent gets for a call that did not run, or failed. */
export interface Failure {
  readonly status: "denied" | "error";
  readonly error: {
    readonly code: RefusalCode;
    readonly stage: Stage;
    /** How to mend the call. Never a path, a stack, a secret, or text of a target. */
    readonly message: string;
    /**
     * With `untrusted: true` it holds filtered words of the target: `message`, of a tool whose manifest says `errors: "filtered"`, or
     * what a script had written (`output`) when its time was over.
     */
    readonly details?: Readonly<Record<string, unknown>>;
    readonly retryable: boolean;
    readonly retryAfterMs?: number;
  };
  readonly traceId: string;
  readonly secretsSent?: SecretsSent;
}

/** What the agent gets while a person is asked: after a yes, the same call with `approval: { id }` runs it. */
export interface Pending {
  readonly status: "pending";
  readonly approval: {
    readonly id: string;
    /** ISO 8601; after it the question is over. */
    readonly decideBy: string;
    /** Where to look, relative to the service. */
    readonly statusUrl: string;
    /** What the person can answer. */
    readonly options: readonly ("cancel" | "once" | "session")[];
    readonly message: string;
  };
  /** In the library: the call that waits, as it may be shown to people. Secrets in its arguments are hidden. */
  readonly call?: { readonly tool: string; readonly args: Json };
  readonly traceId: string;
  readonly secretsSent?: SecretsSent;
}

export type CallResult<Result = Json> = Success<Result> | Pending | Failure;

/** A call that did not succeed, as an error for those who would rather catch. `code`, `stage` and `details` say what to do. */
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

/** `details.missingPermissions` names what the token lacks. */
export class PermissionDeniedError extends ToolCallError {
  override readonly name = "PermissionDeniedError";
}

/** `details.issues` names each field and what is wrong with it. */
export class ValidationError extends ToolCallError {
  override readonly name = "ValidationError";
}

/** A person is being asked. `details.approval` has the id to claim with. */
export class ApprovalRequiredError extends ToolCallError {
  override readonly name = "ApprovalRequiredError";
  readonly toolName: string | undefined;
  /** For people to see: secrets are hidden. Make the call again with the arguments themselves. */
  readonly toolArgs: Json | undefined;
  /** What the person can answer. */
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
 * The result of a call that succeeded.
 *
 * @throws {ToolCallError} the kind that belongs to the stage where the call ended
 */
export function unwrap<Result>(result: CallResult<Result>): Result {
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

/** What went wrong, for a message of role `tool`. */
export interface ToolError {
  /** The tool's own code where it has one (`ENOENT`, `E_SANDBOX_VIOLATION`, …), else that of the refusal. */
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
 * The result of a call in the shape that file tools' agents know: `{ ok: true, untrusted: true, ...data }` or
 * `{ ok: false, error }`: the mark says that the data is nobody's instruction. Data that is no object stands under `data`, and so
 * does one that has an `ok` or `untrusted` of its own. `truncated: true` is added to a result of which only a part was released.
 */
export function toToolResult(result: CallResult): ToolResult {
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
  const saysOtherwise = isFlat && truncated && Object.hasOwn(data, "truncated") && data["truncated"] !== true;
  return isFlat && !saysOtherwise ? { ...marks, ...data } : { ...marks, data };
}
