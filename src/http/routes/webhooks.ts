import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { ANSWER_CHARACTERS_MAX } from "../../approvals/answer.ts";
import type { Inbox } from "../../approvals/notify/inbox.ts";
import { type Unverified, verifyMessage } from "../../approvals/notify/signature.ts";
import type { Integration, NotifiedApprovals, Person } from "../../approvals/notify/webhooks.ts";
import type { Approval, Decided } from "../../approvals/types.ts";
import { UnauthenticatedLimit } from "../../audit/unauthenticated.ts";
import { Refusal } from "../../core/errors.ts";
import { decisionRefusal, notFound } from "../approval-json.ts";
import { sendJson } from "../error-reply.ts";
import type { OperatorGuard } from "../operator-guard.ts";
import { isId } from "../path-ids.ts";

interface WebhookRoutesOptions {
  readonly approvals: NotifiedApprovals;
  readonly door: OperatorGuard;
}

const MINUTE_MS = 60_000;
/** Signed messages per integration and minute; further ones are refused. */
const MESSAGES_PER_MINUTE_MAX = 300;
const REASON_CHARACTERS_MAX = 500;
const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
const DIGEST = /^[0-9a-f]{64}$/;

export const decisionMessage = z.strictObject({
  approvalId: z.string().refine(isId, "must be the id of an approval"),
  planDigest: z.string().regex(DIGEST),
  viewDigest: z.string().regex(DIGEST).optional(),
  decision: z.enum(["approve", "deny"]),
  scope: z.enum(["once", "session"]).optional(),
  reason: z.string().max(REASON_CHARACTERS_MAX).optional(),
  /** Answer to an approval request that asks for one; only with an approval. */
  answer: z.string().max(ANSWER_CHARACTERS_MAX).optional(),
  /** The integration's own name for the person; the configuration maps it to an operator. */
  decidedBy: z.strictObject({ user: z.string().regex(/^[\x21-\x7e]{1,128}$/) }),
});

type Message = z.output<typeof decisionMessage>;

/**
 * Declares `POST /webhooks/:name/decisions`: what people decided in another program, which signs the message. The
 * configuration's table, not the message, says who these people are; a digest names what they saw; each message counts once.
 * An approver's own token is not accepted here: with a token, use `POST /approvals/:id/decisions`.
 */
export function webhookRoutes(app: FastifyInstance, { approvals, door }: WebhookRoutesOptions): void {
  const { webhooks, inbox } = approvals;
  if (webhooks === undefined || inbox === undefined) return;
  const refusals = new RefusedMessages(door);
  const flow = new Flow();
  app.addHook("onClose", () => refusals.sumUp(Number.POSITIVE_INFINITY).catch(() => {}));

  app.post("/webhooks/:name/decisions", async (request, reply) => {
    const name = nameOf(request);
    const integration = name === undefined ? undefined : webhooks.integrations.get(name);
    const attempt = { name: integration === undefined ? undefined : name, door, request };
    try {
      const received = await receive({ integration, reply, ...attempt }, flow);
      const relay = new Relay({ approvals, inbox, door });
      const approval = await relay.decide(received);
      const { id, state, scope } = approval;
      return sendJson(reply, 200, { approval: { id, state, ...(scope !== undefined && { scope }) } });
    } catch (error) {
      const { reason, refusal } = error instanceof Unheard ? error : { reason: "refused" as const, refusal: error };
      await refusals.note({ reason, refusal }, attempt);
      throw refusal;
    }
  });
}

function nameOf({ params }: FastifyRequest): string | undefined {
  if (typeof params !== "object" || params === null || !("name" in params)) return undefined;
  return typeof params.name === "string" && NAME.test(params.name) ? params.name : undefined;
}

