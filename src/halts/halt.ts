import { HALT_KINDS, type HaltListed, type HaltShown } from "../core/api/halts.ts";
import { Refusal } from "../core/errors.ts";
import type { CallerContext, Tool } from "../core/types.ts";
import type { Row } from "../database/dialect.ts";
import { integer, oneOf, optionalInteger, optionalText, text } from "../database/rows.ts";

/** Which calls a halt stops. `value`: a tool, a system, a subject or a session; empty for `all`. */
export interface HaltTarget {
  readonly kind: (typeof HALT_KINDS)[number];
  /** The issuer of a caller; empty for other kinds. */
  readonly issuer: string;
  readonly value: string;
  /** Calls of this tenant of the service only; undefined: of all tenants, and of the service itself. */
  readonly tenant?: string | undefined;
}

/** A halt in force. It never changes: it is set and lifted. */
export interface CallHalt {
  readonly id: string;
  readonly target: HaltTarget;
  /** For operators only. */
  readonly reason: string;
  /** Whether running calls were ended, too. */
  readonly cancelRunning: boolean;
  readonly setBy: Pick<CallerContext, "issuer" | "subject">;
  /** Unix milliseconds by the clock of the state, as `until`. */
  readonly setAt: number;
  readonly until: number | undefined;
  /** Set in a tenant for a halt of its service: only the service's operators lift it, and it stops calls of this tenant or of all. */
  readonly ofService?: "tenant" | "all" | undefined;
}

/** What halts judge a call by. */
export interface HaltableCall {
  readonly tool: Tool;
  readonly caller: CallerContext;
  /** The session that the agent named itself. */
  readonly session: string | undefined;
  /** The tenant that is called, when the halts of the service judge the call. */
  readonly tenant?: string | undefined;
}

export function toHalt(row: Row): CallHalt {
  return {
    id: text(row, "id"),
    target: {
      kind: oneOf(row, "kind", HALT_KINDS),
      issuer: text(row, "issuer"),
      value: text(row, "value"),
      tenant: optionalText(row, "tenant"),
    },
    reason: text(row, "reason"),
    cancelRunning: integer(row, "cancels_running") === 1,
    setBy: { issuer: text(row, "set_issuer"), subject: text(row, "set_subject") },
    setAt: integer(row, "set_at"),
    until: optionalInteger(row, "until"),
  };
}

/** Returns the halt as the journal has it. There, `tenant` is the tenant whose journal it is, in every line. */
export function haltFacts(halt: CallHalt) {
  const { tenant, ...shown } = haltJson(halt);
  return { ...shown, ...(tenant !== undefined && { haltedTenant: tenant }) };
}

/** Returns the halt as operators see it. */
export function haltJson({ id, target, reason, cancelRunning, setBy, setAt, until }: CallHalt): HaltShown {
  return {
    id,
    ...targetJson(target),
    reason,
    cancelRunning,
    setBy: { issuer: setBy.issuer, subject: setBy.subject },
    setAt: new Date(setAt).toISOString(),
    ...(until !== undefined && { until: new Date(until).toISOString() }),
  };
}

/**
 * Returns a halt of the service as it is in one of its tenants; undefined when it stops none of its calls. Nothing says who set it; the
 * reason of a halt for all tenants may be about another one.
 */
export function haltWithin(tenant: string, { target, reason, ...halt }: CallHalt): CallHalt | undefined {
  const { tenant: named, ...within } = target;
  if (named !== undefined && named !== tenant) return undefined;
  const setBy = { issuer: "", subject: "" };
  if (named === undefined) return { ...halt, target: within, reason: "", setBy, ofService: "all" };
  return { ...halt, target: within, reason, setBy, ofService: "tenant" };
}

/** Returns the halt as it is listed. Of a halt for all tenants, a caller or a session may be another tenant's, so that it has no name. */
export function listedJson(halt: CallHalt): HaltListed {
  const { ofService } = halt;
  const shown = haltJson(halt);
  if (ofService === undefined) return shown;
  const { setBy: _, reason, issuer, subject, session, ...facts } = shown;
  const names = {
    ...(issuer !== undefined && { issuer }),
    ...(subject !== undefined && { subject }),
    ...(session !== undefined && { session }),
  };
  return { ...facts, ...(ofService === "tenant" && { ...names, reason }), ofService: true };
}

