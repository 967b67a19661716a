import type { Database } from "./database.ts";
import type { Notifier } from "./notifier.ts";

/** Limits of the approvals. The configuration has the defaults. */
export interface ApprovalLimits {
  readonly decideBySeconds: number;
  /** Counted from the approval. */
  readonly executeBySeconds: number;
  /** Time that a claimed approval may run before it is in doubt: longer than any tool's timeout. */
  readonly claimLeaseSeconds: number;
  readonly pendingPerCallerMax: number;
  readonly pendingPerSessionMax: number;
  /** Time after a denial in which the same call is not requested again. */
  readonly coolDownSeconds: number;
  readonly grantSeconds: number;
  readonly sessionSeconds: number;
  /** One session more ends the caller's oldest session. */
  readonly sessionsPerCallerMax: number;
  readonly modeSecondsMax: number;
  /** Applies to ended approvals, grants and sessions, and to events. */
  readonly retentionDays: number;
  readonly idempotencySeconds: number;
  readonly sweepEverySeconds: number;
}

export interface Store {
  readonly database: Pick<Database, "read" | "write">;
  readonly notifier: Notifier;
  readonly limits: ApprovalLimits;
  readonly newId: () => string;
  readonly newToken: () => string;
  /** Returns the name of this process in the claims that it makes: its next start ends those that a crash has left. */
  readonly claimant: () => string | undefined;
  /** The member of the hub that a request is from; when absent, this service itself. */
  readonly member?: string | undefined;
}

export const SECOND_MS = 1_000;
export const DAY_MS = 86_400_000;
