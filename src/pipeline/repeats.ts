import type { Approvals, KeyUse } from "../approvals/types.ts";
import { canonicalJson, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Elevated, type Fresh, mint, type Released } from "../core/evidence.ts";
import { ARGUMENT_LIMITS } from "../core/json.ts";
import { approvalsUnavailable } from "./approval-refusals.ts";
import type { CallRequest } from "./call-request.ts";

const RETRY_AFTER_MS = 1_000;

/**
 * Runs a call with an `Idempotency-Key` only once: the same call again gets the first answer, as it was released then.
 *
 * @throws {Refusal} IDEMPOTENCY_CONFLICT for other arguments, CALL_IN_PROGRESS, OUTCOME_UNKNOWN when the result of the first call
 * is unknown, MALFORMED_REQUEST without a store
 */
export function firstOrAgain(
  elevated: Elevated,
  { idempotencyKey, args }: CallRequest,
  approvals: Approvals | undefined,
): Fresh | Promise<Fresh | Released> {
  if (idempotencyKey === undefined) return mint<Fresh>(elevated);
  if (approvals === undefined) {
    throw new Refusal("MALFORMED_REQUEST", "Idempotency-Key is not supported here: send the call without it.");
  }
  const { tool, caller } = elevated;
  return recall(elevated, approvals, {
    issuer: caller.issuer,
    subject: caller.subject,
    tool: tool.name,
    keyHash: sha256Hex(idempotencyKey),
    argsHash: sha256Hex(canonicalJson(args, ARGUMENT_LIMITS)),
  });
}

/** Returns the same call with the arguments that an approver gave it. */
export function amended({ keyUse }: Fresh, elevated: Elevated): Fresh {
  return mint<Fresh>({ ...elevated, keyUse });
}

async function recall(elevated: Elevated, approvals: Approvals, keyUse: KeyUse): Promise<Fresh | Released> {
  const known = await approvals.beginKey(keyUse).catch((error: unknown) => {
    throw approvalsUnavailable(error);
  });
  if (known.outcome === "begin") return mint<Fresh>({ ...elevated, keyUse });
  if (known.outcome === "answered") return mint<Released>({ ...known.answer, by: "idempotency-key" });
  if (known.outcome === "unknown") {
    throw new Refusal(
      "OUTCOME_UNKNOWN",
      "The first call with this Idempotency-Key ended without a definite answer. Look before you call again.",
    );
  }
  if (known.outcome === "running") {
    throw new Refusal("CALL_IN_PROGRESS", "The first call with this Idempotency-Key is still under way.", {
      retryAfterMs: RETRY_AFTER_MS,
    });
  }
  throw new Refusal("IDEMPOTENCY_CONFLICT", "This Idempotency-Key came with other arguments before. Use a new one.");
}
