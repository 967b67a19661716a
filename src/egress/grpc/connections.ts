import {
  type ChannelInterface,
  type Client,
  type ClientReadableStream,
  connectivityState,
  Metadata,
  status,
} from "@grpc/grpc-js";
import type { EpochMs } from "../../core/types.ts";
import { attemptFailed, headersFrom, notOneAnswer, type ReceivedHeaders } from "./attempt.ts";
import { asIs, CONNECT_TIMEOUT_MS, makeClient } from "./client.ts";
import type { ServerAddress, SystemEndpoints } from "./endpoints.ts";
import type { Keepalive } from "./settings.ts";

export interface ConnectionSettings {
  readonly endpoints: SystemEndpoints;
  readonly maxMessageBytes: number;
  /** Maximum size of an answer; `maxMessageBytes` when it is less. */
  readonly maxReceivedBytes?: number;
  readonly keepalive: Keepalive;
}

const RECONNECT_BACKOFF_MIN_MS = 100;
const RECONNECT_BACKOFF_MAX_MS = 10_000;

export type ChannelState = keyof typeof connectivityState;

/** States of a connection, best first: several connections together have the best state of one of them. */
const BEST_FIRST = ["READY", "CONNECTING", "IDLE", "TRANSIENT_FAILURE", "SHUTDOWN"] as const;

const FINAL: ReadonlySet<connectivityState> = new Set([
  connectivityState.READY,
  connectivityState.TRANSIENT_FAILURE,
  connectivityState.SHUTDOWN,
]);

/** Load balancing for several endpoints, over all their addresses. A single endpoint uses its first address. */
const ROUND_ROBIN = JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] });

function clientOf(
  { endpoints, maxMessageBytes, maxReceivedBytes = 0, keepalive }: ConnectionSettings,
  server: ServerAddress,
): Client {
  return makeClient(server, endpoints.credentials, {
    ...(endpoints.servers.length > 1 && { "grpc.service_config": ROUND_ROBIN }),
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.max_receive_message_length": Math.max(maxReceivedBytes, maxMessageBytes),
    "grpc.keepalive_time_ms": keepalive.intervalMs,
    "grpc.keepalive_timeout_ms": keepalive.timeoutMs,
    "grpc.keepalive_permit_without_calls": keepalive.withoutCalls ? 1 : 0,
    "grpc.initial_reconnect_backoff_ms": RECONNECT_BACKOFF_MIN_MS,
    "grpc.max_reconnect_backoff_ms": RECONNECT_BACKOFF_MAX_MS,
  });
}

/** Returns the state and optionally connects. Never connects a closed channel: grpc-js would reconnect forever. */
function stateOf(client: Client, connect = false): connectivityState {
  const channel = client.getChannel();
  const state = channel.getConnectivityState(false);
  return connect && state !== connectivityState.SHUTDOWN ? channel.getConnectivityState(true) : state;
}

/** The connections to one system, one per endpoint. They are created at the first call and kept. */
export class SystemConnections {
  #clients: readonly Client[];
  #attempt: Promise<boolean> | undefined;
  #turn = 0;

  constructor(settings: ConnectionSettings) {
    this.#clients = settings.endpoints.servers.map((server) => clientOf(settings, server));
  }

