import { isTable } from "../../core/json.ts";
import { UpstreamError } from "./channel.ts";

/** Pause before a subscription that has ended is made again. */
const RESUBSCRIBE_MS = 5_000;

interface SubscriptionOptions {
  /** Sends the request. Resolves when the server ends the subscription. */
  readonly listen: (params: Readonly<Record<string, unknown>>) => Promise<unknown>;
  /** Returns whether the session is open. */
  readonly mayContinue: () => boolean;
  /** Called when changes may have been missed between two subscriptions. */
  readonly missed: () => void;
}

/** The subscription to changes of the tools, which servers of 2026-07-28 announce only on request. */
export class ToolsSubscription {
  readonly #options: SubscriptionOptions;
  #isOpen = false;
  #isAccepted = false;
  #wasAccepted = false;
  #again: ReturnType<typeof setTimeout> | undefined;

  constructor(options: SubscriptionOptions) {
    this.#options = options;
  }

  /** Whether its request waits for the answer, which is the end of the subscription. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Subscribes, and again when a subscription has ended, unless the server refuses it. */
  async follow(): Promise<void> {
    this.#isOpen = true;
    this.#isAccepted = false;
    try {
      await this.#options.listen({ notifications: { toolsListChanged: true } });
      // A server may end at once what it does not offer.
      if (!this.#isAccepted) return;
    } catch (error) {
      if (error instanceof UpstreamError && (error.failure === "error" || error.isRefused)) return;
    } finally {
      this.#isOpen = false;
    }
    if (!this.#options.mayContinue()) return;
    this.#again = setTimeout(() => void this.follow(), RESUBSCRIBE_MS);
    this.#again.unref();
  }

  acknowledged(params: unknown): void {
    const notifications = isTable(params) ? params["notifications"] : undefined;
    if (!this.#isOpen || this.#isAccepted) return;
    this.#isAccepted = isTable(notifications) && notifications["toolsListChanged"] === true;
    if (this.#isAccepted && this.#wasAccepted) this.#options.missed();
    this.#wasAccepted ||= this.#isAccepted;
  }

  stop(): void {
    clearTimeout(this.#again);
  }
}
