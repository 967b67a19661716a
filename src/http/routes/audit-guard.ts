import type { KeyObject } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { Params, ReadResult } from "../../audit/query/params.ts";
import { Refusal } from "../../core/errors.ts";
import type { Caller } from "../../core/types.ts";
import type { CallerContext } from "../../pipeline/caller-context.ts";
import type { ConcurrencyLimit } from "../concurrency-limit.ts";
import { certificateOf } from "../connections/listening-tls.ts";
import type { RequestRateLimiter } from "../connections/request-rate.ts";
import { checkPeerHeaders, type PeerLimits } from "../request-guard.ts";

export interface AuditGuardOptions extends PeerLimits {
  /** The audit directory. No part of a request ever becomes part of a path. */
  readonly auditDir: string;
  readonly callers: CallerContext;
  /** How often one caller may come; without it as often as it likes. */
  readonly pace?: RequestRateLimiter | undefined;
  /** Public: verifies the checkpoints. Without it their signatures are not judged. */
  readonly checkpointKey?: KeyObject | undefined;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Durable when resolved. */
  readonly journal: (line: AuditQueried) => Promise<void>;
}

/** Who looked at what. */
export interface AuditQueried {
  readonly type: "audit.queried";
  readonly sub: string;
  readonly iss: string;
  readonly route: "query" | "show" | "stats" | "tail" | "verify";
  readonly filters: Readonly<Record<string, string>>;
}

const PERMISSION = "audit:read";
/** What one request may cost. An answer that reaches it ends early, and says so. */
const BUDGET_MS = 1_000;
const BUDGET_BYTES = 1_073_741_824;
const FAULTS_MAX = 10;
const MESSAGE_CHARACTERS_MAX = 300;

/** The way in to the audit: operators who hold `audit:read`, so many at once, each query recorded before it is answered. */
export class AuditGuard {
  readonly #options: AuditGuardOptions;

  constructor(options: AuditGuardOptions) {
    this.#options = options;
  }

  /** @throws {Refusal} UNAUTHENTICATED, PERMISSION_DENIED, RATE_LIMITED */
  async serve<T>(
    request: FastifyRequest,
    places: ConcurrencyLimit,
    answer: (caller: Caller) => Promise<T>,
  ): Promise<T> {
    checkPeerHeaders(request.raw, this.#options);
    const caller = await this.identify(request);
    this.#options.pace?.take(caller);
    const leave = places.take(caller);
    try {
      return await answer(caller);
    } finally {
      leave();
    }
  }

  /** @throws {Refusal} UNAUTHENTICATED, PERMISSION_DENIED */
  async identify({ headers, raw }: FastifyRequest): Promise<Caller> {
    const { caller } = await this.#options.callers.verify(headers.authorization, "operators", certificateOf(raw));
    if (caller.permissions.includes(PERMISSION)) return caller;
    throw new Refusal("PERMISSION_DENIED", `This is for operators whose token holds ${PERMISSION}.`, {
      details: { missingPermissions: [PERMISSION] },
    });
  }

  /** @throws {Refusal} AUDIT_UNAVAILABLE: what cannot be recorded is not answered */
  async record({ subject, issuer }: Caller, route: AuditQueried["route"], params: Params): Promise<void> {
    const filters = Object.fromEntries(
      Object.entries(params).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    try {
      await this.#options.journal({ type: "audit.queried", sub: subject, iss: issuer, route, filters });
    } catch (cause) {
      throw new Refusal("AUDIT_UNAVAILABLE", "The query could not be recorded.", {
        details: { outcome: "not_run" },
        cause,
      });
    }
  }
}

/** Whether the work of one request may go on; counts over all of its pages. */
export function budget(clock: () => number): (bytesRead: number) => boolean {
  const untilMs = clock() + BUDGET_MS;
  return (bytesRead) => clock() < untilMs && bytesRead < BUDGET_BYTES;
}

/** @throws {Refusal} MALFORMED_REQUEST: a parameter that stands twice would mean either */
export function paramsOf({ query }: FastifyRequest): Params {
  const entries: readonly (readonly [string, unknown])[] =
    typeof query === "object" && query !== null ? Object.entries(query) : [];
  const texts = entries.flatMap(([name, value]) => (typeof value === "string" ? [[name, value] as const] : []));
  if (texts.length < entries.length) throw malformed(["a parameter stands twice"]);
  return Object.fromEntries(texts);
}

/** @throws {Refusal} MALFORMED_REQUEST naming every fault */
export function checked<T>(read: ReadResult<T>): T {
  if ("faults" in read) throw malformed(read.faults);
  return read.ok;
}

export function malformed(faults: readonly string[]): Refusal {
  const issues = faults.slice(0, FAULTS_MAX).map((message) => ({ message: message.slice(0, MESSAGE_CHARACTERS_MAX) }));
  return new Refusal("MALFORMED_REQUEST", "The query is not what this route takes.", { details: { issues } });
}
