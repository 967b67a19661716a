import { z } from "zod";
import { ANSWER_CHARACTERS_MAX } from "../../approvals/answer.ts";
import { chosenTermsSchema } from "../../approvals/grants.ts";
import type { ReceiptedApprovals } from "../../approvals/receipts/receipts.ts";
import type { Approval, Decided } from "../../approvals/types.ts";
import { WAIT_SECONDS_MAX } from "../../core/call-fields.ts";
import { sha256Hex } from "../../core/digest.ts";
import { Refusal } from "../../core/errors.ts";
import { APPROVAL_DECISIONS, APPROVAL_SCOPES, APPROVAL_STATES, type CallerContext } from "../../core/types.ts";
import { VOUCHED_CHARACTERS_MAX, VOUCHED_VALUES_MAX, vouchableIn } from "../../core/vouching.ts";
import type { Registry } from "../../pipeline/registry.ts";
import { json } from "../answers.ts";
import {
  argumentsInList,
  decisionRefusal,
  endedRefusal,
  forApprover,
  forList,
  forRequester,
  headlineInList,
  identityOf,
  idParams,
  inStore,
  isOwnRequest,
  isSame,
  isWholeOwner,
  notFound,
  ownerIn,
  ownerMembers,
  REASON_CHARACTERS_MAX,
  VOUCH_PERMISSION,
  versionForRequester,
  WHOLE_OWNER,
  withReceipt,
} from "../approval-json.ts";
import { type AdmittedRequest, type Endpoint, type EndpointServices, endpointsWith } from "../endpoint.ts";
import { lacks, recordForgery, recordRefused } from "../guard.ts";
import { APPROVAL_ANSWER, APPROVAL_LIST } from "../openapi.ts";
import { type DataFlowPart, inFlowState } from "./data-flow.ts";

/** What these endpoints need of the service. */
export interface ApprovalsPart {
  readonly approvals: ReceiptedApprovals;
  readonly registry: Registry;
  readonly dataFlow: DataFlowPart["dataFlow"];
}

const { endpoint } = endpointsWith<ApprovalsPart>();

const PAGE_MAX = 200;
const PAGE_DEFAULT = 50;

/** Value of `state` for requests in every state. */
const EVERY_STATE = "all";

const listQuery = z
  .strictObject({
    ...ownerMembers,
    state: z.enum([...APPROVAL_STATES, EVERY_STATE]).default("pending"),
    limit: wholeNumber(1, PAGE_MAX).optional(),
    /** Cursor that an earlier page returned: an invalid one would look like the end of the list. */
    cursor: z
      .string()
      .regex(/^[0-9]{1,16}\.[A-Za-z0-9_-]{1,64}$/, "must be the cursor of an earlier page")
      .optional(),
    /** Asks for the headlines of requests created since this time: each is recorded as read. Undefined: no headlines. */
    headlinesFrom: z.iso.datetime({ error: "must be a time such as 2026-01-31T12:00:00.000Z" }).optional(),
  })
  .refine(isWholeOwner, WHOLE_OWNER);

const showQuery = z.strictObject({ wait: wholeNumber(0, WAIT_SECONDS_MAX).optional() });

