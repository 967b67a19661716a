import { missingPermissionsSentence } from "./decision-words.ts";
import { asString, isTable } from "./json.ts";
import type { RefusalCode } from "./refusals.ts";

/** Why a call ended, in a sentence for operators. What the agent is told is where a refusal is thrown. */
const SENTENCES: Readonly<Record<RefusalCode, string>> = {
  MALFORMED_REQUEST: "The request was not one that the service can read.",
  UNSUPPORTED_MEDIA_TYPE: "The request was not JSON.",
  PAYLOAD_TOO_LARGE: "The request was too large.",
  REQUEST_TIMEOUT: "The request did not arrive in time.",
  HOST_NOT_ALLOWED: "The request named a host that this service does not answer for.",
  UNAUTHENTICATED: "The caller had no valid token.",
  AUTH_UNAVAILABLE: "The caller's token could not be checked.",
  TOOL_NOT_FOUND: "There is no such tool.",
  PERMISSION_DENIED: "The caller's token lacks a permission that the call needs.",
  POLICY_DENIED: "A policy forbids the call, whoever makes it.",
  HALTED: "Operators have halted such calls.",
  QUOTA_EXCEEDED: "The caller's quota is used up.",
  POLICY_STATE_UNAVAILABLE: "The database that policies need did not answer, so the call was not run.",
  INVALID_INPUT: "The arguments do not fit the tool.",
  IDEMPOTENCY_CONFLICT: "The Idempotency-Key had been used for another call.",
  RATE_LIMITED: "The caller called too often.",
  OVERLOADED: "The service was busy.",
  SHUTTING_DOWN: "The service was stopping.",
  CALL_IN_PROGRESS: "The same call was running already.",
  APPROVAL_REQUIRED: "A person is asked whether the call may run.",
  APPROVAL_NOT_FOUND: "The caller named an approval that it does not have.",
  APPROVAL_MISMATCH: "The call is not the one that was approved, or its effect had changed.",
  APPROVAL_CONSUMED: "The approval had been used before: one approval is one run.",
  APPROVAL_EXPIRED: "Nobody decided in time, or the approval was not used in time.",
  APPROVAL_CANCELLED: "The approval request was cancelled.",
  APPROVAL_REVOKED: "The approval was revoked, or the session had ended.",
  APPROVAL_UNAVAILABLE: "The store of approvals did not answer, so the call was not run.",
  APPROVAL_DENIED: "The call was denied, or nobody could be asked.",
  TARGET_REFUSED: "The target refused the call.",
  TARGET_FAILED: "The target failed. It may have changed something.",
  TARGET_UNAVAILABLE: "The target could not be reached.",
  DEADLINE_EXCEEDED: "The call took too long.",
  CANCELLED: "The caller disconnected.",
  OUTCOME_UNKNOWN: "It is not known whether the call changed something.",
  INVALID_OUTPUT: "The target's answer does not fit the tool, so nothing of it was returned.",
  OUTPUT_TOO_LARGE: "The target's answer was too large, so nothing of it was returned.",
  AUDIT_UNAVAILABLE: "The audit could not be written, so nothing was returned.",
  INTERNAL: "The service failed. Its log has the cause.",
};

/** Returns why a call ended early, from its code and the details of the refusal; undefined for an unknown code. */
export function refusalSentence(code: string, details?: unknown): string | undefined {
  if (!Object.hasOwn(SENTENCES, code)) return undefined;
  return detailedSentence(code, isTable(details) ? details : {}) ?? SENTENCES[code as RefusalCode];
}

const LIMITS: Readonly<Record<string, string>> = {
  callerAndTool: "The caller called this tool too often.",
  tool: "The tool accepts no more calls: all callers together called it too often.",
  service: "The service accepts no more calls: all callers together called too often.",
  concurrentCallsPerCaller: "Too many calls of the caller were running.",
  pendingApprovals: "Too many approval requests of the caller were open.",
  cancellations: "The caller broke off too many calls.",
};

type Details = Readonly<Record<string, unknown>>;

function detailedSentence(code: string, details: Details): string | undefined {
  const text = (name: string): string | undefined => asString(details[name]);
  switch (code) {
    case "PERMISSION_DENIED":
      return missingPermissionsSentence(details);
    case "QUOTA_EXCEEDED":
      return text("quota") && `The quota ${text("quota")} is used up.`;
    case "RATE_LIMITED": {
      const limit = text("limit") ?? "";
      return Object.hasOwn(LIMITS, limit) ? LIMITS[limit] : undefined;
    }
    case "APPROVAL_DENIED":
      if (text("rule") !== undefined) return "The call needs a person's approval, and no approver is configured.";
      return details["approval"] === undefined ? undefined : "An approver denied the call.";
    case "HALTED":
      return text("until") && `Operators have halted such calls until ${text("until")}.`;
    default:
      return undefined;
  }
}
