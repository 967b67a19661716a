import type { z } from "zod";
import type { JournalLine } from "../audit/journal/journal.ts";
import type { OperatorPermission } from "../core/operator-permissions.ts";
import type { CallerContext, EpochMs, Json } from "../core/types.ts";
import type { Disconnect } from "../pipeline/call-scope.ts";
import type { Audience, CallerVerifier } from "../pipeline/caller-context.ts";
import type { Shedder } from "../pipeline/limits/shedding.ts";
import type { ConcurrencyLimitOptions, RequestRateLimiter } from "./connections/request-limits.ts";
import type { ReceivedRequest } from "./messages.ts";
import type { Metrics } from "./metrics.ts";
import type { BodyLimits, PeerLimits } from "./request-guard.ts";

/**
 * Endpoints: each is declared once, next to its `handle`. Routing, the guard sequence, wrong methods, `/openapi.json` and the
 * table in `docs/endpoints.md` are derived from the declarations. Nothing here depends on an HTTP framework.
 */

/**
 * The listeners of a service: `server.host` and related settings for agents, `server.operator` for probes and metrics,
 * `server.console` for operators and their browsers.
 */
export type ListenerName = "agents" | "operators" | "console";

/** Where a listener of the service listens, without paths of files. */
export interface ListenerState {
  readonly listener: ListenerName;
  /** URLs with their actual ports, or `Unix socket`. */
  readonly addresses: readonly string[];
  readonly tls: "none" | "server";
  /** Whether clients may or must present a certificate. */
  readonly clientCertificates: "none" | "accepted" | "required";
  /** When the certificate in use expires; undefined without TLS. */
  readonly certificateExpiresAt: EpochMs | undefined;
}

/** Who is answered: everybody, holders of an agent's or an operator's token, of either, or signers of the body. */
export type EndpointAudience = Audience | "anybody" | "either" | "signers";

/**
 * Reasons why clients should not send calls to this service now. Names of components only. While it is shutting down, it still
 * serves those that come.
 */
export type NotReady = "shutting_down" | "draining" | "audit_unavailable" | "workers_unavailable";

/** A session of the console that a request has presented: another form of the operators' token. */
export interface PresentedSession {
  /** The token that the session holds, as an `Authorization` header. */
  readonly authorization: string;
  /** When the session ends at the latest, in milliseconds since 1970. */
  readonly endsAtMs: number;
  /** Ends the session: the person signs out, or its token is no longer accepted. */
  end(why: "signed_out" | "token_refused"): Promise<void>;
}

/** Sessions, which some listeners accept in place of a token. */
export interface SessionSource {
  /**
   * Returns the session that a request presents; undefined when it presents none. Rejects with a `Refusal` when the request may
   * not use a session, or presents one that has ended.
   */
  present(request: ReceivedRequest): Promise<PresentedSession | undefined>;
}

/** What a program lends its listeners, whatever they answer. */
export interface ListenerParts extends BodyLimits, PeerLimits {
  /** Whether the agents' listener also answers operators; default: it does. */
  readonly operatorsOnAgentPort?: boolean | undefined;
  readonly sessions?: SessionSource | undefined;
  readonly callers: CallerVerifier;
  readonly metrics: Metrics;
  /** Returns the current time in milliseconds since 1970. */
  readonly clock: () => number;
  /** Resolves when the line is durable. */
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly logError: (error: unknown) => void;
  readonly concurrentRequestsMax: () => number;
  /** URL of the service, for the challenges of its refusals. */
  readonly resource?: string | undefined;
}

/** What a listener lends its endpoints, in addition to the part of the service that each of them has. */
export interface EndpointServices extends ListenerParts {
  readonly shedding?: Shedder | undefined;
  /** Rate limit per caller for requests other than calls; without it, they are not rate-limited. */
  readonly requestRate?: RequestRateLimiter | undefined;
  readonly routes: readonly Route[];
  /** Runs the work when the listener begins to close: what waits ends then. */
  readonly onClosing: (work: () => void) => void;
  /** Runs the work when the listener closes, after its last request. */
  readonly onClose: (work: () => unknown) => void;
  /** The listener itself: what its requests share is kept for it. */
  readonly listener: object;
}

export interface Route {
  readonly path: string;
  readonly endpoint: Endpoint;
}