const decisionBody = z.strictObject({
  decision: z.enum(APPROVAL_DECISIONS),
  scope: z.enum(APPROVAL_SCOPES).optional(),
  grant: chosenTermsSchema.optional(),
  reason: z.string().max(REASON_CHARACTERS_MAX).optional(),
  answer: z.string().max(ANSWER_CHARACTERS_MAX).optional(),
  /** Values of `view.vouchable`. */
  vouch: z.array(z.string().max(VOUCHED_CHARACTERS_MAX)).max(VOUCHED_VALUES_MAX).optional(),
  viewDigest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

const approvers = {
  audience: "operators",
  permission: "approvals:decide",
  recordsForgeries: true,
  onlyWith: "`approvals`",
} as const;

/** Agents see, await and cancel their own approval requests; operators read and decide them. */
export const endpoints: readonly Endpoint<ApprovalsPart>[] = [
  endpoint({
    method: "GET",
    path: "/approvals",
    summary: "Approval requests: the caller's own, or for operators who decide those of one caller or of all.",
    audience: "either",
    permission: approvers.permission,
    onlyWith: "`approvals`",
    query: listQuery,
    responses: { 200: { schema: APPROVAL_LIST } },
    audited: "approvals.listed",
    async handle({ tokenAudience, caller, query }, services) {
      const { limit = PAGE_DEFAULT, state, cursor, headlinesFrom, ...named } = query;
      const requester = tokenAudience === "agents" ? identityOf(caller) : ownerIn(named);
      const filter = { ...(state !== EVERY_STATE && { state }), ...(cursor !== undefined && { cursor }) };
      const page = await inStore(services, () => services.approvals.list({ ...filter, limit, requester }));
      const next = page.cursor !== undefined && { cursor: page.cursor };
      if (tokenAudience === "agents") return json(200, { approvals: page.approvals.map(forRequester), ...next });
      const from = headlinesFrom === undefined ? Number.POSITIVE_INFINITY : Date.parse(headlinesFrom);
      const ids: string[] = [];
      const rows = page.approvals.map((one) => {
        const headline = one.createdAt < from ? {} : headlineInList(one);
        if ("headline" in headline) ids.push(one.id);
        return { ...forList(one, caller), ...argumentsInList(one, services.registry), ...headline };
      });
      // One entry for all the headlines that this answer reveals.
      return json(200, { approvals: rows, ...next }, { ...(ids.length > 0 && { recorded: { ids } }) });
    },
  }),
  endpoint({
    method: "GET",
    path: "/approvals/:id",
    summary: "One approval request; `?wait=` waits until it is decided.",
    audience: "either",
    permission: approvers.permission,
    onlyWith: "`approvals`",
    params: idParams,
    notFound,
    query: showQuery,
    responses: { 200: { schema: APPROVAL_ANSWER } },
    audited: "approval.shown",
    async handle(request, services) {
      const { tokenAudience, caller, query, params } = request;
      const { wait = 0 } = query;
      const found = await find(services, request, params.id);
      const approval = wait > 0 ? await awaitAnswer(services, request, { found, wait }) : found;
      const version = tokenAudience === "agents" ? versionForRequester(approval) : approval.version;
      const { id, viewDigest } = approval;
      // Only the requester receives the receipt.
      const shown =
        tokenAudience === "agents"
          ? await withReceipt(forRequester(approval), approval, services.approvals)
          : { approval: forApprover(approval, caller, await earlierDecisions(services, approval)) };
      const answer = json(200, shown, { recorded: { id, viewDigest } });
      return { ...answer, headers: { ...answer.headers, etag: `"${version}"` } };
    },
  }),
  endpoint({
    ...approvers,
    method: "POST",
    path: "/approvals/:id/decisions",
    summary: "Approve or deny an approval request.",
    params: idParams,
    notFound,
    body: decisionBody,
    responses: { 200: { schema: APPROVAL_ANSWER } },
    audited: "change",
    async handle({ caller, params: { id }, body }, services) {
      const { vouch = [] } = body.decision === "approve" ? body : {};
      if (vouch.length > 0) await assertMayVouch(services, caller, id);
      const decided = await decide(services, caller, { id, ...body });
      if (decided.outcome !== "decided" && decided.outcome !== "counted") throw decisionRefusal(decided);
      const { approval } = decided;
      if (vouch.length > 0) await keepVouching(services, caller, { approval, vouch });
      return json(200, await withReceipt(forList(approval, caller), approval, services.approvals));
    },
  }),
  endpoint({
    ...approvers,
    method: "POST",
    path: "/approvals/:id/revoke",
    summary: "Revoke an approval that has not run.",
    params: idParams,
    notFound,
    responses: { 200: { schema: APPROVAL_ANSWER } },
    audited: "change",
    async handle(request, services) {
      const { approvals } = services;
      const { id } = await find(services, request, request.params.id);
      const revoked = await inStore(services, () => approvals.revoke(id, identityOf(request.caller)));
      if (revoked === undefined) throw endedRefusal(await inStore(services, () => approvals.get(id)));
      return json(200, { approval: forList(revoked, request.caller) });
    },
  }),
  endpoint({
    method: "DELETE",
    path: "/approvals/:id",
    summary: "Cancel one's own approval request.",
    audience: "agents",
    onlyWith: "`approvals`",
    params: idParams,
    notFound,
    responses: { 200: { schema: APPROVAL_ANSWER } },
    audited: "change",
    async handle(request, services) {
      const { approvals } = services;
      const { id } = await find(services, request, request.params.id);
      const cancelled = await inStore(services, () => approvals.cancel(id, identityOf(request.caller)));
      if (cancelled === undefined) throw endedRefusal(await inStore(services, () => approvals.get(id)));
      return json(200, { approval: forRequester(cancelled) });
    },
  }),
];

type DataFlowOf = Pick<ApprovalsPart, "dataFlow">;

type ApprovalServices = EndpointServices & Pick<ApprovalsPart, "approvals">;

export interface RequestedDecision extends z.output<typeof decisionBody> {
  readonly id: string;
}

/** Decides as the operator. Records an attempt to decide one's own request or one that is for other approvers. */
export async function decide(
  services: ApprovalServices,
  operator: CallerContext,
  requested: RequestedDecision,
): Promise<Decided> {
  const { id } = requested;
  const { approvals } = services;
  const found = await inStore(services, () => approvals.get(id));
  if (found === undefined) return { outcome: "not_pending", approval: undefined };
  const decided: Decided = isOwnRequest(found, operator)
    ? { outcome: "own_question" }
    : await inStore(services, () => {
        const { permissions, actors } = operator;
        return approvals.decide({ ...requested, by: identityOf(operator), permissions, actors });
      });
  const { outcome } = decided;
  if (outcome === "own_question") await recordForgery(services, operator, { reason: outcome, id });
  if (outcome === "not_eligible") await recordRefused(services, operator, { reason: outcome, id });
  return decided;
}

/** @throws {Refusal} PERMISSION_DENIED; MALFORMED_REQUEST while data flow is off */
async function assertMayVouch(services: ApprovalServices & DataFlowOf, operator: CallerContext, id: string) {
  if (!operator.permissions.includes(VOUCH_PERMISSION)) {
    await recordRefused(services, operator, { reason: "permission_missing", permission: VOUCH_PERMISSION, id });
    throw lacks(VOUCH_PERMISSION);
  }
  await inFlowState(services, async () => {});
}

interface Vouching {
  readonly approval: Approval;
  readonly vouch: readonly string[];
}

/**
 * Keeps what the approver vouches for, after the decision: without it, the next call asks again.
 * @throws {Refusal} POLICY_STATE_UNAVAILABLE
 */
async function keepVouching(
  services: ApprovalServices & DataFlowOf,
  operator: CallerContext,
  { approval, vouch }: Vouching,
): Promise<void> {
  const { id: approvalId, requester: caller, traceId } = approval;
  const values = vouchableIn(approval).filter(({ value }) => vouch.includes(value));
  await inFlowState(services, async (flow) => {
    await services.journal({
      type: "dataFlow.vouched",
      id: approvalId,
      issuer: caller.issuer,
      subject: caller.subject,
      ...(caller.session !== undefined && { session: caller.session }),
      values: values.map(({ argument, value, sources }) => ({
        argument,
        valueHash: sha256Hex(value),
        sources: sources.map(({ tool, traceId: call, field }) => ({ tool, traceId: call, field })),
      })),
      sub: operator.subject,
      iss: operator.issuer,
    });
    await flow.vouchExactly({ caller, approvalId, traceId, values });
  });
}

function earlierDecisions(services: ApprovalServices, of: Approval) {
  return inStore(services, () => services.approvals.earlierDecisions(of));
}

/** Rejects with APPROVAL_NOT_FOUND when it is unknown or belongs to another caller. */
async function find(
  services: ApprovalServices,
  { tokenAudience, caller }: Pick<AdmittedRequest<"either">, "tokenAudience" | "caller">,
  id: string,
): Promise<Approval> {
  const approval = await inStore(services, () => services.approvals.get(id));
  if (approval === undefined) throw notFound();
  if (tokenAudience === "agents" && !isSame(caller, approval.requester)) throw notFound();
  return approval;
}

interface Wait {
  readonly found: Approval;
  /** Seconds. */
  readonly wait: number;
}

/** Waits for the decision, but only while the caller's token is valid, the client is connected and the service is open. */
async function awaitAnswer(
  services: ApprovalServices,
  request: AdmittedRequest<"either">,
  { found, wait }: Wait,
): Promise<Approval> {
  if (found.state !== "pending") return found;
  const leaving = new AbortController();
  const stop = request.untilEnd(() => leaving.abort());
  try {
    const timeoutMs = Math.min(wait * 1000, request.tokenLeftMs());
    const { signal } = leaving;
    const approval = await inStore(services, () => services.approvals.wait(found.id, { timeoutMs, signal }));
    if (request.isDisconnected()) throw new Refusal("CANCELLED", "The client disconnected.");
    await request.verifyAgain();
    return approval ?? found;
  } finally {
    stop();
  }
}

/** Parses a whole number from a query parameter, which is always text. */
function wholeNumber(min: number, max: number): z.ZodType<number> {
  return z
    .string()
    .regex(/^\d{1,4}$/, "must be a whole number")
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

/** @throws {Refusal} MALFORMED_REQUEST */
