import { sha256Hex } from "../../core/digest.ts";
import { errorText } from "../../core/error-text.ts";
import { OutageReporter } from "../../core/retry.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { Json } from "../../core/types.ts";
import { escalationPlanOf } from "../approver-policies/escalation.ts";
import type { Approval, ApprovalEvent, Approvals } from "../types.ts";
import type { DeliveryOutcome, Outbox, OutboxItem, Subscription } from "./outbox.ts";
import { send } from "./sender.ts";
import { signMessage, type WebhookKey } from "./signature.ts";

/** Receiver of a webhook, and the events that are sent to it. */
export interface WebhookTarget extends PayloadOptions {
  readonly url: string;
  readonly keys: readonly WebhookKey[];
  readonly events: readonly ApprovalEvent["type"][];
}

export interface WebhookParts {
  readonly approvals: Approvals & { readonly outbox: Outbox };
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly owner: string;
  /** Reports a problem to the operators' log: once per outage, and at most once a minute. */
  readonly report: (message: string) => void;
  readonly pollMs?: number;
  readonly timeoutMs?: number;
  readonly counts?: WebhookCounts;
}

export interface WebhookCounts {
  sent: number;
  failures: number;
  /** Events that were given up. */
  dead: number;
  /** Approval requests that ended before they were sent. */
  stale: number;
}

export interface WebhookState extends Readonly<WebhookCounts> {
  readonly webhook: string;
  readonly isDisabled: boolean;
}

const POLL_MS = 1_000;
const TIMEOUT_MS = 10_000;
/** Time that `stop` waits for a store that does not respond. */
const STOP_MS_MAX = 2_000;

/**
 * Sends each approval event to one receiver at least once. Runs outside of the call pipeline: it reads the store's events and
 * waits only for its receiver.
 */
export class Webhook {
  readonly #target: WebhookTarget;
  readonly #parts: WebhookParts;
  readonly #subscription: Subscription;
  readonly counts: WebhookCounts;
  readonly #stopping = new AbortController();
  #isRetired = false;
  #isDisabled = false;
  readonly #outages: OutageReporter;
  #isNotified = false;
  #wake: () => void = () => {};
  readonly #done: Promise<void>;

  /** Starts immediately. */
  constructor(target: WebhookTarget, parts: WebhookParts) {
    this.#target = target;
    this.#parts = parts;
    this.counts = parts.counts ?? { sent: 0, failures: 0, dead: 0, stale: 0 };
    this.#subscription = { webhook: target.name, types: new Set(target.events), owner: parts.owner };
    this.#outages = new OutageReporter(parts.clock, (message) => this.#report(message));
    this.#done = this.#run();
  }

