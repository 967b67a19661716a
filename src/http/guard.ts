import { z } from "zod";
import type { JournalLine } from "../audit/journal/journal.ts";
import { Refusal } from "../core/errors.ts";
import type { CallerContext } from "../core/types.ts";
import type { Audience } from "../pipeline/caller-context.ts";
import { isId } from "./approval-json.ts";
import { bodyReaders } from "./body-readers.ts";
import { certificateOf } from "./connections/listening-tls.ts";
import { ConcurrencyLimit, type ConcurrencyLimitOptions } from "./connections/request-limits.ts";
import {
  type AdmittedRequest,
  type EndpointAnswer,
  type EndpointServices,
  type Exchange,
  type GuardedEndpoint,
  isRead,
  type PresentedSession,
  perListener,
} from "./endpoint.ts";
import { checkBodyHeaders, checkPeerHeaders, issuesOf, parseBody } from "./request-guard.ts";

/** Body limit of everything but calls; none of these bodies comes near it. */
const BODY_BYTES_MAX = 65_536;
/** Concurrent requests per audience; a long poll counts as one. Waiting agents take no slots from approvers. */
const SLOTS = { totalMax: 1_024, perCallerMax: 256 } as const;

/** Interval at which a stream's session is checked: it ends within a second of the token's revocation. */
const SESSION_CHECK_EVERY_MS = 500;

interface Authenticated {
  readonly tokenAudience: Audience;
  readonly caller: CallerContext;
  readonly session: PresentedSession | undefined;
}

type Body = Pick<AdmittedRequest, "body" | "bytes">;

/**
 * Guards every endpoint but those that authorize their requests themselves, in one sequence: Host and Origin → body → token → rate
 * → slot → permission → the endpoint's own limit → path, query and headers → `handle` → journal line.
 */
export class Guard {
  readonly #services: EndpointServices;
  readonly #slots = { agents: new ConcurrencyLimit(SLOTS), operators: new ConcurrencyLimit(SLOTS) } as const;
  readonly #limits = new Map<ConcurrencyLimitOptions, ConcurrencyLimit>();
  /** Callbacks that run when the service closes, so that waiting requests are answered then. */
  readonly #waiting = new Set<() => void>();
  #isClosing = false;

  constructor(services: EndpointServices) {
    this.#services = services;
  }

  close(): void {
    this.#isClosing = true;
    for (const end of [...this.#waiting]) end();
  }

  /** Rejects with a `Refusal` when the request may not be handled, or its answer could not be recorded. */
  async serve(endpoint: GuardedEndpoint, exchange: Exchange): Promise<EndpointAnswer> {
    if (endpoint.anyHost !== true) checkPeerHeaders(exchange.raw, this.#services);
    const sent = await this.#bodyOf(endpoint, exchange);
    const authenticated = await this.#identify(endpoint, exchange);
    if (authenticated === undefined || endpoint.audience === "anybody") {
      return this.#handle(endpoint, exchange, { sent, authenticated });
    }
    const taken: (() => void)[] = [];
    const leave = (): void => {
      for (const release of taken.splice(0)) release();
    };
    let isStream = false;
    try {
      this.#services.requestRate?.take(authenticated.caller);
      taken.push(this.#slots[authenticated.tokenAudience].take(authenticated.caller));
      await this.#assertAllowed(endpoint, authenticated, exchange);
      if (endpoint.limits !== undefined) taken.push(this.#limitOf(endpoint.limits).take(authenticated.caller));
      const answer = await this.#handle(endpoint, exchange, { sent, authenticated });
      await this.#record(endpoint, authenticated, answer);
      const { stream } = answer;
      if (stream === undefined) return answer;
      isStream = true;
      const followed = authenticated.session === undefined ? stream : this.#whileSigned(stream, endpoint, exchange);
      return { ...answer, stream: (client) => followed(client).finally(leave) };
    } finally {
      // A stream keeps its slots until it ends.
      if (!isStream) leave();
    }
  }

  #limitOf(limits: ConcurrencyLimitOptions): ConcurrencyLimit {
    const limit = this.#limits.get(limits) ?? new ConcurrencyLimit(limits);
    this.#limits.set(limits, limit);
    return limit;
  }

  async #bodyOf({ method, bytes: schema, body = noBody }: GuardedEndpoint, exchange: Exchange): Promise<Body> {
    if (method === "GET") return { body: undefined, bytes: NO_BYTES };
    const bytes = await readBytes(exchange, this.#services);
    if (schema !== undefined) return { body: undefined, bytes: bytes ?? NO_BYTES };
    const parsed = bytes === undefined ? {} : parseBody(bytes, this.#services);
    return { body: checked(body, parsed, "The body is"), bytes: bytes ?? NO_BYTES };
  }

  async #identify(endpoint: GuardedEndpoint, exchange: Exchange): Promise<Authenticated | undefined> {
    const { audience, permission, recordsForgeries } = endpoint;
    if (audience === "anybody") {
      return permission === undefined ? undefined : this.#operatorWith(permission, exchange);
    }
    const session = await this.#services.sessions?.present(exchange.raw);
    // A session holds an operator's token: it is never valid for the other audience.
    const isForBoth = session === undefined && (audience === "either" || recordsForgeries === true);
    if (!isForBoth) return this.#verify(exchange, audience === "agents" ? "agents" : "operators", session);
    try {
      return await this.#verify(exchange, "agents", undefined);
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "UNAUTHENTICATED")) throw error;
    }
    return this.#verify(exchange, "operators", undefined);
  }

  /** A session is only another source of the token. */
  async #verify(
    { raw }: Exchange,
    tokenAudience: Audience,
    session: PresentedSession | undefined,
  ): Promise<Authenticated> {
    const authorization = session === undefined ? raw.headers.authorization : session.authorization;
    try {
      const { caller } = await this.#services.callers.verify(authorization, tokenAudience, certificateOf(raw));
      return { tokenAudience, caller, session };
    } catch (error) {
      const isEnd = tokenAudience === "operators" && error instanceof Refusal && error.code === "UNAUTHENTICATED";
      if (isEnd) await session?.end("token_refused");
      throw error;
    }
  }

  /** Returns the stream that ends when its session has ended. */
  #whileSigned(
    stream: NonNullable<EndpointAnswer["stream"]>,
    endpoint: GuardedEndpoint,
    exchange: Exchange,
  ): NonNullable<EndpointAnswer["stream"]> {
    return (client) => {
      const timer = setInterval(() => {
        this.#verifyAgain(endpoint, exchange).catch(() => client.destroy());
      }, SESSION_CHECK_EVERY_MS);
      return stream(client).finally(() => clearInterval(timer));
    };
  }

