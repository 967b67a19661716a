import { z } from "zod";
import { ruleConditions } from "../../core/rule-conditions.ts";
import type { DECISION_POINTS } from "../../decision-points/kinds.ts";
import type { Modules } from "../module-types.ts";
import { problemAdder, uniqueNames } from "./values.ts";

const POINTS_MAX = 16;
const CLAIMS_MAX = 32;
const TIMEOUT_MS_MAX = 30_000;
const CACHE_SECONDS_MAX = 300;
/** Names of the points that every build has. */
const BUILT_IN: readonly string[] = ["permissions", "elevation", "risk", "halts"];

/** The risk is not known when the points are asked. */
const when = ruleConditions.omit({ risk: true });

const decisionPoint = z.strictObject({
  /** Name in the audit, in metrics and for approvers. */
  name: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,63}$/, "must consist of lowercase letters, digits and dashes")
    .refine((name) => !BUILT_IN.includes(name), "is the name of a built-in policy point"),
  /** Calls that the point decides about. Every condition must hold; of a list, one entry is enough. Left out: all calls. */
  when: when.prefault({}),
  /** Time limit for a decision. A later one denies the call. */
  timeoutMs: z.int().min(1).max(TIMEOUT_MS_MAX).default(1_000),
  /**
   * Arguments that the point sees: `none`, those that the audit may hold (`inputPolicy`), or `all`. When left out, `inputPolicy`,
   * and for `cedar`, whose decisions stay in the service, `all`.
   */
  arguments: z.enum(["none", "inputPolicy", "all"]).optional(),
  /** Claims of the caller's token that the point sees, besides `sub`, `iss`, `act`, `client_id` and the permissions. */
  claims: z
    .array(z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be the name of a claim"))
    .max(CLAIMS_MAX)
    .default([]),
  /**
   * What a denial means that offers to request access (`context.access_request`): `deny`, or `ask` a person here. The point is asked
   * again before the approval is used, and must allow the call then.
   */
  onAccessRequest: z.enum(["deny", "ask"]).default("deny"),
  /** Time for which a call that the point allowed is allowed again without asking. 0: the point is asked about every call. */
  cacheSeconds: z.int().min(0).max(CACHE_SECONDS_MAX).default(0),
});

type Kinds = Modules["decisionPoints"];
type BuiltIn = (typeof DECISION_POINTS)[number];
/** The settings of all kinds that every build has: an entry has exactly one of them. */
type KindSettings = { [Kind in BuiltIn as Kind["key"]]: z.ZodOptional<Kind["settings"]> };

/** Returns the schema of the section `decisionPoints`, with the settings of all kinds of points. */
export function decisionPoints(kinds: Kinds) {
  const settings = kinds.map(({ key, settings: schema }) => {
    const { description = "" } = schema;
    return [key, schema.optional().describe(description)];
  });
  const shape = Object.fromEntries(settings) as KindSettings;
  const point = decisionPoint.extend(shape).superRefine((written, context) => {
    const add = problemAdder(context);
    const given = kinds.filter(({ key }) => (written as Readonly<Record<string, unknown>>)[key] !== undefined);
    if (given.length !== 1) add([], `needs exactly one of ${kinds.map(({ key }) => key).join(", ")}`);
    for (const { key, isRemote } of given) {
      if (isRemote) continue;
      if (written.cacheSeconds > 0) add("cacheSeconds", `is not for ${key}, which decides in the service`);
      if (written.onAccessRequest === "ask") add("onAccessRequest", `is not for ${key}: it cannot offer a request`);
    }
  });
  return z
    .array(point)
    .max(POINTS_MAX)
    .default([])
    .superRefine(uniqueNames("appears twice: each point needs its own name"));
}
