import { retryDelayMs } from "../../core/retry.ts";
import { integer, optionalInteger, text } from "../../database/rows.ts";
import type { ReadTransaction, WriteTransaction } from "../store/database.ts";
import { toEvent } from "../store/rows.ts";
import type { Store } from "../store/store.ts";
import type { ApprovalEvent } from "../types.ts";
import type { Delivery } from "./sender.ts";

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
/** Retries of an event end this long after its first attempt; an event that is older before its first attempt is not sent. */
const RETRY_FOR_MS = 24 * HOUR_MS;
const RETRY = { firstMs: 5 * SECOND_MS, maxMs: HOUR_MS } as const;
/** Pause of the whole webhook after a failure; longer after each further failure. */
const PAUSE = { firstMs: SECOND_MS, maxMs: 60 * SECOND_MS } as const;
/** Time that one replica owns a webhook: longer than an attempt may take. */
const LEASE_MS = 60 * SECOND_MS;
/** Events of one webhook that wait for a retry; further failed events are given up. */
const WAITING_MAX = 1_000;
/** Events that one check reads. */
const EVENTS_READ_MAX = 200;
/** Number of skipped events after which the new position is stored. */
const SKIPPED_MAX = 100;

/** Events that are sent to a webhook, and the process that sends them. */
export interface Subscription {
  readonly webhook: string;
  readonly types: ReadonlySet<string>;
  readonly owner: string;
}

export interface OutboxItem {
  readonly event: ApprovalEvent;
  readonly attempts: number;
}

/** Number of events that were given up because they could not be sent within a day. */
interface GivenUp {
  readonly givenUp: number;
}

/** Outcome of an attempt. `stale`: the notification is no longer needed. */
export type DeliveryOutcome = Delivery | { readonly kind: "stale" };

/** Result of storing an outcome. `lost`: another replica has taken over meanwhile. */
type Settled = "done" | "again" | "dead" | "disabled" | "lost";

export type Outbox = ReturnType<typeof outbox>;

/** Stores the delivery state: one row per webhook with its position, and one per failed event that waits for a retry. */
export function outbox({ database }: Pick<Store, "database">) {
  return {
    /** Registers a webhook. A new or disabled webhook starts with the next event; a known one continues where it was. */
    register: (webhook: string) => database.write((tx) => register(tx, webhook)),
    /** Checks for work without a write transaction. */
    check: (subscription: Subscription) => database.read((view) => check(view, subscription)),
    /** Takes the next event; this process owns the webhook for a minute. */
    takeNext: (subscription: Subscription) => database.write((tx) => takeNext(tx, subscription)),
    /** Stores the outcome of an attempt. */
    settle: (subscription: Subscription, attempt: Attempt) => database.write((tx) => settle(tx, subscription, attempt)),
    /** Lets another process take over at once. */
    release: ({ webhook, owner }: Subscription): Promise<void> =>
      database.write(async ({ sql }) => {
        await sql`UPDATE approval_webhooks SET lease_until = 0 WHERE name = ${webhook} AND lease_owner = ${owner}`;
      }),
  };
}

async function register({ sql }: WriteTransaction, webhook: string): Promise<void> {
  await sql`
    INSERT INTO approval_webhooks (name, seq, failures, paused_until, disabled_at, lease_owner, lease_until)
    SELECT CAST(${webhook} AS TEXT), value, 0, 0, NULL, '', 0 FROM approval_counters WHERE name = 'events'
    ON CONFLICT (name) DO UPDATE SET disabled_at = NULL, failures = 0, paused_until = 0,
      seq = CASE WHEN approval_webhooks.disabled_at IS NULL THEN approval_webhooks.seq ELSE excluded.seq END`;
}

interface Work {
  readonly state: "open" | "disabled" | "waits";
  /** Next event of the subscription that was never sent. */
  readonly next: ApprovalEvent | undefined;
  /** Events of the subscription before `next` that are too old to send. */
  readonly expired: readonly ApprovalEvent[];
  readonly passed: number;
  readonly skipped: number;
  readonly due: { readonly seq: number; readonly attempts: number } | undefined;
}