/** How a successful request is audited. */
export type Audited =
  /** A call: the pipeline writes its entry, refusals included. */
  | "call"
  /** A change: the feature that makes it journals it. */
  | "change"
  /** A read: a journal line of this type, durable before the answer is sent. Where agents read their own, operators' only. */
  | `${string}.${string}`
  | "no";

type MediaType = "text/html" | "text/event-stream" | "text/plain" | "text/csv" | "application/x-ndjson";

interface DeclaredResponse {
  readonly description?: string;
  /** JSON Schema, or the schema from which it is generated; any object when omitted. */
  readonly schema?: z.ZodType | Readonly<Record<string, unknown>>;
  /** Media type; JSON when omitted. `none` has no body. */
  readonly type?: MediaType | readonly MediaType[] | "none";
}

interface EndpointDeclaration<Part> {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  /** Returns other paths of the endpoint. */
  alsoAt?(part: Part): readonly string[];
  /** One sentence for `/openapi.json` and the documentation. */
  readonly summary: string;
  readonly listeners?: readonly ListenerName[];
  readonly audience: EndpointAudience;
  /** Permission that an operator's token must hold. Where anybody is answered, holders get `caller`. */
  readonly permission?: string;
  /** Answers every operator, whatever the permissions: for what concerns only the operator's own session. */
  readonly anyPermission?: true;
  /** Answers under any Host, without checking Host and Origin: for probes and public documents. */
  readonly anyHost?: true;
  /** Checks Host and Origin of requests with another method, too, before 405; otherwise anybody learns the methods of a path. */
  readonly hidesMethods?: true;
  /** Records an agent's token as a forgery (403); otherwise it is not a token for this endpoint (401). */
  readonly recordsForgeries?: true;
  /** The setting without which a service has no such endpoint, for the documentation. */
  readonly onlyWith?: string;
  /** Checked after the permission; an invalid segment is MALFORMED_REQUEST, or what `notFound` returns. */
  readonly params?: z.ZodObject;
  readonly notFound?: () => Error;
  readonly query?: z.ZodObject;
  readonly headers?: z.ZodObject;
  /** Body; without it, requests other than GET may send none or `{}`. */
  readonly body?: z.ZodType;
  /** Body that the endpoint parses from its bytes itself; the schema is for the documentation. */
  readonly bytes?: z.ZodType;
  /** Responses by status, in addition to the refusals that the guard can return; `200` when omitted. */
  readonly responses?: Readonly<Record<number, DeclaredResponse>>;
  readonly errors?: Readonly<Record<number, string>>;
  readonly audited: Audited;
  /** Changes every answer before it is sent, refusals included: for a protocol that says how they look. */
  readonly adapt?: (answer: EndpointAnswer, request: ReceivedRequest) => EndpointAnswer;
  /** Concurrent requests, in addition to the guard's own limit. Endpoints with the same object share it. */
  readonly limits?: ConcurrencyLimitOptions;
}

export interface GuardedEndpoint<Part = object> extends EndpointDeclaration<Part> {
  handle(request: AdmittedRequest, services: EndpointServices & Part): Promise<EndpointAnswer> | EndpointAnswer;
}

/** An endpoint that authorizes its requests itself: by the pipeline, or by a signature over the body. */
export interface SelfGuardedEndpoint<Part = object> extends EndpointDeclaration<Part> {
  receive(exchange: Exchange, services: EndpointServices & Part): Promise<EndpointAnswer>;
}

/** An endpoint, and the part of the service that it gets; by default none, or one that it has already. */
export type Endpoint<Part = object> = GuardedEndpoint<Part> | SelfGuardedEndpoint<Part>;

/** A request that the guard has let through. */
export interface AdmittedRequest<
  Who = EndpointAudience,
  Params = unknown,
  Query = unknown,
  Headers = unknown,
  Body = unknown,