  async #verifyAgain(endpoint: GuardedEndpoint, exchange: Exchange): Promise<void> {
    const again = await this.#identify(endpoint, exchange);
    if (again?.tokenAudience === "operators" && !mayUse(endpoint, again.caller)) throw lacks(endpoint.permission);
  }

  /** Returns the operator when there is one; all others get the same answer as a client without a token. */
  async #operatorWith(permission: string, exchange: Exchange): Promise<Authenticated | undefined> {
    const { sessions, wrongTokens } = this.#services;
    if (exchange.raw.headers.authorization === undefined && sessions === undefined) return undefined;
    try {
      checkPeerHeaders(exchange.raw, this.#services);
      const session = await sessions?.present(exchange.raw);
      const authenticated = await this.#verify(exchange, "operators", session);
      return authenticated.caller.permissions.includes(permission) ? authenticated : undefined;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      // The answer does not say that the token is wrong, and verifying it costs as much as elsewhere.
      if (error.code === "UNAUTHENTICATED") wrongTokens?.countUnverified(exchange.raw);
      return undefined;
    }
  }

  /** Checks the permission. An agent's token, and an attempt to change something without the permission, are recorded. */
  async #assertAllowed(
    endpoint: GuardedEndpoint,
    { tokenAudience, caller }: Authenticated,
    { params }: Exchange,
  ): Promise<void> {
    const { audience, method, permission } = endpoint;
    const { id: asked = "" } = params;
    const id = isId(asked) ? asked : undefined;
    if (tokenAudience === "agents") {
      if (audience !== "operators") return;
      await recordForgery(this.#services, caller, { reason: "agents_token", id });
      throw lacks(permission);
    }
    if (mayUse(endpoint, caller)) return;
    if (method !== "GET" && permission !== undefined)
      await recordRefused(this.#services, caller, { reason: "permission_missing", permission, id });
    throw lacks(permission);
  }

  async #handle(
    endpoint: GuardedEndpoint,
    exchange: Exchange,
    { sent, authenticated }: { readonly sent: Body; readonly authenticated: Authenticated | undefined },
  ): Promise<EndpointAnswer> {
    const { params, query, headers, notFound } = endpoint;
    const caller = authenticated?.caller;
    const request = {
      ...sent,
      params: checked(params, exchange.params, "The path is", notFound),
      query: checked(query, exchange.query, "The query is"),
      headers: checked(headers, headersOf(headers, exchange), "The headers are"),
      caller,
      tokenAudience: authenticated?.tokenAudience ?? "agents",
      raw: exchange.raw,
      session: authenticated?.session,
      isDisconnected: () => exchange.disconnected,
      untilEnd: (end: () => void) => this.#untilEnd(exchange, end),
      tokenLeftMs: () => Math.max(0, (caller?.expiresAt ?? 0) * 1000 - this.#services.clock()),
      verifyAgain: () => this.#verifyAgain(endpoint, exchange),
    };
    return endpoint.handle(request, this.#services);
  }

  /** Records the answer before it is sent. Reads by agents of their own data are not recorded. */
  async #record(
    { audited, audience }: GuardedEndpoint,
    { tokenAudience, caller }: Authenticated,
    { recorded }: EndpointAnswer,
  ) {
    if (!isRead(audited) || (audience === "either" && tokenAudience === "agents")) return;
    await record(this.#services, { type: audited, sub: caller.subject, iss: caller.issuer, ...recorded });
  }

  #untilEnd(exchange: Exchange, end: () => void): () => void {
    const stop = (): void => {
      this.#waiting.delete(onEnd);
      unlisten();
    };
    const onEnd = (): void => {
      stop();
      end();
    };
    const unlisten = exchange.listen(onEnd);
    this.#waiting.add(onEnd);
    if (exchange.disconnected || this.#isClosing) onEnd();
    return stop;
  }
}

const NO_BYTES = new Uint8Array();
const noBody = z.strictObject({});

const readersOf = perListener(bodyReaders);

/**
 * Returns the body's bytes; undefined when there is none. Rejects with the same refusals as `POST /call`; the rest of a refused
 * body is not read, and the connection closes after the answer.
 */
export async function readBytes(exchange: Exchange, services: EndpointServices): Promise<Uint8Array | undefined> {
  const { raw } = exchange;
  const limits = { ...services, bodyBytesMax: Math.min(services.bodyBytesMax, BODY_BYTES_MAX) };
  try {
    checkPeerHeaders(raw, services);
    if (raw.headers["idempotency-key"] !== undefined) {
      throw new Refusal("MALFORMED_REQUEST", "Idempotency-Key is for POST /call; send this without it.");
    }
    if (raw.headers["transfer-encoding"] === undefined && Number(raw.headers["content-length"] ?? 0) === 0) {
      return undefined;
    }
    checkBodyHeaders(raw.headers, limits);
    return await readersOf(services).read(exchange, limits);
  } catch (error) {
    if (!raw.complete) exchange.closeConnection();
    throw error;
  }
}

/** @throws {Refusal} AUDIT_UNAVAILABLE when the line cannot be recorded: the request is then not answered */
export async function record({ journal }: Pick<EndpointServices, "journal">, line: JournalLine): Promise<void> {
  try {
    await journal(line);
  } catch (cause) {
    throw new Refusal("AUDIT_UNAVAILABLE", "The request could not be recorded.", {
      details: { outcome: "not_run" },
      cause,
    });
  }
}

/** Records an act that never happens by mistake: an agent's token at an approver's endpoint, or a decision on one's own request. */
export function recordForgery(
  services: EndpointServices,
  { subject, issuer }: CallerContext,
  { reason, id }: { readonly reason: "agents_token" | "own_question"; readonly id: string | undefined },
): Promise<void> {
  const type = "approval.forged";
  return record(services, { type, ...(id !== undefined && { id }), sub: subject, iss: issuer, reason });
}

type OperatorRefusal = { readonly id: string | undefined } & (
  | { readonly reason: "permission_missing"; readonly permission: string }
  | { readonly reason: "not_eligible" }
);

/** Records a refused operator. Operators are known and trusted, so a missing permission is not recorded as a forgery. */
export function recordRefused(
  services: EndpointServices,
  { subject, issuer }: CallerContext,
  { id, ...why }: OperatorRefusal,
): Promise<void> {
  const isVote = why.reason === "not_eligible" || why.permission === "approvals:decide";
  const type = isVote ? "approval.refused" : "operator.refused";
  return record(services, { type, ...(id !== undefined && { id }), sub: subject, iss: issuer, ...why });
}

function mayUse({ permission, anyPermission }: GuardedEndpoint, { permissions }: CallerContext): boolean {
  return anyPermission === true || (permission !== undefined && permissions.includes(permission));
}

export function lacks(permission = ""): Refusal {
  return new Refusal("PERMISSION_DENIED", `This is for operators whose token holds ${permission}.`, {
    details: { missingPermissions: [permission] },
  });
}

function headersOf(schema: z.ZodObject | undefined, { raw }: Exchange): unknown {
  const names = Object.keys(schema?.shape ?? {});
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = raw.headers[name.toLowerCase()];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** @throws {Refusal} MALFORMED_REQUEST, or what `otherwise` returns; undefined when there is no schema */
function checked(schema: z.ZodType | undefined, value: unknown, subject: string, otherwise?: () => Error): unknown {
  if (schema === undefined) return undefined;
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  if (otherwise !== undefined) throw otherwise();
  throw new Refusal("MALFORMED_REQUEST", `${subject} not valid for this route.`, {
    details: { issues: issuesOf(parsed.error) },
  });
}
