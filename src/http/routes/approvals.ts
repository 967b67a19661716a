import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { ANSWER_CHARACTERS_MAX } from "../../approvals/answer.ts";
import type { ReceiptedApprovals } from "../../approvals/receipts/receipts.ts";
import type { Approval, Decided } from "../../approvals/types.ts";
import { APPROVAL_STATES } from "../../core/approval-states.ts";
import { Refusal } from "../../core/errors.ts";
import type { Caller, Json } from "../../core/types.ts";
import {
  decisionRefusal,
  endedRefusal,
  forDecider,
  forList,
  forRequester,
  identityOf,
  isOwnQuestion,
  isSame,
  notFound,
  versionForRequester,
  withReceipt,
} from "../approval-json.ts";
import { sendJson } from "../error-reply.ts";
import type { OperatorGuard, OperatorRequest } from "../operator-guard.ts";
import { idOf } from "../path-ids.ts";

export interface ApprovalRoutesOptions {
  readonly approvals: ReceiptedApprovals;
  readonly door: OperatorGuard;
}

const PAGE_MAX = 200;
const PAGE_DEFAULT = 50;
/** Less than a minute, after which clients and proxies time out. */
const WAIT_SECONDS_MAX = 55;
const REASON_CHARACTERS_MAX = 500;

export const listQuery = z.strictObject({
  state: z.enum(APPROVAL_STATES).optional(),
  limit: wholeNumber(1, PAGE_MAX).optional(),
  /** Cursor that an earlier page returned: an invalid one would look like the end of the list. */
  cursor: z
    .string()
    .regex(/^[0-9]{1,16}\.[A-Za-z0-9_-]{1,64}$/, "must be the cursor of a page before")
    .optional(),
});

export const showQuery = z.strictObject({ wait: wholeNumber(0, WAIT_SECONDS_MAX).optional() });

