import { randomBytes, randomUUID } from "node:crypto";
import { openApprovals } from "../../approvals/approvals.ts";
import { DecisionTally } from "../../approvals/notify/report.ts";
import type { NamedWebhooks } from "../../approvals/notify/webhooks.ts";
import { createReceiptSigner, type ReceiptedApprovals, type ReceiptSigner } from "../../approvals/receipts/receipts.ts";
import { SHELL_RULES, ShellRules } from "../../approvals/risk/shell.ts";
import { createRiskRules, type RiskRules, riskRuleProblems } from "../../approvals/risk.ts";
import { errorText } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import type { Json } from "../../core/types.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { MODULES, type Modules } from "../modules.ts";
import { readNamed, readNamedFile } from "./problems.ts";
import { countingJournal, readWebhooks, type WithWebhooks, withWebhooks } from "./webhooks.ts";

const SESSION_BYTES = 24;

export interface ReadRules {
  readonly risk: RiskRules;
  /** Signs the receipts of decisions; without a key there are no receipts. */
  readonly receiptOf: ReceiptSigner | undefined;
  readonly webhooks: NamedWebhooks;
}

/** Reads the risk rules (built-in and operators'), the webhooks and the receipt key. */
export function readApprovals(
  config: Config,
  { approvalStores: stores, shellRules }: Pick<Modules, "approvalStores" | "shellRules">,
  problems: string[],
): ReadRules | undefined {
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
  const shell = shellRules === MODULES.shellRules ? SHELL_RULES : new ShellRules(Object.values(shellRules).flat());
  return { risk: createRiskRules({ rules, policies, shell }), receiptOf, webhooks };
}

type Stores = Modules["approvalStores"];

export interface OpenStoreParts {
  readonly stores: Stores;
  readonly receiptOf?: ReceiptSigner | undefined;
  readonly webhooks: NamedWebhooks;
  readonly clock: () => number;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: (line: { readonly type: string; readonly [member: string]: Json | undefined }) => Promise<void>;
  readonly log: (message: string, cause: unknown) => void;
}

/**
 * Opens the store that the configuration names.
 *
 * @throws {StartupError} when it cannot be opened
 */
export async function openStore(
  config: Config,
  parts: OpenStoreParts,
): Promise<(ReceiptedApprovals & WithWebhooks) | undefined> {
  const { store, storeUrlFile, receiptKeyFile: _, ...limits } = config.approvals;
  if (store === undefined && storeUrlFile === undefined) return undefined;
  const field = store === undefined ? "approvals.storeUrlFile" : "approvals.store";
  const tally = new DecisionTally();
  try {
    const approvals = await openApprovals({
      stores: parts.stores,
      url: storeUrlFile === undefined ? absoluteUrl(config, store ?? "") : storeUrl(config, storeUrlFile, parts.stores),
      now: parts.clock,
      newId: randomUUID,
      newToken: () => randomBytes(SESSION_BYTES).toString("base64url"),
      journal: countingJournal(tally, parts.journal),
      log: parts.log,
      limits,
    });
    return { ...withWebhooks(approvals, { ...parts, tally }), receiptOf: parts.receiptOf };
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
