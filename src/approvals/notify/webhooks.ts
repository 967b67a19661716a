import type { Approvals, Decider } from "../types.ts";
import type { Inbox } from "./inbox.ts";
import type { MakeReport } from "./report-rows.ts";
import type { WebhookKey } from "./signature.ts";
import type { Tally } from "./tally.ts";
import { Webhook, type WebhookParts, type WebhookState, type WebhookTarget } from "./webhook.ts";

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

/** Those who are told of approvals, and those who may answer, by name. */
export interface Webhooks {
  readonly integrations: ReadonlyMap<string, Integration>;
  states(): readonly WebhookState[];
  stop(): Promise<void>;
}

/** Approvals with what stands beside the decisions: reports, counts, and the ways out and in. */
export interface NotifiedApprovals extends Approvals {
  readonly inbox?: Inbox | undefined;
  readonly report?: MakeReport | undefined;
  readonly tally?: Tally | undefined;
  readonly webhooks?: Webhooks | undefined;
}

export interface WebhooksOptions extends WebhookParts {
  readonly targets: readonly WebhookTarget[];
  readonly integrations: ReadonlyMap<string, Integration>;
}

/** Begins to send at once. */
export function startWebhooks({ targets, integrations, ...parts }: WebhooksOptions): Webhooks {
  const webhooks = targets.map((target) => new Webhook(target, parts));
  return {
    integrations,
    states: () => webhooks.map((webhook) => webhook.state()),
    async stop() {
      await Promise.all(webhooks.map((webhook) => webhook.stop()));
    },
  };
}
