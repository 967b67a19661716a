import { sha256Hex } from "../../core/digest.ts";
import type { EpochMs, UsedKey } from "../../core/types.ts";
import { optionalText, text } from "../../database/rows.ts";
import type { BoundedCall } from "../grants.ts";
import type { Approval, Approvals, Grant, LeftClaim, ResolvedDoubt } from "../types.ts";
import { claims } from "./claims.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { decisions } from "./decisions.ts";
import { lastSeq } from "./events.ts";
import { keyCondition, keys } from "./keys.ts";
import { get, listing } from "./listing.ts";
import { ownEventsAfter } from "./member-events.ts";
import { requests } from "./requests.ts";
import { boundedGrants, grants, sessions } from "./sessions.ts";
import type { Store } from "./store.ts";
import { claimsOf, doubtClaimsOf, resolveDoubt } from "./sweeping.ts";
import { tasks } from "./tasks.ts";
import { membersText } from "./transitions.ts";

/** A request of a member of the hub. */
export interface MemberRequest {
  readonly member: string;
  /** Id of the log that the member's process writes. */
  readonly instance: string;
  /** Returns whether the member may speak for the callers of an issuer. */
  speaksFor(issuer: string): boolean;
  /** Runs a write of the request, by its number. When the same request has run it before, returns what it returned then. */
  once<T>(tx: ReadTransaction, write: number, work: () => Promise<T>): Promise<T>;
  /** Returns what the first write of the request returned, when the same request has run before. */
  answered(view: ReadTransaction): Promise<{ readonly value: unknown } | undefined>;
}

/** A member named the id of a row that does not belong to it. */
export class ForeignRowError extends Error {
  override readonly name = "ForeignRowError";

  constructor(kind: "approval" | "claim" | "grant" | "key" | "task") {
    super(`this ${kind} belongs to another member`);
  }
}

/** The approvals as one member may use them. Its rows: its requests, claims, tasks and uses of keys. */
export interface MemberApprovals
  extends Pick<Approvals, "ask" | "foresee" | "claim" | "priorOf" | "settle" | "cancel">,
    Pick<Approvals, "get" | "ageOf" | "list" | "backlog" | "findGrant" | "useGrant" | "revokeGrantsFor">,
    Pick<Approvals, "openSession" | "findSession" | "hasSessionEnded" | "endSession" | "beginKey" | "endKey">,
    Pick<Approvals, "createTask" | "readTask" | "hasTask" | "endTask" | "cancelTask" | "eventsAfter" | "lastSeq"> {
  /** Returns the caller's grants within the same bounds; the member compares the arguments. */
  boundedGrants(call: Pick<BoundedCall, "requester" | "boundsKey">): Promise<readonly Grant[]>;
  /** Returns the claims that a process of this member has left. */
  claimsOf(instance: string): Promise<readonly LeftClaim[]>;
  /** Ends the claims of a process of this member. */
  doubtClaimsOf(instance: string): Promise<void>;
  /** Settles what a process of this member had claimed. `claimant`: that process. */
  resolveDoubt(doubt: ResolvedDoubt): Promise<void>;
  /** Returns the database's clock at the last transaction. */
  now(): Promise<EpochMs>;
}

