import { sha256Hex } from "../../core/digest.ts";
import type { Row } from "../../database/dialect.ts";
import { integer, text } from "../../database/rows.ts";
import { type BoundedCall, type GrantBounds, isCovered, termsJson } from "../grants.ts";
import type { Approver, Requester } from "../identities.ts";
import type { Approval, Approvals, Grant, GrantFilter, Session } from "../types.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { toGrant, toSession } from "./rows.ts";
import { SECOND_MS, type Store } from "./store.ts";
import { identity, insertSession, isOwn, membersText, type Owner, sessionIsOver, sessionOf } from "./transitions.ts";

const SESSIONS_LISTED_MAX = 1_000;

type ModeChange = Parameters<Approvals["setMode"]>[0];

export function sessions(
  store: Store,
): Pick<Approvals, "openSession" | "findSession" | "hasSessionEnded" | "setMode" | "listSessions" | "endSession"> {
  const { database } = store;
  return {
    openSession: (owner) => database.write((tx) => open(tx, owner, store)),
    findSession: (id, owner) => database.read((view) => find(view, id, owner)),
    hasSessionEnded: (id, owner) => database.read((view) => sessionIsOver(view, { ...owner, session: id })),
    setMode: (change) => database.write((tx) => setMode(tx, change, store)),
    listSessions: (owner) => database.read((view) => list(view, owner)),
    endSession: (id, by, owner) => database.write((tx) => endById(tx, id, { by, owner })),
  };
}

async function open(tx: WriteTransaction, owner: Owner, { limits, newToken }: Store): Promise<Session> {
  const surplus = await tx.sql`
    SELECT * FROM approval_sessions
    WHERE issuer = ${owner.issuer} AND subject = ${owner.subject} AND minted = 1 AND ended_at IS NULL
      AND expires_at > ${tx.now}
    ORDER BY created_at DESC, id DESC LIMIT ${limits.sessionsPerCallerMax + 1} OFFSET ${limits.sessionsPerCallerMax - 1}`;
  for (const row of surplus) await end(tx, row, owner);
  const id = newToken();
  const expiresAt = tx.now + limits.sessionSeconds * SECOND_MS;
  await insertSession(tx, { id, owner, minted: true, expiresAt });
  const session = await find(tx, id, owner);
  if (session === undefined) throw new Error("a new session has the id of another");
  return session;
}

async function find({ sql, now }: ReadTransaction, id: string, owner: Owner): Promise<Session | undefined> {
  const [row] = await sql`
    SELECT * FROM approval_sessions
    WHERE issuer = ${owner.issuer} AND subject = ${owner.subject} AND id = ${id} AND ended_at IS NULL
      AND expires_at > ${now}`;
  return row === undefined ? undefined : toSession(row, now);
}

async function list({ sql, now }: ReadTransaction, owner: Owner | undefined): Promise<readonly Session[]> {
  const ofOwner = owner === undefined ? sql`1 = 1` : sql`issuer = ${owner.issuer} AND subject = ${owner.subject}`;
  const rows = await sql`
    SELECT * FROM approval_sessions WHERE ${ofOwner} AND ended_at IS NULL AND expires_at > ${now}
    ORDER BY created_at DESC, id DESC LIMIT ${SESSIONS_LISTED_MAX}`;
  return rows.map((row) => toSession(row, now));
}

async function setMode(tx: WriteTransaction, change: ModeChange, { limits }: Store): Promise<Session | undefined> {
  const owner = change.requester ?? (await onlyOwner(tx, change.id));
  if (owner === undefined) return undefined;
  const asked = Math.min(Math.floor(change.until), tx.now + limits.modeSecondsMax * SECOND_MS);
  const until = change.mode !== "default" && asked > tx.now ? asked : undefined;
  const mode = until === undefined ? "default" : change.mode;
  const expiresAt = Math.max(until ?? 0, tx.now + limits.sessionSeconds * SECOND_MS);
  if (change.requester !== undefined) await insertSession(tx, { id: change.id, owner, minted: false, expiresAt });
  const [row] = await tx.sql`
    UPDATE approval_sessions SET mode = ${mode}, mode_until = ${until ?? null}, mode_issuer = ${change.by.issuer},
      mode_subject = ${change.by.subject}, expires_at = CASE WHEN minted = 1 THEN expires_at ELSE ${expiresAt} END
    WHERE issuer = ${owner.issuer} AND subject = ${owner.subject} AND id = ${change.id} AND ended_at IS NULL
      AND (minted = 0 OR expires_at > ${tx.now})
    RETURNING *`;
  if (row === undefined) return undefined;
  noteMode(tx, row, { mode, until, decider: identity(change.by) });
  return toSession(row, tx.now);
}

