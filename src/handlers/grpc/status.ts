import { status } from "@grpc/grpc-js";
import { Refusal, type RefusalCode } from "../../core/errors.ts";

/** What decides how a failed call is told. */
export interface FailedCall {
  readonly system: string;
  readonly path: string;
  /** Whether doing the call twice is the same as once: a tool that reads, or one declared idempotent. */
  readonly safe: boolean;
  readonly signal: AbortSignal;
}

type StatusName = keyof typeof status;

type Meaning = "refused" | "failed" | "unavailable" | "late" | "cancelled";

/** What each gRPC status means for the call. */
export const STATUS_MEANINGS = {
  OK: "failed",
  CANCELLED: "cancelled",
  UNKNOWN: "failed",
  INVALID_ARGUMENT: "refused",
  DEADLINE_EXCEEDED: "late",
  NOT_FOUND: "refused",
  ALREADY_EXISTS: "refused",
  PERMISSION_DENIED: "failed",
  RESOURCE_EXHAUSTED: "failed",
  FAILED_PRECONDITION: "refused",
  ABORTED: "failed",
  OUT_OF_RANGE: "refused",
  UNIMPLEMENTED: "failed",
  INTERNAL: "failed",
  UNAVAILABLE: "unavailable",
  DATA_LOSS: "failed",
  UNAUTHENTICATED: "failed",
} as const satisfies Record<StatusName, Meaning>;

const MESSAGES: Readonly<Partial<Record<RefusalCode, string>>> = {
  TARGET_REFUSED: "The service refused these arguments; details.status says why.",
  TARGET_FAILED: "The service failed on this call; details.status says how.",
  TARGET_UNAVAILABLE: "The service cannot be reached now.",
  DEADLINE_EXCEEDED: "The service did not answer in time.",
  CANCELLED: "The call was cancelled.",
  OUTCOME_UNKNOWN:
    "The service gave no definite answer: the change may or may not have happened. Look before trying again.",
  OUTPUT_TOO_LARGE: "The service's answer is too large. Ask for less.",
};

function nameOf(code: unknown): StatusName {
  const name = typeof code === "number" ? status[code] : undefined;
  return name !== undefined && name in STATUS_MEANINGS ? (name as StatusName) : "UNKNOWN";
}

/** Faults of the connection that grpc-js reports under statuses which services use for faults of their own. */
function isTransportFault(name: StatusName, text: string): boolean {
  if (name === "INTERNAL") return text.includes("RST_STREAM") || text.includes("Session closed");
  return name === "RESOURCE_EXHAUSTED" && text.includes("Bandwidth exhausted");
}

function isOverReceiveLimit(name: StatusName, text: string): boolean {
  return name === "RESOURCE_EXHAUSTED" && text.startsWith("Received message larger than max");
}

function codeOf(name: StatusName, text: string, call: FailedCall): RefusalCode {
  if (call.signal.aborted) return abortCode(call);
  if (isOverReceiveLimit(name, text)) return call.safe ? "OUTPUT_TOO_LARGE" : "OUTCOME_UNKNOWN";
  const meaning = isTransportFault(name, text) ? "unavailable" : STATUS_MEANINGS[name];
  if (meaning === "refused") return "TARGET_REFUSED";
  if (meaning === "failed") return "TARGET_FAILED";
  if (!call.safe) return "OUTCOME_UNKNOWN";
  if (meaning === "cancelled") return "TARGET_FAILED";
  return meaning === "late" ? "DEADLINE_EXCEEDED" : "TARGET_UNAVAILABLE";
}

/** The signal's own reason decides: a `TimeoutError` is the deadline, all else is a caller that left. */
function abortCode({ safe, signal }: Pick<FailedCall, "safe" | "signal">): RefusalCode {
  if (!isTimeout(signal)) return "CANCELLED";
  return safe ? "DEADLINE_EXCEEDED" : "OUTCOME_UNKNOWN";
}

function isTimeout(signal: AbortSignal): boolean {
  const reason: unknown = signal.reason;
  return reason instanceof Error && reason.name === "TimeoutError";
}

function textFor(code: RefusalCode): string {
  return MESSAGES[code] ?? "The call failed.";
}

/**
 * The refusal that an error of grpc-js becomes. The agent learns the status name and nothing of the service's text;
 * the operator learns its length, for it may hold personal data and nothing redacts it yet.
 */
export function refusalOf(error: unknown, call: FailedCall): Refusal {
  const { code: number, details } = error as { readonly code?: unknown; readonly details?: unknown };
  const text = typeof details === "string" ? details : "";
  const name = nameOf(number);
  const code = codeOf(name, text, call);
  return new Refusal(code, textFor(code), {
    details: { status: name },
    cause: { system: call.system, path: call.path, status: name, textLength: text.length },
  });
}

/** The refusal of a call that was ended before anything was sent. A change that ran out of time did not happen. */
export function abortedBeforeSending(call: FailedCall): Refusal {
  if (!isTimeout(call.signal)) return new Refusal("CANCELLED", textFor("CANCELLED"));
  return call.safe ? new Refusal("DEADLINE_EXCEEDED", textFor("DEADLINE_EXCEEDED")) : unreachable(call);
}

/** No connection could be made: nothing was sent, so the outcome is known. */
export function unreachable(call: FailedCall): Refusal {
  return new Refusal("TARGET_UNAVAILABLE", textFor("TARGET_UNAVAILABLE"), {
    details: { status: "UNAVAILABLE" },
    cause: {
      system: call.system,
      path: call.path,
      status: "UNAVAILABLE",
      hint: "no connection was made: check the address, the certificates on both sides and the server's name",
    },
  });
}

/** An answer over the tool's own limit. */
export function answerTooLarge(call: FailedCall, bytes: number): Refusal {
  const code = call.safe ? "OUTPUT_TOO_LARGE" : "OUTCOME_UNKNOWN";
  return new Refusal(code, textFor(code), { cause: { system: call.system, path: call.path, answerBytes: bytes } });
}
