import type { ReadTransaction, WriteTransaction } from "../store/database.ts";
import { integer, optionalInteger, text, toEvent } from "../store/rows.ts";
import type { Store } from "../store/store.ts";
import type { ApprovalEvent } from "../types.ts";
import type { Delivery } from "./sender.ts";

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
/** Retries of an event end this long after its first attempt; an event that is older before its first attempt is not sent. */
const RETRY_FOR_MS = 24 * HOUR_MS;
const RETRY_MS = 5 * SECOND_MS;
const RETRY_MS_MAX = HOUR_MS;
/** Limit for `Retry-After`: a longer delay, perhaps set by mistake, would lose notifications. */
const RETRY_AFTER_MS_MAX = 6 * HOUR_MS;
/** Pause of the whole webhook after a failure; longer after each further failure. */
const PAUSE_MS = SECOND_MS;
const PAUSE_MS_MAX = 60 * SECOND_MS;
const DOUBLINGS_MAX = 16;
/** Time that one replica owns a webhook: longer than an attempt may take. */
const LEASE_MS = 60 * SECOND_MS;
/** Events of one webhook that wait for a retry; further failed events are given up. */
const WAITING_MAX = 1_000;
/** Events that one check reads. */
const EVENTS_READ_MAX = 200;
/** Number of skipped events after which the new position is stored. */
const SKIPPED_MAX = 100;

