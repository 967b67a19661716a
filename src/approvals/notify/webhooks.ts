import type { Approvals, Decider } from "../types.ts";
import type { Inbox } from "./inbox.ts";
import { NamedWebhook } from "./named-webhook.ts";
import type { MakeReport } from "./report-rows.ts";
import type { WebhookKey } from "./signature.ts";
import type { Tally } from "./tally.ts";
import type { WebhookParts, WebhookState, WebhookTarget } from "./webhook.ts";

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
export interface Webhooks {
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

export interface WebhooksOptions extends NamedWebhooks {
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
