import { type ChannelOptions, Client, connectivityState, type Metadata } from "@grpc/grpc-js";
import { Refusal } from "../../core/errors.ts";
import type { Reach } from "./tls-identity.ts";

/** A cancel storm on one channel resets the innocent calls beside it, so calls that change have a channel of their own. */
export type ToolClass = "read" | "change";

export interface ChannelState {
  readonly system: string;
  readonly toolClass: ToolClass;
  readonly state: "IDLE" | "CONNECTING" | "READY" | "TRANSIENT_FAILURE" | "SHUTDOWN";
}

/** One system as the channels need it. */
export interface Endpoint {
  readonly address: string;
  readonly reach: Reach;
  readonly maxMessageBytes: number;
}

export interface UnaryRequest {
  readonly path: string;
  readonly bytes: Buffer;
  readonly metadata: Metadata;
  /** Milliseconds since 1970. */
  readonly deadline: number;
  readonly signal: AbortSignal;
}

const CONNECT_TIMEOUT_MS = 5_000;
// Servers of the gRPC family by default drop a client that pings more often than every five minutes.
const KEEPALIVE_INTERVAL_MS = 310_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;
const RECONNECT_BACKOFF_MIN_MS = 100;
const RECONNECT_BACKOFF_MAX_MS = 5_000;

const STATE_NAMES = {
  [connectivityState.IDLE]: "IDLE",
  [connectivityState.CONNECTING]: "CONNECTING",
  [connectivityState.READY]: "READY",
  [connectivityState.TRANSIENT_FAILURE]: "TRANSIENT_FAILURE",
  [connectivityState.SHUTDOWN]: "SHUTDOWN",
} as const;

/** The states that end an attempt to connect. */
const SETTLED: ReadonlySet<connectivityState> = new Set([
  connectivityState.READY,
  connectivityState.TRANSIENT_FAILURE,
  connectivityState.SHUTDOWN,
]);

const asIs = (bytes: Buffer): Buffer => bytes;

function channelOptions({ reach, maxMessageBytes }: Endpoint): ChannelOptions {
  return {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_http_proxy": 0,
    "grpc.enable_retries": 0,
    "grpc.enable_channelz": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.keepalive_time_ms": KEEPALIVE_INTERVAL_MS,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    "grpc.keepalive_permit_without_calls": 0,
    "grpc.initial_reconnect_backoff_ms": RECONNECT_BACKOFF_MIN_MS,
    "grpc.max_reconnect_backoff_ms": RECONNECT_BACKOFF_MAX_MS,
    ...(reach.tls === null
      ? {}
      : { "grpc.ssl_target_name_override": reach.tls.serverName, "grpc.default_authority": reach.tls.serverName }),
  };
}

/** One connection to one system, made at the first call and kept. */
class Link {
  readonly #client: Client;
  #attempt: Promise<boolean> | undefined;

  constructor(endpoint: Endpoint) {
    this.#client = new Client(endpoint.address, endpoint.reach.credentials, channelOptions(endpoint));
  }

  state(): ChannelState["state"] {
    return STATE_NAMES[this.#client.getChannel().getConnectivityState(false)];
  }

  /**
   * Whether there is a connection; connects when there is none, and waits until that has succeeded or failed, the
   * connect timeout has passed or the signal fires.
   */
  connect(signal: AbortSignal): boolean | Promise<boolean> {
    if (this.#client.getChannel().getConnectivityState(true) === connectivityState.READY) return true;
    // One attempt for all waiting calls: a watch on a channel cannot be taken back.
    this.#attempt ??= this.#settled().finally(() => {
      this.#attempt = undefined;
    });
    return within(this.#attempt, signal);
  }

  /** The answer's bytes. Rejects with the `ServiceError` of grpc-js. */
  unary(request: UnaryRequest): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const { path, bytes, metadata, deadline, signal } = request;
      const call = this.#client.makeUnaryRequest(path, asIs, asIs, bytes, metadata, { deadline }, (error, answer) => {
        signal.removeEventListener("abort", cancel);
        if (error === null && answer !== undefined) resolve(answer);
        else reject(error ?? new Error("neither an answer nor an error"));
      });
      const cancel = (): void => call.cancel();
      signal.addEventListener("abort", cancel, { once: true });
    });
  }

  close(): void {
    this.#client.close();
  }

  #settled(): Promise<boolean> {
    const channel = this.#client.getChannel();
    return new Promise((resolve) => {
      const look = (): void => {
        const state = channel.getConnectivityState(true);
        if (SETTLED.has(state)) resolve(state === connectivityState.READY);
        else channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, look);
      };
      look();
    });
  }
}

/** What `attempt` says; false when it takes too long or the signal fires first. */
function within(attempt: Promise<boolean>, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false);
  return new Promise((resolve, reject) => {
    const giveUp = (): void => resolve(false);
    const timer = setTimeout(giveUp, CONNECT_TIMEOUT_MS);
    signal.addEventListener("abort", giveUp, { once: true });
    attempt
      .finally(() => {
        clearTimeout(timer);
        signal.removeEventListener("abort", giveUp);
      })
      .then(resolve, reject);
  });
}

/** All channels: one per system and tool class, lazily connected, reused until closed. */
export class Channels {
  readonly #endpoints: ReadonlyMap<string, Endpoint>;
  readonly #links = new Map<string, { readonly system: string; readonly toolClass: ToolClass; readonly link: Link }>();
  #closed = false;

  constructor(endpoints: ReadonlyMap<string, Endpoint>) {
    this.#endpoints = endpoints;
  }

  link(system: string, toolClass: ToolClass): Link {
    if (this.#closed) throw new Refusal("SHUTTING_DOWN", "The service is shutting down.");
    const key = `${toolClass} ${system}`;
    const known = this.#links.get(key);
    if (known !== undefined) return known.link;
    const endpoint = this.#endpoints.get(system);
    if (endpoint === undefined) throw new Error(`no system ${system}`);
    const link = new Link(endpoint);
    this.#links.set(key, { system, toolClass, link });
    return link;
  }

  states(): readonly ChannelState[] {
    return [...this.#links.values()].map(({ system, toolClass, link }) => ({ system, toolClass, state: link.state() }));
  }

  /** Calls in flight end as they will; new ones are refused. */
  close(): void {
    this.#closed = true;
    for (const { link } of this.#links.values()) link.close();
  }
}
