import { isLoopback } from "../core/loopback.ts";
import type { ClientTls } from "./client-tls.ts";
import { printable } from "./printable.ts";

/** In front of the path of a service's Unix socket. */
const SOCKET = "unix:";

/**
 * Past the proxies that the environment names: one would read the token where there is no TLS, and none knows the way to this
 * machine's own services.
 */
const DIRECT = { proxy: false } as const satisfies BunFetchRequestInit;

/** Where a service's URL leads: over the network, or through a Unix socket for `unix:<path>`. */
interface Way {
  readonly base: string;
  readonly unix?: string;
}

export function wayTo(url: string): Way {
  return url.startsWith(SOCKET) ? { base: "http://localhost", unix: url.slice(SOCKET.length) } : { base: url };
}

/** A route of the service, behind the path under which a gateway may offer it. */
export function routeOf({ base }: Way, path: string): URL {
  const { origin, pathname } = new URL(base);
  return new URL(`${pathname.replace(/\/$/, "")}${path}`, origin);
}

/** What `fetch` is told to take this way. */
export function over({ base, unix }: Way, tls: ClientTls): BunFetchRequestInit {
  if (unix !== undefined) return { unix, ...DIRECT };
  const { protocol, hostname } = new URL(base);
  if (protocol !== "https:") return DIRECT;
  return { tls: { ...tls }, ...(isLoopback(hostname) && DIRECT) };
}

/** Why this is no address of a service, or undefined. Never repeats a password. */
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
