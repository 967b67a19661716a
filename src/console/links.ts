import type { EpochMs } from "../core/types.ts";
import { hashOf, newSecret } from "./sessions.ts";

const LINK_MS = 60_000;
const LINKS_MAX = 64;

/** One-time links that open a session with a token. Each can be used once, for a minute. */
export class Links {
  readonly #clock: () => EpochMs;
  /** By the hash of the link's secret, the oldest first. */
  readonly #tokens = new Map<string, { readonly token: string; readonly untilMs: EpochMs }>();

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  create(token: string): string {
    const [oldest] = this.#tokens.keys();
    if (oldest !== undefined && this.#tokens.size >= LINKS_MAX) this.#tokens.delete(oldest);
    const link = newSecret();
    this.#tokens.set(hashOf(link), { token, untilMs: this.#clock() + LINK_MS });
    return link;
  }

  /** Returns the token of a link that is used for the first time, and in time. */
  redeem(link: string): string | undefined {
    const hash = hashOf(link);
    const found = this.#tokens.get(hash);
    this.#tokens.delete(hash);
    return found !== undefined && this.#clock() < found.untilMs ? found.token : undefined;
  }
}
