import { Refusal } from "../../core/errors.ts";
import { PartialAnswer } from "../../core/partial-answer.ts";
import type { RefusalCode } from "../../core/refusals.ts";
import { BOUNDED_TEXT_LIMITS, parseAnswerJson, StrictJsonError } from "../../core/strict-json.ts";
import { isTimeout } from "../../core/time-limits.ts";
import type { EpochMs, HttpTarget, TargetErrors } from "../../core/types.ts";
import type { EgressAnswer, EgressError } from "../../egress/request.ts";
import { FAILURE_MESSAGES, FailedAttempt, type Origin, type OutgoingCall, waitOf } from "../../egress/resilience.ts";
import { retryAfterMs } from "../../egress/retry-after.ts";

/** The meaning of a failed attempt. `unknown`: a change may have happened; `rejected`: nothing has happened, later it may. */
type Meaning = "refused" | "failed" | "unavailable" | "unknown" | "rejected" | "malformed" | "unsent";

/** The facts about a call that decide what a failure means. */
export interface ApiCall extends OutgoingCall {
  readonly means: NonNullable<HttpTarget["http"]["means"]>;
  readonly errors: TargetErrors;
  readonly now: () => EpochMs;
}

/** 203 is the answer of a 200 that a proxy on the way has changed: the request itself has succeeded (RFC 9110, 15.3.4). */
const SUCCESSES = new Set([200, 201, 203, 204]);
const TOO_MANY_REQUESTS = 429;
const ERROR_TEXT_BYTES_MAX = 4_096;

/** The names under which agents know refusals and failures: gRPC's. */
const STATUS_NAMES: ReadonlyMap<number, readonly [name: string, meaning: Meaning]> = new Map([
  [400, ["INVALID_ARGUMENT", "refused"]],
  [401, ["UNAUTHENTICATED", "failed"]],
  [403, ["PERMISSION_DENIED", "failed"]],
  [404, ["NOT_FOUND", "refused"]],
  [409, ["ALREADY_EXISTS", "refused"]],
  [412, ["FAILED_PRECONDITION", "refused"]],
  [422, ["INVALID_ARGUMENT", "refused"]],
  [TOO_MANY_REQUESTS, ["RESOURCE_EXHAUSTED", "rejected"]],
]);

/** An attempt without a usable answer. */
export class HttpFailure extends FailedAttempt {
  override readonly name = "HttpFailure";
  readonly meaning: Meaning;
  /** Name of the status, as gRPC has it. */
  readonly status: string;
  readonly httpStatus: number | undefined;
  /** The service's own text. */
  readonly text: string;
  /** Message for the agent instead of the usual one. */
  readonly words: string | undefined;

  constructor(facts: {
    readonly meaning: Meaning;
    readonly status: string;
    readonly origin: Origin;
    readonly sent: boolean;
    readonly httpStatus?: number | undefined;
    readonly text?: string;
    readonly waitMs?: number;
    readonly reason?: string;
    readonly words?: string | undefined;
  }) {
    const { meaning, origin, sent, httpStatus, waitMs } = facts;
    super(facts.reason ?? facts.status, {
      origin,
      sent,
      answerStarted: origin !== "service" && httpStatus !== undefined,
      isUnavailable:
        meaning === "unavailable" || meaning === "rejected" || (meaning === "unsent" && origin === "transport"),
      ...(waitMs !== undefined && { waitMs }),
    });
    this.meaning = meaning;
    this.status = facts.status;
    this.httpStatus = httpStatus;
    this.text = facts.text ?? "";
    this.words = facts.words;
  }
}

/** Returns whether the status is a success for the call. */
export function isSuccess(status: number, { means }: Pick<ApiCall, "means">): boolean {
  return SUCCESSES.has(status) || means[status] === "OK";
}

/** Returns the failure that a status other than a success means. */
export function failureOf(
  { status, headers, body }: EgressAnswer,
  { means, now }: Pick<ApiCall, "means" | "now">,
): HttpFailure {
  const [name, meaning] = meaningOf(status, means);
  return new HttpFailure({
    meaning,
    status: name,
    origin: "service",
    sent: true,
    httpStatus: status,
    text: body.subarray(0, ERROR_TEXT_BYTES_MAX).toString("utf8"),
    waitMs: retryAfterMs(headers, { now }) ?? 0,
  });
}

function meaningOf(status: number, means: ApiCall["means"]): readonly [name: string, meaning: Meaning] {
  const declared = means[status];
  if (declared !== undefined && declared !== "OK") return [declared, "refused"];
  const known = STATUS_NAMES.get(status);
  if (known !== undefined) return known;
  if (status >= 500) return ["UNAVAILABLE", "unavailable"];
  // An accepted or partial answer does not say what has happened.
  return ["UNKNOWN", status < 300 ? "unknown" : "failed"];
}

