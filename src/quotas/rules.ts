import { hash } from "node:crypto";
import { Refusal } from "../core/errors.ts";
import { conditionsHold, type RuleConditions } from "../core/rule-conditions.ts";
import type { CallerContext, EpochMs, Tool } from "../core/types.ts";

/** What a quota counts. */
export const QUOTA_UNITS = ["calls", "bytes", "cost"] as const;
export type QuotaUnit = (typeof QUOTA_UNITS)[number];
export const QUOTA_WINDOWS = ["hour", "day", "month"] as const;
export type QuotaWindow = (typeof QUOTA_WINDOWS)[number];

/** Whose calls are counted together: those of one caller, of one tool, of one system. */
export const QUOTA_KEYS = ["caller", "tool", "system"] as const;
export type QuotaKey = (typeof QUOTA_KEYS)[number];

/** A quota as the configuration has it, with one of `calls`, `bytes` and `cost`. */
export interface QuotaRule {
  readonly name: string;
  /** Every combination of these values has the whole quota. None: everybody shares it. */
  readonly per: readonly QuotaKey[];
  readonly calls?: number | undefined;
  readonly bytes?: number | undefined;
  readonly cost?: number | undefined;
  readonly window: QuotaWindow;
  readonly when?: QuotaCondition | undefined;
}

/** The calls that a quota applies to. */
interface QuotaCondition extends Pick<RuleConditions, "tools" | "systems" | "categories" | "classifications"> {
  readonly callers?: readonly Pick<CallerContext, "issuer" | "subject">[] | undefined;
}

/** Costs are counted in millionths, because sums of fractions are not exact. */
const COST_PARTS = 1_000_000;

/** Returns the smallest units in which an amount is counted: whole calls, whole bytes, millionths of a cost. */
export function inParts(unit: QuotaUnit, amount: number): number {
  return unit === "cost" ? Math.round(amount * COST_PARTS) : amount;
}

export function fromParts(unit: QuotaUnit, parts: number): number {
  return unit === "cost" ? parts / COST_PARTS : parts;
}

/** A quota, ready to be applied. */
export interface Quota {
  readonly rule: QuotaRule;
  readonly name: string;
  readonly unit: QuotaUnit;
  readonly window: QuotaWindow;
  /** In the unit's parts. */
  readonly limit: number;
  /** Returns what a call of the tool is charged when it starts, in the unit's parts; undefined: the quota does not apply to it. */
  amountOf(tool: Tool): number | undefined;
  appliesTo(caller: CallerContext): boolean;
}

export function readQuota(rule: QuotaRule): Quota {
  const { name, window, when = {} } = rule;
  const unit = QUOTA_UNITS.find((each) => rule[each] !== undefined) ?? "calls";
  const { callers } = when;
  const listed = callers && new Set(callers.map(({ issuer, subject }) => JSON.stringify([issuer, subject])));
  return {
    rule,
    name,
    unit,
    window,
    limit: inParts(unit, rule[unit] ?? 0),
    amountOf(tool) {
      if (!conditionsHold(when, { tool })) return undefined;
      if (unit === "calls") return 1;
      // Bytes are known afterwards. A tool without a cost is free.
      return unit === "bytes" ? 0 : inParts(unit, tool.cost ?? 0) || undefined;
    },
    appliesTo: ({ issuer, subject }) => listed === undefined || listed.has(JSON.stringify([issuer, subject])),
  };
}

