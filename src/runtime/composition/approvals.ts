import { randomBytes, randomUUID } from "node:crypto";
import { type OpenedApprovals, openApprovals } from "../../approvals/approvals.ts";
import { urlProblem } from "../../approvals/notify/sender.ts";
import { readKeys, type WebhookKey } from "../../approvals/notify/signature.ts";
import { DecisionTally } from "../../approvals/notify/tally.ts";
import type { WebhookTarget } from "../../approvals/notify/webhook.ts";
import {
  type Integration,
  type LiveWebhooks,
  type NamedWebhooks,
  type NotifiedApprovals,
  startWebhooks,
} from "../../approvals/notify/webhooks.ts";
import { createReceiptSigner, type ReceiptedApprovals, type ReceiptSigner } from "../../approvals/receipts/receipts.ts";
import { createRiskRules, riskRuleProblems } from "../../approvals/risk.ts";
import { errorText } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import type { Json } from "../../core/types.ts";
import { openSharedState, type SharedState } from "../../database/shared-state.ts";
import { SHELL_RULES, SHELL_TABLES, ShellRules } from "../../shell-rules/shell-rules.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { operatorIssuer, ownJwt } from "../config/tenants.ts";
import type { Modules } from "../module-types.ts";
import type { Capabilities } from "./hooks.ts";
import { readNamed, readNamedFile } from "./problems.ts";

const SESSION_BYTES = 24;

/** Reads the risk rules (built-in and operators'), the webhooks and the receipt key. */
export function readApprovals(
  config: Config,
  { approvalStores: stores, shellRules }: Pick<Modules, "approvalStores" | "shellRules">,
  problems: string[],
) {
  const { rules, policies, storeUrlFile } = config.approvals;
  const found = riskRuleProblems(rules).map((problem) => `approvals.rules${problem}`);
  problems.push(...found);
  const webhooks = readWebhooks(config, problems);
  try {
    if (storeUrlFile !== undefined) storeUrl(config, storeUrlFile, stores);
  } catch (error) {
    problems.push(`approvals.storeUrlFile: ${errorText(error)}`);
  }
  const receiptOf = readSigner(config, problems);
  if (found.length > 0) return undefined;
  const shell = shellRules === SHELL_TABLES ? SHELL_RULES : new ShellRules(Object.values(shellRules).flat());
  return { risk: createRiskRules({ rules, policies, shell }), receiptOf, webhooks };
}

type Stores = Modules["approvalStores"];

interface OpenStoreParts {
  readonly stores: Stores;
  readonly receiptOf?: ReceiptSigner | undefined;
  readonly webhooks: NamedWebhooks;
  readonly clock: () => number;
  /** Returns the id of this process's log, by which the next start knows the claims of this one. */
  readonly claimant: () => string | undefined;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: (line: { readonly type: string; readonly [member: string]: Json | undefined }) => Promise<void>;
  readonly log: (message: string, cause: unknown) => void;
}

/**
 * Returns the shared state, which connects to nothing yet: in the approvals' database, whose tables `openStore` creates, or in
 * this process where there is none.
 */
export function openState(
  config: Config,
  { stores, ...parts }: Pick<OpenStoreParts, "stores" | "clock" | "log"> & Pick<Capabilities, "monotonic">,
): SharedState {
  return openSharedState({ ...parts, store: configuredStore(config, stores), tenant: config.tenant, now: parts.clock });
}

/** Returns the database that the configuration names, and its kind; undefined when it names none. */
export function configuredStore(config: Config, stores: Stores) {
  const url = configuredUrl(config, stores);
  const kind = stores.find(({ accepts }) => url !== undefined && accepts.test(url));
  return url === undefined || kind === undefined ? undefined : { kind, url };
}

/** Returns the URL of the database, with an absolute path; undefined when the configuration names none. */
function configuredUrl(config: Config, stores: Stores): string | undefined {
  const { store, storeUrlFile } = config.approvals;
  if (storeUrlFile !== undefined) return storeUrl(config, storeUrlFile, stores);
  return store === undefined ? undefined : absoluteUrl(config, store);
}

/** Approvals as a service has them; those of a hub's member have no webhooks. */
export type ServiceApprovals = ReceiptedApprovals & NotifiedApprovals;

/** Approvals of a database. */
export interface StoredApprovals
  extends ReceiptedApprovals,
    WithWebhooks,
    Pick<OpenedApprovals, "forMember" | "memberEvents"> {}