const NO_WORK = { next: undefined, expired: [], passed: 0, skipped: 0, due: undefined } as const;

async function find({ sql, now }: ReadTransaction, { webhook, types, owner }: Subscription): Promise<Work> {
  const [row] = await sql`SELECT * FROM approval_webhooks WHERE name = ${webhook}`;
  if (row === undefined) return { state: "waits", ...NO_WORK };
  if (optionalInteger(row, "disabled_at") !== undefined) return { state: "disabled", ...NO_WORK };
  const isLeasedElsewhere = text(row, "lease_owner") !== owner && integer(row, "lease_until") > now;
  if (isLeasedElsewhere || integer(row, "paused_until") > now) return { state: "waits", ...NO_WORK };
  const seq = integer(row, "seq");
  const rows = await sql`SELECT * FROM approval_events WHERE seq > ${seq} ORDER BY seq LIMIT ${EVENTS_READ_MAX}`;
  const events = rows.map(toEvent);
  const selected = events.filter((event) => event.webhooks?.includes(webhook) ?? types.has(event.type));
  const next = selected.find(({ at }) => at > now - RETRY_FOR_MS);
  const expired = (next === undefined ? selected : selected.slice(0, selected.indexOf(next))).filter(countsAsGivenUp);
  const passed = next === undefined ? (events.at(-1)?.seq ?? seq) : next.seq - 1;
  const [due] = await sql`
    SELECT seq, attempts FROM approval_deliveries WHERE webhook = ${webhook} AND next_at <= ${now}
    ORDER BY next_at, seq LIMIT 1`;
  return {
    state: "open",
    next,
    expired,
    passed,
    skipped: passed - seq,
    due: due && { seq: integer(due, "seq"), attempts: integer(due, "attempts") },
  };
}

async function check(view: ReadTransaction, subscription: Subscription): Promise<"work" | "nothing" | "disabled"> {
  const { state, next, expired, due, skipped } = await find(view, subscription);
  if (state === "disabled") return state;
  const isWork = next !== undefined || expired.length > 0 || due !== undefined || skipped >= SKIPPED_MAX;
  return isWork ? "work" : "nothing";
}

/** Takes new events first: one may be an approval request that somebody waits for. */
async function takeNext(tx: WriteTransaction, subscription: Subscription): Promise<OutboxItem | GivenUp | undefined> {
  const { sql, now } = tx;
  const { state, next, expired, passed, due } = await find(tx, subscription);
  if (state !== "open") return undefined;
  await sql`
    UPDATE approval_webhooks SET seq = ${passed}, lease_owner = ${subscription.owner}, lease_until = ${now + LEASE_MS}
    WHERE name = ${subscription.webhook}`;
  for (const event of expired) recordGivenUp(tx, subscription, { event, attempts: 0, reason: "not sent within a day" });
  if (expired.length > 0) return { givenUp: expired.length };
  if (next !== undefined) return { event: next, attempts: 0 };
  if (due === undefined) return undefined;
  const [row] = await sql`SELECT * FROM approval_events WHERE seq = ${due.seq}`;
  if (row !== undefined) return { event: toEvent(row), attempts: due.attempts };
  // The event was deleted, because it is old or there are too many.
  await removeDelivery(tx, subscription, due.seq);
  return undefined;
}

interface Attempt {
  readonly item: OutboxItem;
  readonly outcome: DeliveryOutcome;
  /** From 0 (inclusive) to 1 (exclusive); spreads the retries. */
  readonly random: number;
}

