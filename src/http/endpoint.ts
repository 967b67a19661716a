import type { KeyObject } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { z } from "zod";
import type { NotifiedApprovals } from "../approvals/notify/webhooks.ts";
import type { ReceiptedApprovals } from "../approvals/receipts/receipts.ts";
import type { ExportState } from "../audit/export/exporter.ts";
import type { JournalLine } from "../audit/journal/journal.ts";
import type { CallerContext, EpochMs, Json } from "../core/types.ts";
import type { Halts } from "../halts/halts.ts";
import type { Disconnect } from "../pipeline/call-scope.ts";
import type { Audience, CallerVerifier } from "../pipeline/caller-context.ts";
import type { AccessDecision, AccessQuestion } from "../pipeline/evaluation.ts";
import type { Learning } from "../pipeline/learning/learning.ts";
import type { Shedding } from "../pipeline/limits/shedding.ts";
import type { Snapshot, ToolProxy } from "../pipeline/proxy.ts";
import type { Registry } from "../pipeline/registry.ts";
import type { Quotas } from "../quotas/quotas.ts";
import type { Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import type { ConcurrencyLimitOptions, RequestRateLimiter } from "./connections/request-limits.ts";
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

/** Reasons why the service does not accept calls now. Names of components only. */
export type NotReady = "draining" | "audit_unavailable";

/** Parts of a service that a configuration may lack. An endpoint that needs a missing part does not exist. */
interface OptionalParts {
  readonly approvals?: (NotifiedApprovals & ReceiptedApprovals) | undefined;
  readonly report?: NotifiedApprovals["report"];
  readonly webhooks?: NotifiedApprovals["webhooks"];
  readonly inbox?: NotifiedApprovals["inbox"];
  /** The audit directory. No part of a request ever becomes part of a path. */
  readonly auditDir?: string | undefined;
  /** Returns how far each exporter of the audit is, per stream; empty without `audit.export`. */
  readonly exports?: (() => readonly ExportState[]) | undefined;
  readonly reload?: ((by: ReloadRequester) => Promise<Reloaded>) | undefined;
  readonly resource?: string | undefined;
  /** Settings of the MCP server. */
  readonly mcp?: McpSettings | undefined;
  /** Returns the observations of answers; loads their code at the first use. */
  readonly learning?: (() => Promise<Learning>) | undefined;
  /** The halts that operators have set. */
  readonly halts?: Halts | undefined;
  /** Returns the quotas in use; undefined while the configuration has none. */
  readonly quotas?: (() => Quotas | undefined) | undefined;
  /** Decides whether an agent may call a tool, for other programs; loads its code at the first use. */
  readonly evaluate?: ((question: AccessQuestion) => Promise<AccessDecision>) | undefined;
  /** Returns what the policies in use say about a call; loads its code at the first use. `routes/explain.ts` has the schemas. */
  readonly explain?: ((caller: StatedCaller, call: ExplainedCall) => Promise<object>) | undefined;
  /** Returns what follows data in the configuration in use; undefined while that is off. */
  readonly dataFlow?: (() => Snapshot["dataFlow"]) | undefined;
  /** Returns the tools, systems and settings in use; loads their code at the first use. */
  readonly inventory?: (() => Promise<ServiceInventory>) | undefined;
}

/** Who would make a call that an operator asks about: the bearer of a token, or a subject as the operator states it. */
interface StatedCaller {
  readonly token?: string | undefined;
  readonly sub?: string | undefined;
  readonly iss?: string | undefined;
  readonly permissions?: readonly string[] | undefined;
}

interface ExplainedCall {
  readonly tool: string;
  readonly args: unknown;
  readonly session?: string | undefined;
  readonly mode?: "default" | "autoEdit" | "yolo" | undefined;
  /** Whether planning may ask the target. */
  readonly lookups: boolean;
}

/** Facts about the service that operators may read, without secrets and paths. `routes/inventory.ts` has the schemas. */
interface ServiceInventory {
  tools(): object;
  /** Returns undefined when there is no tool of this name. */
  tool(name: string): object | undefined;
  systems(): Promise<object>;
  configuration(): object;
}

export interface McpSettings {
  readonly resultBytesMax: number;
  readonly holdSeconds: number;
  /** Number of tools above which a caller's list holds a search instead. */
  readonly searchAbove: number | "off";
  /** URL of the page with an approval request, whose id replaces `{id}`. */
  readonly approvalPage?: string | undefined;
  /** Returns whether the same call again uses the approval that was given for it. */
  readonly attaches: () => boolean;
}

export type Need = keyof OptionalParts;

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
  present(request: IncomingMessage): Promise<PresentedSession | undefined>;
}

export interface ServiceParts extends OptionalParts, BodyLimits, PeerLimits {
  /** Whether the agents' listener also answers operators; default: it does. */
  readonly operatorsOnAgentPort?: boolean | undefined;
  readonly sessions?: SessionSource | undefined;
  readonly proxy: ToolProxy;
  readonly registry: Registry;
  readonly callers: CallerVerifier;
  readonly metrics: Metrics;
  /** Returns the current time in milliseconds since 1970. */
  readonly clock: () => number;
  /** Resolves when the line is durable. */
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly logError: (error: unknown) => void;
  /** Returns what finds secrets by the rules of the configuration in use. */
  readonly detector: () => Snapshot["detector"];
  readonly concurrentRequestsMax: () => number;
  /** Public key that verifies the audit's checkpoints. Without it, their signatures are not verified. */
  readonly checkpointKey?: KeyObject | undefined;
  readonly notReady: () => readonly NotReady[];
  readonly systems: () => Promise<unknown>;
  /** Returns the open listeners. */
  readonly listening?: (() => readonly ListenerState[]) | undefined;
  readonly audit?: (() => unknown) | undefined;
  readonly confinement?: (() => unknown) | undefined;
  /** Returns the states of the decision points; undefined when there are none. */
  readonly decisionPoints?: (() => unknown) | undefined;
  readonly configuration?: (() => unknown) | undefined;
  /** Returns the state of the revocation list; undefined when there is none. */
  readonly revocations?: (() => unknown) | undefined;
  readonly resourceScopes?: readonly string[] | undefined;
  /** Returns the issuers from which agents may get tokens, as URLs. */
  readonly authorizationServers?: (() => readonly string[]) | undefined;
  readonly tls?: { readonly clientCaFile?: string | undefined } | undefined;
}

