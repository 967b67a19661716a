import { errorText, systemCode } from "../../core/error-text.ts";
import { resultWithin } from "../../core/time-limits.ts";
import { filterSecrets } from "../../detection/sensitive.ts";
import type { Config } from "../../runtime/config/config.ts";
import type { Deployment } from "./deployment.ts";

/** From the best to the worst. */
export const STATUSES = ["not applicable", "ok", "warning", "failed"] as const;
export type Status = (typeof STATUSES)[number];

/** One observation: what was seen and, unless all is well, what to do next. */
export interface CheckFinding {
  readonly status: Status;
  readonly seen: string;
  readonly next?: string;
}

type Findings = readonly CheckFinding[] | Promise<readonly CheckFinding[]>;

export interface Check {
  readonly name: string;
  /** Maximum time; left out: 5 s. */
  readonly timeLimitMs?: number;
  run(deployment: Deployment): Findings;
}

export interface CheckResult {
  readonly name: string;
  /** That of the worst finding. */
  readonly status: Status;
  readonly findings: readonly CheckFinding[];
}

export function ok(seen: string): CheckFinding {
  return { status: "ok", seen };
}

export function warning(seen: string, next: string): CheckFinding {
  return { status: "warning", seen, next };
}

export function failed(seen: string, next: string): CheckFinding {
  return { status: "failed", seen, next };
}

export function notApplicable(seen: string): readonly CheckFinding[] {
  return [{ status: "not applicable", seen }];
}

/** Declares a check that needs a configuration that can be read. */
export function configured(name: string, run: (config: Config, deployment: Deployment) => Findings): Check {
  return {
    name,
    run: (deployment) =>
      deployment.config === undefined
        ? notApplicable("the configuration cannot be read")
        : run(deployment.config, deployment),
  };
}

const TIME_LIMIT_MS = 5_000;

/** Runs all checks at the same time. One that throws or takes too long fails, and the others are reported all the same. */
export function runChecks(checks: readonly Check[], deployment: Deployment): Promise<readonly CheckResult[]> {
  return Promise.all(
    checks.map(async ({ name, timeLimitMs = TIME_LIMIT_MS, run }) => {
      const tooLate = (): Error => new Error(`no result within ${timeLimitMs / 1_000} s`);
      const found = await resultWithin(attempted(run, deployment), timeLimitMs, tooLate).catch((error: unknown) => [
        failed(`could not be checked: ${errorText(error)}`, nextAfter(error)),
      ]);
      const findings = worstFirst(found.map(withoutSecrets));
      return { name, status: findings[0]?.status ?? "ok", findings };
    }),
  );
}

const NO_PERMISSION = new Set(["EACCES", "EPERM"]);

function nextAfter(error: unknown): string {
  return NO_PERMISSION.has(systemCode(error))
    ? "Run stc doctor as the service's user."
    : "Run stc doctor again, on a machine that is less busy.";
}

async function attempted(run: Check["run"], deployment: Deployment): Promise<readonly CheckFinding[]> {
  return run(deployment);
}

export function worstFirst(findings: readonly CheckFinding[]): readonly CheckFinding[] {
  return findings.toSorted((one, other) => rank(other) - rank(one));
}

function rank({ status }: CheckFinding): number {
  return STATUSES.indexOf(status);
}

/** Messages of other systems may contain an address with a password, or a header. */
function withoutSecrets({ status, seen, next }: CheckFinding): CheckFinding {
  return { status, seen: filterSecrets(seen).text, ...(next !== undefined && { next }) };
}
