import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { JournalLine } from "../audit/journal/journal.ts";
import { Refusal } from "../core/errors.ts";
import type { Caller } from "../core/types.ts";
import type { Audience, CallerContext } from "../pipeline/caller-context.ts";
import { BodyReaders } from "./body-readers.ts";
import { ConcurrencyLimit } from "./concurrency-limit.ts";
import { certificateOf } from "./connections/listening-tls.ts";
import type { RequestRateLimiter } from "./connections/request-rate.ts";
import { idOf } from "./path-ids.ts";
import { checkBodyHeaders, checkPeerHeaders, parseBody, type RequestGuardOptions } from "./request-guard.ts";

export interface OperatorGuardOptions extends RequestGuardOptions {
  readonly callers: CallerContext;
  /** Returns the current time in milliseconds since 1970. */
  readonly clock: () => number;
  /** Maximum number of concurrent requests that have not been authenticated yet. */
  readonly concurrentRequestsMax: () => number;
  /** Resolves when the line is durable. */
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly logError: (error: unknown) => void;
  /** Rate limit per caller; without it, requests are not rate-limited. */
  readonly pace?: RequestRateLimiter | undefined;
}

export type OperatorPermission = "approvals:decide" | "grants:manage" | "modes:manage" | "service:reload";

/** An authenticated caller and the audience, agents or operators, that their token is for. */
export interface OperatorRequest {
  readonly side: Audience;
  readonly caller: Caller;
}

/** Attempts that never happen by mistake: an agent's token at an approver's endpoint, or a decision on one's own request. */
export type Forgery = "agents_token" | "own_question";

/** Reason why an operator may not do what they tried. */
type OperatorRefusal = { readonly id: string | undefined } & (
  | { readonly reason: "permission_missing"; readonly permission: OperatorPermission }
  | { readonly reason: "not_eligible" }
);

/** Body limit of these routes; none of their bodies comes near it. */
const BODY_BYTES_MAX = 65_536;
/** Concurrent requests per audience; a long poll counts as one. Waiting agents take no slots from approvers. */
const REQUESTS_MAX = 1_024;
const REQUESTS_PER_CALLER_MAX = 256;
const ISSUES_MAX = 10;
const ISSUE_CHARACTERS_MAX = 200;

/**
 * Guards all routes other than calls: approval requests, grants, sessions. Checks Host and Origin, size, media type and JSON
 * as `POST /call` does, then verifies the token; agents and operators are kept apart.
 */
