import { z } from "zod";

const REMEMBER_SECONDS_MAX = 31_536_000;
const RULES_MAX = 32;

const label = z.enum(["private", "untrusted"]);
const verdict = z.enum(["ask", "deny"]);

const labelRule = z.strictObject({
  /** What the caller has read: one label, or a list of which all must apply. */
  after: z.union(
    [label.transform((one) => [one]), z.array(label).min(1).max(2)],
    "must be private, untrusted, or a list of them",
  ),
  /** `outside`: the rule is about tools that send outside. */
  before: z.literal("outside"),
  /** `vouched`: the rule does not apply to calls of which every destination is vouched for, by a trusted field or a trusted answer. */
  unless: z.literal("vouched").optional(),
  verdict,
});

const argumentRule = z.strictObject({
  /**
   * `destinations`: the arguments that manifests declare as `dataFlow.destinations`. `links`: web and mail addresses in the other
   * arguments of tools that send outside.
   */
  argument: z.enum(["destinations", "links"]),
  /** `untrusted`: the value appeared in untrusted text, and in no trusted field. */
  from: z.literal("untrusted"),
  verdict,
});

/**
 * The section `dataFlow`: follows what callers have read into what they send. It is on when this section exists or a tool declares
 * `dataFlow`.
 */
export const dataFlow = z
  .strictObject({
    /**
     * Whether the default rules apply: ask before a caller that has read untrusted and private data sends outside, and when a
     * destination appeared in untrusted text.
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
     * Whether what was read counts only within the token's `sid`. Set it only where the issuer guarantees that no agent can obtain a
     * token with another `sid`.
     */
    trustSid: z.boolean().default(false),
  })
  .optional();
