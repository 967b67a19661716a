import type { CallerVerifier } from "../pipeline/caller-context.ts";
import type { Rate } from "../pipeline/limits/rate-limiter.ts";
import type { Shedding } from "../pipeline/limits/shedding.ts";
import type { LoadLimits } from "./connections/load.ts";
import type {
  Endpoint,
  EndpointAnswer,
  EndpointServices,
  ListenerName,
  ListenerParts,
  Route,
  SessionSource,
} from "./endpoint.ts";
import type { AnswerFunction, HttpExchange } from "./exchange.ts";
import type { PeerLimits } from "./request-guard.ts";

export interface ServerOptions extends ListenerParts {
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  /** True from the beginning of the shutdown: answers then close their connections. */
  readonly isEnding: () => boolean;
  readonly limits?: ListenerLoadLimits | undefined;
  /** The HTTP server of the agents' listener; default: the built-in one. */
  readonly http?: AgentsHttp | undefined;
  /** The tenants of the service; undefined without any. */
  readonly listenerTenants?: ListenerTenants | undefined;
}

/** HTTP servers of the agents' listener. */
export type AgentsHttp = "built-in" | "fastify";

export interface ListenerOptions extends ServerOptions, Pick<EndpointServices, "requestRate"> {
  readonly shedding?: Shedding | undefined;
}

/** Options that only the console's listener has. */
export interface ConsoleListener extends Pick<PeerLimits, "allowedHosts" | "noLoopbackNames" | "isOwnOrigin"> {
  /** The endpoints of the console itself. */
  readonly endpoints: readonly Endpoint[];
  readonly sessions: SessionSource;
  /** Headers of every answer. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A tenant as the listeners serve it: what its requests use instead of the service's own. */
export interface ServedTenant
  extends Pick<ListenerParts, "callers" | "metrics" | "journal" | "logError" | "concurrentRequestsMax"> {
  readonly name: string;
  readonly endpoints: readonly Endpoint[];
  readonly limits: Pick<ListenerLoadLimits, "rates">;
  /** Returns whether the name in a signed request is that of an integration of this tenant. */
  readonly isIntegration: (name: string) => boolean;
}

/** A listener, for the tenants that it serves. */
export interface TenantListener {
  readonly name: ListenerName;
  readonly parts: ListenerOptions;
  /** Endpoints of the listener itself, which each tenant has there, too. */
  readonly own: readonly Endpoint[];
  /** Everything that the service itself has there. */
  readonly routes: readonly Route[];
}

/** Passes the requests of one listener to the tenants that they name. */
export interface TenantDispatch {
  /** The listener's sessions, which the service itself must read through the dispatch. */
  readonly sessions: SessionSource | undefined;
  /** Answers with the tenant that the request names; with `own` when it names none. */
  answer(exchange: HttpExchange, own: AnswerFunction): Promise<EndpointAnswer>;
  /** Ends waiting requests, such as long polls and streams. */
  close(): void;
  /** Runs what endpoints left for the end, after the last request. */
  closed(): Promise<void>;
}

export interface ListenerTenants {
  /** Verifies each token as the tenant that it names does. */
  readonly callers: CallerVerifier;
  on(listener: TenantListener): TenantDispatch;
}

export interface ListenerLoadLimits extends LoadLimits {
  readonly rates: { readonly requests: Rate | "off" };
}

export const KEEP_ALIVE_MS = 72_000;
/** Interval of the check for requests that have timed out. */
export const TIMEOUT_CHECK_EVERY_MS = 500;
/** Longest value of a path's parameter. */
export const PARAM_LENGTH_MAX = 160;