async function settle(
  tx: WriteTransaction,
  subscription: Subscription,
  { item, outcome, random }: Attempt,
): Promise<Settled> {
  const { sql, now } = tx;
  const { webhook, owner } = subscription;
  const [row] = await sql`SELECT * FROM approval_webhooks WHERE name = ${webhook} AND lease_owner = ${owner}`;
  if (row === undefined) return "lost";
  if (item.attempts === 0) {
    await sql`UPDATE approval_webhooks SET seq = ${item.event.seq} WHERE name = ${webhook} AND seq < ${item.event.seq}`;
  }
  if (outcome.kind === "gone") return disable(tx, subscription, item);
  if (outcome.kind !== "later") {
    await removeDelivery(tx, subscription, item.event.seq);
    if (outcome.kind === "accepted")
      await sql`UPDATE approval_webhooks SET failures = 0, paused_until = 0 WHERE name = ${webhook}`;
    return "done";
  }
  const failures = integer(row, "failures") + 1;
  const pauseMs = Math.max(retryDelayMs(PAUSE, failures, random), retryAfterMs(outcome));
  await sql`
    UPDATE approval_webhooks SET failures = ${failures}, paused_until = ${now + pauseMs}
    WHERE name = ${webhook}`;
  return scheduleRetry(tx, subscription, { item, outcome, random });
}

async function scheduleRetry(
  tx: WriteTransaction,
  subscription: Subscription,
  { item, outcome, random }: Attempt,
): Promise<Settled> {
  const { sql, now } = tx;
  const { webhook } = subscription;
  const { seq } = item.event;
  const attempts = item.attempts + 1;
  const nextAt = now + Math.max(retryDelayMs(RETRY, attempts, random), retryAfterMs(outcome));
  const [first] = await sql`SELECT first_at FROM approval_deliveries WHERE webhook = ${webhook} AND seq = ${seq}`;
  const firstAt = first === undefined ? now : integer(first, "first_at");
  const [waiting = {}] = await sql`SELECT count(*) AS waiting FROM approval_deliveries WHERE webhook = ${webhook}`;
  const isFull = first === undefined && integer(waiting, "waiting") >= WAITING_MAX;
  if (isFull || nextAt - firstAt > RETRY_FOR_MS) return giveUp(tx, subscription, { item, outcome, random });
  await sql`
    INSERT INTO approval_deliveries (webhook, seq, attempts, first_at, next_at)
    VALUES (${webhook}, ${seq}, ${attempts}, ${firstAt}, ${nextAt})
    ON CONFLICT (webhook, seq) DO UPDATE SET attempts = excluded.attempts, next_at = excluded.next_at`;
  return "again";
}

async function giveUp(tx: WriteTransaction, subscription: Subscription, { item, outcome }: Attempt): Promise<Settled> {
  const { event, attempts } = item;
  const reason = outcome.kind === "later" ? outcome.reason : outcome.kind;
  await removeDelivery(tx, subscription, event.seq);
  recordGivenUp(tx, subscription, { event, attempts: attempts + 1, reason });
  return "dead";
}

function recordGivenUp(
  tx: WriteTransaction,
  { webhook }: Subscription,
  { event, ...facts }: OutboxItem & { readonly reason: string },
): void {
  const about = { webhook, event: event.type, id: event.id };
  tx.note({ event: undefined, journal: { type: "webhook.dead", ...about, ...facts } });
}

/** Returns whether an event that is too old counts as given up. One that asks for a decision does not: its request has ended. */
function countsAsGivenUp({ type }: ApprovalEvent): boolean {
  return type !== "approval.requested" && type !== "approval.escalated";
}

/** Disables a webhook whose receiver answered 410 (Gone), until the webhook is registered again. */
async function disable(tx: WriteTransaction, { webhook }: Subscription, { event }: OutboxItem): Promise<Settled> {
  const { sql, now } = tx;
  await sql`UPDATE approval_webhooks SET disabled_at = ${now} WHERE name = ${webhook}`;
  await sql`DELETE FROM approval_deliveries WHERE webhook = ${webhook}`;
  tx.note({ event: undefined, journal: { type: "webhook.disabled", webhook, event: event.type, id: event.id } });
  return "disabled";
}

async function removeDelivery({ sql }: WriteTransaction, { webhook }: Subscription, seq: number): Promise<void> {
  await sql`DELETE FROM approval_deliveries WHERE webhook = ${webhook} AND seq = ${seq}`;
}

function retryAfterMs(outcome: DeliveryOutcome): number {
  return outcome.kind === "later" ? (outcome.retryAfterMs ?? 0) : 0;
}
