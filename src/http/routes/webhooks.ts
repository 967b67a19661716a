import { z } from "zod";
import { ANSWER_CHARACTERS_MAX } from "../../approvals/answer.ts";
import type { Inbox } from "../../approvals/notify/inbox.ts";
import { type Unverified, verifyMessage } from "../../approvals/notify/signature.ts";
import type { Integration, NotifiedApprovals, Person } from "../../approvals/notify/webhooks.ts";
import type { Approval, Approvals, Decided } from "../../approvals/types.ts";
import { UnauthenticatedLimit } from "../../audit/unauthenticated.ts";
import { Refusal } from "../../core/errors.ts";
import { APPROVAL_DECISIONS } from "../../core/types.ts";
import { json } from "../answers.ts";
import { decisionRefusal, inStore, isId, notFound, REASON_CHARACTERS_MAX } from "../approval-json.ts";
import { type Endpoint, type EndpointServices, type Exchange, endpointsWith, perListener } from "../endpoint.ts";
import { readBytes, record } from "../guard.ts";
import { parseBody } from "../request-guard.ts";

/** What these endpoints need of the service. */
export interface WebhooksPart {
  readonly approvals: Approvals;
  readonly webhooks: NonNullable<NotifiedApprovals["webhooks"]>;
  readonly inbox: Inbox;
}

const { selfGuarded } = endpointsWith<WebhooksPart>();

/** Decisions that come back signed from another program. */

type WebhookServices = EndpointServices & WebhooksPart;

const MINUTE_MS = 60_000;
const MESSAGES_PER_MINUTE_MAX = 300;
const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
const DIGEST = /^[0-9a-f]{64}$/;

const decisionMessage = z.strictObject({
  approvalId: z.string().refine(isId, "must be the id of an approval"),
  planDigest: z.string().regex(DIGEST),
  viewDigest: z.string().regex(DIGEST).optional(),
  decision: z.enum(APPROVAL_DECISIONS),
  scope: z.enum(["once", "session"]).optional(),
  reason: z.string().max(REASON_CHARACTERS_MAX).optional(),
  /** Answer to an approval request that asks for one; only with an approval. */
  answer: z.string().max(ANSWER_CHARACTERS_MAX).optional(),
  /** The integration's own name for the person; the configuration maps it to an operator. */
  decidedBy: z.strictObject({ user: z.string().regex(/^[\x21-\x7e]{1,128}$/) }),
});

type Message = z.output<typeof decisionMessage>;

/**
 * Accepts decisions that people made in another program, which signs the message. The configuration's table, not the message, says
 * who these people are; a digest identifies what they saw; each message counts once. An approver's own token is not accepted here:
 * with a token, use `POST /approvals/:id/decisions`.
 */
const decisions = selfGuarded({
  method: "POST",
  path: "/webhooks/:name/decisions",
  summary: "Decide by a signed message of a webhook's integration.",
  audience: "signers",
  onlyWith: "`approvals.webhooks`",
  params: z.object({ name: z.string() }),
  headers: z.object({ "webhook-id": z.string(), "webhook-timestamp": z.string(), "webhook-signature": z.string() }),
  bytes: decisionMessage,
  audited: "change",
  async receive(exchange, services) {
    const { name: requestedName = "" } = exchange.params;
    const integration = NAME.test(requestedName) ? services.webhooks.integrations.get(requestedName) : undefined;
    const name = integration === undefined ? undefined : requestedName;
    const { refusals, rate } = stateOf(services);
    try {
      const received = await readDecision({ integration, name, exchange, services }, rate);
      const { id, state, scope } = await relay(services, received);
      return json(200, { approval: { id, state, ...(scope !== undefined && { scope }) } });
    } catch (error) {
      const { reason, refusal } =
        error instanceof RejectedMessage ? error : { reason: "refused" as const, refusal: error };
      await refusals.note({ reason, refusal }, { name, source: exchange.source });
      throw refusal;
    }
  },
});

const stateOf = perListener((services) => {
  const refusals = new RefusedMessages(services);
  services.onClose(() => refusals.sumUp(Number.POSITIVE_INFINITY).catch(() => {}));
  return { refusals, rate: new MessageRate() };
});

interface SentMessage {
  readonly integration: Integration | undefined;
  readonly name: string | undefined;
  readonly exchange: Exchange;
  readonly services: WebhookServices;
}

/** A message that an integration signed, from a person for whom it may act. */
interface Received {
  readonly webhook: string;
  readonly messageId: string;
  readonly message: Message;
  readonly person: Person;
}

/** Checks size, signature, time, form and person, in this order, so that unauthenticated clients learn nothing. */
async function readDecision(
  { integration, name, exchange, services }: SentMessage,
  rate: MessageRate,
): Promise<Received> {
  const body = (await readBytes(exchange, services)) ?? new Uint8Array();
  const { headers } = exchange.raw;
  const sent = { id: headers["webhook-id"], timestamp: headers["webhook-timestamp"], body };
  const nowMs = services.clock();
  const keys = integration?.keys ?? [];
  const verified = verifyMessage({ ...sent, signature: headers["webhook-signature"] }, { keys, nowMs });
  if ("problem" in verified || integration === undefined || name === undefined) {
    throw new RejectedMessage(
      "problem" in verified ? verified.problem : "signature",
      new Refusal("UNAUTHENTICATED", "The message is not signed by a key of this webhook, within five minutes of now."),
    );
  }
  if (!rate.allows(name, nowMs)) {
    const options = { details: { limit: "webhook" }, retryAfterMs: MINUTE_MS };
    throw new RejectedMessage("flood", new Refusal("RATE_LIMITED", "This webhook sends too many messages.", options));
  }
  const parsed = decisionMessage.safeParse(parsedBody(services, body));
  if (!parsed.success) {
    const fields = "approvalId, planDigest, viewDigest?, decision, scope?, reason?, answer?, decidedBy: {user}";
    throw new RejectedMessage("unreadable", new Refusal("MALFORMED_REQUEST", `The body must be {${fields}}.`));
  }
  const person = integration.people.get(parsed.data.decidedBy.user);
  if (person === undefined) {
    const message = "This webhook has no approver with that name.";
    throw new RejectedMessage("unknown_user", new Refusal("PERMISSION_DENIED", message));
  }
  assertMayDecide(person, services);
  return { webhook: name, messageId: verified.id, message: parsed.data, person };
}

