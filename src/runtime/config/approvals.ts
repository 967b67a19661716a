import { z } from "zod";
import { isLoopback } from "../../core/network.ts";
import { permission, ruleConditions } from "../../core/rule-conditions.ts";
import { APPROVAL_SCOPES, MODES } from "../../core/types.ts";
import type { Modules } from "../module-types.ts";
import { DEPLOYMENT } from "./tenant-sections.ts";
import { count, problemAdder, reloaded, text, uniqueNames } from "./values.ts";

const DAY_SECONDS = 86_400;

const NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/;
const POLICIES_MAX = 100;
const SUBJECTS_MAX = 50;
const POLICY_PERMISSIONS_MAX = 16;
const STAGES_MAX = 8;
const APPROVERS_MAX = 20;
const ESCALATIONS_MAX = 8;
const WEBHOOKS_MAX = 16;
/** Maximum size of all policies as JSON, in characters: each approval request stores the policies that apply to it. */
const CHARACTERS_MAX = 131_072;

const policyName = z.string().regex(NAME, "must be a name of letters, digits, dot, dash, underscore");
const people = z.int().min(1).max(APPROVERS_MAX);
const seconds = z.int().min(1).max(DAY_SECONDS);

const subject = z.strictObject({
  /** The `iss` of the approver's tokens, compared exactly. */
  issuer: z.string().min(1).max(2_048),
  /** The `sub` of the approver's tokens, compared exactly. */
  subject: z.string().min(1).max(256),
});

const deciders = z.strictObject({
  /** Permissions that the approver's token must hold, all of them, in addition to `approvals:decide`. */
  permissions: z.array(permission).max(POLICY_PERMISSIONS_MAX).optional(),
  /** Approvers by name; without it, anyone who holds the permissions may decide. */
  subjects: z.array(subject).min(1).max(SUBJECTS_MAX).optional(),
});

const stage = z.strictObject({
  /** Name shown to people and written to the journal. */
  name: policyName,
  deciders: deciders.prefault({}),
  /** Number of these approvers who must approve. */
  count: people.default(1),
});

const when = ruleConditions.refine((written) => Object.values(written).some((condition) => condition !== undefined), {
  message: 'must name at least one condition; tools: ["*"] means every tool',
});

const required = z
  .strictObject({
    deciders: deciders.optional(),
    /** Number of these approvers who must approve; 1 when left out. */
    count: people.optional(),
    /** Instead of `deciders` and `count`: stages that follow each other, all of them required. */
    stages: z
      .array(stage)
      .min(1)
      .max(STAGES_MAX)
      .superRefine(uniqueNames("is already used by an earlier stage"))
      .optional(),
  })
  .superRefine(({ deciders: who, count, stages }, context) => {
    const add = problemAdder(context);
    if (stages === undefined && who === undefined && count === undefined) {
      add([], "must say who approves: deciders, count, or both; or stages");
    }
    if (stages === undefined) return;
    if (who !== undefined) add("deciders", "cannot be combined with stages: each stage has its own");
    if (count !== undefined) add("count", "cannot be combined with stages: each stage has its own");
  });

const escalation = z.strictObject({
  /** Time from the approval request after which, if it is still undecided, the step is taken; more than that of the step before. */
  afterSeconds: seconds,
  /** Stage that `deciders` are added to. Required where the policy has `stages`. */
  stage: policyName.optional(),
  /** Approvers who may decide too from then on, each counting like one of the stage's own. Without it, the step only notifies. */
  deciders: deciders.optional(),
  /** Webhooks that are notified, whatever their `events`; without it, those whose `events` contain `approval.escalated`. */
  webhooks: z.array(z.string()).min(1).max(WEBHOOKS_MAX).optional(),
});

