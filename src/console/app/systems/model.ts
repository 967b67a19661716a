import type { SystemShown } from "../../../core/api/inventory.ts";

/** The states and times in which a system or a certificate needs somebody. */

/** States in which a call may fail. */
const FAILING: ReadonlySet<string> = new Set(
  ["open", "half-open", "failed", "TRANSIENT_FAILURE", "NOT_SERVING", "UNREACHABLE", "SERVICE_UNKNOWN"], //
);

export const EXPIRES_SOON_DAYS = 14;
export const EXPIRES_SOON_MS = EXPIRES_SOON_DAYS * 86_400_000;

export function isFailing(state: string): boolean {
  return FAILING.has(state);
}

/** Returns the states of a system in which its calls may fail. */
export function failingStates({ state, circuit, health }: SystemShown): readonly string[] {
  const states = [state, circuit && `circuit ${circuit}`, health ? `health: ${health.toLowerCase()}` : undefined];
  return [state, circuit, health].flatMap((each, at) => (each && isFailing(each) ? (states[at] ?? each) : []));
}
