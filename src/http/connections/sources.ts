import { networkOf } from "../../audit/unauthenticated.ts";
import type { PeerConnection } from "../messages.ts";

/** Caches sources: reading a socket's peer address is expensive, and connections are kept alive. */
const known = new WeakMap<PeerConnection, string>();

/** Returns the peer's address, or its /64 for IPv6; "" on the Unix socket. */
export function sourceOf(socket: PeerConnection): string {
  const cached = known.get(socket);
  if (cached !== undefined) return cached;
  const source = networkOf(socket.remoteAddress ?? "");
  known.set(socket, source);
  return source;
}

/** Counts concurrent work per key. Keys with a count of 0 take no memory. */
export class CountByKey {
  readonly #counts = new Map<string, number>();

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  enter(key: string): void {
    this.#counts.set(key, this.of(key) + 1);
  }

  leave(key: string): void {
    const left = this.of(key) - 1;
    if (left <= 0) this.#counts.delete(key);
    else this.#counts.set(key, left);
  }
}
