import type { Socket } from "node:net";
import type { FastifyRequest } from "fastify";
import { networkOf } from "../audit/strangers.ts";
import { Refusal } from "../core/errors.ts";
import { type DoorLimits, readBody } from "./door.ts";

/** One address, or one /64 of IPv6, may hold this part of the door with bodies that do not come to an end. */
const SHARE_PER_SOURCE = 1 / 8;
const PER_SOURCE_MIN = 16;

/** Reads bodies, and sees to it that no single peer fills the door with slow ones. */
export class BodyReaders {
  readonly #perSourceMax: number;
  readonly #reading = new Map<string, number>();
  /** Asking a socket for its peer is dear; connections are kept alive. */
  readonly #sources = new WeakMap<Socket, string>();

  constructor(concurrentRequestsMax: number) {
    this.#perSourceMax = Math.max(PER_SOURCE_MIN, Math.floor(concurrentRequestsMax * SHARE_PER_SOURCE));
  }

  /** @throws {Refusal} RATE_LIMITED, or what `readBody` throws */
  async read(request: FastifyRequest, limits: DoorLimits): Promise<Uint8Array> {
    const source = this.#sourceOf(request);
    const reading = this.#reading.get(source) ?? 0;
    if (reading >= this.#perSourceMax) {
      throw new Refusal("RATE_LIMITED", "Too many of your requests are incomplete at once.", { retryAfterMs: 1_000 });
    }
    this.#reading.set(source, reading + 1);
    try {
      return await readBody(request.raw, limits);
    } finally {
      const left = (this.#reading.get(source) ?? 1) - 1;
      if (left === 0) this.#reading.delete(source);
      else this.#reading.set(source, left);
    }
  }

  #sourceOf(request: FastifyRequest): string {
    const { socket } = request.raw;
    const known = this.#sources.get(socket);
    if (known !== undefined) return known;
    const source = networkOf(socket.remoteAddress ?? "");
    this.#sources.set(socket, source);
    return source;
  }
}