/** Events that a webhook wants, and the process that sends them. */
export interface Wanted {
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
export type Settled = "done" | "again" | "dead" | "disabled" | "lost";

/** Delivery state of the webhooks: one row per webhook with its position, and one per failed event that waits for a retry. */
export interface Outbox {
  /** Registers a webhook. A new or disabled webhook starts with the next event; a known one continues where it was. */
  register(webhook: string): Promise<void>;
  /** Checks for work without a write transaction. */
  look(wanted: Wanted): Promise<"work" | "nothing" | "disabled">;
  /** Takes the next event; this process owns the webhook for a minute. */
  begin(wanted: Wanted): Promise<OutboxItem | GivenUp | undefined>;
  /** Stores the outcome of an attempt. `jitter`: at least 0, below 1. */
  settle(
    wanted: Wanted,
    item: OutboxItem,
    end: { readonly outcome: DeliveryOutcome; readonly jitter: number },
  ): Promise<Settled>;
  /** Lets another process take over at once. */
  release(wanted: Wanted): Promise<void>;
}

export function outbox({ database }: Pick<Store, "database">): Outbox {
  return {
    register: (webhook) => database.write((tx) => register(tx, webhook)),
    look: (wanted) => database.read((view) => look(view, wanted)),
    begin: (wanted) => database.write((tx) => begin(tx, wanted)),
    settle: (wanted, item, end) => database.write((tx) => settle(tx, wanted, { item, ...end })),
    release: ({ webhook, owner }) =>
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

interface Found {
  readonly state: "open" | "disabled" | "waits";
  /** Next wanted event that was never sent. */
  readonly fresh: ApprovalEvent | undefined;
  /** Wanted events before `fresh` that are too old to send. */
  readonly late: readonly ApprovalEvent[];
  readonly passed: number;
  readonly skipped: number;
  readonly due: { readonly seq: number; readonly attempts: number } | undefined;
}

const NOTHING = { fresh: undefined, late: [], passed: 0, skipped: 0, due: undefined } as const;

async function find({ sql, now }: ReadTransaction, { webhook, types, owner }: Wanted): Promise<Found> {
  const [row] = await sql`SELECT * FROM approval_webhooks WHERE name = ${webhook}`;
  if (row === undefined) return { state: "waits", ...NOTHING };
  if (optionalInteger(row, "disabled_at") !== undefined) return { state: "disabled", ...NOTHING };
  const isOthers = text(row, "lease_owner") !== owner && integer(row, "lease_until") > now;
  if (isOthers || integer(row, "paused_until") > now) return { state: "waits", ...NOTHING };
  const seq = integer(row, "seq");
  const rows = await sql`SELECT * FROM approval_events WHERE seq > ${seq} ORDER BY seq LIMIT ${EVENTS_READ_MAX}`;
  const events = rows.map(toEvent);
  const wanted = events.filter(({ type }) => types.has(type));
  const fresh = wanted.find(({ at }) => at > now - RETRY_FOR_MS);
  const late = (fresh === undefined ? wanted : wanted.slice(0, wanted.indexOf(fresh))).filter(countsAsGivenUp);
  const passed = fresh === undefined ? (events.at(-1)?.seq ?? seq) : fresh.seq - 1;
  const [due] = await sql`
    SELECT seq, attempts FROM approval_deliveries WHERE webhook = ${webhook} AND next_at <= ${now}
    ORDER BY next_at, seq LIMIT 1`;
  return {
    ...{ state: "open", fresh, late, passed, skipped: passed - seq },
    due: due && { seq: integer(due, "seq"), attempts: integer(due, "attempts") },
  };
}

async function look(view: ReadTransaction, wanted: Wanted): Promise<"work" | "nothing" | "disabled"> {
  const { state, fresh, late, due, skipped } = await find(view, wanted);
  if (state === "disabled") return state;
  const isWork = fresh !== undefined || late.length > 0 || due !== undefined || skipped >= SKIPPED_MAX;
  return isWork ? "work" : "nothing";
}

/** Takes new events first: one may be an approval request that somebody waits for. */
async function begin(tx: WriteTransaction, wanted: Wanted): Promise<OutboxItem | GivenUp | undefined> {
  const { sql, now } = tx;
  const { state, fresh, late, passed, due } = await find(tx, wanted);
  if (state !== "open") return undefined;
  await sql`
    UPDATE approval_webhooks SET seq = ${passed}, lease_owner = ${wanted.owner}, lease_until = ${now + LEASE_MS}
    WHERE name = ${wanted.webhook}`;
  for (const event of late) noteDead(tx, wanted, { event, attempts: 0, reason: "its turn did not come in time" });
  if (late.length > 0) return { givenUp: late.length };
  if (fresh !== undefined) return { event: fresh, attempts: 0 };
  if (due === undefined) return undefined;
  const [row] = await sql`SELECT * FROM approval_events WHERE seq = ${due.seq}`;
  if (row !== undefined) return { event: toEvent(row), attempts: due.attempts };
  // The event was deleted, because it is old or there are too many.
  await removeDelivery(tx, wanted, due.seq);
  return undefined;
}

interface End {
  readonly item: OutboxItem;
  readonly outcome: DeliveryOutcome;
  readonly jitter: number;
}

async function settle(tx: WriteTransaction, wanted: Wanted, { item, outcome, jitter }: End): Promise<Settled> {
  const { sql, now } = tx;
  const { webhook, owner } = wanted;
  const [row] = await sql`SELECT * FROM approval_webhooks WHERE name = ${webhook} AND lease_owner = ${owner}`;
  if (row === undefined) return "lost";
  if (item.attempts === 0) {
    await sql`UPDATE approval_webhooks SET seq = ${item.event.seq} WHERE name = ${webhook} AND seq < ${item.event.seq}`;
  }
  if (outcome.kind === "gone") return disable(tx, wanted, item);
  if (outcome.kind !== "later") {
    await removeDelivery(tx, wanted, item.event.seq);
    if (outcome.kind === "taken")
      await sql`UPDATE approval_webhooks SET failures = 0, paused_until = 0 WHERE name = ${webhook}`;
    return "done";
  }
  const failures = integer(row, "failures") + 1;
  const pauseMs = Math.max(spread(PAUSE_MS, PAUSE_MS_MAX, { failures, jitter }), retryAfterMs(outcome));
  await sql`
    UPDATE approval_webhooks SET failures = ${failures}, paused_until = ${now + pauseMs}
    WHERE name = ${webhook}`;
  return scheduleRetry(tx, wanted, { item, outcome, jitter });
}

async function scheduleRetry(tx: WriteTransaction, wanted: Wanted, { item, outcome, jitter }: End): Promise<Settled> {
  const { sql, now } = tx;
  const { webhook } = wanted;
  const { seq } = item.event;
  const attempts = item.attempts + 1;
  const nextAt = now + Math.max(spread(RETRY_MS, RETRY_MS_MAX, { failures: attempts, jitter }), retryAfterMs(outcome));
  const [first] = await sql`SELECT first_at FROM approval_deliveries WHERE webhook = ${webhook} AND seq = ${seq}`;
  const firstAt = first === undefined ? now : integer(first, "first_at");
  const [waiting = {}] = await sql`SELECT count(*) AS waiting FROM approval_deliveries WHERE webhook = ${webhook}`;
  const isFull = first === undefined && integer(waiting, "waiting") >= WAITING_MAX;
  if (isFull || nextAt - firstAt > RETRY_FOR_MS) return giveUp(tx, wanted, { item, outcome, jitter });
  await sql`
    INSERT INTO approval_deliveries (webhook, seq, attempts, first_at, next_at)
    VALUES (${webhook}, ${seq}, ${attempts}, ${firstAt}, ${nextAt})
    ON CONFLICT (webhook, seq) DO UPDATE SET attempts = excluded.attempts, next_at = excluded.next_at`;
  return "again";
}

async function giveUp(tx: WriteTransaction, wanted: Wanted, { item, outcome }: End): Promise<Settled> {
  const { event, attempts } = item;
  const reason = outcome.kind === "later" ? outcome.reason : outcome.kind;
  await removeDelivery(tx, wanted, event.seq);
  noteDead(tx, wanted, { event, attempts: attempts + 1, reason });
  return "dead";
}

function noteDead(
  tx: WriteTransaction,
  { webhook }: Wanted,
  { event, ...facts }: OutboxItem & { readonly reason: string },
): void {
  const about = { webhook, event: event.type, id: event.id };
  tx.note({ event: undefined, journal: { type: "webhook.dead", ...about, ...facts } });
}

/** Returns whether an event that is too old counts as given up. An approval request does not: it has ended by then. */
function countsAsGivenUp({ type }: ApprovalEvent): boolean {
  return type !== "approval.requested";
}

/** Disables a webhook whose receiver answered 410 (Gone), until the webhook is registered again. */
async function disable(tx: WriteTransaction, { webhook }: Wanted, { event }: OutboxItem): Promise<Settled> {
  const { sql, now } = tx;
  await sql`UPDATE approval_webhooks SET disabled_at = ${now} WHERE name = ${webhook}`;
  await sql`DELETE FROM approval_deliveries WHERE webhook = ${webhook}`;
  tx.note({ event: undefined, journal: { type: "webhook.disabled", webhook, event: event.type, id: event.id } });
  return "disabled";
}

async function removeDelivery({ sql }: WriteTransaction, { webhook }: Wanted, seq: number): Promise<void> {
  await sql`DELETE FROM approval_deliveries WHERE webhook = ${webhook} AND seq = ${seq}`;
}

function retryAfterMs(outcome: DeliveryOutcome): number {
  return outcome.kind === "later" ? Math.min(outcome.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX) : 0;
}

/** Returns a delay that doubles with each failure, randomized in its upper half so that retries do not coincide. */
function spread(
  firstMs: number,
  maxMs: number,
  { failures, jitter }: { readonly failures: number; readonly jitter: number },
): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, DOUBLINGS_MAX));
  return Math.floor(ceiling * (0.5 + jitter / 2));
}
