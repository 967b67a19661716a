import { endedWithin } from "../../core/time-limits.ts";
import type { Json } from "../../core/types.ts";
import type { Dialect, Row, Sql } from "../../database/dialect.ts";
import type { ApprovalEvent } from "../types.ts";

/** Maximum number of running and queued write transactions. When it is reached, the disk or the journal does not respond. */
const CHANGES_MAX = 2_000;
/** Longest delay before a transaction is retried. */
const BUSY_RETRY_MS_MAX = 20;
/** Time that `close` waits for running transactions; later ones are rolled back. */
const CLOSE_MS_MAX = 5_000;

export interface ApprovalJournalLine {
  readonly type: string;
  readonly [member: string]: Json | undefined;
}

/** A change, for event listeners (not every change is an event) and for the journal. */
export interface ApprovalChange {
  readonly event: Omit<ApprovalEvent, "seq" | "at"> | undefined;
  readonly journal: ApprovalJournalLine;
}

export interface ReadTransaction {
  readonly sql: Sql;
  /** Start of the transaction, in Unix milliseconds. */
  readonly now: number;
}

export interface WriteTransaction extends ReadTransaction {
  /** Adds a change: its event is committed with the transaction, and its journal line is on disk before the commit. */
  note(change: ApprovalChange): void;
}

/** Events of one transaction: the first sequence number, and the ids of their approvals, grants or sessions. */
export interface Committed {
  readonly firstSeq: number;
  readonly ids: readonly string[];
}

interface DatabaseOptions {
  readonly dialect: Dialect;
  readonly journal: (line: ApprovalJournalLine) => Promise<void>;
  readonly onCommit: (committed: Committed) => void;
  readonly log: (message: string, cause: unknown) => void;
}

interface Progress {
  stage: "begun" | "journaling" | "journaled";
}

/** Runs transactions. A transaction is not retried once its lines are being written to the journal. */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #underWay = new Set<Promise<unknown>>();
  #changes = 0;
  #closed: Promise<void> | undefined;

  constructor(options: DatabaseOptions) {
    this.#options = options;
  }

  read<T>(work: (view: ReadTransaction) => Promise<T>): Promise<T> {
    return this.#track(() => this.#begin("read", work));
  }

  async write<T>(work: (tx: WriteTransaction) => Promise<T>): Promise<T> {
    if (this.#changes >= CHANGES_MAX) {
      throw new Error(`${CHANGES_MAX} changes of approvals already wait for the disk or the journal`);
    }
    this.#changes += 1;
    const { value, committed } = await this.#track(() =>
      this.#begin("write", (view, progress) => this.#run(view, work, progress)),
    ).finally(() => {
      this.#changes -= 1;
    });
    if (committed !== undefined) this.#options.onCommit(committed);
    return value;
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #run<T>(
    view: ReadTransaction,
    work: (tx: WriteTransaction) => Promise<T>,
    progress: Progress,
  ): Promise<{ value: T; committed: Committed | undefined }> {
    const { dialect, journal } = this.#options;
    const changes: ApprovalChange[] = [];
    const value = await work({ ...view, note: (change) => changes.push(change) });
    const committed = await insertEvents(view, changes);
    if (committed !== undefined) await dialect.announce(view.sql);
    progress.stage = "journaling";
    await Promise.all(changes.map((change) => journal(change.journal)));
    progress.stage = "journaled";
    return { value, committed };
  }

  async #begin<T>(kind: "read" | "write", run: (view: ReadTransaction, progress: Progress) => Promise<T>): Promise<T> {
    const { dialect, log } = this.#options;
    for (let attempt = 1; ; attempt += 1) {
      const progress: Progress = { stage: "begun" };
      try {
        return await dialect.begin(kind, (sql, now) => run({ sql, now }, progress));
      } catch (error) {
        if (progress.stage === "journaled") log("an approval transaction was journaled, but its commit failed", error);
        const mayRetry = progress.stage === "begun" && dialect.isBusy(error);
        if (!mayRetry || attempt >= dialect.busyAttemptsMax || this.#closed !== undefined) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 1 + (attempt % BUSY_RETRY_MS_MAX)));
    }
  }

  async #track<T>(start: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw new Error("the approval store is closed");
    const running = start();
    this.#underWay.add(running);
    try {
      return await running;
    } finally {
      this.#underWay.delete(running);
    }
  }

  async #finish(): Promise<void> {
    await endedWithin(Promise.allSettled([...this.#underWay]), CLOSE_MS_MAX);
    await this.#options.dialect.close();
  }
}

/** Inserts the events. Locking the single counter row numbers them in commit order, even with several writers. */
async function insertEvents(
  { sql, now }: ReadTransaction,
  changes: readonly ApprovalChange[],
): Promise<Committed | undefined> {
  const events = changes.flatMap(({ event }) => (event === undefined ? [] : [event]));
  if (events.length === 0) return undefined;
  const [counter]: readonly Row[] =
    await sql`UPDATE approval_counters SET value = value + ${events.length} WHERE name = 'events' RETURNING value`;
  const firstSeq = Number(counter?.["value"]) - events.length + 1;
  for (const [index, { type, id, tool, summary, issuer, subject, webhooks, member }] of events.entries()) {
    await sql`
      INSERT INTO approval_events (seq, at, type, id, tool, summary, issuer, subject, webhooks, member)
      VALUES (${firstSeq + index}, ${now}, ${type}, ${id}, ${tool ?? null}, ${summary ?? null}, ${issuer}, ${subject},
        ${webhooks === undefined ? null : JSON.stringify(webhooks)}, ${member ?? null})`;
  }
  return { firstSeq, ids: events.map(({ id }) => id) };
}