/**
 * Opens the store that the configuration names.
 *
 * @throws {StartupError} when it cannot be opened
 */
export async function openStore(config: Config, parts: OpenStoreParts): Promise<StoredApprovals | undefined> {
  const { store, storeUrlFile: _, receiptKeyFile: __, ...limits } = config.approvals;
  const field = store === undefined ? "approvals.storeUrlFile" : "approvals.store";
  const tally = new DecisionTally();
  try {
    const url = configuredUrl(config, parts.stores);
    if (url === undefined) return undefined;
    const approvals = await openApprovals({
      stores: parts.stores,
      url,
      tenant: config.tenant,
      now: parts.clock,
      newId: randomUUID,
      claimant: parts.claimant,
      newToken: () => randomBytes(SESSION_BYTES).toString("base64url"),
      journal: countingJournal(tally, parts.journal),
      log: parts.log,
      limits,
    });
    const { forMember, memberEvents } = approvals;
    return { ...withWebhooks(approvals, { ...parts, tally }), receiptOf: parts.receiptOf, forMember, memberEvents };
  } catch (error) {
    throw new StartupError([`${field}: ${errorText(error)}`]);
  }
}

function readSigner(config: Config, problems: string[]): ReceiptSigner | undefined {
  const { deployment, receiptKeyFile: path } = config.approvals;
  if (path === undefined) return undefined;
  const field = "approvals.receiptKeyFile";
  const privateKey = readNamed(config, { path, field }, problems)?.toString("utf8");
  try {
    return privateKey === undefined ? undefined : createReceiptSigner({ privateKey, deployment });
  } catch (error) {
    problems.push(`${field}: ${path} ${errorText(error)}`);
    return undefined;
  }
}

function absoluteUrl(config: Config, url: string): string {
  const [, scheme = "", path = ""] = /^([^:]*:\/\/)(.*)$/s.exec(url) ?? [];
  return `${scheme}${pathFrom(config, path)}`;
}

/** Reads the URL of one of the stores from a file. Errors never quote the file's content, because it contains a password. */
export function storeUrl(config: Config, path: string, stores: Stores): string {
  const secret = stores.filter(({ setting }) => setting === "storeUrlFile");
  const url = readNamedFile(config, path).toString("utf8").trim();
  if (secret.some(({ accepts }) => accepts.test(url))) return url;
  throw new Error(`${path} must hold ${secret.map(({ form }) => form).join(" or ")} and nothing else`);
}

type WebhookConfig = Config["approvals"]["webhooks"][number];

interface WebhookContext {
  readonly config: Config;
  readonly field: string;
  readonly problems: string[];
  /** Maps each key's fingerprint to the field where it was seen. */
  readonly seen: Map<string, string>;
}

function readWebhooks(config: Config, problems: string[]): NamedWebhooks {
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
  const { config } = context;
  const operators = new Set(ownJwt(config).issuers.flatMap(({ issuer, operators }) => (operators ? [issuer] : [])));
  for (const [user, { issuer }] of people) {
    if (!operators.has(issuer))
      context.problems.push(`${field}.people.${user}.issuer: ${issuer} is not an ${operatorIssuer(config)}`);
  }
  const keys = readKeyFile(decisions.secretFile, { use: "verify", field: `${field}.secretFile` }, context);
  return keys && { keys, people };
}

interface KeyUse {
  readonly use: "sign" | "verify";
  readonly field: string;
}

/** Reads keys. A key may be used in one field only, so that a signature made for one purpose is not valid for another. */
function readKeyFile(path: string, { use, field }: KeyUse, context: WebhookContext): readonly WebhookKey[] | undefined {
  const text = readNamed(context.config, { path, field }, context.problems)?.toString("utf8");
  if (text === undefined) return undefined;
  try {
    const keys = readKeys(text, use);
    for (const { fingerprint } of keys) {
      const other = context.seen.get(fingerprint);
      if (other !== undefined) context.problems.push(`${field}: ${path} contains a key that ${other} contains too`);
      context.seen.set(fingerprint, field);
    }
    return keys;
  } catch (error) {
    context.problems.push(`${field}: ${path} ${errorText(error)}`);
    return undefined;
  }
}

function countingJournal<Line extends { readonly type: string }>(
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

/** Starts the configured webhooks. They run until the store is closed. */
function withWebhooks(opened: OpenedApprovals, { webhooks: named, tally, clock, log }: WebhookParts): WithWebhooks {
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
