import { Refusal, type RefusalOptions } from "../../core/errors.ts";

/** The messages for agents. The texts are fixed, so that no received value and no part of a key can leak. */
const TOKEN_MESSAGES = {
  missing: "A token is missing: send the header Authorization: Bearer <token>.",
  malformed: "The token is malformed: send exactly one signed JWT, as Authorization: Bearer <token>.",
  expired: "The token has expired: get a new one and call again.",
  future:
    "The token is from the future: the clocks of its issuer and of this service differ. Call again in a minute, or tell the service's operators.",
  wrongAudience: "The token is not meant for this service: ask for one with the issuer and audience that it expects.",
  invalid: "The token is not valid: get a new one from your issuer.",
  revoked: "The token was revoked: get a new one, or ask the service's operators.",
  unbound: "The token is bound to a client certificate: connect with that certificate and call again.",
} as const;

export type TokenProblem = keyof typeof TOKEN_MESSAGES;

/**
 * Builds an UNAUTHENTICATED refusal. `reason` names the violated rule for the operator, without values. `details` go to the agent
 * and the audit too, `findings` to the audit alone.
 */
export function unauthenticated(
  problem: TokenProblem,
  reason: string,
  cause?: unknown,
  facts: Pick<RefusalOptions, "details" | "findings"> = {},
): Refusal {
  const detail = cause === undefined ? new Error(reason) : new Error(reason, { cause });
  return new Refusal("UNAUTHENTICATED", TOKEN_MESSAGES[problem], { cause: detail, ...facts });
}

export function authUnavailable(reason: string, retryAfterMs: number, cause?: unknown): Refusal {
  const detail = cause === undefined ? new Error(reason) : new Error(reason, { cause });
  const message = "The token cannot be verified at the moment: wait and call again with the same token.";
  return new Refusal("AUTH_UNAVAILABLE", message, { retryAfterMs, cause: detail });
}
