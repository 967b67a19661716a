import { type Inbox, inbox } from "./notify/inbox.ts";
import { type Outbox, outbox } from "./notify/outbox.ts";
import { type MakeReport, reports } from "./notify/report.ts";
import { type ApprovalJournalLine, Database, type ReadTransaction } from "./store/database.ts";
import { grants } from "./store/grants.ts";
import { keys } from "./store/keys.ts";
import { Notifier } from "./store/notifier.ts";
import { openPostgres } from "./store/postgres.ts";
import { claims, decisions, events, eventsAfter, get, lastSeq, listing, questions } from "./store/requests.ts";
import { sessions } from "./store/sessions.ts";
import type { Dialect } from "./store/sql.ts";
import { openSqlite } from "./store/sqlite.ts";
import { type ApprovalLimits, SECOND_MS, type Store } from "./store/store.ts";
import { sweep } from "./store/sweeping.ts";
import { waiting } from "./store/waiting.ts";
import type { Approvals } from "./types.ts";

export type { ApprovalLimits } from "./store/store.ts";

export interface ApprovalsOptions {
  /**
   * `sqlite:///absolute/path.sqlite`: the path as it is, nothing decoded; made for us alone when it is missing. Or
   * `postgres://user:password@host:port/database`, with what `postgres-url.ts` takes after a `?`.
   */
  readonly url: string;
  /** Milliseconds since 1970; a PostgreSQL server has a clock of its own, which counts for all its clients. */
  readonly now: () => number;
  /** UUIDs: of approvals and grants. */
  readonly newId: () => string;
  /** Ids of sessions, which nobody may guess: `[A-Za-z0-9_-]{22,64}`. */
  readonly newToken: () => string;
  /** Durable when it resolves; when it rejects, what it announced does not happen. */
  readonly journal: (line: ApprovalJournalLine) => Promise<void>;
  readonly limits: ApprovalLimits;
  readonly log?: (message: string, cause: unknown) => void;
}

/** Approvals with what the store keeps beside them. */
export interface OpenedApprovals extends Approvals {
  readonly outbox: Outbox;
  readonly inbox: Inbox;
  readonly report: MakeReport;
}

/**
 * Opens the store, or makes it, and ends what the clock has ended meanwhile.
 * @throws Error that names the file or the server, and what to do
 */
export async function openApprovals(options: ApprovalsOptions): Promise<OpenedApprovals> {
  const { limits, newId, newToken, log = () => {} } = options;
  const dialect = await openDialect(options);
  const database = new Database({
    dialect,
    journal: options.journal,
    onCommit: (committed) => wakes.committed(committed),
    log,
  });
  const wakes = new Notifier({
    pollMs: dialect.pollMs,
    eventsAfter: (seq, limit) => database.read((view) => eventsAfter(view, seq, limit)),
    lastSeq: () => database.read(lastSeq),
    log,
  });
  const store: Store = { database, wakes, limits, newId, newToken };
  try {
    await sweep(store);
  } catch (error) {
    await database.close();
    throw error;
  }
  dialect.watch(() => wakes.announced());
  const timer = sweepRegularly(store, log);
  const waits = waiting({ wakes, read: (id) => database.read((view) => readAt(view, id)) });
  return {
    ...questions(store),
    ...decisions(store),
    ...claims(store),
    ...listing(store),
    wait: waits.wait,
    ...grants(store),
    ...sessions(store),
    ...keys(store),
    ...events(store),
    outbox: outbox(store),
    inbox: inbox(store),
    report: reports(store),
    sweep: () => sweep(store),
    async close() {
      clearInterval(timer);
      wakes.close();
      await waits.lastLooks();
      await database.close();
    },
  };
}

function openDialect({ url, now, log = () => {} }: ApprovalsOptions): Promise<Dialect> {
  if (/^postgres(?:ql)?:/.test(url)) return openPostgres(url, log);
  const path = /^sqlite:\/\/(\/[^\0?#]+)$/.exec(url)?.[1];
  // The URL may hold a password: it is not quoted.
  if (path === undefined) {
    throw new Error("the approvals store must be named as sqlite:///absolute/path.sqlite or postgres://…");
  }
  return openSqlite(path, now);
}

async function readAt(view: ReadTransaction, id: string) {
  return { approval: await get(view, id), now: view.now };
}

function sweepRegularly(store: Store, log: (message: string, cause: unknown) => void): NodeJS.Timeout {
  let isSweeping = false;
  const run = async (): Promise<void> => {
    if (isSweeping) return;
    isSweeping = true;
    try {
      await sweep(store);
    } catch (error) {
      if (!store.wakes.isClosed) log("the approvals store could not be swept", error);
    } finally {
      isSweeping = false;
    }
  };
  const timer = setInterval(() => void run(), store.limits.sweepEverySeconds * SECOND_MS);
  timer.unref();
  return timer;
}
