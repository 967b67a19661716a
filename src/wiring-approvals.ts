import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, readFileSync } from "node:fs";
import { openApprovals } from "./approvals/approvals.ts";
import { createReceiptSigner, type ReceiptedApprovals, type ReceiptSigner } from "./approvals/receipts.ts";
import { createRiskRules, type RiskRules, riskRuleProblems } from "./approvals/risk.ts";
import { type Config, pathFrom } from "./config.ts";
import { StartupError } from "./core/errors.ts";
import type { Json } from "./core/types.ts";

const SESSION_BYTES = 24;
const SQLITE = "sqlite://";
const POSTGRES = /^postgres(?:ql)?:\/\/\S+$/;

/** The table that says how bad a call can be: ours and the operators'. */
export function readRiskRules({ approvals }: Config, problems: string[]): RiskRules | undefined {
  const found = riskRuleProblems(approvals.rules).map((problem) => `approvals.rules${problem}`);
  problems.push(...found);
  return found.length > 0 ? undefined : createRiskRules({ rules: approvals.rules });
}

export interface StoreParts {
  readonly clock: () => number;
  /** Durable when resolved. */
  readonly journal: (line: { readonly type: string; readonly [member: string]: Json | undefined }) => Promise<void>;
  readonly log: (message: string, cause: unknown) => void;
}

/**
 * Opens the store that the configuration names.
 *
 * @throws {StartupError} when it cannot be opened
 */
export async function openStore(config: Config, parts: StoreParts): Promise<ReceiptedApprovals | undefined> {
  const { store, storeUrlFile, ...limits } = config.approvals;
  if (store === undefined && storeUrlFile === undefined) return undefined;
  const field = store === undefined ? "approvals.storeUrlFile" : "approvals.store";
  try {
    return await openApprovals({
      url: store === undefined ? readUrl(config, storeUrlFile ?? "") : `${SQLITE}${pathFrom(config, store.slice(SQLITE.length))}`,
      now: parts.clock,
      newId: randomUUID,
      newToken: () => randomBytes(SESSION_BYTES).toString("base64url"),
      journal: parts.journal,
      log: parts.log,
      limits,
    });
  } catch (error) {
    throw new StartupError([`${field}: ${error instanceof Error ? error.message : String(error)}`]);
  }
}

/** What the file holds is never quoted: it is a password. */
function readUrl(config: Config, path: string): string {
  let url: string;
  try {
    url = readFileSync(pathFrom(config, path), "utf8").trim();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error";
    throw new Error(`${path} cannot be read (${code})`);
  }
  if (!POSTGRES.test(url)) throw new Error(`${path} must hold a postgres:// URL and nothing else`);
  return url;
}
