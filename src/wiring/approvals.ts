import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { openApprovals } from "../approvals/approvals.ts";
import { createReceiptSigner, type ReceiptedApprovals, type ReceiptSigner } from "../approvals/receipts/receipts.ts";
import { createRiskRules, type RiskRules, riskRuleProblems } from "../approvals/risk.ts";
import { type Config, pathFrom } from "../config.ts";
import { StartupError } from "../core/errors.ts";
import type { Json } from "../core/types.ts";

const SESSION_BYTES = 24;
const SQLITE = "sqlite://";
const POSTGRES = /^postgres(?:ql)?:\/\/\S+$/;

/** The table that says how bad a call can be: ours and the operators'. What else the approvals read at start is tried here, too. */
export function readRiskRules(config: Config, problems: string[]): RiskRules | undefined {
  const { approvals } = config;
  const found = riskRuleProblems(approvals.rules).map((problem) => `approvals.rules${problem}`);
  problems.push(...found);
  if (approvals.receiptKeyFile !== undefined) {
    try {
      readSigner(config, approvals.receiptKeyFile);
    } catch (error) {
      problems.push(...(error instanceof StartupError ? error.problems : [textOf(error)]));
    }
  }
  return found.length > 0 ? undefined : createRiskRules({ rules: approvals.rules });
}

export interface StoreParts {
  readonly clock: () => number;
  /** Durable when resolved. */
  readonly journal: (line: { readonly type: string; readonly [member: string]: Json | undefined }) => Promise<void>;
  readonly log: (message: string, cause: unknown) => void;
}

/**
 * Opens the store that the configuration names, with the key that signs its decisions' receipts.
 *
 * @throws {StartupError} when one of them cannot be opened
 */
export async function openStore(config: Config, parts: StoreParts): Promise<ReceiptedApprovals | undefined> {
  const { store, storeUrlFile, receiptKeyFile, ...limits } = config.approvals;
  if (store === undefined && storeUrlFile === undefined) return undefined;
  const receiptOf = receiptKeyFile === undefined ? undefined : readSigner(config, receiptKeyFile);
  const field = store === undefined ? "approvals.storeUrlFile" : "approvals.store";
  try {
    const approvals = await openApprovals({
      url: storeUrlFile === undefined ? sqliteUrl(config, store ?? "") : postgresUrl(config, storeUrlFile),
      now: parts.clock,
      newId: randomUUID,
      newToken: () => randomBytes(SESSION_BYTES).toString("base64url"),
      journal: parts.journal,
      log: parts.log,
      limits,
    });
    return { ...approvals, receiptOf };
  } catch (error) {
    throw new StartupError([`${field}: ${textOf(error)}`]);
  }
}

function readSigner(config: Config, path: string): ReceiptSigner {
  const { deployment } = config.approvals;
  try {
    return createReceiptSigner({ privateKey: readText(config, path), deployment });
  } catch (error) {
    throw new StartupError([`approvals.receiptKeyFile: ${path} ${textOf(error)}`]);
  }
}

function sqliteUrl(config: Config, store: string): string {
  return `${SQLITE}${pathFrom(config, store.slice(SQLITE.length))}`;
}

/** What the file holds is never quoted: it is a password. */
function postgresUrl(config: Config, path: string): string {
  try {
    const url = readText(config, path).trim();
    if (POSTGRES.test(url)) return url;
  } catch (error) {
    throw new Error(`${path} ${textOf(error)}`);
  }
  throw new Error(`${path} must hold a postgres:// URL and nothing else`);
}

function readText(config: Config, path: string): string {
  try {
    return readFileSync(pathFrom(config, path), "utf8");
  } catch (error) {
    throw new Error(`cannot be read (${error instanceof Error && "code" in error ? error.code : "unknown error"})`);
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
