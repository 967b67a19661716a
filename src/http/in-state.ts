import { Refusal } from "../core/errors.ts";
import type { EndpointServices } from "./endpoint.ts";

const RETRY_AFTER_MS = 1_000;

/**
 * Does work with the state that replicas share. A refusal stays as it is: a member of a hub refuses what operators do at the hub.
 *
 * @throws {Refusal} POLICY_STATE_UNAVAILABLE, with `message`, when the state does not answer; the operators' log has the cause
 */
export async function inState<T>(
  { logError }: Pick<EndpointServices, "logError">,
  message: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    logError(cause);
    throw new Refusal("POLICY_STATE_UNAVAILABLE", message, { cause, retryAfterMs: RETRY_AFTER_MS });
  }
}
