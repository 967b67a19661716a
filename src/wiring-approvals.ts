import { randomBytes, randomUUID } from "node:crypto";
import { openApprovals } from "./approvals/approvals.ts";
import { createRiskRules, type RiskRules, riskRuleProblems } from "./approvals/risk.ts";
import type { Approvals } from "./approvals/types.ts";
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
export async function openStore(config: Config, parts: StoreParts): Promise<Approvals | undefined> {
  const { store, ...limits } = config.approvals;
  if (store === undefined) return undefined;
  try {
    return await openApprovals({
      url: `${SQLITE}${pathFrom(config, store.slice(SQLITE.length))}`,
      now: parts.clock,
      newId: randomUUID,
      newToken: () => randomBytes(SESSION_BYTES).toString("base64url"),
      journal: parts.journal,
      log: parts.log,
      limits,
    });
  } catch (error) {
    throw new StartupError([`approvals.store: ${error instanceof Error ? error.message : String(error)}`]);
  }
}
