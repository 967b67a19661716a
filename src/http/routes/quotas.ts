import { z } from "zod";
import { quotaListing } from "../../core/api/quotas.ts";
import type { Quotas } from "../../quotas/quotas.ts";
import { deniedAnswer, json } from "../answers.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";
import { record } from "../guard.ts";
import { inState } from "../in-state.ts";

/** What these endpoints need of the service. */
export interface QuotasPart {
  /** Returns the quotas in use; undefined while the configuration has none. */
  readonly quotas: () => Quotas | undefined;
}

const { endpoint } = endpointsWith<QuotasPart>();

const UNANSWERED = "The use of quotas is not available at the moment: check the state, then repeat.";
const PAGE_MAX = 500;
const PAGE_DEFAULT = 100;
const NAME_LENGTH_MAX = 2_048;

const quotaName = z.string().regex(/^[A-Za-z][A-Za-z0-9._-]{0,63}$/, "must be a quota's name");
const name = z.string().min(1).max(NAME_LENGTH_MAX).optional();

/** Whose use: each value that is given must be equal. */
const user = { issuer: name, subject: name, tool: name, system: name } as const;

const isWholeCaller = ({ issuer, subject }: { issuer?: string | undefined; subject?: string | undefined }): boolean =>
  (issuer === undefined) === (subject === undefined);
const wholeCaller = { message: "issuer and subject belong together: they name a caller" } as const;

const listQuery = z
  .strictObject({
    quota: quotaName.optional(),
    ...user,
    limit: z
      .string()
      .regex(/^\d{1,3}$/, "must be a whole number")
      .transform(Number)
      .pipe(z.int().min(1).max(PAGE_MAX))
      .optional(),
    /** Cursor that an earlier page returned. */
    cursor: z
      .string()
      .regex(/^\d{1,16}\.[A-Za-z0-9_-]{43}\.[A-Za-z][A-Za-z0-9._-]{0,63}$/, "must be the cursor of an earlier page")
      .optional(),
  })
  .refine(isWholeCaller, wholeCaller);

const operators = { audience: "operators", recordsForgeries: true } as const;

/** Quotas and their use, for operators. */
export const endpoints: readonly Endpoint<QuotasPart>[] = [
  endpoint({
    ...operators,
    method: "GET",
    path: "/quotas",
    summary: "Quotas, and who has used how much of them in the current windows.",
    permission: "quotas:read",
    query: listQuery,
    responses: { 200: { schema: quotaListing } },
    audited: "quotas.listed",
    async handle({ query: { limit = PAGE_DEFAULT, cursor, ...filter } }, services) {
      const quotas = services.quotas();
      if (quotas === undefined) return json(200, { quotas: [], use: [] });
      const page = await inState(services, UNANSWERED, () => quotas.list({ filter, limit, after: positionIn(cursor) }));
      return json(200, {
        quotas: quotas.rules,
        use: page.uses.map(({ issuer, subject, tool, system, ...row }) => ({
          ...row,
          ...present({ issuer, subject, tool, system }),
        })),
        ...(page.next !== undefined && { cursor: `${page.next.used}.${page.next.id}.${page.next.quota}` }),
      });
    },
  }),
  endpoint({
    ...operators,
    method: "POST",
    path: "/quotas/reset",
    summary: "Set the use of a quota in its current windows to zero: of one caller, tool or system, or all.",
    permission: "quotas:write",
    body: z.strictObject({ quota: quotaName, ...user }).refine(isWholeCaller, wholeCaller),
    responses: { 200: { schema: z.object({ quota: z.string(), reset: z.int().describe("Number of uses.") }) } },
    errors: { 404: "QUOTA_NOT_FOUND" },
    audited: "change",
    async handle({ caller, body: { quota, ...whose } }, services) {
      const quotas = services.quotas();
      if (quotas === undefined || !isInForce(quotas, quota)) {
        return deniedAnswer(404, "QUOTA_NOT_FOUND", "There is no quota of this name: stc quotas list shows them.");
      }
      await record(services, { type: "quota.reset", quota, ...whose, sub: caller.subject, iss: caller.issuer });
      const reset = await inState(services, UNANSWERED, () => quotas.reset({ quota, ...whose }));
      return json(200, { quota, reset });
    },
  }),
];

function isInForce({ rules }: Quotas, name: string): boolean {
  return rules.some((rule) => rule.name === name);
}

function positionIn(cursor: string | undefined) {
  const [, used = "", id = "", quota = ""] = /^(\d+)\.([^.]+)\.(.+)$/.exec(cursor ?? "") ?? [];
  return cursor === undefined ? undefined : { used: Number(used), id, quota };
}

/** Leaves out the values that the quota does not distinguish. */
function present(members: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== ""));
}
