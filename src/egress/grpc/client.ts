import type { Socket } from "node:net";
import {
  ChannelCredentials,
  type ChannelInterface,
  type ChannelOptions,
  Client,
  connectivityState,
  type experimental,
  logVerbosity,
  setLogVerbosity,
} from "@grpc/grpc-js";
import type { ServerAddress } from "./endpoints.ts";

export const asIs = (bytes: Buffer): Buffer => bytes;

export const CONNECT_TIMEOUT_MS = 5_000;

/** Creates a client with its own connections and a deadline for handshakes. No retries, no HTTP proxy. */
export function makeClient(
  { address, serverName }: ServerAddress,
  credentials: ChannelCredentials,
  options: ChannelOptions,
): Client {
  // grpc-js would print invalid headers with their values; nothing from a service may be logged.
  setLogVerbosity(logVerbosity.NONE);
  const client: Client = new Client(address, new HandshakeDeadline(credentials, () => client.getChannel()), {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_http_proxy": 0,
    "grpc.enable_retries": 0,
    "grpc.enable_channelz": 0,
    "grpc.service_config_disable_resolution": 1,
    ...(serverName !== undefined && {
      "grpc.ssl_target_name_override": serverName,
      "grpc.default_authority": serverName,
    }),
    ...options,
  });
  return client;
}

type SecureConnector = ReturnType<ChannelCredentials["_createSecureConnector"]>;

/**
 * Credentials that cut a connection when the peer accepts it and then sends nothing during the TLS and HTTP/2
 * handshakes. grpc-js would wait forever and open no other connection, so a service that hung once would stay
 * unreachable.
 */
class HandshakeDeadline extends ChannelCredentials {
  readonly #credentials: ChannelCredentials;
  readonly #channel: () => ChannelInterface;
  /** Functions that cut a handshake that may still be running, with their timers. */
  readonly #timers = new Map<() => void, ReturnType<typeof setTimeout>>();
  /** One watch for all handshakes, because a watch on a channel cannot be cancelled. */
  #isWatching = false;

  /** @param channel returns the channel of the connections; called only once it connects */
  constructor(credentials: ChannelCredentials, channel: () => ChannelInterface) {
    super();
    this.#credentials = credentials;
    this.#channel = channel;
  }

  override _isSecure(): boolean {
    return this.#credentials._isSecure();
  }

  override _equals(other: ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(...parts: Parameters<ChannelCredentials["_createSecureConnector"]>): SecureConnector {
    const inner = this.#credentials._createSecureConnector(...parts);
    return {
      connect: (socket) => this.#connect(socket, inner),
      waitForReady: () => inner.waitForReady(),
      getCallCredentials: () => inner.getCallCredentials(),
      destroy: () => inner.destroy(),
    };
  }

  #connect(socket: Socket, inner: SecureConnector): Promise<experimental.SecureConnectResult> {
    return new Promise((resolve, reject) => {
      let secured: Socket | undefined;
      const cut = (): void => {
        this.#timers.delete(cut);
        reject(new Error("no handshake in time"));
        secured?.destroy();
        socket.destroy();
      };
      this.#timers.set(cut, setTimeout(cut, CONNECT_TIMEOUT_MS).unref());
      if (!this.#isWatching) this.#checkState();
      inner.connect(socket).then((result) => {
        secured = result.socket;
        resolve(result);
      }, reject);
    });
  }

  #checkState(): void {
    this.#isWatching = false;
    const channel = this.#channel();
    const state = channel.getConnectivityState(false);
    if (state === connectivityState.READY || state === connectivityState.SHUTDOWN) {
      const cuts = [...this.#timers.keys()];
      for (const timer of this.#timers.values()) clearTimeout(timer);
      this.#timers.clear();
      if (state === connectivityState.SHUTDOWN) for (const cut of cuts) cut();
    } else if (this.#timers.size > 0) {
      this.#isWatching = true;
      channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => this.#checkState());
    }
  }
}
