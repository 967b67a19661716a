import type { Approver } from "../identities.ts";
import type { Approvals } from "../types.ts";
import type { Inbox } from "./inbox.ts";
import type { MakeReport } from "./report.ts";
import type { WebhookKey } from "./signature.ts";
import type { Tally } from "./tally.ts";
import { Webhook, type WebhookCounts, type WebhookParts, type WebhookState, type WebhookTarget } from "./webhook.ts";

/** A person for whom an integration may report decisions. */
export interface Person extends Approver {
  /** Permissions that policies check; configured here because an integration sends no token of the person. */
  readonly permissions: readonly string[];
}

export interface Integration {
  readonly keys: readonly WebhookKey[];
  /** People by the integration's own user ids; nobody else can decide. */
  readonly people: ReadonlyMap<string, Person>;
}

export interface NamedWebhooks {
  readonly targets: readonly WebhookTarget[];
  readonly integrations: ReadonlyMap<string, Integration>;
}

export type LiveWebhooks = ReturnType<typeof startWebhooks>;

/** Approvals, along with reports, counts, and the incoming and outgoing webhooks. */
export interface NotifiedApprovals extends Approvals {
  readonly inbox?: Inbox | undefined;
  readonly report?: MakeReport | undefined;
  readonly tally?: Tally | undefined;
  readonly webhooks?: Pick<LiveWebhooks, "integrations" | "states" | "stop"> | undefined;
}

export function startWebhooks({ parts, ...first }: NamedWebhooks & { readonly parts: WebhookParts }) {
  let { integrations } = first;
  const byName = new Map<string, NamedWebhook>();
  const change = (targets: readonly WebhookTarget[]): void => {
    const configured = new Map(targets.map((target) => [target.name, target]));
    for (const [name, webhook] of byName) {
      webhook.switchTo(configured.get(name));
      if (webhook.hasEnded) byName.delete(name);
    }
    for (const [name, target] of configured) {
      if (!byName.has(name)) byName.set(name, new NamedWebhook(target, parts));
    }
  };
  change(first.targets);
  return {
    get integrations(): ReadonlyMap<string, Integration> {
      return integrations;
    },
    states: (): readonly WebhookState[] => [...byName.values()].flatMap((webhook) => webhook.states()),
    /** Switches to a new configuration; unchanged webhooks keep running. Never fails. */
    change(named: NamedWebhooks): void {
      integrations = named.integrations;
      change(named.targets);
    },
    async stop(): Promise<void> {
      await Promise.all([...byName.values()].map((webhook) => webhook.stop()));
    },
  };
}

/**
 * The webhook with one name across configuration changes. A successor starts only after its predecessor has ended, because both
 * use the same row in the store.
 */
class NamedWebhook {
  readonly #parts: WebhookParts;
  readonly #counts: WebhookCounts = { sent: 0, failures: 0, dead: 0, stale: 0 };
  /** Undefined when the webhook is no longer configured. */
  #target: WebhookTarget | undefined;
  #webhook: Webhook | undefined;
  #isRetiring = false;
  #isStopped = false;

  /** Starts immediately. */
  constructor(target: WebhookTarget, parts: WebhookParts) {
    this.#target = target;
    this.#parts = { ...parts, counts: this.#counts };
    this.#begin();
  }

  get hasEnded(): boolean {
    return this.#webhook === undefined && this.#target === undefined;
  }

  states(): readonly WebhookState[] {
    return this.#webhook === undefined ? [] : [this.#webhook.state()];
  }

  /** Switches to another target. A running attempt finishes with the old target; an unchanged webhook keeps running. */
  switchTo(target: WebhookTarget | undefined): void {
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

/** Replaces keys by scheme and fingerprint, for the comparison. */
function comparable(target: WebhookTarget | undefined): unknown {
  return target && { ...target, keys: target.keys.map(({ scheme, fingerprint }) => `${scheme} ${fingerprint}`) };
}
