import type { Rate } from "../pipeline/limits/rate-limiter.ts";
import type { LoadLimits } from "./connections/load.ts";
import type { Endpoint, EndpointServices, ListenerParts, SessionSource } from "./endpoint.ts";
import type { PeerLimits } from "./request-guard.ts";

export interface ServerOptions extends ListenerParts {
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  /** True from the beginning of the shutdown: answers then close their connections. */
  readonly isEnding: () => boolean;
  readonly limits?: ListenerLoadLimits | undefined;
  /** The HTTP server of the agents' listener; default: the built-in one. */
  readonly http?: AgentsHttp | undefined;
}

/** HTTP servers of the agents' listener. */
export type AgentsHttp = "built-in" | "fastify";

export interface ListenerOptions extends ServerOptions, Pick<EndpointServices, "shedding" | "requestRate"> {}

/** Options that only the console's listener has. */
export interface ConsoleListener extends Pick<PeerLimits, "allowedHosts" | "noLoopbackNames" | "isOwnOrigin"> {
  /** The endpoints of the console itself. */
  readonly endpoints: readonly Endpoint[];
  readonly sessions: SessionSource;
  /** Headers of every answer. */
  readonly headers: Readonly<Record<string, string>>;
}

interface ListenerLoadLimits extends LoadLimits {
  readonly rates: { readonly requests: Rate | "off" };
}

export const KEEP_ALIVE_MS = 72_000;
/** Interval of the check for requests that have timed out. */
export const TIMEOUT_CHECK_EVERY_MS = 500;
/** Longest value of a path's parameter. */
export const PARAM_LENGTH_MAX = 160;
