import { z } from "zod";
import { longerClocks, policies } from "./policies.ts";
import { approvalsPublicUrl, approvalWebhooks } from "./webhooks.ts";

const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

const DAY_SECONDS = 86_400;

/** How calls that must ask are asked about, and for how long an answer counts. */
export const approvals = z
  .strictObject({
    /** Of sessions for which no operator set another: `default` asks for every change. */
    mode: z.enum(["default", "autoEdit", "yolo"]).default("default"),
    /** Where questions, answers and grants are kept: `sqlite://./var/approvals.sqlite`. Without it nobody can be asked. */
    store: z
      .string()
      .regex(
        /^sqlite:\/\/[^?#]+$/,
        "must be sqlite:// and a file, such as sqlite://./var/approvals.sqlite (the URL of a PostgreSQL stands in a file of its own: storeUrlFile)",
      )
      .optional(),
    /** Instead of `store`, for several replicas: a file that holds a `postgres://` URL, and with it a password. */
    storeUrlFile: z.string().min(1).optional(),
    /** Stands in every plan's digest: a yes of one deployment is none in another. */
    deployment: z.string().min(1).max(128).default("safe-tool-call"),
    /** PEM of a private key (P-256 or Ed25519) that signs decisions' receipts, and nothing else; without it there are none. */
    receiptKeyFile: z.string().min(1).optional(),
    /** Rules of your own; they can only make a call ask, or forbid it. */
    rules: z.array(z.unknown()).max(1_000).default([]),
    policies,
    webhooks: approvalWebhooks,
    /** Where people reach this service, such as https://stc.example: links in notifications begin with it. Without it they are paths. */
    publicUrl: approvalsPublicUrl,
    /** From the question to its end. */
    decideBySeconds: count(600, DAY_SECONDS),
    /** From the yes to the run. */
    executeBySeconds: count(300, DAY_SECONDS),
    /** How long a run that used up its yes may take before it counts as in doubt. */
    claimLeaseSeconds: count(900, DAY_SECONDS),
    pendingPerCallerMax: count(20, 10_000),
    pendingPerSessionMax: count(10, 10_000),
    /** After a no the very same call is not asked about again. */
    coolDownSeconds: count(600, DAY_SECONDS),
    grantSeconds: count(28_800, 7 * DAY_SECONDS),
    sessionSeconds: count(28_800, 7 * DAY_SECONDS),
    sessionsPerCallerMax: count(100, 10_000),
    /** The longest that an operator may set a mode for. */
    modeSecondsMax: count(28_800, 7 * DAY_SECONDS),
    idempotencySeconds: count(86_400, 30 * DAY_SECONDS),
    retentionDays: count(30, 3_650),
    sweepEverySeconds: count(5, 3_600),
    /** How long the library's `onToolApprove` may take. */
    callbackTimeoutMs: count(300_000, 86_400_000),
  })
  .refine(({ store, storeUrlFile }) => store === undefined || storeUrlFile === undefined, {
    path: ["storeUrlFile"],
    message: "cannot be set together with approvals.store: there is one store",
  })
  .superRefine((section, context) => {
    for (const fault of longerClocks(section)) context.addIssue({ code: "custom", ...fault });
  })
  .prefault({});
