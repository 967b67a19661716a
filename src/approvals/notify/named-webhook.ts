import { Webhook, type WebhookCounts, type WebhookParts, type WebhookState, type WebhookTarget } from "./webhook.ts";

/**
 * Whom the configuration calls by one name, through its changes. The next one begins when the one before it has ended: the two
 * have one place in the store.
 */
export class NamedWebhook {
  readonly #parts: WebhookParts;
  readonly #counts: WebhookCounts = { sent: 0, failures: 0, dead: 0, stale: 0 };
  /** Undefined: nobody is to be told. */
  #target: WebhookTarget | undefined;
  #webhook: Webhook | undefined;
  #isRetiring = false;
  #isStopped = false;

  /** Begins at once. */
  constructor(target: WebhookTarget, parts: WebhookParts) {
    this.#target = target;
    this.#parts = { ...parts, counts: this.#counts };
    this.#begin();
  }

  /** Whether nobody is told, nor to be told. */
  get isOver(): boolean {
    return this.#webhook === undefined && this.#target === undefined;
  }

  states(): readonly WebhookState[] {
    return this.#webhook === undefined ? [] : [this.#webhook.state()];
  }

  /** What is under way ends as it began; one that has stayed as it was goes on. */
  turnTo(target: WebhookTarget | undefined): void {
    const isSame = sameTarget(target, this.#target);
    this.#target = target;
    if (this.#isStopped || isSame) return;
    if (this.#webhook === undefined) this.#begin();
    else if (!this.#isRetiring) void this.#retire(this.#webhook);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#webhook?.stop();
  }

  #begin(): void {
    this.#webhook = this.#target && new Webhook(this.#target, this.#parts);
  }

  async #retire(webhook: Webhook): Promise<void> {
    this.#isRetiring = true;
    await webhook.retire();
    this.#isRetiring = false;
    if (!this.#isStopped) this.#begin();
  }
}

function sameTarget(one: WebhookTarget | undefined, other: WebhookTarget | undefined): boolean {
  return Bun.deepEquals(comparable(one), comparable(other), true);
}

/** Keys are told apart by their fingerprints. */
function comparable(target: WebhookTarget | undefined): unknown {
  return target && { ...target, keys: target.keys.map(({ scheme, fingerprint }) => `${scheme} ${fingerprint}`) };
}
