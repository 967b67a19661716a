import type { Socket } from "node:net";
import { networkOf } from "../../audit/unauthenticated.ts";

/** Maximum number of concurrent TLS handshakes; each takes about 40 kB until it completes or times out. */
export const HANDSHAKES_MAX = 8_192;
/** A fleet behind one proxy may reconnect all at once, but no single source may take every slot. */
const HANDSHAKES_PER_SOURCE_MAX = 2_048;

export interface HandshakeLimits {
  /** Limit per source, when it is lower than the default. Read at each handshake. */
  readonly perSourceMax?: number | undefined;
  /** Called for each handshake that exceeds a limit. */
  readonly refused: (why: "total" | "source") => void;
}

/** Counts clients that have connected but not completed the TLS handshake. After it, `Connections` counts them. */
export class Handshakes {
  readonly #limits: HandshakeLimits;
  readonly #underWay = new Map<Socket, string>();
  readonly #bySource = new Map<string, number>();

  constructor(limits: HandshakeLimits) {
    this.#limits = limits;
  }

  begin(socket: Socket): void {
    const source = networkOf(socket.remoteAddress ?? "");
    const own = this.#bySource.get(source) ?? 0;
    const isFull = this.#underWay.size >= HANDSHAKES_MAX;
    const { perSourceMax = HANDSHAKES_PER_SOURCE_MAX, refused } = this.#limits;
    if (isFull || own >= Math.min(perSourceMax, HANDSHAKES_PER_SOURCE_MAX)) {
      refused(isFull ? "total" : "source");
      socket.destroy();
      return;
    }
    this.#underWay.set(socket, source);
    this.#bySource.set(source, own + 1);
    socket.once("close", () => this.end(socket));
  }

  end(socket: Socket): void {
    const source = this.#underWay.get(socket);
    if (source === undefined) return;
    this.#underWay.delete(socket);
    const left = (this.#bySource.get(source) ?? 1) - 1;
    if (left === 0) this.#bySource.delete(source);
    else this.#bySource.set(source, left);
  }
}
