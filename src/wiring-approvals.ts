import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { openApprovals } from "./approvals/approvals.ts";
import { createReceiptSigner, type ReceiptedApprovals, type ReceiptSigner } from "./approvals/receipts.ts";
import { createRiskRules, type RiskRules, riskRuleProblems } from "./approvals/risk.ts";
import { type Config, pathFrom } from "./config.ts";
import { StartupError } from "./core/errors.ts";
import type { Json } from "./core/types.ts";

const SESSION_BYTES = 24;
const SQLITE = "sqlite://";

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
  const { store, ...limits } = config.approvals;
  if (store === undefined) return undefined;
  const receiptOf = readReceiptKey(config);
  try {
    const approvals = await openApprovals({
      url: `${SQLITE}${pathFrom(config, store.slice(SQLITE.length))}`,
      now: parts.clock,
      newId: randomUUID,
      newToken: () => randomBytes(SESSION_BYTES).toString("base64url"),
      journal: parts.journal,
      log: parts.log,
      limits,
    });
    return { ...approvals, receiptOf };
  } catch (error) {
    throw new StartupError([`approvals.store: ${error instanceof Error ? error.message : String(error)}`]);
  }
}

/** @throws {StartupError} when there is no such key in it */
function readReceiptKey(config: Config): ReceiptSigner | undefined {
  const { receiptKeyFile: path, deployment } = config.approvals;
  if (path === undefined) return undefined;
  const field = `approvals.receiptKeyFile: ${path}`;
  try {
    return createReceiptSigner({ privateKey: readFileSync(pathFrom(config, path)), deployment });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : undefined;
    const fault = error instanceof Error ? error.message : String(error);
    throw new StartupError([`${field} ${code === undefined ? fault : `cannot be read (${code})`}`]);
  }
}
