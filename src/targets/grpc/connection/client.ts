import { type ChannelCredentials, type ChannelOptions, Client, logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { HandshakeDeadline } from "./handshake-deadline.ts";

export const CONNECT_TIMEOUT_MS = 5_000;

export interface ClientOptions {
  readonly address: string;
  readonly credentials: ChannelCredentials;
  readonly channel: ChannelOptions;
}

/** A client whose connections are made in time or not at all. */
export function makeClient({ address, credentials, channel }: ClientOptions): Client {
  // The library prints headers that it cannot take on stderr, with their values: what a service says stands in no log.
  setLogVerbosity(logVerbosity.NONE);
  const client: Client = new Client(
    address,
    new HandshakeDeadline({ credentials, channel: () => client.getChannel(), timeoutMs: CONNECT_TIMEOUT_MS }),
    channel,
  );
  return client;
}