export const decisionBody = z.strictObject({
  decision: z.enum(["approve", "deny"]),
  scope: z.enum(["once", "session"]).optional(),
  reason: z.string().max(REASON_CHARACTERS_MAX).optional(),
  answer: z.string().max(ANSWER_CHARACTERS_MAX).optional(),
  viewDigest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

const noBody = z.strictObject({});

/** Declares the approval routes: agents see, await and cancel their own approval requests; operators read and decide them. */
export function approvalRoutes(app: FastifyInstance, options: ApprovalRoutesOptions): void {
  const { approvals, door } = options;

  app.get("/approvals", (request, reply) =>
    door.either(request, "approvals:decide", (visitor) => list(options, visitor, { request, reply })),
  );

  app.get("/approvals/:id", (request, reply) =>
    door.either(request, "approvals:decide", async (visitor) => {
      const { wait = 0 } = door.query(request, showQuery);
      const found = await find(options, visitor, idOf(request));
      const approval = wait > 0 ? await awaitAnswer(options, visitor, { request, reply, found, wait }) : found;
      const version = visitor.side === "agents" ? versionForRequester(approval) : approval.version;
      reply.header("etag", `"${version}"`);
      return sendJson(reply, 200, await shown(options, visitor, approval));
    }),
  );

  app.post("/approvals/:id/decisions", async (request, reply) => {
    const body = await door.body(request, reply, decisionBody);
    return door.operator(request, "approvals:decide", async (operator) => {
      const decided = await decide(options, operator, { id: idOf(request), ...body });
      if (decided.outcome !== "decided" && decided.outcome !== "counted") throw decisionRefusal(decided);
      const { approval } = decided;
      return sendJson(reply, 200, await withReceipt(forList(approval, operator), approval, approvals));
    });
  });

  app.post("/approvals/:id/revoke", async (request, reply) => {
    await door.body(request, reply, noBody);
    return door.operator(request, "approvals:decide", async (operator) => {
      const { id } = await find(options, { side: "operators", caller: operator }, idOf(request));
      const revoked = await door.store(() => approvals.revoke(id, identityOf(operator)));
      if (revoked === undefined) throw endedRefusal(await door.store(() => approvals.get(id)));
      return sendJson(reply, 200, { approval: forList(revoked, operator) });
    });
  });

  app.delete("/approvals/:id", async (request, reply) => {
    await door.body(request, reply, noBody);
    return door.agent(request, async (caller) => {
      const { id } = await find(options, { side: "agents", caller }, idOf(request));
      const cancelled = await door.store(() => approvals.cancel(id, identityOf(caller)));
      if (cancelled === undefined) throw endedRefusal(await door.store(() => approvals.get(id)));
      return sendJson(reply, 200, { approval: forRequester(cancelled) });
    });
  });
}

/** A decision as requested, through whichever route. */
export interface AskedDecision extends z.output<typeof decisionBody> {
  /** Undefined when the id in the request cannot be valid. */
  readonly id: string | undefined;
}

/** Decides as the operator. Records an attempt to decide one's own request or one that is for other approvers. */
export async function decide(
  { approvals, door }: ApprovalRoutesOptions,
  operator: Caller,
  asked: AskedDecision,
): Promise<Decided> {
  const { id } = asked;
  const found = id === undefined ? undefined : await door.store(() => approvals.get(id));
  if (found === undefined || id === undefined) return { outcome: "not_pending", approval: undefined };
  const decided: Decided = isOwnQuestion(found, operator)
    ? { outcome: "own_question" }
    : await door.store(() => {
        const { permissions, actors } = operator;
        return approvals.decide({ ...asked, id, by: identityOf(operator), permissions, actors });
      });
  const { outcome } = decided;
  if (outcome === "own_question") await door.forged(operator, outcome, id);
  if (outcome === "not_eligible") await door.refused(operator, { reason: outcome, id });
  return decided;
}

interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

async function list(
  { approvals, door }: ApprovalRoutesOptions,
  { side, caller }: OperatorRequest,
  { request, reply }: Exchange,
): Promise<FastifyReply> {
  const { limit = PAGE_DEFAULT, ...filter } = door.query(request, listQuery);
  const requester = side === "agents" ? identityOf(caller) : undefined;
  const page = await door.store(() => approvals.list({ ...filter, limit, requester }));
  if (side === "operators") {
    await door.record({ type: "approvals.listed", sub: caller.subject, iss: caller.issuer });
  }
  return sendJson(reply, 200, {
    approvals: page.approvals.map((one) => (side === "agents" ? forRequester(one) : forList(one, caller))),
    ...(page.cursor !== undefined && { cursor: page.cursor }),
  });
}

/** @throws {Refusal} APPROVAL_NOT_FOUND when it is unknown or belongs to another caller */
async function find(
  { approvals, door }: ApprovalRoutesOptions,
  { side, caller }: OperatorRequest,
  id: string | undefined,
): Promise<Approval> {
  const approval = id === undefined ? undefined : await door.store(() => approvals.get(id));
  if (approval === undefined) throw notFound();
  if (side === "agents" && !isSame(caller, approval.requester)) throw notFound();
  return approval;
}

interface Waiting extends Exchange {
  readonly found: Approval;
  /** Seconds. */
  readonly wait: number;
}

/** Waits for the decision, but only while the caller's token is valid, the client is connected and the service is open. */
async function awaitAnswer(
  { approvals, door }: ApprovalRoutesOptions,
  { side, caller }: OperatorRequest,
  { request, reply, found, wait }: Waiting,
): Promise<Approval> {
  if (found.state !== "pending") return found;
  const leaving = new AbortController();
  const stop = door.untilEnd(reply, () => leaving.abort());
  try {
    const timeoutMs = Math.min(wait * 1000, door.tokenLeftMs(caller));
    const { signal } = leaving;
    const approval = await door.store(() => approvals.wait(found.id, { timeoutMs, signal }));
    if (reply.raw.destroyed) throw new Refusal("CANCELLED", "The client went away.");
    await door.verifyAgain(request, side);
    return approval ?? found;
  } finally {
    stop();
  }
}

/** Returns the approval. A view that is shown to an operator is journaled first. Only the requester receives the receipt. */
async function shown(
  { approvals, door }: ApprovalRoutesOptions,
  { side, caller }: OperatorRequest,
  approval: Approval,
): Promise<Json> {
  if (side === "agents") return withReceipt(forRequester(approval), approval, approvals);
  const { id, viewDigest } = approval;
  await door.record({ type: "approval.shown", id, viewDigest, sub: caller.subject, iss: caller.issuer });
  return { approval: forDecider(approval, caller) };
}

/** Parses a whole number from a query parameter, which is always text. */
function wholeNumber(min: number, max: number): z.ZodType<number> {
  return z
    .string()
    .regex(/^\d{1,4}$/, "must be a whole number")
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}