/** Returns the failure, or for a success whose body is too large the beginning of an answer. */
export function failureOfRequest(
  error: EgressError,
  call: Pick<ApiCall, "means" | "now">,
): HttpFailure | PartialAnswer {
  const { failure, sent, status } = error;
  const reason = `${failure}: ${error.message}`;
  if (failure === "aborted") {
    return new HttpFailure({
      meaning: "unknown",
      status: "CANCELLED",
      origin: "local",
      sent,
      reason,
      httpStatus: status,
    });
  }
  if (!sent) {
    const origin = failure === "unreachable" || failure === "lost" ? "transport" : "local";
    return new HttpFailure({ meaning: "unsent", status: "UNAVAILABLE", origin, sent, reason });
  }
  if (status !== undefined && !isSuccess(status, call)) {
    // The status says enough, whatever is wrong with its body.
    return failureOf({ status, headers: {}, body: Buffer.alloc(0) }, call);
  }
  if (failure === "too-large") return new PartialAnswer(undefined);
  const facts = { sent, reason, httpStatus: status };
  if (failure === "encoding")
    return new HttpFailure({ ...facts, meaning: "malformed", status: "INTERNAL", origin: "local" });
  if (failure === "lost")
    return new HttpFailure({ ...facts, meaning: "unavailable", status: "UNAVAILABLE", origin: "transport" });
  return new HttpFailure({ ...facts, meaning: "unknown", status: "INTERNAL", origin: "local" });
}

const MESSAGES: Readonly<Partial<Record<RefusalCode, string>>> = {
  ...FAILURE_MESSAGES,
  INVALID_OUTPUT: "The service's answer could not be read.",
};

/** Returns the refusal for a failed attempt. The service's text is only for agents whose tool allows it. */
export function refusalOf(failed: HttpFailure, call: ApiCall): Refusal {
  const code = codeOf(failed, call);
  const { status, httpStatus, origin, text, message } = failed;
  const isOwn = origin === "service" && (code === "TARGET_REFUSED" || code === "TARGET_FAILED");
  return new Refusal(
    code,
    (code === "TARGET_REFUSED" ? failed.words : undefined) ?? MESSAGES[code] ?? "The call failed.",
    {
      ...waitOf(failed, code),
      details: { status, ...(httpStatus !== undefined && { httpStatus }) },
      targetText: isOwn && call.errors === "filtered" ? text : undefined,
      cause: {
        system: call.system,
        path: call.path,
        status,
        httpStatus,
        origin,
        because: message,
        textLength: text.length,
        ...(failed.meaning === "unsent" && {
          hint: "nothing was sent: check the address, addresses, and the certificates on both sides",
        }),
      },
    },
  );
}

function codeOf({ meaning, sent }: HttpFailure, { safe, signal }: ApiCall): RefusalCode {
  if (signal.aborted) return abortCode(sent, safe, signal);
  switch (meaning) {
    case "refused":
      return "TARGET_REFUSED";
    case "failed":
      return "TARGET_FAILED";
    case "malformed":
      return "INVALID_OUTPUT";
    case "rejected":
    case "unsent":
      return "TARGET_UNAVAILABLE";
    case "unavailable":
      return safe ? "TARGET_UNAVAILABLE" : "OUTCOME_UNKNOWN";
    case "unknown":
      return safe ? "TARGET_FAILED" : "OUTCOME_UNKNOWN";
  }
}

/** Returns the code for a fired signal: the deadline for a `TimeoutError`, otherwise a disconnected caller. */
function abortCode(sent: boolean, safe: boolean, signal: AbortSignal): RefusalCode {
  if (!isTimeout(signal)) return "CANCELLED";
  if (safe) return "DEADLINE_EXCEEDED";
  return sent ? "OUTCOME_UNKNOWN" : "TARGET_UNAVAILABLE";
}

const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Returns the result in a successful answer: JSON, text as the output's only text, or `{}` for an empty one. */
export function readResult({ status, headers, body }: EgressAnswer, textField: string | undefined): unknown {
  const type = headers["content-type"];
  if (status === 204 || body.length === 0) return {};
  const [name = "", ...parameters] = (type ?? "")
    .toLowerCase()
    .split(";")
    .map((part) => part.trim());
  const charsets = parameters
    .filter((each) => each.startsWith("charset="))
    .map((each) => each.slice("charset=".length).replaceAll('"', ""));
  if (!charsets.every((charset) => ["utf-8", "utf8", "us-ascii"].includes(charset)))
    throw unreadable(body, "another charset");
  const bytes = body.subarray(0, 3).equals(MARK) ? body.subarray(3) : body;
  if (/^(?:application|text)\/(?:json|[a-z0-9!#$&^_.-]+\+json)$/.test(name)) return jsonIn(bytes);
  if (!/^text\/[a-z0-9!#$&^_.+-]+$/.test(name))
    throw unreadable(body, type === undefined ? "no content type" : "neither JSON nor text");
  if (textField === undefined) throw unreadable(body, "text, but the output is not one text");
  return { [textField]: textIn(bytes) };
}

function jsonIn(bytes: Buffer): unknown {
  try {
    return parseAnswerJson(bytes, BOUNDED_TEXT_LIMITS);
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    throw unreadable(bytes, error.message);
  }
}

function textIn(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw unreadable(bytes, "not UTF-8");
  }
}

/** `because` contains no value of the answer. */
function unreadable(body: Buffer, because: string): Refusal {
  return new Refusal("INVALID_OUTPUT", "The service's answer could not be read.", {
    cause: { answerBytes: body.length, because },
  });
}