const policy = z
  .strictObject({
    /** Name shown to people and written to the journal. */
    name: policyName,
    /** Approval requests that the policy applies to. Every condition must hold; of a list, one entry is enough. */
    when,
    /** Required approvals: `count` approvals by the `deciders`, or several such `stages`, one after another. */
    require: required,
    /** Steps that ask further approvers when nobody decides. The number of approvals stays the same. */
    escalate: z.array(escalation).min(1).max(ESCALATIONS_MAX).optional(),
    /** Whether one person may count in only one stage of the policy. */
    distinctPeople: z.boolean().default(true),
    /** When approvers must give a reason. */
    reasonRequired: z.enum(["never", "deny", "always"]).default("never"),
    /** Scopes that an approval may have, out of those that the tool offers. */
    scopes: z
      .array(z.enum(APPROVAL_SCOPES))
      .default([...APPROVAL_SCOPES])
      .refine(
        (scopes) => scopes.includes("once"),
        "must contain once: every approval request can be answered that way",
      ),
    /** Replaces `approvals.decideBySeconds`; cannot be longer. */
    decideBySeconds: seconds.optional(),
    /** Replaces `approvals.executeBySeconds`; cannot be longer. */
    executeBySeconds: seconds.optional(),
    /** Whether the library's `onToolApprove` may decide. It counts as one approver without permissions. */
    callback: z.boolean().default(false),
  })
  .superRefine(({ callback, require: { deciders: who, count = 1, stages } }, context) => {
    const requiresMore = stages !== undefined || count > 1 || (who?.permissions?.length ?? 0) > 0 || who?.subjects;
    const message = "cannot be true with more than one approver, stages, permissions or subjects";
    if (callback && requiresMore) problemAdder(context)("callback", message);
  })
  .superRefine(checkEscalation);

interface WithEscalation {
  readonly require: z.output<typeof required>;
  readonly escalate?: readonly z.output<typeof escalation>[] | undefined;
}

function checkEscalation({ require: { stages }, escalate = [] }: WithEscalation, context: z.core.$RefinementCtx): void {
  const add = problemAdder(context);
  for (const [index, { afterSeconds, stage: name, deciders: who }] of escalate.entries()) {
    const before = escalate[index - 1]?.afterSeconds;
    if (before !== undefined && afterSeconds <= before) {
      add(["escalate", index, "afterSeconds"], `must be more than ${before}, the time of the step before it`);
    }
    const field = ["escalate", index, "stage"];
    if (name !== undefined && who === undefined) add(field, "needs deciders: a step without them only notifies");
    else if (name !== undefined && !(stages ?? []).some((own) => own.name === name)) {
      add(
        field,
        stages === undefined ? "is not needed: the policy has no stages" : `${name} is not a stage of the policy`,
      );
    } else if (name === undefined && who !== undefined && stages !== undefined) {
      add(field, "is missing: it says which stage the deciders are added to");
    }
  }
}

/** Policies that say who decides which approval requests. */
const policies = z
  .array(policy)
  .max(POLICIES_MAX)
  .default([])
  .superRefine(uniqueNames("is already used by an earlier policy"))
  .refine((written) => JSON.stringify(written).length <= CHARACTERS_MAX, {
    message: `has more than ${CHARACTERS_MAX} characters in all`,
  });

interface TimeLimits {
  readonly decideBySeconds: number;
  readonly executeBySeconds: number;
  readonly policies: z.output<typeof policies>;
}

interface Escalating {
  readonly decideBySeconds: number;
  readonly policies: z.output<typeof policies>;
  readonly webhooks: z.output<typeof approvalWebhooks>;
}

/** Checks the steps against what they depend on: the time until the request expires, and the webhooks. */
function checkEscalations(
  { policies: written, webhooks, ...limits }: Escalating,
  context: z.core.$RefinementCtx,
): void {
  const add = problemAdder(context);
  const sending = new Set(webhooks.flatMap(({ name, url, urlFile }) => ((url ?? urlFile) === undefined ? [] : [name])));
  for (const [index, { escalate = [], decideBySeconds = limits.decideBySeconds }] of written.entries()) {
    for (const [at, step] of escalate.entries()) {
      const field = ["policies", index, "escalate", at];
      if (step.afterSeconds >= decideBySeconds) {
        add([...field, "afterSeconds"], `must be less than ${decideBySeconds}: the approval request expires then`);
      }
      for (const [which, name] of (step.webhooks ?? []).entries()) {
        if (sending.has(name)) continue;
        const isKnown = webhooks.some((webhook) => webhook.name === name);
        const problem = isKnown
          ? "has no url or urlFile: nothing can be sent there"
          : "is not a webhook of approvals.webhooks";
        add([...field, "webhooks", which], `${name} ${problem}`);
      }
    }
  }
}

/** Policies may only shorten the general time limits, which bound the size of the store and the age of plans. */
function checkTimeLimits({ policies: written, ...limits }: TimeLimits, context: z.core.$RefinementCtx): void {
  const add = problemAdder(context);
  for (const [index, own] of written.entries()) {
    for (const key of ["decideBySeconds", "executeBySeconds"] as const) {
      if ((own[key] ?? 0) <= limits[key]) continue;
      add(["policies", index, key], `must not be longer than approvals.${key}, which is ${limits[key]}`);
    }
  }
}

