import { isLoopback } from "../core/loopback.ts";
import type { ClientTls } from "./client-tls.ts";
import { printable } from "./printable.ts";

/** Prefix of a service URL that names the path of a Unix socket. */
const SOCKET = "unix:";

/**
 * Bypasses the proxies from the environment: without TLS, a proxy could read the token, and no proxy can access services on this
 * machine.
 */
const DIRECT = { proxy: false } as const satisfies BunFetchRequestInit;

/** Connection to a service URL: over the network, or through a Unix socket for `unix:<path>`. */
interface Way {
  readonly base: string;
  readonly unix?: string;
}

export function wayTo(url: string): Way {
  return url.startsWith(SOCKET) ? { base: "http://localhost", unix: url.slice(SOCKET.length) } : { base: url };
}

/** Returns the URL of a route, below the path under which a gateway may offer the service. */
export function routeOf({ base }: Way, path: string): URL {
  const { origin, pathname } = new URL(base);
  return new URL(`${pathname.replace(/\/$/, "")}${path}`, origin);
}

/** Returns the `fetch` options for this connection. */
export function over({ base, unix }: Way, tls: ClientTls): BunFetchRequestInit {
  if (unix !== undefined) return { unix, ...DIRECT };
  const { protocol, hostname } = new URL(base);
  if (protocol !== "https:") return DIRECT;
  return { tls: { ...tls }, ...(isLoopback(hostname) && DIRECT) };
}

/** Returns why the text is not a valid service address, or undefined when it is valid. Never repeats a password. */
export function addressFault(named: string): string | undefined {
  const { base, unix } = wayTo(named);
  const url = URL.parse(base);
  if (url !== null && (url.username !== "" || url.password !== "")) {
    return "the address of the service holds a name or a password: a service is shown a token, from --token-file";
  }
  const isAddress = url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
  if (isAddress && unix !== "") return undefined;
  return `"${printable(named)}" is no address of a service: http://…, https://… or unix:…`;
}
