import type { Pending, Refusal, RefusalCode, Stage } from "./schema.ts";

interface Loss {
  /** Whether the service may have run the call although no answer came. */
  readonly mayHaveRun: boolean;
  /** HTTP status of the last answer, if one came. */
  readonly status?: number | undefined;
  /** The last failure: the system's code, such as `ECONNREFUSED`, or that of a refusal, such as `RATE_LIMITED`. */
  readonly code?: string | undefined;
  /** How long the last answer asks to wait. */
  readonly retryAfterMs?: number | undefined;
}

/** No answer of the service came. Never contains the token. */
export class ConnectionError extends Error {
  override readonly name: string = "ConnectionError";
  readonly mayHaveRun: boolean;
  readonly status: number | undefined;
  readonly code: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, { mayHaveRun, status, code, retryAfterMs }: Loss) {
    super(message);
    this.mayHaveRun = mayHaveRun;
    this.status = status;
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }
}

/** An answer came that is not the service's: a proxy's page, a redirect, cut off or too large. */
export class ProtocolError extends ConnectionError {
  override readonly name = "ProtocolError";
}

/** The service refused. `unwrap`, `tools`, `approval`, `waitForApproval` and `cancelApproval` throw it. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
  readonly code: RefusalCode;
  readonly stage: Stage;
  readonly details: Readonly<Record<string, unknown>>;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly traceId: string | undefined;

  constructor(refused: Refusal | Pending) {
    const error = refused.status === "pending" ? asRefusal(refused) : refused.error;
    super(error.message);
    this.code = error.code;
    this.stage = error.stage;
    this.details = error.details ?? {};
    this.retryable = error.retryable;
    this.retryAfterMs = error.retryAfterMs;
    this.traceId = refused.traceId;
  }
}

function asRefusal({ approval }: Pending): Refusal["error"] {
  const { message } = approval;
  return { code: "APPROVAL_REQUIRED", stage: "APPROVAL", message, details: { approval }, retryable: false };
}