/** The parts of the service as one listener offers them to its endpoints. */
export interface EndpointServices extends ServiceParts {
  readonly shedding?: Shedding | undefined;
  /** Rate limit per caller for requests other than calls; without it, they are not rate-limited. */
  readonly requestRate?: RequestRateLimiter | undefined;
  readonly routes: readonly Route[];
  /** Runs the work when the listener closes, after its last request. */
  readonly onClose: (work: () => unknown) => void;
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

interface EndpointDeclaration {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly alsoAt?: (services: ServiceParts) => readonly string[];
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
  readonly needs?: readonly Need[];
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
  readonly adapt?: (answer: EndpointAnswer, request: IncomingMessage) => EndpointAnswer;
  /** Concurrent requests, in addition to the guard's own limit. Endpoints with the same object share it. */
  readonly limits?: ConcurrencyLimitOptions;
}

export interface GuardedEndpoint extends EndpointDeclaration {
  handle(request: AdmittedRequest, services: EndpointServices): Promise<EndpointAnswer> | EndpointAnswer;
}

/** An endpoint that authorizes its requests itself: by the pipeline, or by a signature over the body. */
export interface SelfGuardedEndpoint extends EndpointDeclaration {
  receive(exchange: Exchange, services: EndpointServices): Promise<EndpointAnswer>;
}

export type Endpoint = GuardedEndpoint | SelfGuardedEndpoint;

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
  readonly raw: IncomingMessage;
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
  readonly raw: IncomingMessage;
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

type Permission<Who> = Who extends "operators" | "either"
  ? { readonly permission: string } | { readonly anyPermission: true }
  : { readonly permission?: string };

type Declared<Who extends EndpointAudience, Params, Query, Headers, Body, Needs extends Need> = EndpointDeclaration &
  Permission<Who> & {
    readonly audience: Who;
    readonly params?: Params;
    readonly query?: Query;
    readonly headers?: Headers;
    readonly body?: Body;
    readonly needs?: readonly Needs[];
  };

type With<Needs extends Need> = EndpointServices & { readonly [part in Needs]: NonNullable<EndpointServices[part]> };

/** Declares an endpoint. The parameters of `handle` have the types of its schemas, audience and needed parts. */
export function endpoint<
  Who extends Exclude<EndpointAudience, "signers">,
  Params extends z.ZodObject | undefined = undefined,
  Query extends z.ZodObject | undefined = undefined,
  Headers extends z.ZodObject | undefined = undefined,
  Body extends z.ZodType | undefined = undefined,
  Needs extends Need = never,
>(
  declared: Declared<Who, Params, Query, Headers, Body, Needs> & {
    handle(
      request: AdmittedRequest<Who, Output<Params>, Output<Query>, Output<Headers>, Output<Body>>,
      services: With<Needs>,
    ): Promise<EndpointAnswer> | EndpointAnswer;
  },
): GuardedEndpoint {
  return declared;
}

export function selfGuarded<Who extends "agents" | "signers", Needs extends Need = never>(
  declared: Declared<Who, z.ZodObject, undefined, z.ZodObject, undefined, Needs> & {
    receive(exchange: Exchange, services: With<Needs>): Promise<EndpointAnswer>;
  },
): SelfGuardedEndpoint {
  return declared;
}

/**
 * Returns a function that creates a value for each listener at its first use and returns the same value from then on: the state
 * that endpoints share between requests.
 */
export function perListener<Value, Services extends object = EndpointServices>(
  create: (services: Services) => Value,
): (services: Services) => Value {
  const values = new WeakMap<object, { readonly value: Value }>();
  return (services) => {
    const known = values.get(services);
    if (known !== undefined) return known.value;
    const value = create(services);
    values.set(services, { value });
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

/** Returns what a listener answers: the endpoints declared for it whose needed parts the service has. */
export function routesOf(
  endpoints: readonly Endpoint[],
  listener: ListenerName,
  services: ServiceParts,
): readonly Route[] {
  return endpoints
    .filter((each) => listenersOf(each).includes(listener))
    .filter(({ needs = [] }) => needs.every((part) => services[part] !== undefined))
    .flatMap((declared) => {
      const endpoint = audienceAt(listener, declared, services);
      if (endpoint === undefined) return [];
      return [endpoint.path, ...(endpoint.alsoAt?.(services) ?? [])].map((path) => ({ path, endpoint }));
    });
}

/** Returns the endpoint with its audience on this listener: only operators on the console's; undefined when it has none. */
function audienceAt(
  listener: ListenerName,
  endpoint: Endpoint,
  { operatorsOnAgentPort = true }: ServiceParts,
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

/** A file that declares endpoints, imported when a listener needs them. */
export type EndpointFile = () => Promise<{ readonly endpoints: readonly Endpoint[] }>;

export async function loadEndpoints(files: readonly EndpointFile[]): Promise<readonly Endpoint[]> {
  const loaded = await Promise.all(files.map((load) => load()));
  return loaded.flatMap(({ endpoints }) => endpoints);
}
