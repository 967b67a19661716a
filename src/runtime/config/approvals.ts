import { z } from "zod";

const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

const DAY_SECONDS = 86_400;

const NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/;
const POLICIES_MAX = 100;
const LISTED_MAX = 100;
const SUBJECTS_MAX = 50;
const POLICY_PERMISSIONS_MAX = 16;
const STAGES_MAX = 8;
const APPROVERS_MAX = 20;
/** Of all policies as JSON, in characters: a question keeps what it was asked under. */
const CHARACTERS_MAX = 131_072;

const spoken = z.string().regex(NAME, "must be a name of letters, digits, dot, dash, underscore");
const permission = z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be a permission's name: visible ASCII, at most 128");
const listed = <T extends z.ZodType>(of: T) => z.array(of).min(1).max(LISTED_MAX);
const people = z.int().min(1).max(APPROVERS_MAX);
const seconds = z.int().min(1).max(DAY_SECONDS);

const subject = z.strictObject({
  /** The `iss` of their tokens, letter by letter. */
  issuer: z.string().min(1).max(2_048),
  /** And the `sub`. */
  subject: z.string().min(1).max(256),
});

const deciders = z.strictObject({
  /** That their token must hold, all of them; beside `approvals:decide`. */
  permissions: z.array(permission).max(POLICY_PERMISSIONS_MAX).optional(),
  /** People by name; without it, whoever holds the permissions. */
  subjects: z.array(subject).min(1).max(SUBJECTS_MAX).optional(),
});

const stage = z.strictObject({
  /** What people and the journal call it. */
  name: spoken,
  deciders: deciders.prefault({}),
  /** How many of them must say yes. */
  count: people.default(1),
});

const when = z
  .strictObject({
    /** Names of tools; `*` stands for any letters. */
    tools: listed(z.string().regex(/^[a-z0-9_*]{1,64}$/, "must be a tool's name; * stands for any letters")).optional(),
    /** What kind of act the tool is. */
    categories: listed(z.enum(["read", "write", "command", "network", "ask"])).optional(),
    /** What the tool reaches, as its manifest names it. */
    systems: listed(z.string().min(1).max(128)).optional(),
    /** At least this risk. */
    risk: z.enum(["low", "medium", "high", "critical"]).optional(),
    /** That the tool requires of its callers, for some arguments or all. */
    permissions: listed(permission).optional(),
    /** How much the tool can change. */
    classifications: listed(z.enum(["read", "write", "destructive"])).optional(),
  })
  .refine((conditions) => Object.values(conditions).some((condition) => condition !== undefined), {
    message: 'must name at least one condition; tools: ["*"] means every tool',
  });

const required = z
  .strictObject({
    deciders: deciders.optional(),
    /** How many of them must say yes; 1 when it is left out. */
    count: people.optional(),
    /** In place of the two: one after another, all of them. */
    stages: z.array(stage).min(1).max(STAGES_MAX).optional(),
  })
  .superRefine(({ deciders: who, count, stages }, context) => {
    const add = (path: readonly PropertyKey[], message: string) =>
      context.addIssue({ code: "custom", path: [...path], message });
    if (stages === undefined && who === undefined && count === undefined) {
      add([], "must say who decides: deciders, count, or both; or stages");
    }
    if (stages === undefined) return;
    if (who !== undefined) add(["deciders"], "cannot stand beside stages: each stage has its own");
    if (count !== undefined) add(["count"], "cannot stand beside stages: each stage has its own");
    for (const [index, { name: own }] of stages.entries()) {
      if (stages.findIndex((other) => other.name === own) < index)
        add(["stages", index, "name"], "is taken by an earlier stage");
    }
  });

const policy = z
  .strictObject({
    /** What people and the journal call it. */
    name: spoken,
    /** Which questions it is about. Everything that is named must hold, and of a list one member. */
    when,
    /** Whose yes is needed: so many (`count`) of those (`deciders`), or several `stages` of that, one after another. */
    require: required,
    /** Whether one person counts in one stage alone. */
    distinctPeople: z.boolean().default(true),
    /** When whoever decides must say why. */
    reasonRequired: z.enum(["never", "deny", "always"]).default("never"),
    /** What a yes may cover, of what the tool offers. */
    scopes: z
      .array(z.enum(["once", "session"]))
      .default(["once", "session"])
      .refine((scopes) => scopes.includes("once"), "must hold once: every question can be answered so"),
    /** In place of `approvals.decideBySeconds`, and never longer. */
    decideBySeconds: seconds.optional(),
    /** In place of `approvals.executeBySeconds`, and never longer. */
    executeBySeconds: seconds.optional(),
    /** Whether the library's `onToolApprove` may answer: it is one decider, who holds no permission. */
    callback: z.boolean().default(false),
  })
  .superRefine(({ callback, require: { deciders: who, count = 1, stages } }, context) => {
    const asksForMore = stages !== undefined || count > 1 || (who?.permissions?.length ?? 0) > 0 || who?.subjects;
    if (callback && asksForMore) {
      context.addIssue({
        code: "custom",
        path: ["callback"],
        message: "cannot be true where more than one decider, stages, permissions or subjects are wanted",
      });
    }
  });

