import { sha256Hex } from "../../core/digest.ts";
import { errorText } from "../../core/error-text.ts";
import { endedWithin } from "../../core/time-limits.ts";
import type { Json } from "../../core/types.ts";
import type { Approval, ApprovalEvent, Approvals } from "../types.ts";
import type { DeliveryOutcome, Outbox, OutboxItem, Wanted } from "./outbox.ts";
import { send } from "./sender.ts";
import { signMessage, type WebhookKey } from "./signature.ts";

/** Where one webhook sends what. */
export interface WebhookTarget extends PayloadOptions {
  readonly url: string;
  readonly keys: readonly WebhookKey[];
  readonly events: readonly ApprovalEvent["type"][];
}

export interface WebhookParts {
  readonly approvals: Approvals & { readonly outbox: Outbox };
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** At least 0, below 1. */
  readonly random: () => number;
  /** Names this process among those of one store. */
  readonly owner: string;
  /** What went wrong, for the operators' log; once for each time that it begins, and once a minute at most. */
  readonly report: (message: string) => void;
  /** Milliseconds between looks. */
  readonly pollMs?: number;
  /** Of one attempt. */
  readonly timeoutMs?: number;
  /** What was counted under this name before: it is counted on. */
  readonly counts?: WebhookCounts;
}

/** Since this process began. */
export interface WebhookCounts {
  sent: number;
  failures: number;
  dead: number;
  stale: number;
}

/** How one webhook is doing, since this process began. */
export interface WebhookState {
  readonly webhook: string;
  readonly sent: number;
  readonly failures: number;
  /** Given up after a day. */
  readonly dead: number;
  /** Questions that were over before they could be sent. */
  readonly stale: number;
  readonly isDisabled: boolean;
}

const POLL_MS = 1_000;
const TIMEOUT_MS = 10_000;
/** Between two texts for the log of failures: a receiver may fail and recover with every message. */
const REPORT_EVERY_MS = 60_000;
/** What an end waits for a store that does not answer. */
const STOP_MS_MAX = 2_000;

/**
 * Tells one far side what happens to approvals, at least once each, beside the road of a call: it reads the store's events
 * and waits for nobody but its receiver.
 */
export class Webhook {
  readonly #target: WebhookTarget;
  readonly #parts: WebhookParts;
  readonly #wanted: Wanted;
  readonly counts: WebhookCounts;
  readonly #stopping = new AbortController();
  #isRetired = false;
  #isDisabled = false;
  /** Whether the operators know that it fails now. */
  #isTold = false;
  #toldAtMs = Number.NEGATIVE_INFINITY;
  #isRung = false;
  #wake: () => void = () => {};
  readonly #done: Promise<void>;

  /** Begins at once. */
  constructor(target: WebhookTarget, parts: WebhookParts) {
    this.#target = target;
    this.#parts = parts;
    this.counts = parts.counts ?? { sent: 0, failures: 0, dead: 0, stale: 0 };
    this.#wanted = { webhook: target.name, types: new Set(target.events), owner: parts.owner };
    this.#done = this.#run();
  }

