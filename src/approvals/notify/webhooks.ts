import type { Decider } from "../identities.ts";
import type { Approvals } from "../types.ts";
import type { Inbox } from "./inbox.ts";
import type { MakeReport, Tally } from "./report.ts";
import type { WebhookKey } from "./signature.ts";
import { Webhook, type WebhookCounts, type WebhookParts, type WebhookState, type WebhookTarget } from "./webhook.ts";

/** Somebody whom an integration may speak for. */
export interface Person extends Decider {
  /** What policies may ask for; an integration shows no token. */
  readonly permissions: readonly string[];
}

/** An integration through which people decide. */
export interface Integration {
  /** Verify what it sends. */
  readonly keys: readonly WebhookKey[];
  /** By its own names for them. Whoever is not there decides nothing. */
  readonly people: ReadonlyMap<string, Person>;
}

/** Those who are told, and those who may answer, as the configuration names them. */
export interface NamedWebhooks {
  readonly targets: readonly WebhookTarget[];
  readonly integrations: ReadonlyMap<string, Integration>;
}

/** Those who are told of approvals, and those who may answer, by name. */
interface Webhooks {
  /** Those of now. */
  readonly integrations: ReadonlyMap<string, Integration>;
  states(): readonly WebhookState[];
  stop(): Promise<void>;
}

/** Those that a reload exchanges. */
export interface LiveWebhooks extends Webhooks {
  /** Goes on with these; what has stayed as it was is left alone. Never fails. */
  change(named: NamedWebhooks): void;
}

/** Approvals with what stands beside the decisions: reports, counts, and the ways out and in. */
export interface NotifiedApprovals extends Approvals {
  readonly inbox?: Inbox | undefined;
  readonly report?: MakeReport | undefined;
  readonly tally?: Tally | undefined;
  readonly webhooks?: Webhooks | undefined;
}

interface WebhooksOptions extends NamedWebhooks {
  readonly parts: WebhookParts;
}

/** Begins to send at once. */
export function startWebhooks({ parts, ...first }: WebhooksOptions): LiveWebhooks {
  let { integrations } = first;
  const byName = new Map<string, NamedWebhook>();
  const change = (targets: readonly WebhookTarget[]): void => {
    const told = new Map(targets.map((target) => [target.name, target]));
    for (const [name, webhook] of byName) {
      webhook.turnTo(told.get(name));
      if (webhook.isOver) byName.delete(name);
    }
    for (const [name, target] of told) {
      if (!byName.has(name)) byName.set(name, new NamedWebhook(target, parts));
    }
  };
  change(first.targets);
  return {
    get integrations() {
      return integrations;
    },
    states: () => [...byName.values()].flatMap((webhook) => webhook.states()),
    change(named) {
      integrations = named.integrations;
      change(named.targets);
    },
    async stop() {
      await Promise.all([...byName.values()].map((webhook) => webhook.stop()));
    },
  };
}

/**
 * Whom the configuration calls by one name, through its changes. The next one begins when the one before it has ended: the two
 * have one place in the store.
 */
class NamedWebhook {
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
