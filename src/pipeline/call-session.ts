import { type Approvals, MODES, type Mode, type Session } from "../approvals/types.ts";
import { Refusal } from "../core/errors.ts";
import type { CallerContext } from "../core/types.ts";
import { SID } from "./identity/claims.ts";

/** The session of a call, as far as it matters for modes and approvals. */
export interface CallSession {
  /** Undefined without a session that the service knows. */
  readonly id: string | undefined;
  /** The `sid` in which the caller has opened the session. */
  readonly within: string | undefined;
  /** The mode that operators have set for the session; undefined: the configuration's mode applies. */
  readonly mode: Mode | undefined;
  /** Whether an approval may cover later calls: not in a session that the agent has named itself. */
  readonly hasGrants: boolean;
}

interface Named {
  /** Undefined: the token is not verified. */
  readonly caller: Pick<CallerContext, "session"> | undefined;
  /** The session that the call names. */
  readonly named: string | undefined;
}

/** Returns the session that the call names, if it is not that of its token. */
function statedSession({ caller, named }: Named): string | undefined {
  return named === caller?.session ? undefined : named;
}

/** Returns what tells the call's session from others: the token's `sid` and what the call names, after a space. Empty without both. */
export function sessionText(call: Named): string {
  return [call.caller?.session, statedSession(call)].filter((one) => one !== undefined).join(" ");
}

/**
 * Returns the session that a grant for the call would belong to, as the call says it: whoever grants looks it up. A `sid` that the
 * call names itself is nobody's session.
 */
export function grantSession(call: Named): string | undefined {
  const stated = statedSession(call);
  return stated?.startsWith(SID) ? `${stated} (named)` : (stated ?? call.caller?.session);
}

/**
 * Looks the call's session up. A session that the service has opened belongs to the token's `sid` and ends with it: it has none of
 * the `sid`'s grants, and no wider mode. A session that the agent has invented has no grants at all, and no wider mode either.
 *
 * @throws {Refusal} APPROVAL_REVOKED when the call names a session that has ended
 */
export async function callSession(
  approvals: Pick<Approvals, "findSession" | "hasSessionEnded"> | undefined,
  call: Named & { readonly caller: Pick<CallerContext, "issuer" | "subject" | "session"> },
  usual: Mode,
): Promise<CallSession> {
  const { caller } = call;
  const find = async (id: string | undefined) => (id === undefined ? undefined : approvals?.findSession(id, caller));
  const stated = statedSession(call);
  const own = modeOf(await find(caller.session));
  if (stated === undefined) return { id: caller.session, within: undefined, mode: own, hasGrants: true };
  const found = stated.startsWith(SID) ? undefined : await find(stated);
  if (found === undefined && (await approvals?.hasSessionEnded(stated, caller)) === true) throw sessionEnded(stated);
  const set = modeOf(found);
  const isAround = caller.session === undefined || (await approvals?.hasSessionEnded(caller.session, caller)) !== true;
  const limit = isAround ? own : usual;
  const mode = limit === undefined ? set : strictest(limit, set ?? usual);
  if (found === undefined || !isAround) return { id: undefined, within: undefined, mode, hasGrants: false };
  return { id: found.id, within: caller.session, mode, hasGrants: true };
}

function modeOf(session: Session | undefined): Mode | undefined {
  return session?.modeSetBy === undefined ? undefined : session.mode;
}

function strictest(one: Mode, other: Mode): Mode {
  return MODES.indexOf(one) < MODES.indexOf(other) ? one : other;
}

function sessionEnded(session: string): Refusal {
  return new Refusal(
    "APPROVAL_REVOKED",
    "The session has ended, and with it what was approved for it. Open another (POST /sessions), or make the call without session.",
    { details: { session } },
  );
}
