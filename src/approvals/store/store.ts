import type { Database } from "./database.ts";
import type { Notifier } from "./notifier.ts";

/** Every bound of the approvals. The configuration has the defaults. */
export interface ApprovalLimits {
  readonly decideBySeconds: number;
  /** After the yes. */
  readonly executeBySeconds: number;
  /** How long a claimed one may run before it is in doubt: longer than any tool's timeout. */
  readonly claimLeaseSeconds: number;
  readonly pendingPerCallerMax: number;
  readonly pendingPerSessionMax: number;
  /** After a no the same call is not asked again for so long. */
  readonly coolDownSeconds: number;
  readonly grantSeconds: number;
  readonly sessionSeconds: number;
  /** One more ends the caller's oldest. */
  readonly sessionsPerCallerMax: number;
  readonly modeSecondsMax: number;
  /** Of approvals that have ended, and of events. */
  readonly retentionDays: number;
  readonly idempotencySeconds: number;
  readonly sweepEverySeconds: number;
}

/** What each part of the store works with. */
export interface Store {
  readonly database: Database;
  readonly wakes: Notifier;
  readonly limits: ApprovalLimits;
  readonly newId: () => string;
  readonly newToken: () => string;
}

export const SECOND_MS = 1_000;
export const DAY_MS = 86_400_000;