> {
  readonly params: Params;
  readonly query: Query;
  readonly headers: Headers;
  readonly body: Body;
  /** The body of an endpoint that declares `bytes`; empty when there is none. */
  readonly bytes: Uint8Array;
  readonly caller: Who extends "anybody" ? CallerContext | undefined : CallerContext;
  readonly tokenAudience: Audience;
  /** The request as it arrived, for endpoints that open sessions. */
  readonly raw: ReceivedRequest;
  /** The session in place of whose token the request was sent, if there is one. */
  readonly session: PresentedSession | undefined;
  readonly isDisconnected: () => boolean;
  /** Calls `end` once, when the client disconnects or the service closes. Returns a function that stops listening. */
  readonly untilEnd: (end: () => void) => () => void;
  /** Returns the remaining validity of the caller's token in milliseconds. */
  readonly tokenLeftMs: () => number;
  /** Verifies token and permission again: the token may have expired, or its key may have been removed. Rejects with a Refusal. */
  readonly verifyAgain: () => Promise<void>;
}

/** A request as an HTTP adapter received it, for endpoints that authorize it themselves. Nothing in it is verified yet. */
export interface Exchange extends Disconnect {
  readonly raw: ReceivedRequest;
  readonly params: Readonly<Record<string, string | undefined>>;
  readonly query: unknown;
  /** The peer's address; `socket` on the Unix socket. */
  readonly source: string;
  readonly scheme: string;
  readonly closeConnection: () => void;
}

/** A whole answer, or the head of a stream. */
export interface EndpointAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Values of `Set-Cookie`. */
  readonly cookies?: readonly string[] | undefined;
  readonly body?: string | Uint8Array | undefined;
  /** Sends the events; resolves when the stream has ended, never rejects. */
  readonly stream?: ((client: EventSink) => Promise<void>) | undefined;
  /** Members of the journal line, in addition to its type and the caller. */
  readonly recorded?: Readonly<Record<string, Json>> | undefined;
}

export interface EventSink {
  /** Sends the text. Returns false when the client is behind: then `onceDrained` calls back when it has caught up. */
  write(text: string): boolean;
  onceDrained(listener: () => void): () => void;
  onDisconnect(listener: () => void): void;
  end(): void;
  /** Ends the connection and drops what the client has not read. */
  destroy(): void;
}

type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : unknown;

type Permission<Who, Name> = Who extends "operators" | "either"
  ? { readonly permission: Name } | { readonly anyPermission: true }
  : { readonly permission?: Name };

type Declared<Part, Name, Who extends EndpointAudience, Params, Query, Headers, Body> = EndpointDeclaration<Part> &
  Permission<Who, Name> & {
    readonly audience: Who;
    readonly params?: Params;
    readonly query?: Query;
    readonly headers?: Headers;
    readonly body?: Body;
  };

/** Returns functions that declare endpoints with a part of the service; `Own` are permissions that only a build's endpoints have. */
export function endpointsWith<Part extends object = object, Own extends string = never>() {
  return {
    /** Declares an endpoint. The parameters of `handle` have the types of its schemas, audience and part. */
    endpoint<
      Who extends Exclude<EndpointAudience, "signers">,
      Params extends z.ZodObject | undefined = undefined,
      Query extends z.ZodObject | undefined = undefined,
      Headers extends z.ZodObject | undefined = undefined,
      Body extends z.ZodType | undefined = undefined,
    >(
      declared: Declared<Part, OperatorPermission | Own, Who, Params, Query, Headers, Body> & {
        handle(
          request: AdmittedRequest<Who, Output<Params>, Output<Query>, Output<Headers>, Output<Body>>,
          services: EndpointServices & Part,
        ): Promise<EndpointAnswer> | EndpointAnswer;
      },
    ): GuardedEndpoint<Part> {
      return declared;
    },
    selfGuarded<Who extends "agents" | "signers">(
      declared: Declared<Part, OperatorPermission | Own, Who, z.ZodObject, undefined, z.ZodObject, undefined> & {
        receive(exchange: Exchange, services: EndpointServices & Part): Promise<EndpointAnswer>;
      },
    ): SelfGuardedEndpoint<Part> {
      return declared;
    },
  };
}

/** Declares an endpoint that needs no part of the service. */
export const { endpoint } = endpointsWith();

/**
 * Returns a function that creates a value for each listener at its first use and returns the same value from then on: the state
 * that endpoints share between requests.
 */
export function perListener<Value, Services extends Pick<EndpointServices, "listener"> = EndpointServices>(
  create: (services: Services) => Value,
): (services: Services) => Value {
  const values = new WeakMap<object, { readonly value: Value }>();
  return (services) => {
    const known = values.get(services.listener);
    if (known !== undefined) return known.value;
    const value = create(services);
    values.set(services.listener, { value });
    return value;
  };
}