export class OperatorGuard {
  readonly #options: OperatorGuardOptions;
  readonly #readers: BodyReaders;
  readonly #places = {
    agents: new ConcurrencyLimit({ totalMax: REQUESTS_MAX, perCallerMax: REQUESTS_PER_CALLER_MAX }),
    operators: new ConcurrencyLimit({ totalMax: REQUESTS_MAX, perCallerMax: REQUESTS_PER_CALLER_MAX }),
  } as const satisfies Record<Audience, ConcurrencyLimit>;
  /** Callbacks that run when the service closes, so that waiting requests are answered then. */
  readonly #waiting = new Set<() => void>();
  #isClosing = false;

  constructor(app: FastifyInstance, options: OperatorGuardOptions) {
    this.#options = { ...options, bodyBytesMax: Math.min(options.bodyBytesMax, BODY_BYTES_MAX) };
    this.#readers = new BodyReaders(options.concurrentRequestsMax);
    app.addHook("preClose", (done) => {
      this.#isClosing = true;
      for (const end of [...this.#waiting]) end();
      done();
    });
  }

  /** Serves agents only. */
  async agent<T>(request: FastifyRequest, serve: (caller: Caller) => Promise<T>): Promise<T> {
    checkPeerHeaders(request.raw, this.#options);
    const { caller } = await this.#options.callers.verify(
      request.headers.authorization,
      "agents",
      certificateOf(request.raw),
    );
    return this.#inPlace({ side: "agents", caller }, () => serve(caller));
  }

  /**
   * Serves operators who hold the permission.
   *
   * @throws {Refusal} UNAUTHENTICATED, PERMISSION_DENIED
   */
  async operator<T>(
    request: FastifyRequest,
    permission: OperatorPermission,
    serve: (caller: Caller) => Promise<T>,
  ): Promise<T> {
    checkPeerHeaders(request.raw, this.#options);
    const visitor = await this.#identify(request);
    return this.#inPlace(visitor, async () => {
      if (visitor.side === "agents") {
        await this.forged(visitor.caller, "agents_token", idOf(request));
        throw lacks(permission);
      }
      await this.#assertHolds(visitor.caller, permission, request);
      return serve(visitor.caller);
    });
  }

  /** Serves agents, for their own items, and operators who hold the permission. */
  async either<T>(
    request: FastifyRequest,
    permission: OperatorPermission,
    serve: (visitor: OperatorRequest) => Promise<T>,
  ): Promise<T> {
    checkPeerHeaders(request.raw, this.#options);
    const visitor = await this.#identify(request);
    return this.#inPlace(visitor, async () => {
      if (visitor.side === "operators") await this.#assertHolds(visitor.caller, permission, request);
      return serve(visitor);
    });
  }

  /**
   * Reads the body and validates it against the schema. A missing body counts as `{}`.
   *
   * @throws {Refusal} the same codes as the request guard of `POST /call`
   */
  async body<T>(request: FastifyRequest, reply: FastifyReply, schema: z.ZodType<T>): Promise<T> {
    const bytes = await this.bytes(request, reply);
    const parsed = schema.safeParse(bytes === undefined ? {} : this.parse(bytes));
    if (parsed.success) return parsed.data;
    throw malformed("The body is not what this route takes.", parsed.error);
  }

  /** Returns the raw body; undefined when there is none. */
  async bytes(request: FastifyRequest, reply: FastifyReply): Promise<Uint8Array | undefined> {
    try {
      checkPeerHeaders(request.raw, this.#options);
      if (request.headers["idempotency-key"] !== undefined) {
        throw new Refusal("MALFORMED_REQUEST", "Idempotency-Key is for POST /call; send this without it.");
      }
      if (!hasBody(request)) return undefined;
      checkBodyHeaders(request.headers, this.#options);
      return await this.#readers.read(request, this.#options);
    } catch (error) {
      // The rest of a refused body is not read; the connection closes after the answer.
      if (!request.raw.complete) reply.header("connection", "close");
      throw error;
    }
  }

  /** @throws {Refusal} MALFORMED_REQUEST */
  parse(bytes: Uint8Array): unknown {
    return parseBody(bytes, this.#options);
  }

  /** @throws {Refusal} MALFORMED_REQUEST */
  query<T>(request: FastifyRequest, schema: z.ZodType<T>): T {
    const parsed = schema.safeParse({ ...(request.query as object) });
    if (parsed.success) return parsed.data;
    throw malformed("The query is not what this route takes.", parsed.error);
  }

  /** @throws {Refusal} AUDIT_UNAVAILABLE when the line cannot be recorded: the request is then not answered */
  async record(line: JournalLine): Promise<void> {
    try {
      await this.#options.journal(line);
    } catch (cause) {
      throw new Refusal("AUDIT_UNAVAILABLE", "The request could not be recorded.", {
        details: { outcome: "not_run" },
        cause,
      });
    }
  }

  forged({ subject, issuer }: Caller, reason: Forgery, id?: string): Promise<void> {
    return this.record({ type: "approval.forged", ...(id !== undefined && { id }), sub: subject, iss: issuer, reason });
  }

  /** Records a refused operator. Operators are known and trusted, so a missing permission is not recorded as a forgery. */
  refused({ subject, issuer }: Caller, { id, ...why }: OperatorRefusal): Promise<void> {
    const isVote = why.reason === "not_eligible" || why.permission === "approvals:decide";
    const type = isVote ? "approval.refused" : "operator.refused";
    return this.record({ type, ...(id !== undefined && { id }), sub: subject, iss: issuer, ...why });
  }

  /** @throws {Refusal} APPROVAL_UNAVAILABLE when the store fails; the operators' log has the cause */
  async store<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Refusal) throw error;
      this.#options.logError(error);
      throw new Refusal("APPROVAL_UNAVAILABLE", "Approvals cannot be reached at the moment: look again, then repeat.", {
        cause: error,
      });
    }
  }

  /** Returns the remaining validity of the caller's token in milliseconds. */
  tokenLeftMs({ expiresAt }: Caller): number {
    return Math.max(0, expiresAt * 1000 - this.#options.clock());
  }

  /**
   * Verifies the token again: it may have expired, or its key may have been removed.
   *
   * @throws {Refusal} UNAUTHENTICATED, AUTH_UNAVAILABLE
   */
  async verifyAgain({ headers, raw }: FastifyRequest, door: Audience): Promise<void> {
    await this.#options.callers.verify(headers.authorization, door, certificateOf(raw));
  }

  /** Calls `end` once, when the client disconnects or the service closes. Returns a function that stops listening. */
  untilEnd({ raw }: FastifyReply, end: () => void): () => void {
    const stop = (): void => {
      this.#waiting.delete(onEnd);
      raw.removeListener("close", onEnd);
    };
    const onEnd = (): void => {
      stop();
      end();
    };
    this.#waiting.add(onEnd);
    raw.once("close", onEnd);
    if (raw.destroyed || this.#isClosing) onEnd();
    return stop;
  }

  /** @throws {Refusal} UNAUTHENTICATED when the person for whom an integration acts is not an operator, or is revoked */
  assertOperator(person: Pick<Caller, "issuer" | "subject">): void {
    this.#options.callers.assertOperator(person);
  }

  /** Returns the current time in milliseconds since 1970. */
  now(): number {
    return this.#options.clock();
  }

  async #identify({ headers: { authorization }, raw }: FastifyRequest): Promise<OperatorRequest> {
    const { callers } = this.#options;
    const certificate = certificateOf(raw);
    try {
      return { side: "agents", caller: (await callers.verify(authorization, "agents", certificate)).caller };
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "UNAUTHENTICATED")) throw error;
    }
    return { side: "operators", caller: (await callers.verify(authorization, "operators", certificate)).caller };
  }

  /** Checks the permission. An attempt to change something without it is recorded. */
  async #assertHolds(caller: Caller, permission: OperatorPermission, request: FastifyRequest): Promise<void> {
    if (caller.permissions.includes(permission)) return;
    const id = idOf(request);
    if (request.method !== "GET") await this.refused(caller, { reason: "permission_missing", permission, id });
    throw lacks(permission);
  }

  async #inPlace<T>({ side, caller }: OperatorRequest, serve: () => Promise<T>): Promise<T> {
    this.#options.pace?.take(caller);
    const leave = this.#places[side].take(caller);
    try {
      return await serve();
    } finally {
      leave();
    }
  }
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}

function lacks(permission: OperatorPermission): Refusal {
  return new Refusal("PERMISSION_DENIED", `This is for operators whose token holds ${permission}.`, {
    details: { missingPermissions: [permission] },
  });
}

function malformed(message: string, { issues }: z.core.$ZodError): Refusal {
  const listed = issues.slice(0, ISSUES_MAX).map((issue) => ({
    path: issue.path.map(String).join(".").slice(0, ISSUE_CHARACTERS_MAX) || "(whole)",
    message: issue.message.slice(0, ISSUE_CHARACTERS_MAX),
  }));
  return new Refusal("MALFORMED_REQUEST", message, { details: { issues: listed } });
}
