import type { ApprovalStore, Dialect } from "../database/dialect.ts";
import { type Inbox, inbox } from "./notify/inbox.ts";
import { type Outbox, outbox } from "./notify/outbox.ts";
import { type MakeReport, reports } from "./notify/report.ts";
import { claims } from "./store/claims.ts";
import { type ApprovalJournalLine, Database, type ReadTransaction } from "./store/database.ts";
import { decisions } from "./store/decisions.ts";
import { events, eventsAfter, lastSeq } from "./store/events.ts";
import { keys } from "./store/keys.ts";
import { get, listing } from "./store/listing.ts";
import { MemberEvents } from "./store/member-events.ts";
import { forMember, type MemberApprovals, type MemberRequest } from "./store/members.ts";
import { Notifier } from "./store/notifier.ts";
import { requests } from "./store/requests.ts";
import { grants, sessions } from "./store/sessions.ts";
import { type ApprovalLimits, SECOND_MS, type Store } from "./store/store.ts";
import { claimsOf, doubtClaimsOf, resolveDoubt, sweep } from "./store/sweeping.ts";
import { tasks } from "./store/tasks.ts";
import { waiting } from "./store/waiting.ts";
import type { Approvals } from "./types.ts";

export { ForeignRowError, type MemberApprovals, type MemberRequest } from "./store/members.ts";
export type { ApprovalLimits } from "./store/store.ts";

export interface ApprovalsOptions {
  readonly stores: readonly ApprovalStore[];
  /** Accepted by one of the stores. Paths in it are absolute. */
  readonly url: string;
  /** The tenant that has these approvals; undefined: the service itself. */
  readonly tenant?: string | undefined;
  /** Returns Unix milliseconds. Used for SQLite only: with PostgreSQL, the server's clock counts for all clients. */
  readonly now: () => number;
  readonly newId: () => string;
  /** Returns an unguessable session id: `[A-Za-z0-9_-]{22,64}`. */
  readonly newToken: () => string;
  /** Returns the name of this process in its claims. Without one, its claims end with their leases. */
  readonly claimant?: () => string | undefined;
  /** Writes a journal line. The line is durable when the promise resolves; when it rejects, the announced change is not made. */
  readonly journal: (line: ApprovalJournalLine) => Promise<void>;
  readonly limits: ApprovalLimits;
  readonly log?: (message: string, cause: unknown) => void;
}

export interface OpenedApprovals extends Approvals {
  readonly outbox: Outbox;
  readonly inbox: Inbox;
  readonly report: MakeReport;
  /** Returns what a member of the hub may do, for one of its requests. */
  forMember(request: MemberRequest): MemberApprovals;
  readonly memberEvents: Pick<MemberEvents, "wait">;
}

/**
 * Opens or creates the store, and expires what has passed its deadline meanwhile.
 * @throws Error that names the file or the server, and what to do
 */
export async function openApprovals(options: ApprovalsOptions): Promise<OpenedApprovals> {
  const { limits, newId, newToken, claimant = () => undefined, log = () => {} } = options;
  const dialect = await openDialect(options);
  const database = new Database({
    dialect,
    journal: options.journal,
    onCommit: (committed) => notifier.committed(committed),
    log,
  });
  const notifier = new Notifier({
    pollMs: dialect.pollMs,
    eventsAfter: (seq, limit) => database.read((view) => eventsAfter(view, seq, limit)),
    lastSeq: () => database.read(lastSeq),
    log,
  });
  const store: Store = { database, notifier, limits, newId, newToken, claimant };
  try {
    await sweep(store);
  } catch (error) {
    await database.close();
    throw error;
  }
  dialect.watch(() => notifier.announced());
  const timer = sweepRegularly(store, log);
  const waits = waiting({ notifier, read: (id) => database.read((view) => readAt(view, id)) });
  return {
    ...requests(store),
    ...decisions(store),
    ...claims(store),
    ...listing(store),
    wait: waits.wait,
    ...grants(store),
    ...sessions(store),
    ...keys(store),
    ...tasks(store),
    ...events(store),
    outbox: outbox(store),
    inbox: inbox(store),
    report: reports(store),
    forMember: (request) => forMember(store, request),
    memberEvents: new MemberEvents(store),
    claimsOf: (claimant) => claimsOf(store, claimant),
    doubtClaimsOf: (ended) => doubtClaimsOf(store, ended),
    resolveDoubt: (doubt) => resolveDoubt(store, doubt),
    sweep: () => sweep(store),
    async close() {
      clearInterval(timer);
      notifier.close();
      await waits.finishFirstReads();
      await database.close();
    },
  };
}

async function openDialect({ stores, url, tenant, now, log = () => {} }: ApprovalsOptions): Promise<Dialect> {
  const store = stores.find(({ accepts }) => accepts.test(url));
  // The error does not quote the URL, which may contain a password.
  if (store === undefined) {
    throw new Error(`the approvals store must be named as ${stores.map(({ example }) => example).join(" or ")}`);
  }
  return store.open(url, { now, tenant, log });
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
      if (!store.notifier.isClosed) log("the approvals store could not be swept", error);
    } finally {
      isSweeping = false;
    }
  };
  const timer = setInterval(() => void run(), store.limits.sweepEverySeconds * SECOND_MS);
  timer.unref();
  return timer;
}
