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
  /** Rate limit per caller; without it, requests are not rate-limited. */
  readonly pace?: RequestRateLimiter | undefined;
  /** Public key that verifies the checkpoints. Without it, their signatures are not verified. */
  readonly checkpointKey?: KeyObject | undefined;
  /** Returns the current time in milliseconds since 1970. */
  readonly clock: () => number;
  /** Resolves when the line is durable. */
  readonly journal: (line: AuditQueried) => Promise<void>;
}

/** Journal line that records who queried what. */
export interface AuditQueried {
  readonly type: "audit.queried";
  readonly sub: string;
  readonly iss: string;
  readonly route: "query" | "show" | "stats" | "tail" | "verify";
  readonly filters: Readonly<Record<string, string>>;
}

const PERMISSION = "audit:read";
/** Limits of one request. An answer that reaches them ends early and says so. */
const BUDGET_MS = 1_000;
const BUDGET_BYTES = 1_073_741_824;
const FAULTS_MAX = 10;
const MESSAGE_CHARACTERS_MAX = 300;

/**
 * Guards the audit routes: admits operators who hold `audit:read`, limits concurrent requests, and records each query before
 * it is answered.
 */
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

  /** @throws {Refusal} AUDIT_UNAVAILABLE when the query cannot be recorded: it is then not answered */
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

/** Returns a function that is true while one request may continue; it counts over all of the request's pages. */
export function budget(clock: () => number): (bytesRead: number) => boolean {
  const untilMs = clock() + BUDGET_MS;
  return (bytesRead) => clock() < untilMs && bytesRead < BUDGET_BYTES;
}

/** @throws {Refusal} MALFORMED_REQUEST for a repeated parameter, which would be ambiguous */
export function paramsOf({ query }: FastifyRequest): Params {
  const entries: readonly (readonly [string, unknown])[] =
    typeof query === "object" && query !== null ? Object.entries(query) : [];
  const texts = entries.flatMap(([name, value]) => (typeof value === "string" ? [[name, value] as const] : []));
  if (texts.length < entries.length) throw malformed(["a parameter stands twice"]);
  return Object.fromEntries(texts);
}

/** @throws {Refusal} MALFORMED_REQUEST naming every error */
export function checked<T>(read: ReadResult<T>): T {
  if ("faults" in read) throw malformed(read.faults);
  return read.ok;
}

export function malformed(faults: readonly string[]): Refusal {
  const issues = faults.slice(0, FAULTS_MAX).map((message) => ({ message: message.slice(0, MESSAGE_CHARACTERS_MAX) }));
  return new Refusal("MALFORMED_REQUEST", "The query is not what this route takes.", { details: { issues } });
}