/** Returns the methods of an endpoint. Some probes and crawlers send HEAD to endpoints that are open to anybody. */
export function methodsOf({ method, audience }: Endpoint): readonly string[] {
  return method === "GET" && audience === "anybody" ? ["GET", "HEAD"] : [method];
}

/** Returns the listeners of an endpoint. The console's listener has everything that operators do on the agents' listener. */
export function listenersOf({ listeners = ["agents"], audience }: Endpoint): readonly ListenerName[] {
  const isForOperators = audience === "operators" || audience === "either";
  return isForOperators && listeners.includes("agents") ? [...listeners, "console"] : listeners;
}

/** Returns what a listener answers: the endpoints declared for it. */
export function routesOf(
  endpoints: readonly Endpoint[],
  listener: ListenerName,
  parts: Pick<ListenerParts, "operatorsOnAgentPort">,
): readonly Route[] {
  return endpoints
    .filter((each) => listenersOf(each).includes(listener))
    .flatMap((declared) => {
      const endpoint = audienceAt(listener, declared, parts);
      if (endpoint === undefined) return [];
      return [endpoint.path, ...(endpoint.alsoAt?.({}) ?? [])].map((path) => ({ path, endpoint }));
    });
}

/** Returns the endpoint with its audience on this listener: only operators on the console's; undefined when it has none. */
function audienceAt(
  listener: ListenerName,
  endpoint: Endpoint,
  { operatorsOnAgentPort = true }: Pick<ListenerParts, "operatorsOnAgentPort">,
): Endpoint | undefined {
  const { audience, audited, permission: _, ...rest } = endpoint;
  if (listener === "console") return audience === "either" ? { ...endpoint, audience: "operators" } : endpoint;
  if (listener === "operators" || operatorsOnAgentPort) return endpoint;
  if (audience === "operators") return undefined;
  // Agents' readings of their own data are not recorded.
  const own = audience === "either" && ({ audience: "agents", audited: isRead(audited) ? "no" : audited } as const);
  return { ...rest, audience, audited, ...own };
}

/** Returns whether requests are recorded by a line of their own, not by the call or the change. */
export function isRead(audited: Audited): boolean {
  return audited !== "call" && audited !== "change" && audited !== "no";
}

/** A file of endpoints, imported when a listener needs them, and which part of a service they get. */
export interface EndpointFile<Service> {
  /** Returns the endpoints as they are declared, for descriptions of them. */
  declared(): Promise<readonly Endpoint[]>;
  /** Returns the endpoints with their part; none when the service lacks it. */
  of(service: Service): Promise<readonly Endpoint[]>;
}

/** Returns a function that joins a file of endpoints with their part of a service. `part` returns undefined when there is none. */
export function endpointFiles<Service>() {
  return <Part extends object>(
    load: () => Promise<{ readonly endpoints: readonly Endpoint<Part>[] }>,
    part: (service: Service) => NoInfer<Part> | undefined,
  ): EndpointFile<Service> => ({
    declared: async () => (await load()).endpoints,
    async of(service) {
      const own = part(service);
      if (own === undefined) return [];
      const join = perListener((services) => ({ ...services, ...own }));
      return (await load()).endpoints.map((each) => joined(each, own, join));
    },
  });
}

function joined<Part extends object>(
  endpoint: Endpoint<Part>,
  part: Part,
  join: (services: EndpointServices) => EndpointServices & Part,
): Endpoint {
  const { alsoAt } = endpoint;
  const paths = alsoAt && { alsoAt: () => alsoAt(part) };
  return "receive" in endpoint
    ? { ...endpoint, ...paths, receive: (exchange, services) => endpoint.receive(exchange, join(services)) }
    : { ...endpoint, ...paths, handle: (request, services) => endpoint.handle(request, join(services)) };
}

/** Returns the endpoints of a service: of each file, if the service has the part that it needs. */
export async function endpointsOf<Service>(
  files: readonly EndpointFile<Service>[],
  service: Service,
): Promise<readonly Endpoint[]> {
  return (await Promise.all(files.map((file) => file.of(service)))).flat();
}