function assertMayDecide(person: Person, { callers }: WebhookServices): void {
  try {
    callers.assertOperator(person);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const message = "This person is no longer an operator.";
    throw new RejectedMessage("revoked_user", new Refusal("PERMISSION_DENIED", message, { cause: error }));
  }
}

function parsedBody(services: WebhookServices, body: Uint8Array): unknown {
  try {
    return parseBody(body, services);
  } catch (error) {
    throw error instanceof Refusal ? new RejectedMessage("unreadable", error) : error;
  }
}

async function relay(services: WebhookServices, received: Received): Promise<Approval> {
  const { webhook, messageId, message, person } = received;
  const { approvalId: id, planDigest, viewDigest, decidedBy, ...choices } = message;
  const { approvals } = services;
  const found = await inStore(services, () => approvals.get(id));
  if (found?.planDigest !== planDigest) throw await consumed(services, received, found);
  const { issuer, subject, permissions } = person;
  const decided: Decided = await inStore(services, () =>
    approvals.decide({
      ...choices,
      id,
      by: { issuer, subject },
      permissions,
      viewDigest: viewDigest ?? found.viewDigest,
      relay: { webhook, messageId, user: decidedBy.user },
    }),
  );
  if (decided.outcome === "decided" || decided.outcome === "counted") return decided.approval;
  const refusal = decisionRefusal(decided);
  const { outcome } = decided;
  throw outcome === "own_question" || outcome === "replayed" ? new RejectedMessage(outcome, refusal) : refusal;
}

/** Uses up a message that names an unknown approval or another plan, and returns the reason. */
async function consumed(
  services: WebhookServices,
  { webhook, messageId }: Received,
  found: unknown,
): Promise<RejectedMessage> {
  if (!(await inStore(services, () => services.inbox.receive(webhook, messageId)))) {
    return new RejectedMessage("replayed", decisionRefusal({ outcome: "replayed" }));
  }
  if (found === undefined) return new RejectedMessage("unknown_approval", notFound());
  const message = "The decision is for another plan than the one in the approval request.";
  return new RejectedMessage("other_plan", new Refusal("APPROVAL_MISMATCH", message));
}

/** Counts each integration's messages within the current minute. */
class MessageRate {
  #minute = 0;
  readonly #passed = new Map<string, number>();

  allows(name: string, nowMs: number): boolean {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute !== this.#minute) this.#passed.clear();
    this.#minute = minute;
    const passed = (this.#passed.get(name) ?? 0) + 1;
    this.#passed.set(name, passed);
    return passed <= MESSAGES_PER_MINUTE_MAX;
  }
}

/** Refused messages per source and minute that are recorded individually; the others are summed up. */
const LINES_PER_MINUTE_MAX = 10;

type Reason =
  | Unverified
  | "unreadable"
  | "flood"
  | "replayed"
  | "unknown_user"
  | "revoked_user"
  | "unknown_approval"
  | "other_plan";

/** Reasons that indicate an attempt to decide without authority; all others may happen to an honest integration. */
const FORGED: ReadonlySet<string> = new Set<Reason | "own_question">([
  "unsigned",
  "late",
  "signature",
  "replayed",
  "unknown_user",
  "revoked_user",
  "other_plan",
  "own_question",
] as const);

interface Refused {
  readonly reason: Reason | "own_question" | "refused";
  readonly refusal: unknown;
}

class RejectedMessage extends Error {
  readonly reason: Reason | "own_question";
  readonly refusal: Refusal;

  constructor(reason: Reason | "own_question", refusal: Refusal) {
    super(reason);
    this.reason = reason;
    this.refusal = refusal;
  }
}

interface Sender {
  /** Undefined when no integration has that name: a name from an unauthenticated client is not recorded. */
  readonly name: string | undefined;
  readonly source: string;
}

/** Records every message that decided nothing, with a limit so that nobody can fill the journal. */
class RefusedMessages {
  readonly #services: EndpointServices;
  readonly #limit = new UnauthenticatedLimit({ linesPerMinuteMax: LINES_PER_MINUTE_MAX });

  constructor(services: EndpointServices) {
    this.#services = services;
  }

  async note({ reason, refusal }: Refused, { name, source }: Sender): Promise<void> {
    const code = refusal instanceof Refusal ? refusal.code : "INTERNAL";
    const nowMs = this.#services.clock();
    await this.sumUp(nowMs);
    if (this.#limit.sumUp({ source, code, traceId: "" }, nowMs) !== undefined) return;
    const type = FORGED.has(reason) ? "approval.forged" : "webhook.refused";
    await record(this.#services, { type, webhook: name, source, reason, code });
  }

  async sumUp(nowMs: number): Promise<void> {
    for (const { source, code, count } of this.#limit.drain(nowMs)) {
      await record(this.#services, { type: "webhook.refused", source, code, count });
    }
  }
}

export const endpoints: readonly Endpoint<WebhooksPart>[] = [decisions];