  state(): WebhookState {
    return { webhook: this.#target.name, ...this.counts, isDisabled: this.#isDisabled };
  }

  /** Breaks off the attempt under way. What was not taken, as far as we know, is sent after the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await endedWithin(this.#done, STOP_MS_MAX);
  }

  /** Ends the attempt under way as it began, and sends nothing more. Never rejects. */
  async retire(): Promise<void> {
    this.#isRetired = true;
    this.#wake();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { approvals, pollMs = POLL_MS } = this.#parts;
    const { signal } = this.#stopping;
    const stopListening = approvals.onEvents(() => this.#ring());
    let isRegistered = false;
    while (!signal.aborted && !this.#isRetired) {
      try {
        if (!isRegistered) await approvals.outbox.register(this.#target.name);
        isRegistered = true;
        if (!(await this.#sendNext())) await this.#wait(pollMs);
      } catch (error) {
        if (signal.aborted) break;
        this.#fail(`the store does not answer: ${errorText(error)}`);
        await this.#wait(pollMs);
      }
    }
    stopListening();
    await approvals.outbox.release(this.#wanted).catch(() => {});
  }

  /** Whether there may be more to do at once. */
  async #sendNext(): Promise<boolean> {
    const { outbox } = this.#parts.approvals;
    const found = await outbox.look(this.#wanted);
    this.#isDisabled = found === "disabled";
    if (found !== "work" || this.#stopping.signal.aborted || this.#isRetired) return false;
    const piece = await outbox.begin(this.#wanted);
    if (piece === undefined) return true;
    if ("givenUp" in piece) {
      this.counts.dead += piece.givenUp;
      this.#say(`was not told of ${piece.givenUp} events within a day: given up`);
      return true;
    }
    const outcome = await this.#attempt(piece);
    if (this.#stopping.signal.aborted && outcome.kind === "later") return false;
    const settled = await outbox.settle(this.#wanted, piece, { outcome, jitter: this.#parts.random() });
    this.#count(outcome, settled === "dead");
    if (settled === "disabled")
      this.#say("answers that it is gone: nothing more is sent there until the next start, or a change of its own");
    if (settled === "dead") this.#say(`has not taken ${piece.event.type} ${piece.event.id}: given up`);
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
      // Should only this one be unreadable, the others do not wait for it; where the store is away, the end of the attempt fails too.
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
    if (outcome.kind === "later") this.#fail(outcome.reason);
    if (outcome.kind !== "taken") return;
    this.counts.sent += 1;
    this.#isTold = false;
  }

  #fail(reason: string): void {
    this.counts.failures += 1;
    const nowMs = this.#parts.clock();
    if (this.#isTold || Math.abs(nowMs - this.#toldAtMs) < REPORT_EVERY_MS) return;
    this.#isTold = true;
    this.#toldAtMs = nowMs;
    this.#say(`does not take notifications: ${reason}`);
  }

  #say(what: string): void {
    this.#parts.report(`the webhook ${this.#target.name} ${what}`);
  }

  #ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  async #wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, ms);
    timer.unref();
    if (this.#isRung || this.#stopping.signal.aborted || this.#isRetired) resolve();
    await promise;
    this.#isRung = false;
    clearTimeout(timer);
  }
}

/** A question whose time is over asks nobody any more. */
function isStale({ type }: ApprovalEvent, approval: Approval | undefined, nowMs: number): boolean {
  if (type !== "approval.requested") return false;
  return approval === undefined || approval.state === "expired" || approval.decideBy <= nowMs;
}

/** What a channel is told: that there is something, and where; or also what the deciders' list and page show. */
type Detail = "summary" | "view";

interface PayloadOptions {
  /** The webhook's name. */
  readonly name: string;
  readonly deployment: string;
  readonly detail: Detail;
  /** What links begin with; without it they are paths. */
  readonly publicUrl: string | undefined;
}

interface Message {
  readonly id: string;
  readonly body: string;
}

/** A larger view is left out, and said to be. */
const VIEW_CHARACTERS_MAX = 262_144;
const ID_CHARACTERS = 32;

/** The same event has the same id at each attempt, and another at each webhook. */
function messageOf(event: ApprovalEvent, approval: Approval | undefined, options: PayloadOptions): Message {
  const { type, at, seq, id } = event;
  const digest = sha256Hex(JSON.stringify(["stc/webhook/v1", options.deployment, options.name, seq, at, type, id]));
  const body = JSON.stringify({ type, timestamp: iso(at), data: dataOf(event, approval, options) });
  return { id: `msg_${digest.slice(0, ID_CHARACTERS)}`, body };
}

function dataOf({ id, tool, summary }: ApprovalEvent, approval: Approval | undefined, options: PayloadOptions): Json {
  const told = { id, ...(tool !== undefined && { tool }), ...(summary !== undefined && { summary }) };
  const link = `${options.publicUrl ?? ""}/approvals/${id}/page`;
  if (approval === undefined) return { ...told, link };
  const { state, risk, scopes, decideBy, planDigest, viewDigest } = approval;
  const times = { decideBy: iso(decideBy) };
  const stands = { state, risk, options: ["cancel", ...scopes], ...times, planDigest, viewDigest };
  const wants: Record<string, Json> = approval.answer === undefined ? {} : { wantsAnswer: true };
  return { ...told, ...stands, ...wants, link, ...(options.detail === "view" && detailOf(approval)) };
}

/** For channels that the operator trusts with it. Its secrets were filtered when it was made. */
function detailOf(approval: Approval): Record<string, Json> {
  const { requester, rules, category, classification, traceId, view, answer } = approval;
  const { issuer, subject, actors } = requester;
  const isWhole = JSON.stringify(view).length <= VIEW_CHARACTERS_MAX;
  return {
    ...{ rules: [...rules], category, classification, traceId },
    requester: { iss: issuer, sub: subject, act: [...actors] },
    ...(answer?.choices !== undefined && { choices: [...answer.choices] }),
    ...(isWhole ? { view } : { viewLeftOut: true }),
  };
}

/** ISO 8601, UTC. */
function iso(ms: number): string {
  return new Date(ms).toISOString();
}
