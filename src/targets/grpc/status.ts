import { Refusal } from "../../core/errors.ts";
import type { RefusalCode } from "../../core/refusals.ts";
import { isTimeout } from "../../core/time-limits.ts";
import type { TargetErrors } from "../../core/types.ts";
import { type AttemptFailed, isOversize, type StatusName } from "../../egress/grpc/attempt.ts";
import { FAILURE_MESSAGES, type OutgoingCall, waitOf } from "../../egress/resilience.ts";

export interface FailedCall extends OutgoingCall {
  /** Decides whether the agent may see the service's error text, filtered. */
  readonly errors?: TargetErrors | undefined;
}

/** The meaning of a status for the call. */
type Meaning = "refused" | "failed" | "unavailable" | "late" | "cancelled";

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
  ...FAILURE_MESSAGES,
  OUTPUT_TOO_LARGE: "The service's answer is too large. Ask for less.",
};

function codeOf({ origin, status: name, text, waitMs }: AttemptFailed, call: FailedCall): RefusalCode {
  if (call.signal.aborted) return abortCode(call);
  // When the proxy fails to handle the answer, the service may have made the change.
  if (origin === "local" && !call.safe) return "OUTCOME_UNKNOWN";
  // From a service, the same status means that the request is too large for it.
  if (origin === "local" && isOversize(name, text)) return "OUTPUT_TOO_LARGE";
  // A service that says when to try again has done nothing.
  if (name === "RESOURCE_EXHAUSTED" && waitMs > 0) return "TARGET_UNAVAILABLE";
  const meaning = origin === "transport" ? "unavailable" : STATUS_MEANINGS[name];
  if (meaning === "refused") return "TARGET_REFUSED";
  if (meaning === "failed") return "TARGET_FAILED";
  if (!call.safe) return "OUTCOME_UNKNOWN";
  if (meaning === "cancelled") return "TARGET_FAILED";
  return meaning === "late" ? "DEADLINE_EXCEEDED" : "TARGET_UNAVAILABLE";
}

/** Returns the code for a fired signal: the deadline for a `TimeoutError`, otherwise a disconnected caller. */
function abortCode({ safe, signal }: Pick<FailedCall, "safe" | "signal">): RefusalCode {
  if (!isTimeout(signal)) return "CANCELLED";
  return safe ? "DEADLINE_EXCEEDED" : "OUTCOME_UNKNOWN";
}

function textFor(code: RefusalCode): string {
  return MESSAGES[code] ?? "The call failed.";
}

/** Returns the refusal for a failed attempt. The service's text is only for agents whose tool allows it. */
export function refusalOf(failed: AttemptFailed, call: FailedCall): Refusal {
  if (!failed.sent) return call.signal.aborted ? abortedBeforeSending(call) : unreachable(call);
  const code = codeOf(failed, call);
  const { status: name, origin, text } = failed;
  const isOwn = origin === "service" && (code === "TARGET_REFUSED" || code === "TARGET_FAILED");
  return new Refusal(code, textFor(code), {
    ...waitOf(failed, code),
    details: { status: name },
    targetText: isOwn && call.errors === "filtered" ? text : undefined,
    cause: { system: call.system, path: call.path, status: name, origin, textLength: text.length },
  });
}

/** Returns the refusal of a call that ended before anything was sent. Its change did not happen. */
function abortedBeforeSending(call: FailedCall): Refusal {
  if (!isTimeout(call.signal)) return new Refusal("CANCELLED", textFor("CANCELLED"));
  return call.safe ? new Refusal("DEADLINE_EXCEEDED", textFor("DEADLINE_EXCEEDED")) : unreachable(call);
}

/** Returns the refusal when no connection could be made. Nothing was sent, so the outcome is known. */
function unreachable(call: FailedCall): Refusal {
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
