import type { Socket } from "node:net";
import { networkOf } from "../../audit/unauthenticated.ts";

/** Handshakes of TLS under way at once; each takes some 40 kB until it is over or its time is. */
export const HANDSHAKES_MAX = 8_192;
/** A fleet behind one proxy may come back all at once; nobody may take every place. */
const HANDSHAKES_PER_SOURCE_MAX = 2_048;

export interface HandshakeLimits {
  /** Of one source, when that is less. Read at each. */
  readonly perSourceMax?: number | undefined;
  /** Told of each that was one too many. */
  readonly refused: (why: "total" | "source") => void;
}

/** Clients that have connected and not yet proved anything. Once they have, they are counted among the connections. */
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
