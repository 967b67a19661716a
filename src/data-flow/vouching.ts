import { createHmac } from "node:crypto";
import type { CallerContext } from "../core/types.ts";
import type { Vouched } from "./answer-prints.ts";
import type { ValueOrigin, VouchedBy } from "./origins.ts";
import { APPROVER, type KnownSources } from "./source-index.ts";

/** An answer for a session lasts at most a day, and one for a caller without a session an hour. */
const SESSION_MS_MAX = 86_400_000;
const NO_SESSION_MS_MAX = 3_600_000;

/** Whose calls an answer is about: this caller through exactly these actors, in this session. */
export interface VouchedCaller extends Pick<CallerContext, "subject" | "actors"> {
  /** The session that grants belong to; undefined: calls without any session. */
  readonly session: string | undefined;
}

export function vouched(secret: Uint8Array, caller: VouchedCaller, text: string): Vouched {
  return { caller: callerHash(secret, caller), value: valueHash(secret, text) };
}

export function vouchedMs(rememberMs: number, { session }: Pick<VouchedCaller, "session">): number {
  return Math.min(rememberMs, session === undefined ? NO_SESSION_MS_MAX : SESSION_MS_MAX);
}

/** Reads what approvers have answered for the calls of a caller out of what was remembered. */
export function vouchedBy(secret: Uint8Array, caller: VouchedCaller, sources: KnownSources): VouchedBy {
  const answers = sources.values().filter(({ tool }) => tool === APPROVER);
  if (answers.length === 0) return () => undefined;
  const own = callerHash(secret, caller);
  const found = new Map<string, ValueOrigin>();
  for (const { tool, traceId, of, labels, at, fields } of answers) {
    for (const { path: field, vouched: one } of fields) {
      if (one?.caller !== own) continue;
      found.set(one.value, { tool, traceId, of, labels, at, field, isTrusted: true, isWhole: true });
    }
  }
  return (text) => (found.size === 0 ? undefined : found.get(valueHash(secret, text)));
}

function callerHash(secret: Uint8Array, { subject, actors, session }: VouchedCaller): string {
  return hash(secret, JSON.stringify(["caller", subject, actors, session ?? null]));
}

/** Case and spaces do not distinguish values. Accents do: a host name with another letter is another host. */
function valueHash(secret: Uint8Array, text: string): string {
  return hash(secret, JSON.stringify(["value", text.normalize("NFC").toLowerCase().replace(/\s+/g, "")]));
}

function hash(secret: Uint8Array, text: string): string {
  return createHmac("sha256", secret).update(text).digest("base64url");
}