function targetJson({ kind, issuer, value, tenant }: HaltTarget) {
  const within = { kind, ...(tenant !== undefined && { tenant }) };
  if (kind === "all") return within;
  return kind === "caller" ? { ...within, issuer, subject: value } : { ...within, [kind]: value };
}

/** Halts by what they stop: a call is judged by a few lookups, however many there are. */
export class HaltIndex {
  readonly size: number;
  readonly #all: readonly CallHalt[];
  readonly #by = {
    tool: new Map<string, CallHalt[]>(),
    system: new Map<string, CallHalt[]>(),
    session: new Map<string, CallHalt[]>(),
  };
  readonly #subjects = new Map<string, CallHalt[]>();

  constructor(halts: readonly CallHalt[]) {
    this.size = halts.length;
    this.#all = halts.filter(({ target }) => target.kind === "all");
    for (const halt of halts) {
      const { kind, value } = halt.target;
      if (kind === "all") continue;
      const map = kind === "caller" ? this.#subjects : this.#by[kind];
      const present = map.get(value);
      if (present === undefined) map.set(value, [halt]);
      else present.push(halt);
    }
  }

  /**
   * Returns the halts that stop the call. A halted caller is stopped as the token's own subject, and as any actor of its `act` chain,
   * by issuer and subject. An actor that names no issuer is stopped by its subject alone: it may be the halted one.
   */
  matching({ tool, caller, session, tenant }: HaltableCall): readonly CallHalt[] {
    const { issuer, subject, actors, actorIssuers = [] } = caller;
    const found = [
      ...this.#all,
      ...(this.#by.tool.get(tool.name) ?? NONE),
      ...(this.#by.system.get(tool.target.system) ?? NONE),
      ...(this.#subjects.get(subject) ?? NONE).filter(({ target }) => target.issuer === issuer),
    ];
    for (const [at, actor] of actors.entries()) {
      const own = actorIssuers[at];
      const named = this.#subjects.get(actor) ?? NONE;
      found.push(...(own === undefined ? named : named.filter(({ target }) => target.issuer === own)));
    }
    for (const named of new Set([caller.session, session])) {
      if (named !== undefined) found.push(...(this.#by.session.get(named) ?? NONE));
    }
    return found.filter(({ target }) => target.tenant === undefined || target.tenant === tenant);
  }
}

const NONE: readonly CallHalt[] = [];

/**
 * Returns the refusal of a call that these halts stop. The agent learns that it is halted and until when, but not why. `ofService`:
 * the call is a tenant's, and its operators cannot lift the halt.
 */
export function haltedRefusal(
  halts: readonly CallHalt[],
  now: number,
  { ofService = false }: { readonly ofService?: boolean } = {},
): Refusal {
  const ends = halts.map(({ until }) => until ?? Number.POSITIVE_INFINITY);
  const until = Math.max(...ends);
  const isKnown = Number.isFinite(until);
  const at = isKnown ? new Date(until).toISOString() : undefined;
  const ending = at === undefined ? "Do not repeat it." : `Do not repeat it before ${at}.`;
  return new Refusal("HALTED", `The service's operators have halted this call. ${ending}`, {
    ...(at !== undefined && { details: { until: at }, retryAfterMs: Math.max(1, Math.ceil(until - now)) }),
    findings: halts.map((halt) => {
      const isOfService = ofService || halt.ofService !== undefined;
      return finding(`halt ${halt.id}${isOfService ? " of the service" : ""}`);
    }),
  });
}

/** Returns the refusal of a change while the halts are not known. */
export function unknownRefusal(retryAfterMs: number): Refusal {
  return new Refusal("POLICY_STATE_UNAVAILABLE", "The call was not run: it cannot be checked whether it is halted.", {
    details: { outcome: "not_run" },
    retryAfterMs,
    findings: [finding("the halts are not known")],
  });
}

function finding(reason: string) {
  return { point: "halts", verdict: "deny", reason, rememberable: false } as const;
}
