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
import { readNamed } from "./problems.ts";

type WebhookConfig = Config["approvals"]["webhooks"][number];

interface WebhookContext {
  readonly config: Config;
  readonly field: string;
  readonly problems: string[];
  /** Maps each key's fingerprint to the field where it was seen. */
  readonly seen: Map<string, string>;
}

export function readWebhooks(config: Config, problems: string[]): NamedWebhooks {
  const { webhooks, store, storeUrlFile } = config.approvals;
  if (webhooks.length > 0 && store === undefined && storeUrlFile === undefined) {
    problems.push("approvals.webhooks: needs approvals.store (or storeUrlFile)");
  }
  const seen = new Map<string, string>();
  const targets: WebhookTarget[] = [];
  const integrations = new Map<string, Integration>();
  for (const [index, webhook] of webhooks.entries()) {
    const context = { config, problems, seen, field: `approvals.webhooks[${index}]` };
    const target = readTarget(webhook, context);
    if (target !== undefined) targets.push(target);
    const integration = readIntegration(webhook, context);
    if (integration !== undefined) integrations.set(webhook.name, integration);
  }
  return { targets, integrations };
}

function readTarget(
  { url, urlFile, secretFile, ...webhook }: WebhookConfig,
  context: WebhookContext,
): WebhookTarget | undefined {
  if (secretFile === undefined) return undefined;
  const field = `${context.field}.${urlFile === undefined ? "url" : "urlFile"}`;
  const address =
    urlFile === undefined
      ? url
      : readNamed(context.config, { path: urlFile, field }, context.problems)?.toString("utf8").trim();
  const problem = address === undefined ? undefined : urlProblem(address);
  if (problem !== undefined) context.problems.push(`${field}: ${urlFile === undefined ? "" : `${urlFile} `}${problem}`);
  const keys = readKeyFile(secretFile, { use: "sign", field: `${context.field}.secretFile` }, context);
  if (address === undefined || keys === undefined) return undefined;
  const { name, events, detail } = webhook;
  const { deployment, publicUrl } = context.config.approvals;
  return { name, events, detail, deployment, publicUrl, url: address, keys };
}

function readIntegration({ decisions }: WebhookConfig, context: WebhookContext): Integration | undefined {
  if (decisions === undefined) return undefined;
  const field = `${context.field}.decisions`;
  const people = new Map(Object.entries(decisions.people));
  const operators = new Set(context.config.jwt.issuers.flatMap(({ issuer, operators }) => (operators ? [issuer] : [])));
  for (const [user, { issuer }] of people) {
    if (!operators.has(issuer))
      context.problems.push(`${field}.people.${user}.issuer: ${issuer} is not an issuer with operators: true`);
  }
  const keys = readKeyFile(decisions.secretFile, { use: "verify", field: `${field}.secretFile` }, context);
  return keys && { keys, people };
}

interface KeyUse {
  readonly use: "sign" | "verify";
  readonly field: string;
}

/** Reads keys and checks that each serves only one purpose in one field: a signature of one side must not be valid elsewhere. */
function readKeyFile(path: string, { use, field }: KeyUse, context: WebhookContext): readonly WebhookKey[] | undefined {
  const text = readNamed(context.config, { path, field }, context.problems)?.toString("utf8");
  if (text === undefined) return undefined;
  const read = readKeys(text, use);
  if ("fault" in read) {
    context.problems.push(`${field}: ${path} ${read.fault}`);
    return undefined;
  }
  for (const { fingerprint } of read.ok) {
    const other = context.seen.get(fingerprint);
    if (other !== undefined) context.problems.push(`${field}: ${path} contains a key that ${other} contains too`);
    context.seen.set(fingerprint, field);
  }
  return read.ok;
}

export function countingJournal<Line extends { readonly type: string }>(
  tally: DecisionTally,
  journal: (line: Line) => Promise<void>,
): (line: Line) => Promise<void> {
  return async (line) => {
    await journal(line);
    tally.noteLine(line);
  };
}

export interface WithWebhooks extends NotifiedApprovals {
  readonly webhooks: LiveWebhooks;
}

interface WebhookParts {
  readonly webhooks: NamedWebhooks;
  readonly tally: DecisionTally;
  readonly clock: () => number;
  readonly log: (message: string, cause: unknown) => void;
}

/** Starts the configured notifications about the store. They run until the store is closed. */
export function withWebhooks(
  opened: OpenedApprovals,
  { webhooks: named, tally, clock, log }: WebhookParts,
): WithWebhooks {
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