  state(): ChannelState {
    const states = new Set(this.#clients.map((client) => stateOf(client)));
    return BEST_FIRST.find((state) => states.has(connectivityState[state])) ?? "IDLE";
  }

  readyCount(): number {
    return this.#clients.filter((client) => stateOf(client) === connectivityState.READY).length;
  }

  /** Returns whether there is a connection. Connects if needed, until the connect timeout or the signal. */
  connect(signal: AbortSignal): boolean | Promise<boolean> {
    let isReady = false;
    for (const client of this.#clients) {
      if (stateOf(client) === connectivityState.READY) isReady = true;
      else stateOf(client, true);
    }
    if (isReady) return true;
    // One attempt for all waiting calls, because a watch on a channel cannot be cancelled.
    this.#attempt ??= this.#try();
    // Checks again, because the connections may have been replaced meanwhile.
    return waitFor(this.#attempt, signal).then((isConnected) => isConnected || this.readyCount() > 0);
  }

  /** Connects to every endpoint within the connect timeout. Returns the number of connections. */
  async connectAll(): Promise<number> {
    const all = Promise.all(this.#clients.map(whenConnected)).then(() => true);
    await waitFor(all, new AbortController().signal);
    return this.readyCount();
  }

  unary(request: LinkRequest): Promise<Buffer> {
    return unaryCall(this.#next().getChannel(), request);
  }

  stream({
    path,
    bytes,
    metadata,
    deadline,
  }: LinkRequest & { readonly metadata: Metadata }): ClientReadableStream<Buffer> {
    return this.#next().makeServerStreamRequest(path, asIs, asIs, bytes, metadata, { deadline });
  }

  /** Uses the connections of another link from now on. Closes its own, whose calls run to their end. */
  takeOver(other: SystemConnections): void {
    const old = this.#clients;
    this.#clients = other.#clients;
    this.#attempt = undefined;
    for (const client of old) client.close();
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  #try(): Promise<boolean> {
    const attempt = whenAnyConnected(this.#clients).finally(() => {
      if (this.#attempt === attempt) this.#attempt = undefined;
    });
    return attempt;
  }

  #next(): Client {
    const clients = this.#clients;
    const [only] = clients;
    if (only !== undefined && clients.length === 1) return only;
    const from = this.#turn;
    this.#turn = (from + 1) % clients.length;
    const inTurn = [...clients.slice(from), ...clients.slice(0, from)];
    const chosen = inTurn.find((client) => stateOf(client) === connectivityState.READY) ?? inTurn[0];
    if (chosen === undefined) throw new Error("a link without endpoints");
    return chosen;
  }
}

function whenConnected(client: Client): Promise<boolean> {
  const channel = client.getChannel();
  return new Promise((resolve) => {
    const check = (): void => {
      const state = stateOf(client, true);
      if (FINAL.has(state)) resolve(state === connectivityState.READY);
      else channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, check);
    };
    check();
  });
}

/** Resolves to true as soon as one is connected, to false when all have failed. */
async function whenAnyConnected(clients: readonly Client[]): Promise<boolean> {
  const attempts = clients.map(async (client) => (await whenConnected(client)) || Promise.reject());
  return Promise.any(attempts).catch(() => false);
}

/** Returns the result of `attempt`; false when it takes too long or the signal fires first. */
function waitFor(attempt: Promise<boolean>, signal: AbortSignal): Promise<boolean> {
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

interface LinkRequest {
  readonly path: string;
  readonly bytes: Buffer;
  readonly metadata?: Metadata;
  /** Infinity for none. */
  readonly deadline: EpochMs;
  readonly signal: AbortSignal;
}

/**
 * Sends one request and returns the bytes of its only answer. Rejects with `AttemptFailed`. Uses the channel directly:
 * the client above it takes more time than the call, for features that are not used here.
 */
function unaryCall(channel: ChannelInterface, request: LinkRequest): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const { path, bytes, metadata = new Metadata(), deadline, signal } = request;
    const call = channel.createCall(path, deadline, null, null, undefined);
    const cancel = (): void => call.cancelWithStatus(status.CANCELLED, "Cancelled on client");
    let received: ReceivedHeaders = "none";
    let answer: Buffer | undefined;
    let hasMore = false;
    let isOver = false;
    call.start(metadata, {
      onReceiveMetadata(headers) {
        received = headersFrom(headers);
      },
      onReceiveMessage(message: Buffer) {
        if (answer === undefined) {
          answer = message;
          // Without another read, a second message would delay the end of the call.
          call.startRead();
          return;
        }
        hasMore = true;
        call.cancelWithStatus(status.UNIMPLEMENTED, "Too many responses received");
      },
      onReceiveStatus(ended) {
        if (isOver) return;
        isOver = true;
        signal.removeEventListener("abort", cancel);
        if (hasMore) reject(notOneAnswer());
        else if (ended.code !== status.OK) reject(attemptFailed(ended, received));
        else if (answer !== undefined) resolve(answer);
        else reject(notOneAnswer());
      },
    });
    call.startRead();
    call.sendMessageWithContext({}, bytes);
    call.halfClose();
    signal.addEventListener("abort", cancel, { once: true });
  });
}