interface Arrival {
  readonly integration: Integration | undefined;
  readonly name: string | undefined;
  readonly door: OperatorGuard;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** A message that an integration signed, from a person for whom it may act. */
interface Received {
  readonly webhook: string;
  readonly messageId: string;
  readonly message: Message;
  readonly person: Person;
}

/** Checks size, signature, time, form and person, in this order, so that unauthenticated clients learn nothing. */
async function receive({ integration, name, door, request, reply }: Arrival, flow: Flow): Promise<Received> {
  const body = (await door.bytes(request, reply)) ?? new Uint8Array();
  const { headers } = request;
  const sent = { id: headers["webhook-id"], timestamp: headers["webhook-timestamp"], body };
  const nowMs = door.now();
  const keys = integration?.keys ?? [];
  const verified = verifyMessage({ ...sent, signature: headers["webhook-signature"] }, { keys, nowMs });
  if ("fault" in verified || integration === undefined || name === undefined) {
    throw new Unheard(
      "fault" in verified ? verified.fault : "signature",
      new Refusal("UNAUTHENTICATED", "The message is not signed by a key of this webhook, within five minutes of now."),
    );
  }
  if (!flow.mayPass(name, nowMs)) {
    const options = { details: { limit: "webhook" }, retryAfterMs: MINUTE_MS };
    throw new Unheard("flood", new Refusal("RATE_LIMITED", "This webhook sends too many messages.", options));
  }
  const parsed = decisionMessage.safeParse(parsedBody(door, body));
  if (!parsed.success) {
    const fields = "approvalId, planDigest, viewDigest?, decision, scope?, reason?, answer?, decidedBy: {user}";
    throw new Unheard("unreadable", new Refusal("MALFORMED_REQUEST", `The body must be {${fields}}.`));
  }
  const person = integration.people.get(parsed.data.decidedBy.user);
  if (person === undefined) {
    const says = "Nobody of that name decides through this webhook.";
    throw new Unheard("unknown_user", new Refusal("PERMISSION_DENIED", says));
  }
  assertMayDecide(person, door);
  return { webhook: name, messageId: verified.id, message: parsed.data, person };
}

function assertMayDecide(person: Person, door: OperatorGuard): void {
  try {
    door.assertOperator(person);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const says = "This person is no operator any more.";
    throw new Unheard("revoked_user", new Refusal("PERMISSION_DENIED", says, { cause: error }));
  }
}

function parsedBody(door: OperatorGuard, body: Uint8Array): unknown {
  try {
    return door.parse(body);
  } catch (error) {
    throw error instanceof Refusal ? new Unheard("unreadable", error) : error;
  }
}

interface RelayOptions extends WebhookRoutesOptions {
  readonly inbox: Inbox;
}

/** Passes a person's decision to the store, once. */
class Relay {
  readonly #options: RelayOptions;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  async decide({ webhook, messageId, message: sent, person }: Received): Promise<Approval> {
    const { approvals, door } = this.#options;
    const { approvalId: id, planDigest, viewDigest, decidedBy, ...said } = sent;
    const found = await door.store(() => approvals.get(id));
    if (found?.planDigest !== planDigest) throw await this.#usedUp({ webhook, messageId }, found);
    const { issuer, subject, permissions } = person;
    const decided: Decided = await door.store(() =>
      approvals.decide({
        ...{ ...said, id, by: { issuer, subject }, permissions, viewDigest: viewDigest ?? found.viewDigest },
        relay: { webhook, messageId, user: decidedBy.user },
      }),
    );
    if (decided.outcome === "decided" || decided.outcome === "counted") return decided.approval;
    const refusal = decisionRefusal(decided);
    const { outcome } = decided;
    throw outcome === "own_question" || outcome === "replayed" ? new Unheard(outcome, refusal) : refusal;
  }

  /** Uses up a message that names an unknown approval or another plan, and returns the reason. */
  async #usedUp({ webhook, messageId }: Pick<Received, "webhook" | "messageId">, found: unknown): Promise<Unheard> {
    const { inbox, door } = this.#options;
    if (!(await door.store(() => inbox.receive(webhook, messageId))))
      return new Unheard("replayed", decisionRefusal({ outcome: "replayed" }));
    if (found === undefined) return new Unheard("unknown_approval", notFound());
    const says = "This was decided on another plan than the one that is asked about.";
    return new Unheard("other_plan", new Refusal("APPROVAL_MISMATCH", says));
  }
}

/** Counts each integration's messages within the current minute. */
class Flow {
  #minute = 0;
  readonly #passed = new Map<string, number>();

  mayPass(name: string, nowMs: number): boolean {
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

/** Reason why a message decided nothing. */
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
  ...([
    "unsigned",
    "late",
    "signature",
    "replayed",
    "unknown_user",
    "revoked_user",
    "other_plan",
    "own_question",
  ] as const),
]);

/** Facts that the journal records of a refusal in addition to its code. */
interface Refused {
  readonly reason: Reason | "own_question" | "refused";
  readonly refusal: unknown;
}

/** A refusal with its reason for the journal. */
class Unheard extends Error {
  readonly reason: Reason | "own_question";
  readonly refusal: Refusal;

  constructor(reason: Reason | "own_question", refusal: Refusal) {
    super(reason);
    this.reason = reason;
    this.refusal = refusal;
  }
}

interface Attempted {
  /** Undefined when no integration has that name: a name from an unauthenticated client is not recorded. */
  readonly name: string | undefined;
  readonly request: FastifyRequest;
}

/** Records every message that decided nothing, with a limit so that nobody can fill the journal. */
class RefusedMessages {
  readonly #door: OperatorGuard;
  readonly #limit = new UnauthenticatedLimit({ linesPerMinuteMax: LINES_PER_MINUTE_MAX });

  constructor(door: OperatorGuard) {
    this.#door = door;
  }

  async note({ reason, refusal }: Refused, { name, request }: Attempted): Promise<void> {
    const code = refusal instanceof Refusal ? refusal.code : "INTERNAL";
    const nowMs = this.#door.now();
    await this.sumUp(nowMs);
    const source = request.ip;
    if (this.#limit.sumUp({ source, code, traceId: "" }, nowMs) !== undefined) return;
    const type = FORGED.has(reason) ? "approval.forged" : "webhook.refused";
    await this.#door.record({ type, webhook: name, source, reason, code });
  }

  async sumUp(nowMs: number): Promise<void> {
    for (const { source, code, count } of this.#limit.drain(nowMs)) {
      await this.#door.record({ type: "webhook.refused", source, code, count });
    }
  }
}
