import { randomUUID } from "node:crypto";
import type { OpenedApprovals } from "../../approvals/approvals.ts";
import type { DecisionTally } from "../../approvals/notify/report.ts";
import { urlProblem } from "../../approvals/notify/sender.ts";
import { readKeys, type WebhookKey } from "../../approvals/notify/signature.ts";
import type { WebhookTarget } from "../../approvals/notify/webhook.ts";
import {
  type Integration,
  type LiveWebhooks,
  type NamedWebhooks,
  type NotifiedApprovals,
  startWebhooks,
} from "../../approvals/notify/webhooks.ts";
import type { Config } from "../config/config.ts";
import { readNamed } from "./files.ts";

type WebhookConfig = Config["approvals"]["webhooks"][number];

interface Place {
  readonly config: Config;
  /** The name of the webhook in the configuration. */
  readonly field: string;
  readonly problems: string[];
  /** Maps each key's fingerprint to the field where it was seen. */
  readonly seen: Map<string, string>;
}

/** Reads the keys and URLs of `approvals.webhooks`; problems are added to `problems`. */
export function readWebhooks(config: Config, problems: string[]): NamedWebhooks {
  const { webhooks, store, storeUrlFile } = config.approvals;
  if (webhooks.length > 0 && store === undefined && storeUrlFile === undefined) {
    problems.push("approvals.webhooks: needs approvals.store (or storeUrlFile)");
  }
  const seen = new Map<string, string>();
  const targets: WebhookTarget[] = [];
  const integrations = new Map<string, Integration>();
  for (const [index, webhook] of webhooks.entries()) {
    const place = { config, problems, seen, field: `approvals.webhooks[${index}]` };
    const target = readTarget(webhook, place);
    if (target !== undefined) targets.push(target);
    const integration = readIntegration(webhook, place);
    if (integration !== undefined) integrations.set(webhook.name, integration);
  }
  return { targets, integrations };
}

function readTarget({ url, urlFile, secretFile, ...webhook }: WebhookConfig, place: Place): WebhookTarget | undefined {
  if (secretFile === undefined) return undefined;
  const field = `${place.field}.${urlFile === undefined ? "url" : "urlFile"}`;
  const address =
    urlFile === undefined
      ? url
      : readNamed(place.config, { path: urlFile, field }, place.problems)?.toString("utf8").trim();
  const fault = address === undefined ? undefined : urlProblem(address);
  if (fault !== undefined) place.problems.push(`${field}: ${urlFile === undefined ? "" : `${urlFile} `}${fault}`);
  const keys = readKeyFile(secretFile, { use: "sign", field: `${place.field}.secretFile` }, place);
  if (address === undefined || keys === undefined) return undefined;
  const { name, events, detail } = webhook;
  const { deployment, publicUrl } = place.config.approvals;
  return { name, events, detail, deployment, publicUrl, url: address, keys };
}

function readIntegration({ decisions }: WebhookConfig, place: Place): Integration | undefined {
  if (decisions === undefined) return undefined;
  const field = `${place.field}.decisions`;
  const people = new Map(Object.entries(decisions.people));
  const operators = new Set(place.config.jwt.issuers.flatMap(({ issuer, operators }) => (operators ? [issuer] : [])));
  for (const [user, { issuer }] of people) {
    if (!operators.has(issuer))
      place.problems.push(`${field}.people.${user}.issuer: ${issuer} is not an issuer with operators: true`);
  }
  const keys = readKeyFile(decisions.secretFile, { use: "verify", field: `${field}.secretFile` }, place);
  return keys && { keys, people };
}

interface KeyUse {
  readonly use: "sign" | "verify";
  readonly field: string;
}

/** Reads keys and checks that each serves only one purpose in one field: a signature of one side must not be valid elsewhere. */
function readKeyFile(path: string, { use, field }: KeyUse, place: Place): readonly WebhookKey[] | undefined {
  const text = readNamed(place.config, { path, field }, place.problems)?.toString("utf8");
  if (text === undefined) return undefined;
  const read = readKeys(text, use);
  if ("fault" in read) {
    place.problems.push(`${field}: ${path} ${read.fault}`);
    return undefined;
  }
  for (const { fingerprint } of read.ok) {
    const other = place.seen.get(fingerprint);
    if (other !== undefined) place.problems.push(`${field}: ${path} contains a key that ${other} contains too`);
    place.seen.set(fingerprint, field);
  }
  return read.ok;
}

/** Counts the decisions and expirations that happen in this process. */
export function countingJournal<Line extends { readonly type: string }>(
  tally: DecisionTally,
  journal: (line: Line) => Promise<void>,
): (line: Line) => Promise<void> {
  return async (line) => {
    await journal(line);
    tally.noteLine(line);
  };
}

/** Approvals whose webhooks can be replaced. */
export interface WithNotices extends NotifiedApprovals {
  readonly webhooks: LiveWebhooks;
}

interface NoticeParts {
  readonly webhooks: NamedWebhooks;
  readonly tally: DecisionTally;
  readonly clock: () => number;
  readonly log: (message: string, cause: unknown) => void;
}

/** Starts the configured notifications about the store. They run until the store is closed. */
export function withNotices(opened: OpenedApprovals, { webhooks: named, tally, clock, log }: NoticeParts): WithNotices {
  const approvals = { ...opened, ...tally.counted(opened) };
  const report = (message: string): void => log(message, undefined);
  const webhooks = startWebhooks({
    ...named,
    parts: { approvals, clock, random: Math.random, owner: randomUUID(), report },
  });
  return {
    ...approvals,
    tally,
    webhooks,
    async close() {
      await webhooks.stop();
      await opened.close();
    },
  };
}
