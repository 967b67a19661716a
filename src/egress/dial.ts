interface Dialing<Data> {
  /** Checked addresses. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** Present for https. */
  readonly tls: Bun.TLSOptions | undefined;
  readonly data: Data;
  readonly handler: Bun.SocketHandler<Data>;
  /** Returns false once the socket is not needed: no further address is tried. */
  readonly isWanted: () => boolean;
}

/** Time for one address before the next one is tried. */
const ATTEMPT_MS = 500;

/** Connects to the first address that accepts. Returns the socket before its TLS handshake. Rejects with the first error. */
export async function dial<Data>({ addresses, isWanted, ...options }: Dialing<Data>): Promise<Bun.Socket<Data>> {
  let failure: unknown;
  const last = addresses.length - 1;
  for (const [index, address] of inTurn(addresses).entries()) {
    try {
      return await attempt(address, index === last ? undefined : ATTEMPT_MS, options);
    } catch (error) {
      failure ??= error;
    }
    if (!isWanted()) break;
  }
  throw failure;
}

/** Returns the addresses of both families in turn, as RFC 8305 has it: one of the families may not be connected at all. */
export function inTurn(addresses: readonly string[]): readonly string[] {
  const isOfFirst = (address: string): boolean => address.includes(":") === addresses[0]?.includes(":");
  const first = addresses.filter(isOfFirst);
  const others = addresses.filter((address) => !isOfFirst(address));
  const rest = others.slice(first.length);
  return [...first.flatMap((address, index) => [address, ...others.slice(index, index + 1)]), ...rest];
}

async function attempt<Data>(
  hostname: string,
  limitMs: number | undefined,
  { port, tls, data, handler }: Pick<Dialing<Data>, "port" | "tls" | "data" | "handler">,
): Promise<Bun.Socket<Data>> {
  const connecting = Bun.connect({ hostname, port, ...(tls !== undefined && { tls }), data, socket: handler });
  if (limitMs === undefined) return await connecting;
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(Object.assign(new Error("no connection in time"), { code: "ETIMEDOUT" }));
    // The runtime cannot cancel an attempt.
    connecting.then((socket) => socket.terminate()).catch(() => {});
  }, limitMs);
  return await Promise.race([connecting, promise]).finally(() => clearTimeout(timer));
}

/** Tells the server, and closes the socket whether the server answers or not. */
export function disconnect(socket: Bun.Socket<unknown>): void {
  socket.shutdown();
  socket.terminate();
}