/** Returns the owner when exactly one live session has this id: two callers may have the same `sid`. */
async function onlyOwner({ sql, now }: ReadTransaction, id: string): Promise<Owner | undefined> {
  const rows = await sql`
    SELECT issuer, subject FROM approval_sessions
    WHERE id = ${id} AND ended_at IS NULL AND expires_at > ${now} LIMIT 2`;
  const [row] = rows;
  return row === undefined || rows.length > 1 ? undefined : ownerOf(row);
}

/**
 * Ends the session with this id. An owner who has or had one ends only that one, since two callers may have the same `sid`;
 * anybody else (an operator) ends that of `owner`, or the only live one.
 */
async function endById(
  tx: WriteTransaction,
  id: string,
  { by, owner }: { readonly by: Owner; readonly owner: Owner | undefined },
): Promise<boolean> {
  const rows = await tx.sql`SELECT * FROM approval_sessions WHERE id = ${id}`;
  const live = rows.filter((row) => row["ended_at"] === null && integer(row, "expires_at") > tx.now);
  const belongsTo = (named: Owner) => (row: Row) => row["issuer"] === named.issuer && row["subject"] === named.subject;
  const only = live.length === 1 ? live[0] : undefined;
  const known = owner ?? (rows.some(belongsTo(by)) ? by : undefined);
  const target = known === undefined ? only : live.find(belongsTo(known));
  return target !== undefined && (await end(tx, target, by));
}

/** Ends the session and its grants. `by` is undefined when the session has expired. */
export async function end(tx: WriteTransaction, row: Row, by?: Approver): Promise<boolean> {
  const { issuer, subject } = ownerOf(row);
  const id = text(row, "id");
  const ended = await tx.sql`
    UPDATE approval_sessions SET ended_at = ${tx.now}, mode = 'default', mode_until = NULL
    WHERE issuer = ${issuer} AND subject = ${subject} AND id = ${id} AND ended_at IS NULL
    RETURNING id`;
  if (ended.length === 0) return false;
  await revokeGrantsOf(tx, { issuer, subject, id }, by);
  const decider = by === undefined ? undefined : identity(by);
  tx.note({
    event: { type: "session.ended", id, tool: undefined, summary: undefined, issuer, subject },
    journal: { type: "session.ended", id, issuer, subject, decider },
  });
  return true;
}

interface ModeNote {
  readonly mode: string;
  readonly until: number | undefined;
  readonly decider: { readonly issuer: string; readonly subject: string } | undefined;
}

export function noteMode(tx: WriteTransaction, row: Row, { mode, until, decider }: ModeNote): void {
  const { issuer, subject } = ownerOf(row);
  const id = text(row, "id");
  tx.note({
    event: { type: "session.mode", id, tool: undefined, summary: mode, issuer, subject },
    journal: { type: "session.mode", id, issuer, subject, mode, until, decider },
  });
}

function ownerOf(row: Row): Owner {
  return { issuer: text(row, "issuer"), subject: text(row, "subject") };
}

const GRANTS_LISTED_MAX = 1_000;

/** Grants of one key that are compared with a call; each was given by a person within a day. */
const GRANTS_COMPARED_MAX = 200;
const MINUTE_MS = 60_000;

type GrantParts = Pick<
  Approvals,
  "findGrant" | "findBoundedGrants" | "useGrant" | "listGrants" | "revokeGrant" | "revokeGrantsFor"
>;

export function grants({ database, member }: Store): GrantParts {
  return {
    async findGrant(requester, grantKey) {
      return requester.session ? database.read((view) => findGrant(view, { requester, grantKey, member })) : undefined;
    },
    async findBoundedGrants(call) {
      const found = await database.read((view) => boundedGrants(view, call, member));
      return found.filter(({ bounded }) => bounded !== undefined && isCovered(bounded.bounds, call));
    },
    useGrant: (id, traceId) =>
      database.write((tx) => countRun(tx, tx.sql`id = ${id} AND ${isOwn(tx, member)}`, traceId)),
    listGrants: (filter) => database.read((view) => grantsOf(view, filter)),
    revokeGrant: (id, by) => database.write((tx) => revokeWhere(tx, tx.sql`id = ${id}`, by)),
    async revokeGrantsFor(tools, by) {
      const granted = await database.read(grantedTools);
      const held = tools.filter((tool) => granted.has(tool));
      // Usually there are none, and no write transaction is needed.
      if (held.length > 0) await database.write((tx) => revokeFor(tx, held, { by, member }));
    },
  };
}

/** Remembers an approval: for the session or within bounds. */
export async function createGrant(tx: WriteTransaction, approval: Approval, store: Store): Promise<void> {
  const { granted, offer, grantKey, planDigest } = approval;
  if (granted !== undefined && offer !== undefined) {
    const bounds = { ...offer, terms: granted };
    // Further grants within the same bounds may exist: each has its own runs.
    const key = sha256Hex(`${offer.boundsKey} ${approval.id} ${planDigest}`);
    await insertGrant(tx, approval, { grantKey: key, bounds }, store);
  } else if (grantKey !== undefined && approval.requester.session !== undefined) {
    await revokeSame(tx, approval, grantKey);
    await insertGrant(tx, approval, { grantKey, bounds: undefined }, store);
  }
}