/** Returns the methods for one request. */
export function forMember(store: Store, request: MemberRequest): MemberApprovals {
  const { member } = request;
  const transactions = new RequestTransactions(store, request);
  const own: Store = { ...store, database: transactions, member, claimant: () => claimantOf(request) };
  /** The same store, where each transaction begins with a check. */
  const checked = (check: (view: ReadTransaction) => Promise<void>): Store => ({
    ...own,
    database: {
      read: (work) => transactions.read((view) => check(view).then(() => work(view))),
      write: (work) => transactions.write((tx) => check(tx).then(() => work(tx))),
    },
  });
  const ofApproval = (id: string) => checked((view) => assertAskedBy(view, id, member));
  const ofTask = (id: string) => tasks(checked((view) => assertTaskOf(view, id, member)));
  return {
    ...requests(own),
    ...claims(own),
    settle: (id, outcome) => claims(checked((view) => assertClaimedBy(view, id, request))).settle(id, outcome),
    cancel: (id, requester) => decisions(ofApproval(id)).cancel(id, requester),
    ...listing(own),
    get: (id) => listing(ofApproval(id)).get(id),
    ageOf: (id) => listing(ofApproval(id)).ageOf(id),
    ...grants(own),
    boundedGrants: (call) => transactions.read((view) => boundedGrants(view, call, member)),
    useGrant: (id, traceId) => grants(checked((view) => assertGrantOf(view, id, request))).useGrant(id, traceId),
    ...sessions(own),
    ...keys(own),
    endKey: (use, ...end) => keys(checked((view) => assertUses(view, use, request))).endKey(use, ...end),
    createTask: tasks(own).createTask,
    async readTask(id, requester) {
      // `readTask` reads before its write: a repetition would find another state.
      const answered = await transactions.read((view) => request.answered(view));
      if (answered !== undefined) return answered.value as Awaited<ReturnType<Approvals["readTask"]>>;
      return ofTask(id).readTask(id, requester);
    },
    hasTask: (id, requester) => ofTask(id).hasTask(id, requester),
    endTask: (id, end) => ofTask(id).endTask(id, end),
    cancelTask: (id, requester) => ofTask(id).cancelTask(id, requester),
    eventsAfter: (seq, limit) => transactions.read((view) => ownEventsAfter(view, { member, seq, limit })),
    lastSeq: () => transactions.read(lastSeq),
    claimsOf: (instance) => claimsOf(own, claimantOf({ member, instance })),
    doubtClaimsOf: (instance) => doubtClaimsOf(own, claimantOf({ member, instance })),
    resolveDoubt: (doubt) =>
      resolveDoubt(own, { ...doubt, claimant: claimantOf({ member, instance: doubt.claimant }) }),
    now: () => transactions.now(),
  };
}

/** The transactions of one request: each of its writes runs once. */
class RequestTransactions {
  readonly #store: Store;
  readonly #request: MemberRequest;
  #writes = 0;
  #now: EpochMs | undefined;

  constructor(store: Store, request: MemberRequest) {
    this.#store = store;
    this.#request = request;
  }

  read<T>(work: (view: ReadTransaction) => Promise<T>): Promise<T> {
    return this.#store.database.read((view) => {
      this.#now = view.now;
      return work(view);
    });
  }

  write<T>(work: (tx: WriteTransaction) => Promise<T>): Promise<T> {
    const write = this.#writes;
    this.#writes += 1;
    return this.#store.database.write((tx) => {
      this.#now = tx.now;
      return this.#request.once(tx, write, () => work(tx));
    });
  }

  async now(): Promise<EpochMs> {
    return this.#now ?? this.read(async (view) => view.now);
  }
}

/** The part before the slash has none, so that no member's name is the start of another's. */
function claimantOf({ member, instance }: Pick<MemberRequest, "member" | "instance">): string {
  return `${ownerOf(member)}${instance}`;
}

function ownerOf(member: string): string {
  return `${encodeURIComponent(member)}/`;
}

async function assertAskedBy(view: ReadTransaction, id: string, member: string): Promise<void> {
  const approval: Approval | undefined = await get(view, id);
  if (approval !== undefined && approval.members?.includes(member) !== true) throw new ForeignRowError("approval");
}

async function assertClaimedBy({ sql }: ReadTransaction, id: string, { member }: MemberRequest): Promise<void> {
  const [row] = await sql`SELECT claimed_by FROM approvals WHERE id = ${id} AND state = 'claimed'`;
  const claimant = row && optionalText(row, "claimed_by");
  if (row !== undefined && claimant?.startsWith(ownerOf(member)) !== true) throw new ForeignRowError("claim");
}

async function assertUses(view: ReadTransaction, key: UsedKey, { member }: MemberRequest): Promise<void> {
  const [row] = await view.sql`
    SELECT claimed_by FROM approval_keys WHERE ${keyCondition(view, key)} AND state = 'running'`;
  const claimant = row && optionalText(row, "claimed_by");
  if (row !== undefined && claimant?.startsWith(ownerOf(member)) !== true) throw new ForeignRowError("key");
}

async function assertGrantOf({ sql }: ReadTransaction, id: string, request: MemberRequest): Promise<void> {
  const [row] = await sql`SELECT issuer, members FROM approval_grants WHERE id = ${id}`;
  if (row === undefined) return;
  const isOwnGrant = text(row, "members") === membersText(request.member);
  if (!isOwnGrant || !request.speaksFor(text(row, "issuer"))) throw new ForeignRowError("grant");
}

async function assertTaskOf({ sql }: ReadTransaction, id: string, member: string): Promise<void> {
  const [row] = await sql`SELECT member FROM approval_tasks WHERE id_hash = ${sha256Hex(id)}`;
  if (row !== undefined && row["member"] !== member) throw new ForeignRowError("task");
}
