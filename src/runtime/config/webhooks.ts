import { z } from "zod";

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
export const approvalWebhooks = z
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
export const approvalsPublicUrl = z
  .url({ protocol: /^https?$/, error: "must be a URL such as https://stc.example" })
  .max(URL_CHARACTERS_MAX)
  .refine((text) => URL.canParse(text) && new URL(text).username === "" && !/[?#]/.test(text), {
    message: "must hold no credentials, query or fragment",
  })
  .transform((text) => text.replace(/\/$/, ""))
  .optional();