/** Revokes an older grant for the same call, so that at most one exists. */
async function revokeSame(
  tx: WriteTransaction,
  { requester, decidedBy, members }: Approval,
  grantKey: string,
): Promise<void> {
  const { issuer, subject, session } = requester;
  const replaced = await tx.sql`
    UPDATE approval_grants SET revoked_at = ${tx.now}
    WHERE issuer = ${issuer} AND subject = ${subject} AND session = ${session} AND grant_key = ${grantKey}
      AND ${isOwn(tx, members?.[0])} AND revoked_at IS NULL
    RETURNING *`;
  noteRevoked(tx, replaced, decidedBy);
}

interface NewGrant {
  readonly grantKey: string;
  readonly bounds: GrantBounds | undefined;
}

async function insertGrant(
  tx: WriteTransaction,
  { id: approvalId, requester, tool, summary, decidedBy, members }: Approval,
  { grantKey, bounds }: NewGrant,
  { limits, newId }: Store,
): Promise<void> {
  const { issuer, subject, session } = requester;
  if (decidedBy === undefined) return;
  const grantMs = limits.grantSeconds * SECOND_MS;
  const expiresAt = tx.now + Math.min(grantMs, bounds === undefined ? grantMs : bounds.terms.minutes * MINUTE_MS);
  if (session !== undefined) {
    const sessionExpiresAt = tx.now + limits.sessionSeconds * SECOND_MS;
    await insertSession(tx, { id: session, owner: requester, minted: false, expiresAt: sessionExpiresAt });
  }
  const id = newId();
  await tx.sql`
    INSERT INTO approval_grants (id, issuer, subject, session, tool, grant_key, summary, approval_id, granted_issuer,
      granted_subject, created_at, expires_at, bounds_key, bounds, runs_max, members)
    VALUES (${id}, ${issuer}, ${subject}, ${sessionOf(requester)}, ${tool}, ${grantKey}, ${summary}, ${approvalId},
      ${decidedBy.issuer}, ${decidedBy.subject}, ${tx.now}, ${expiresAt}, ${bounds?.boundsKey ?? null},
      ${bounds === undefined ? null : JSON.stringify(bounds)}, ${bounds?.terms.runs ?? null}, ${membersText(members?.[0])})`;
  tx.note({
    event: { type: "grant.created", id, tool, summary, issuer, subject },
    journal: {
      type: "grant.created",
      id,
      tool,
      issuer,
      subject,
      session,
      grantKey,
      approvalId,
      expiresAt,
      ...(bounds !== undefined && { bounds: termsJson(bounds.terms) }),
      decider: identity(decidedBy),
    },
  });
}

/** Returns the condition that a grant is live and has a run left. */
export function hasRunsLeft({ sql, now }: ReadTransaction): unknown {
  return sql`revoked_at IS NULL AND expires_at > ${now} AND runs_used < runs_max AND ${sessionLives(sql, now)}`;
}

/** Counts one run of the bounded grant that fulfils a condition. One statement decides, so that no two calls share a run. */
export async function countRun(tx: WriteTransaction, condition: unknown, traceId: string): Promise<Grant | undefined> {
  const [row] = await tx.sql`
    UPDATE approval_grants AS held SET runs_used = runs_used + 1
    WHERE ${condition} AND ${hasRunsLeft(tx)}
    RETURNING *`;
  if (row === undefined) return undefined;
  const grant = toGrant(row);
  const { id, tool, summary, issuer, subject, session } = grant;
  const runs = { run: integer(row, "runs_used"), of: integer(row, "runs_max") };
  tx.note({
    event: { type: "grant.used", id, tool, summary, issuer, subject },
    journal: { type: "grant.used", id, tool, issuer, subject, session, ...runs, traceId },
  });
  return grant;
}

/** Returns why the grant of an approval has no run left, as the state that its call is refused with. */
export async function stateOfGrant({ sql, now }: ReadTransaction, approvalId: string): Promise<Approval["state"]> {
  const [row] = await sql`SELECT * FROM approval_grants WHERE approval_id = ${approvalId}`;
  if (row === undefined || row["revoked_at"] !== null) return "revoked";
  return integer(row, "expires_at") <= now ? "expired" : "claimed";
}