  state(): WebhookState {
    return { webhook: this.#target.name, ...this.counts, isDisabled: this.#isDisabled };
  }

  /** Aborts the running attempt. An event whose delivery was not confirmed is sent after the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await endedWithin(this.#done, STOP_MS_MAX);
  }

  /** Lets the running attempt finish, and sends nothing more. Never rejects. */
  async retire(): Promise<void> {
    this.#isRetired = true;
    this.#wake();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { approvals, pollMs = POLL_MS } = this.#parts;
    const { signal } = this.#stopping;
    const stopListening = approvals.onEvents(() => this.#notify());
    let isRegistered = false;
    while (!signal.aborted && !this.#isRetired) {
      try {
        if (!isRegistered) await approvals.outbox.register(this.#target.name);
        isRegistered = true;
        if (!(await this.#sendNext())) await this.#wait(pollMs);
      } catch (error) {
        if (signal.aborted) break;
        this.#reportFailure(`the store does not answer: ${errorText(error)}`);
        await this.#wait(pollMs);
      }
    }
    stopListening();
    await approvals.outbox.release(this.#subscription).catch(() => {});
  }

  /** Sends the next event. Returns whether there may be more to do immediately. */
  async #sendNext(): Promise<boolean> {
    const { outbox } = this.#parts.approvals;
    const found = await outbox.check(this.#subscription);
    this.#isDisabled = found === "disabled";
    if (found !== "work" || this.#stopping.signal.aborted || this.#isRetired) return false;
    const item = await outbox.takeNext(this.#subscription);
    if (item === undefined) return true;
    if ("givenUp" in item) {
      this.counts.dead += item.givenUp;
      this.#report(`did not accept ${item.givenUp} events within a day: given up`);
      return true;
    }
    const outcome = await this.#attempt(item);
    if (this.#stopping.signal.aborted && outcome.kind === "later") return false;
    const settled = await outbox.settle(this.#subscription, { item, outcome, random: this.#parts.random() });
    this.#count(outcome, settled === "dead");
    if (settled === "disabled")
      this.#report("answered 410 Gone: nothing more is sent there until the next start or until its settings change");
    if (settled === "dead") this.#report(`did not accept ${item.event.type} ${item.event.id}: given up`);
    return true;
  }

  async #attempt({ event }: OutboxItem): Promise<DeliveryOutcome> {
    const { approvals, clock, timeoutMs = TIMEOUT_MS } = this.#parts;
    const { url, keys } = this.#target;
    const nowMs = clock();
    let approval: Approval | undefined;
    try {
      approval = await approvals.get(event.id);
    } catch {
      // If only this approval is unreadable, the others do not wait for it. If the store is unavailable, `settle` fails too.
      return { kind: "later", reason: "the approval cannot be read", retryAfterMs: undefined };
    }
    if (isStale(event, approval, nowMs)) return { kind: "stale" };
    const message = messageOf(event, approval, this.#target);
    const headers = signMessage(message, { keys, nowMs });
    return send(message.body, { url, headers, nowMs, timeoutMs, signal: this.#stopping.signal });
  }

  #count(outcome: DeliveryOutcome, isDead: boolean): void {
    if (isDead) this.counts.dead += 1;
    if (outcome.kind === "stale") this.counts.stale += 1;
    if (outcome.kind === "later") this.#reportFailure(outcome.reason);
    if (outcome.kind !== "accepted") return;
    this.counts.sent += 1;
    this.#outages.recovered();
  }

  #reportFailure(reason: string): void {
    this.counts.failures += 1;
    this.#outages.failed(`does not accept notifications: ${reason}`);
  }

  #report(what: string): void {
    this.#parts.report(`the webhook ${this.#target.name} ${what}`);
  }

  #notify(): void {
    this.#isNotified = true;
    this.#wake();
  }

  async #wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, ms);
    timer.unref();
    if (this.#isNotified || this.#stopping.signal.aborted || this.#isRetired) resolve();
    await promise;
    this.#isNotified = false;
    clearTimeout(timer);
  }
}

/** Returns whether the event asks for a decision that is no longer possible, or for an escalation no longer needed. */
function isStale({ type }: ApprovalEvent, approval: Approval | undefined, nowMs: number): boolean {
  if (type === "approval.escalated" && approval?.state !== "pending") return true;
  if (type !== "approval.requested" && type !== "approval.escalated") return false;
  return approval === undefined || approval.state === "expired" || approval.decideBy <= nowMs;
}

/** Contents of a message: `summary` has a summary and a link; `view` adds what approvers see in their list and on the page. */
type Detail = "summary" | "view";

interface PayloadOptions {
  readonly name: string;
  readonly deployment: string;
  readonly detail: Detail;
  /** Prefix of links; when undefined, links are paths. */
  readonly publicUrl: string | undefined;
}

interface Message {
  readonly id: string;
  readonly body: string;
}

/** A larger view is left out and replaced by `viewLeftOut`. */
const VIEW_CHARACTERS_MAX = 262_144;
const ID_CHARACTERS = 32;

/** Builds the message. An event has the same id in each attempt, and a different one for each webhook. */
function messageOf(event: ApprovalEvent, approval: Approval | undefined, options: PayloadOptions): Message {
  const { type, at, seq, id } = event;
  const digest = sha256Hex(JSON.stringify(["stc/webhook/v1", options.deployment, options.name, seq, at, type, id]));
  const body = JSON.stringify({ type, timestamp: iso(at), data: dataOf(event, approval, options) });
  return { id: `msg_${digest.slice(0, ID_CHARACTERS)}`, body };
}

function dataOf({ id, tool, summary }: ApprovalEvent, approval: Approval | undefined, options: PayloadOptions): Json {
  const subject = { id, ...(tool !== undefined && { tool }), ...(summary !== undefined && { summary }) };
  const link = `${options.publicUrl ?? ""}/approvals/${id}/page`;
  if (approval === undefined) return { ...subject, link };
  const { state, risk, scopes, decideBy, planDigest, viewDigest } = approval;
  const times = { decideBy: iso(decideBy) };
  const status = { state, risk, options: ["cancel", ...scopes], ...times, planDigest, viewDigest };
  const wants: Record<string, Json> = approval.answer === undefined ? {} : { wantsAnswer: true };
  const escalations = escalationsOf(approval);
  return {
    ...subject,
    ...status,
    ...wants,
    ...escalations,
    link,
    ...(options.detail === "view" && detailOf(approval)),
  };
}

/** Returns the escalation steps that were taken, without names of people. */
function escalationsOf(approval: Approval): Record<string, Json> {
  const { escalations: taken } = approval;
  if (taken.length === 0) return {};
  const steps = escalationPlanOf(approval).slice(0, taken.length);
  return {
    escalations: steps.map(({ policyName, stageName, afterSeconds }, index) => ({
      policy: policyName,
      ...(stageName !== undefined && { stage: stageName }),
      afterSeconds,
      at: iso(taken[index]?.at ?? 0),
    })),
  };
}

/** Returns the details for receivers that the operator trusts with them. The view was rendered without secrets. */
function detailOf(approval: Approval): Record<string, Json> {
  const { requester, rules, category, classification, traceId, view, answer } = approval;
  const { issuer, subject, actors } = requester;
  const isWhole = JSON.stringify(view).length <= VIEW_CHARACTERS_MAX;
  return {
    rules: [...rules],
    category,
    classification,
    traceId,
    requester: { iss: issuer, sub: subject, act: [...actors] },
    ...(answer?.choices !== undefined && { choices: [...answer.choices] }),
    ...(isWhole ? { view } : { viewLeftOut: true }),
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