const PEOPLE_MAX = 1_000;
const PERMISSIONS_MAX = 64;
const NAME_CHARACTERS_MAX = 256;
const URL_CHARACTERS_MAX = 2_048;

const EVENTS = [
  ...(["requested", "voted", "escalated", "approved", "denied", "expired", "cancelled"] as const),
  ...(["revoked", "claimed", "executed", "failed", "in_doubt"] as const),
].map((name) => `approval.${name}` as const);

const shortText = z.string().min(1).max(NAME_CHARACTERS_MAX);

const person = z.strictObject({
  issuer: shortText,
  subject: shortText,
  permissions: z
    .array(z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be a permission"))
    .max(PERMISSIONS_MAX)
    .default([]),
});

const decisions = z.strictObject({
  /**
   * File with the keys that verify incoming decisions: `whsec_…` or `whpk_…`, one per line, different from the keys that sign
   * notifications. A signature by any of them is accepted, so that keys can be rotated.
   */
  secretFile: text,
  /**
   * Operators by the integration's own user ids: an operators' issuer, a subject, and the permissions that approval policies may
   * require. A user who is not listed cannot decide through this webhook.
   */
  people: z
    .record(z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be 1 to 128 visible ASCII characters"), person)
    .refine((people) => Object.keys(people).length <= PEOPLE_MAX, `may name at most ${PEOPLE_MAX} people`),
});

const webhook = z
  .strictObject({
    /** Name of the webhook in metrics, in the journal and in `POST /webhooks/:name/decisions`. */
    name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "must consist of lowercase letters, digits and dashes"),
    /**
     * Address that notifications are sent to: https, or http on loopback. Redirects are not followed. Without an address, nothing
     * is sent.
     */
    url: z.string().min(1).max(URL_CHARACTERS_MAX).optional(),
    /** File that holds the address, instead of `url`, when the address itself is a secret. */
    urlFile: text.optional(),
    /**
     * File with the keys that sign notifications: `whsec_…` (HMAC-SHA256) or `whsk_…` (Ed25519), one per line. Every key signs
     * each notification, so that keys can be rotated.
     */
    secretFile: text.optional(),
    /** Events that are sent. */
    events: z.array(z.enum(EVENTS)).min(1).max(EVENTS.length).default(["approval.requested"]),
    /**
     * Content of a notification. `summary`: tool, risk, deadline and a link. `view`: also everything that approvers are shown,
     * including arguments, for channels that may receive it.
     */
    detail: z.enum(["summary", "view"]).default("summary"),
    decisions: decisions.optional(),
  })
  .superRefine(({ url, urlFile, secretFile, decisions: inbound }, context) => {
    const add = problemAdder(context);
    const sends = url !== undefined || urlFile !== undefined;
    if (url !== undefined && urlFile !== undefined)
      add("urlFile", "cannot be set together with url: there is one address");
    if (sends && secretFile === undefined) add("secretFile", "is missing: messages are signed");
    if (!sends && secretFile !== undefined) add("secretFile", "signs messages: set url or urlFile too");
    if (!sends && inbound === undefined) add("url", "is missing; it is where notifications go (or set decisions)");
  });

/** The key `approvals.webhooks`: integrations that are notified of approval requests and through which people may decide. */
const approvalWebhooks = z
  .array(webhook)
  .max(WEBHOOKS_MAX)
  .superRefine(uniqueNames("appears twice: each needs its own name"))
  .default([]);

/** The key `approvals.publicUrl`: the start of the links in notifications. */
const approvalsPublicUrl = z
  .url({ protocol: /^https?$/, error: "must be a URL such as https://stc.example" })
  .max(URL_CHARACTERS_MAX)
  .refine((text) => URL.canParse(text) && new URL(text).username === "" && !/[?#]/.test(text), {
    message: "must hold no credentials, query or fragment",
  })
  .transform((text) => text.replace(/\/$/, ""))
  .optional();

/** The key `approvals.pageUrl`: the page that MCP clients ask their users to open. */
const approvalsPageUrl = z
  .url({ protocol: /^https?$/, error: "must be a URL such as https://stc.example/approvals/{id}/page" })
  .max(URL_CHARACTERS_MAX)
  .refine((text) => !isUnprotected(text), "must be https, or http on loopback")
  .refine((text) => URL.canParse(text) && new URL(text).username === "", { message: "must hold no credentials" })
  .optional();

function isUnprotected(text: string): boolean {
  const { protocol, hostname } = URL.parse(text) ?? {};
  return protocol === "http:" && !isLoopback(hostname ?? "");
}

function inline(stores: Modules["approvalStores"]): Modules["approvalStores"] {
  return stores.filter(({ setting }) => setting === "store");
}

function wantedUrl(stores: Modules["approvalStores"]): string {
  const forms = inline(stores).map(({ form }) => form);
  const secret = stores.filter(({ setting }) => setting === "storeUrlFile").map(({ name }) => name);
  return `must be ${forms.join(", or ")} (the URL of a ${secret.join(" or ")} belongs in a file of its own: storeUrlFile)`;
}

/** The section `approvals`: how approval is requested, and how long a decision is valid. */
export const approvals = (stores: Modules["approvalStores"]) =>
  z
    .strictObject({
      /** Mode of sessions for which no operator has set another; `default` requests approval for every change. */
      mode: reloaded(z.enum(MODES).default("default")),
      /**
       * Store of approval requests, decisions and grants, such as `sqlite://./var/approvals.sqlite`. Without a store, nobody can be
       * asked for approval.
       */
      store: z
        .string()
        .refine((url) => inline(stores).some(({ accepts }) => accepts.test(url)), wantedUrl(stores))
        .optional(),
      /** File that holds a `postgres://` URL, including its password. Use it instead of `store` for several replicas. */
      storeUrlFile: z.string().min(1).optional(),
      /**
       * Name of the deployment. It is part of every plan's digest, so that an approval in one deployment is not valid in another.
       */
      deployment: z.string().min(1).max(128).default(DEPLOYMENT),
      /**
       * Private key (PEM, P-256 or Ed25519) that signs the receipts of decisions and nothing else. Without it, there are no
       * receipts.
       */
      receiptKeyFile: z.string().min(1).optional(),
      /**
       * Whether the same call again uses the approval that was given for it. `off`: only a call that names its approval
       * (`approval.id`) uses one.
       */
      attach: reloaded(z.enum(["on", "off"]).default("on")),
      /** Your own rules. They can only require approval of a call or forbid it. */
      rules: reloaded(z.array(z.unknown()).max(1_000).default([])),
      policies: reloaded(policies),
      webhooks: reloaded(
        approvalWebhooks,
        "recipients, who may decide, their addresses and keys, also in files; a message that is being sent is not changed",
      ),
      /**
       * URL under which people reach this service, such as https://stc.example; links in notifications start with it. Without it,
       * links are paths.
       */
      publicUrl: reloaded(approvalsPublicUrl),
      /**
       * URL of the page where approvers see a request, such as https://stc.example/approvals/{id}/page; the request's id replaces
       * `{id}`. MCP clients that can ask their user to open a page get it while a call waits. Opening it decides nothing.
       */
      pageUrl: approvalsPageUrl,
      /** Time from the approval request to its expiry. */
      decideBySeconds: count(600, DAY_SECONDS),
      /** Time from the approval within which the call must run. */
      executeBySeconds: count(300, DAY_SECONDS),
      /** Maximum time for a run that has consumed its approval; then it counts as in doubt. */
      claimLeaseSeconds: count(900, DAY_SECONDS),
      pendingPerCallerMax: count(20, 10_000),
      pendingPerSessionMax: count(10, 10_000),
      /** Time after a denial during which no approval is requested for the identical call. */
      coolDownSeconds: count(600, DAY_SECONDS),
      grantSeconds: count(28_800, 7 * DAY_SECONDS),
      sessionSeconds: count(28_800, 7 * DAY_SECONDS),
      sessionsPerCallerMax: count(100, 10_000),
      /** Maximum time for which an operator may set a mode. */
      modeSecondsMax: count(28_800, 7 * DAY_SECONDS),
      idempotencySeconds: count(86_400, 30 * DAY_SECONDS),
      retentionDays: count(30, 3_650),
      sweepEverySeconds: count(5, 3_600),
      /** Maximum time for the library's `onToolApprove` to decide. */
      callbackTimeoutMs: reloaded(count(300_000, 86_400_000)),
    })
    .refine(({ store, storeUrlFile }) => store === undefined || storeUrlFile === undefined, {
      path: ["storeUrlFile"],
      message: "cannot be set together with approvals.store: there is one store",
    })
    .superRefine(checkTimeLimits)
    .superRefine(checkEscalations)
    .prefault({});