/** Who decides which questions. */
const policies = z
  .array(policy)
  .max(POLICIES_MAX)
  .default([])
  .superRefine((written, context) => {
    for (const [index, { name: own }] of written.entries()) {
      if (written.findIndex((other) => other.name === own) < index)
        context.addIssue({ code: "custom", path: [index, "name"], message: "is taken by an earlier policy" });
    }
    if (JSON.stringify(written).length > CHARACTERS_MAX) {
      context.addIssue({ code: "custom", path: [], message: `has more than ${CHARACTERS_MAX} characters in all` });
    }
  });

interface Clocks {
  readonly decideBySeconds: number;
  readonly executeBySeconds: number;
  readonly policies: z.output<typeof policies>;
}

/** A policy makes a clock shorter, never longer: what the store keeps, and how long a plan may wait, is bounded in one place. */
function longerClocks({ policies: written, ...clocks }: Clocks) {
  return written.flatMap((one, index) =>
    (["decideBySeconds", "executeBySeconds"] as const)
      .filter((key) => (one[key] ?? 0) > clocks[key])
      .map((key) => ({
        path: ["policies", index, key],
        message: `must not be longer than approvals.${key}, which is ${clocks[key]}`,
      })),
  );
}

const WEBHOOKS_MAX = 16;
const PEOPLE_MAX = 1_000;
const PERMISSIONS_MAX = 64;
const NAME_CHARACTERS_MAX = 256;
const URL_CHARACTERS_MAX = 2_048;

const EVENTS = [
  ...(["requested", "voted", "approved", "denied", "expired", "cancelled"] as const),
  ...(["revoked", "claimed", "executed", "failed", "in_doubt"] as const),
].map((name) => `approval.${name}` as const);

const file = z.string().min(1);
const short = z.string().min(1).max(NAME_CHARACTERS_MAX);

const person = z.strictObject({
  issuer: short,
  subject: short,
  permissions: z
    .array(z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be a permission"))
    .max(PERMISSIONS_MAX)
    .default([]),
});

const decisions = z.strictObject({
  /** Keys of its own that verify what comes in: `whsec_…` or `whpk_…`, one a line. Any of them will do, so that they can be changed. */
  secretFile: file,
  /** Whom the integration's own user ids stand for: an operators' issuer and a subject, and the permissions that approval policies may ask for. Whoever is not here decides nothing through it. */
  people: z
    .record(z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be 1 to 128 visible ASCII characters"), person)
    .refine((people) => Object.keys(people).length <= PEOPLE_MAX, `may name at most ${PEOPLE_MAX} people`),
});

const webhook = z
  .strictObject({
    /** Stands in metrics, in the journal and in `POST /webhooks/:name/decisions`. */
    name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "must be of small letters, digits and dashes"),
    /** Where notifications go: https, or http on loopback. Redirects are not followed. Without it nothing is sent. */
    url: z.string().min(1).max(URL_CHARACTERS_MAX).optional(),
    /** Instead of `url`, when it is a secret itself: a file that holds it. */
    urlFile: file.optional(),
    /** Keys that sign what goes out: `whsec_…` (HMAC-SHA256) or `whsk_…` (Ed25519), one a line. All sign, so that they can be changed. */
    secretFile: file.optional(),
    /** What is told. */
    events: z.array(z.enum(EVENTS)).min(1).max(EVENTS.length).default(["approval.requested"]),
    /** `summary`: which tool, how risky, until when, and a link. `view`: also what deciders are shown, arguments among it, for channels that may know. */
    detail: z.enum(["summary", "view"]).default("summary"),
    decisions: decisions.optional(),
  })
  .superRefine(({ url, urlFile, secretFile, decisions: inbound }, context) => {
    const fault = (path: string, message: string): void => {
      context.addIssue({ code: "custom", path: [path], message });
    };
    const sends = url !== undefined || urlFile !== undefined;
    if (url !== undefined && urlFile !== undefined)
      fault("urlFile", "cannot be set together with url: there is one address");
    if (sends && secretFile === undefined) fault("secretFile", "is missing: what is sent is signed");
    if (!sends && secretFile !== undefined) fault("secretFile", "signs what is sent: set url or urlFile, too");
    if (!sends && inbound === undefined) fault("url", "is missing; it is where notifications go (or set decisions)");
  });

/** `approvals.webhooks`: who is told of questions, and through whom people may answer. */
const approvalWebhooks = z
  .array(webhook)
  .max(WEBHOOKS_MAX)
  .superRefine((webhooks, context) => {
    for (const [index, { name }] of webhooks.entries()) {
      if (webhooks.findIndex((other) => other.name === name) === index) continue;
      context.addIssue({
        code: "custom",
        path: [index, "name"],
        message: "stands twice: each needs a name of its own",
      });
    }
  })
  .default([]);

/** `approvals.publicUrl`: what links begin with. */
const approvalsPublicUrl = z
  .url({ protocol: /^https?$/, error: "must be a URL such as https://stc.example" })
  .max(URL_CHARACTERS_MAX)
  .refine((text) => URL.canParse(text) && new URL(text).username === "" && !/[?#]/.test(text), {
    message: "must hold no credentials, query or fragment",
  })
  .transform((text) => text.replace(/\/$/, ""))
  .optional();

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
