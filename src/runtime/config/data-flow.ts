import { z } from "zod";

const REMEMBER_SECONDS_MAX = 31_536_000;
const STORED_SECONDS_MAX = 157_680_000;
const RULES_MAX = 32;

const label = z.enum(["private", "untrusted"]);
const verdict = z.enum(["ask", "deny"]);

const after = z.union(
  [label.transform((one) => [one]), z.array(label).min(1).max(2)],
  "must be private, untrusted, or a list of them",
);

const labelRule = z.strictObject({
  /** What the caller has read: one label, or a list of which all must apply. */
  after,
  /** `outside`: the rule is about tools that send outside. `change`: about all tools whose classification is not `read`. */
  before: z.enum(["outside", "change"]),
  /**
   * The rule does not apply to calls of which every destination is vouched for: by the user's request alone (`requested`), also by a
   * trusted field of a tool whose answers hold no untrusted text (`known`), or by any trusted field (`vouched`).
   */
  unless: z.enum(["vouched", "known", "requested"]).optional(),
  verdict,
});

const argumentRule = z.strictObject({
  /**
   * `destinations`: the arguments that manifests declare as `dataFlow.destinations`. `links`: web and mail addresses in the other
   * arguments of tools that send outside. `lookups`: the arguments of tools that look something up in a system that is not declared
   * `own`. `any`: every argument of these, and of tools that send outside.
   */
  argument: z.enum(["destinations", "links", "lookups", "any"]),
  /**
   * `untrusted`: the value appeared in untrusted text, and in no trusted field. `private`: the value, or a telling part of it, appeared
   * in private data.
   */
  from: label,
  /** What the caller has read besides: one label, or a list of which all must apply. */
  after: after.optional(),
  verdict,
});

/**
 * The section `dataFlow`: follows what callers have read into what they send. It is on when this section exists or a tool declares
 * `dataFlow`.
 */
export const dataFlow = z
  .strictObject({
    /**
     * Whether the default rules apply: ask before a caller that has read untrusted and private data sends outside, when a destination
     * appeared in untrusted text, and when a caller that has read untrusted text looks private data up in a system that is not `own`.
     */
    default: z.enum(["on", "off"]).default("on"),
    /** Further rules; the strictest one wins. */
    rules: z
      .array(z.union([labelRule, argumentRule], "must be { after, before, verdict } or { argument, from, verdict }"))
      .max(RULES_MAX)
      .default([]),
    /** How long what a caller has read counts. */
    rememberSeconds: z.int().min(60).max(REMEMBER_SECONDS_MAX).default(86_400),
    /**
     * How long texts count that a caller has written while their origin was private or untrusted: an answer that holds them earns these
     * labels. Choose as long as such texts stay where agents read them.
     */
    storedSeconds: z.int().min(60).max(STORED_SECONDS_MAX).default(7_776_000),
    /**
     * Whether what was read counts only within the token's `sid`. Set it only where the issuer guarantees that no agent can obtain a
     * token with another `sid`.
     */
    trustSid: z.boolean().default(false),
  })
  .optional();
