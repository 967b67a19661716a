import { z } from "zod";
import { ruleConditions } from "../../core/rule-conditions.ts";
import { problemAdder, repeated, uniqueNames } from "./values.ts";

const QUOTAS_MAX = 64;
const CALLERS_MAX = 100;
const CALLS_MAX = 1_000_000_000_000;
const BYTES_MAX = 1_000_000_000_000_000;
const COST_MAX = 1_000_000_000;
const COST_PARTS = 1_000_000;

const caller = z.strictObject({
  /** The `iss` of the caller's tokens, compared exactly. */
  issuer: z.string().min(1).max(2_048),
  /** The `sub` of the caller's tokens, compared exactly. */
  subject: z.string().min(1).max(256),
});

const when = ruleConditions
  .pick({ tools: true, systems: true, categories: true, classifications: true })
  .extend({ callers: z.array(caller).min(1).max(CALLERS_MAX).optional() })
  .refine((conditions) => Object.values(conditions).some((condition) => condition !== undefined), {
    message: "must name at least one condition; leave it out for every call",
  });

const UNITS = ["calls", "bytes", "cost"] as const;

const quota = z
  .strictObject({
    /** Name shown to callers and operators; the use stays with it. */
    name: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9._-]{0,63}$/, "must be a name of letters, digits, dot, dash, underscore"),
    /**
     * What has the quota each for itself: `caller` (issuer and subject), `tool`, `system`, or combinations such as
     * `[caller, tool]`. An empty list: everybody shares it.
     */
    per: z.array(z.enum(["caller", "tool", "system"])).max(UNITS.length),
    /** Number of calls that start to run. */
    calls: z.int().min(1).max(CALLS_MAX).optional(),
    /** Bytes of released answers, as JSON. Known afterwards: the call that exceeds the quota is the last. */
    bytes: z.int().min(1).max(BYTES_MAX).optional(),
    /** Sum of the `cost` that the manifests of the called tools declare. */
    cost: z
      .number()
      .min(1 / COST_PARTS)
      .max(COST_MAX)
      .refine((cost) => Math.round(cost * COST_PARTS) / COST_PARTS === cost, "must have at most six decimal places")
      .optional(),
    /** Window after which the use starts from zero, in UTC by the database's clock. */
    window: z.enum(["hour", "day", "month"]),
    /** Calls that the quota applies to; every condition must hold, of a list, one entry is enough. Without it, all calls. */
    when: when.optional(),
  })
  .superRefine((written, context) => {
    const add = problemAdder(context);
    const given = UNITS.filter((unit) => written[unit] !== undefined);
    if (given.length === 0) add([], "must say how much: calls, bytes or cost");
    for (const unit of given.slice(1)) add([unit], `cannot be combined with ${given[0]}: write a second quota`);
    for (const index of repeated(written.per)) add(["per", index], "is listed twice");
  });

/**
 * Budgets: how many calls may run, how many bytes may be released, or what the calls may cost, in an hour, a day or a month. They
 * are kept in the database of `approvals.store` or `storeUrlFile`, for all replicas together; without one, in this process.
 */
export const quotas = z
  .array(quota)
  .max(QUOTAS_MAX)
  .default([])
  .superRefine(uniqueNames("is already used by an earlier quota"));