export async function boundedGrants(
  view: ReadTransaction,
  { requester, boundsKey }: Pick<BoundedCall, "requester" | "boundsKey">,
  member: string | undefined,
): Promise<readonly Grant[]> {
  const rows = await view.sql`
    SELECT * FROM approval_grants AS held
    WHERE bounds_key = ${boundsKey} AND issuer = ${requester.issuer} AND subject = ${requester.subject}
      AND session = ${sessionOf(requester)} AND ${isOwn(view, member)} AND ${hasRunsLeft(view)}
    ORDER BY expires_at, id LIMIT ${GRANTS_COMPARED_MAX}`;
  return rows.map(toGrant);
}

/** Revokes the live grants that fulfil a condition. Returns whether there was one. */
async function revokeWhere(tx: WriteTransaction, condition: unknown, by: Approver | undefined): Promise<boolean> {
  const revoked = await tx.sql`
    UPDATE approval_grants SET revoked_at = ${tx.now}
    WHERE ${condition} AND revoked_at IS NULL AND expires_at > ${tx.now}
    RETURNING *`;
  noteRevoked(tx, revoked, by);
  return revoked.length > 0;
}

/** Revokes the grants of a session that ends. `by` is undefined when the session has expired. */
async function revokeGrantsOf(
  tx: WriteTransaction,
  { issuer, subject, id }: Owner & { readonly id: string },
  by?: Approver,
): Promise<void> {
  await revokeWhere(tx, tx.sql`issuer = ${issuer} AND subject = ${subject} AND session = ${id}`, by);
}

export async function revokeGrantsFrom(tx: WriteTransaction, approvalId: string, by: Approver): Promise<void> {
  await revokeWhere(tx, tx.sql`approval_id = ${approvalId}`, by);
}

interface GrantSearch {
  readonly requester: Requester;
  readonly grantKey: string;
  readonly member: string | undefined;
}

async function findGrant(
  view: ReadTransaction,
  { requester, grantKey, member }: GrantSearch,
): Promise<Grant | undefined> {
  const { sql, now } = view;
  const [row] = await sql`
    SELECT * FROM approval_grants AS held
    WHERE issuer = ${requester.issuer} AND subject = ${requester.subject} AND session = ${requester.session}
      AND grant_key = ${grantKey} AND ${isOwn(view, member)} AND revoked_at IS NULL AND expires_at > ${now}
      AND ${sessionLives(sql, now)}`;
  return row === undefined ? undefined : toGrant(row);
}

/** Returns the condition that the grant's session is live. A session without a row is a `sid`, live as long as its tokens. */
function sessionLives(sql: ReadTransaction["sql"], now: number): unknown {
  return sql`NOT EXISTS (
    SELECT 1 FROM approval_sessions AS held_in
    WHERE held_in.issuer = held.issuer AND held_in.subject = held.subject AND held_in.id = held.session
      AND (held_in.ended_at IS NOT NULL OR (held_in.minted = 1 AND held_in.expires_at <= ${now})))`;
}

async function grantsOf(
  { sql, now }: ReadTransaction,
  { requester: owner, session }: GrantFilter,
): Promise<readonly Grant[]> {
  const ofOwner = owner === undefined ? sql`1 = 1` : sql`issuer = ${owner.issuer} AND subject = ${owner.subject}`;
  const ofSession = session === undefined ? sql`1 = 1` : sql`session = ${session}`;
  const rows = await sql`
    SELECT * FROM approval_grants AS held
    WHERE ${ofOwner} AND ${ofSession} AND revoked_at IS NULL AND expires_at > ${now} AND ${sessionLives(sql, now)}
      AND (runs_max IS NULL OR runs_used < runs_max)
    ORDER BY created_at DESC, id DESC LIMIT ${GRANTS_LISTED_MAX}`;
  return rows.map(toGrant);
}

async function grantedTools({ sql, now }: ReadTransaction): Promise<ReadonlySet<string>> {
  const rows = await sql`
    SELECT DISTINCT tool FROM approval_grants WHERE revoked_at IS NULL AND expires_at > ${now}`;
  return new Set(rows.map((row) => text(row, "tool")));
}

interface Revoking {
  readonly by: Approver;
  /** Only grants of requests of this member of the hub. */
  readonly member: string | undefined;
}

async function revokeFor(tx: WriteTransaction, tools: readonly string[], { by, member }: Revoking): Promise<void> {
  const whose = member === undefined ? tx.sql`1 = 1` : isOwn(tx, member);
  for (const tool of tools) await revokeWhere(tx, tx.sql`tool = ${tool} AND ${whose}`, by);
}

function noteRevoked(tx: WriteTransaction, rows: readonly Row[], by: Approver | undefined): void {
  for (const { id, tool, summary, issuer, subject, session, grantKey } of rows.map(toGrant)) {
    tx.note({
      event: { type: "grant.revoked", id, tool, summary, issuer, subject },
      journal: {
        type: "grant.revoked",
        id,
        tool,
        issuer,
        subject,
        session,
        grantKey,
        decider: by === undefined ? undefined : identity(by),
      },
    });
  }
}