/** One window of a quota: from `startsAt` to before `endsAt`, in UTC. */
export interface QuotaPeriod {
  readonly startsAt: EpochMs;
  readonly endsAt: EpochMs;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

export function periodAt(window: QuotaWindow, now: EpochMs): QuotaPeriod {
  if (window === "month") {
    const date = new Date(now);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    return { startsAt: Date.UTC(year, month), endsAt: Date.UTC(year, month + 1) };
  }
  const ms = window === "hour" ? HOUR_MS : DAY_MS;
  const startsAt = Math.floor(now / ms) * ms;
  return { startsAt, endsAt: startsAt + ms };
}

/** Whose use is counted; the values that the quota does not distinguish are empty. */
export interface QuotaUser {
  readonly issuer: string;
  readonly subject: string;
  readonly tool: string;
  readonly system: string;
}

export function userOf(
  { rule: { per } }: Pick<Quota, "rule">,
  { issuer, subject }: CallerContext,
  tool: Tool,
): QuotaUser {
  const has = (key: QuotaKey): boolean => per.includes(key);
  return {
    issuer: has("caller") ? issuer : "",
    subject: has("caller") ? subject : "",
    tool: has("tool") ? tool.name : "",
    system: has("system") ? tool.target.system : "",
  };
}

/** Returns the key of a row. A hash, because names may be longer than an index accepts. */
export function rowKey(
  { name, unit, window }: Pick<Quota, "name" | "unit" | "window">,
  user: QuotaUser,
  startsAt: EpochMs,
): string {
  const { issuer, subject, tool, system } = user;
  return hash("sha256", JSON.stringify([name, unit, window, startsAt, issuer, subject, tool, system]), "base64url");
}

/** Part of the limit that a process may hold unused, and how many such parts must be left for it. */
const LEASES_PER_LIMIT = 100;
const LEASES_LEFT = 20;

export interface LeaseRequest {
  readonly limit: number;
  /** As far as it is known. */
  readonly used: number;
  /** What the waiting calls need together. */
  readonly wanted: number;
  /** What the first of them needs. */
  readonly least: number;
  /** Whether to take more than they need. */
  readonly inBlocks: boolean;
}

/**
 * Returns how much to take at once: what the waiting calls need, or a hundredth of the limit, of which near the end always less,
 * so that what other processes hold unused stays a small part of what is left. 0: not even the first call fits.
 */
export function leaseSize({ limit, used, wanted, least, inBlocks }: LeaseRequest): number {
  const left = limit - used;
  if (left < least) return 0;
  const block = inBlocks ? Math.min(Math.floor(limit / LEASES_PER_LIMIT), Math.floor(left / LEASES_LEFT)) : 0;
  return Math.min(left, Math.max(wanted, block));
}

const POINT = "quotas";
const RETRY_AFTER_MS = 1_000;
const WORDS = { hour: "this hour", day: "today", month: "this month" } as const;

/** A quota that counts a caller's own calls is reported with its numbers; of a shared one, only that it is used up. */
export function quotaExceeded({ name, rule, unit, window }: Quota, { endsAt }: QuotaPeriod, now: EpochMs): Refusal {
  const limit = rule[unit];
  const isOwn = rule.per.includes("caller");
  const resetsAt = new Date(endsAt).toISOString();
  const own = isOwn ? { limit, unit, window } : { unit, window };
  return new Refusal(
    "QUOTA_EXCEEDED",
    `The quota ${name}${isOwn ? ` of ${limit} ${unit === "cost" ? "in cost" : unit}` : ""} is used up for ${WORDS[window]}. It is available again at ${resetsAt}.`,
    {
      details: { quota: name, ...own, resetsAt },
      retryAfterMs: Math.max(1, Math.ceil(endsAt - now)),
      findings: [{ point: POINT, verdict: "deny", reason: `the quota ${name} is used up`, rememberable: false }],
    },
  );
}

export function quotaUnknown(cause: unknown): Refusal {
  const reason = "the use of a quota could not be read or written";
  return new Refusal(
    "POLICY_STATE_UNAVAILABLE",
    "The call was not run: the service could not find out whether a quota allows it.",
    {
      details: { outcome: "not_run" },
      retryAfterMs: RETRY_AFTER_MS,
      findings: [{ point: POINT, verdict: "deny", reason, rememberable: false }],
      cause,
    },
  );
}
