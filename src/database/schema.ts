import { ownerText } from "../core/tenant-names.ts";
import { type Sql, StoreProblem } from "./dialect.ts";
import { text } from "./rows.ts";

/**
 * Migrations of both databases: step n takes the tables from version n to n + 1. A released step never changes. The statements
 * are SQLite's; those of PostgreSQL are derived from them, so that the two cannot differ. README.md says what a step may do to
 * tables that the previous release still uses.
 */

const CALL_DIGEST = "\n  call_digest TEXT,";
const BY_CALL = "CREATE INDEX approvals_by_call ON approvals (issuer, subject, call_digest, decided_at);\n";

/** The first release for SQLite had no `call_digest`; the first one for PostgreSQL had it. */
const firstTables = (hasCallDigest: boolean): string => `
CREATE TABLE approval_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO approval_schema (version) VALUES (1);

CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'revoked', 'claimed', 'executed', 'failed', 'in_doubt')),
  version INTEGER NOT NULL,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  actors TEXT NOT NULL,
  session TEXT NOT NULL,
  tool TEXT NOT NULL,
  category TEXT NOT NULL,
  classification TEXT NOT NULL,
  risk TEXT NOT NULL,
  rules TEXT NOT NULL,
  plan_digest TEXT NOT NULL,${hasCallDigest ? CALL_DIGEST : ""}
  view TEXT NOT NULL,
  view_digest TEXT NOT NULL,
  summary TEXT NOT NULL,
  scopes TEXT NOT NULL,
  grant_key TEXT,
  trace_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  decide_by INTEGER NOT NULL,
  execute_by INTEGER,
  decided_at INTEGER,
  decided_issuer TEXT,
  decided_subject TEXT,
  scope TEXT,
  decision_reason TEXT,
  lease_until INTEGER,
  ended_at INTEGER
) STRICT;
CREATE UNIQUE INDEX approvals_coalesce ON approvals (issuer, subject, session, plan_digest) WHERE state = 'pending';
CREATE INDEX approvals_by_plan ON approvals (issuer, subject, plan_digest, decided_at);
${hasCallDigest ? BY_CALL : ""}CREATE INDEX approvals_by_caller ON approvals (issuer, subject, created_at, id);
CREATE INDEX approvals_by_state ON approvals (state, created_at, id);
CREATE INDEX approvals_by_age ON approvals (created_at, id);
CREATE INDEX approvals_to_decide ON approvals (decide_by) WHERE state = 'pending';
CREATE INDEX approvals_to_execute ON approvals (execute_by) WHERE state = 'approved';
CREATE INDEX approvals_leased ON approvals (lease_until) WHERE state = 'claimed';
CREATE INDEX approvals_ended ON approvals (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE approval_grants (
  id TEXT PRIMARY KEY,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  session TEXT NOT NULL,
  tool TEXT NOT NULL,
  grant_key TEXT NOT NULL,
  summary TEXT NOT NULL,
  approval_id TEXT NOT NULL,
  granted_issuer TEXT NOT NULL,
  granted_subject TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;
CREATE UNIQUE INDEX approval_grants_live ON approval_grants (issuer, subject, session, grant_key) WHERE revoked_at IS NULL;
CREATE INDEX approval_grants_expiry ON approval_grants (expires_at);

CREATE TABLE approval_sessions (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  minted INTEGER NOT NULL,
  mode TEXT NOT NULL,
  mode_until INTEGER,
  mode_issuer TEXT,
  mode_subject TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  ended_at INTEGER,
  PRIMARY KEY (issuer, subject, id)
) STRICT;
CREATE INDEX approval_sessions_by_id ON approval_sessions (id);
CREATE INDEX approval_sessions_expiry ON approval_sessions (expires_at);
CREATE INDEX approval_sessions_modes ON approval_sessions (mode_until) WHERE mode_until IS NOT NULL;

CREATE TABLE approval_keys (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  tool TEXT NOT NULL,
  key_hash TEXT NOT NULL,
  args_hash TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'answered', 'unknown', 'not_run')),
  lease_until INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  answer_bytes INTEGER NOT NULL,
  answer TEXT,
  PRIMARY KEY (issuer, subject, tool, key_hash)
) STRICT;
CREATE INDEX approval_keys_expiry ON approval_keys (expires_at);
CREATE TABLE approval_key_totals (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  held_keys INTEGER NOT NULL,
  held_bytes INTEGER NOT NULL,
  PRIMARY KEY (issuer, subject)
) STRICT;

CREATE TABLE approval_events (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  type TEXT NOT NULL,
  id TEXT NOT NULL,
  tool TEXT,
  summary TEXT,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL
) STRICT;
CREATE INDEX approval_events_age ON approval_events (at);
CREATE TABLE approval_counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO approval_counters (name, value) VALUES ('events', 0);
`;

const REQUIREMENTS = `
ALTER TABLE approvals ADD COLUMN requirement TEXT;
ALTER TABLE approvals ADD COLUMN requirement_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN votes TEXT NOT NULL DEFAULT '[]';
ALTER TABLE approvals ADD COLUMN answer TEXT;
`;

/** Position of each webhook, deliveries to retry, and received messages. */
const WEBHOOKS = `
CREATE TABLE approval_webhooks (
  name TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  paused_until INTEGER NOT NULL,
  disabled_at INTEGER,
  lease_owner TEXT NOT NULL,
  lease_until INTEGER NOT NULL
) STRICT;
CREATE TABLE approval_deliveries (
  webhook TEXT NOT NULL,
  seq INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  PRIMARY KEY (webhook, seq)
) STRICT;
CREATE INDEX approval_deliveries_due ON approval_deliveries (webhook, next_at);
CREATE TABLE approval_messages (
  webhook TEXT NOT NULL,
  id TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  PRIMARY KEY (webhook, id)
) STRICT;
CREATE INDEX approval_messages_age ON approval_messages (received_at);
`;

/** Calls whose requesters ask for the outcome later. */
const TASKS = `
CREATE TABLE approval_tasks (
  id_hash TEXT PRIMARY KEY,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  actors TEXT NOT NULL,
  session TEXT NOT NULL,
  tool TEXT NOT NULL,
  approval_id TEXT NOT NULL,
  sealed_call TEXT NOT NULL,
  sealed_answer TEXT,
  bytes INTEGER NOT NULL,
  noted TEXT NOT NULL,
  started_at INTEGER,
  cancelled_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX approval_tasks_by_caller ON approval_tasks (issuer, subject, bytes);
CREATE INDEX approval_tasks_by_approval ON approval_tasks (approval_id);
CREATE INDEX approval_tasks_expiry ON approval_tasks (expires_at);
`;

/** Steps of each request that were taken, when the next is due, and events that are for certain webhooks only. */
const ESCALATIONS = `
ALTER TABLE approvals ADD COLUMN escalations TEXT NOT NULL DEFAULT '[]';
ALTER TABLE approvals ADD COLUMN escalate_at INTEGER;
CREATE INDEX approvals_to_escalate ON approvals (escalate_at) WHERE state = 'pending';
CREATE INDEX approvals_by_tool ON approvals (tool, decided_at);
ALTER TABLE approval_events ADD COLUMN webhooks TEXT;
`;

/** Halts in force. `value`: a tool, a system, a subject or a session; of subjects, `issuer` is a part. */
const POLICY_HALTS = `
CREATE TABLE policy_halts (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('all', 'tool', 'system', 'caller', 'session')),
  issuer TEXT NOT NULL,
  value TEXT NOT NULL,
  reason TEXT NOT NULL,
  cancels_running INTEGER NOT NULL,
  set_issuer TEXT NOT NULL,
  set_subject TEXT NOT NULL,
  set_at INTEGER NOT NULL,
  until INTEGER
) STRICT;
`;

/**
 * Use of quotas: a row for each window of each quota and of whom it counts. `used` includes what processes hold unused. A reset
 * raises `epoch`, so that nothing taken before is given back after it.
 */
const POLICY_QUOTAS = `
CREATE TABLE policy_quota_use (
  id TEXT PRIMARY KEY,
  quota TEXT NOT NULL,
  unit TEXT NOT NULL,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  tool TEXT NOT NULL,
  system TEXT NOT NULL,
  starts_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  used INTEGER NOT NULL,
  epoch INTEGER NOT NULL
) STRICT;
CREATE INDEX policy_quota_use_age ON policy_quota_use (ends_at);
`;

/** Bounded grants: what a request offers, what was granted, and the runs of each grant. */
const GRANT_BOUNDS = `
ALTER TABLE approvals ADD COLUMN grant_offer TEXT;
ALTER TABLE approvals ADD COLUMN granted TEXT;
ALTER TABLE approval_grants ADD COLUMN bounds_key TEXT;
ALTER TABLE approval_grants ADD COLUMN bounds TEXT;
ALTER TABLE approval_grants ADD COLUMN runs_max INTEGER;
ALTER TABLE approval_grants ADD COLUMN runs_used INTEGER NOT NULL DEFAULT 0;
CREATE INDEX approval_grants_bounded ON approval_grants (bounds_key, expires_at) WHERE revoked_at IS NULL AND bounds_key IS NOT NULL;
CREATE INDEX approval_grants_by_approval ON approval_grants (approval_id);
`;

/**
 * Data flow: the labels that callers carry, and the fingerprints of the answers that they got. `session` is empty unless labels are
 * narrowed to sessions. `label`: besides private and untrusted, `lost` (fingerprints of untrusted text are missing) and `cleared`.
 */
const POLICY_FLOW = `
CREATE TABLE policy_flow_secret (id INTEGER PRIMARY KEY, secret TEXT NOT NULL) STRICT;
CREATE TABLE policy_flow_labels (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  session TEXT NOT NULL,
  label TEXT NOT NULL CHECK (label IN ('private', 'untrusted', 'lost', 'cleared')),
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  tool TEXT NOT NULL,
  trace_id TEXT NOT NULL,
  PRIMARY KEY (issuer, subject, session, label)
) STRICT;
CREATE INDEX policy_flow_labels_expiry ON policy_flow_labels (until);
CREATE TABLE policy_flow_sources (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  session TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  until INTEGER NOT NULL,
  tool TEXT NOT NULL,
  trace_id TEXT NOT NULL,
  reference TEXT NOT NULL,
  labels TEXT NOT NULL,
  fields TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  prints BLOB NOT NULL,
  PRIMARY KEY (issuer, subject, id)
) STRICT;
CREATE INDEX policy_flow_sources_by_age ON policy_flow_sources (issuer, subject, at, id, until, bytes, labels);
CREATE INDEX policy_flow_sources_expiry ON policy_flow_sources (until);
`;

/**
 * The earliest version that code must know to use the tables. Until a step raises it, releases before that step start on newer
 * tables, too. Within a step, `version` is the version before it.
 */
const MIN_READER = `
ALTER TABLE approval_schema ADD COLUMN min_reader INTEGER NOT NULL DEFAULT 1;
UPDATE approval_schema SET min_reader = version + 1;
`;

/**
 * Sessions of the console, and sign-ins at its provider that were used. `sealed` holds the operator's token, and opens only with
 * the cookie of the browser.
 */
const CONSOLE_SESSIONS = `
CREATE TABLE console_sessions (
  id_hash TEXT PRIMARY KEY,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  sealed TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  renew_at INTEGER NOT NULL
) STRICT;
CREATE INDEX console_sessions_by_operator ON console_sessions (issuer, subject, opened_at);
CREATE INDEX console_sessions_by_age ON console_sessions (opened_at);
CREATE INDEX console_sessions_expiry ON console_sessions (ends_at);
CREATE TABLE console_used_sign_ins (state_hash TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT;
CREATE INDEX console_used_sign_ins_expiry ON console_used_sign_ins (until);
CREATE TABLE console_secret (id INTEGER PRIMARY KEY, secret TEXT NOT NULL) STRICT;
`;

/** The log of the service that runs the call, while it runs: its next start ends the claims that a crash has left. */
const CLAIMANTS = `
ALTER TABLE approvals ADD COLUMN claimed_by TEXT;
ALTER TABLE approval_keys ADD COLUMN claimed_by TEXT;
CREATE INDEX approval_keys_running ON approval_keys (claimed_by) WHERE state = 'running';
`;

/**
 * Fingerprints of what callers wrote while its origin was private or untrusted. `seq`: from a counter that writers lock, so that rows
 * become visible in this order. `system`: the fingerprints of a text were not kept; all answers of the system count as this text.
 * `policy_flow_labels.stored`: the text that earned the label when it was read back.
 */
const POLICY_FLOW_STORED = `
CREATE TABLE policy_flow_stored (
  seq INTEGER PRIMARY KEY,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  until INTEGER NOT NULL,
  tool TEXT NOT NULL,
  trace_id TEXT NOT NULL,
  system TEXT NOT NULL,
  labels TEXT NOT NULL,
  prints BLOB NOT NULL
) STRICT;
CREATE INDEX policy_flow_stored_expiry ON policy_flow_stored (until);
INSERT INTO approval_counters (name, value) VALUES ('flow-stored', 0);
ALTER TABLE policy_flow_labels ADD COLUMN stored TEXT;
`;

/**
 * Members of a hub: requests that changed something (hashes of their ids), with their encrypted answers, so that a repeated one changes nothing; the member that
 * asked for an approval, as a JSON array, and whose a grant, an event, a key or a task is. Each member has requests and grants of its own.
 */
const HUB_MEMBERS = `
CREATE TABLE hub_requests (
  member TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  answer TEXT,
  PRIMARY KEY (member, id)
) STRICT;
CREATE INDEX hub_requests_age ON hub_requests (at);
ALTER TABLE approvals ADD COLUMN members TEXT NOT NULL DEFAULT '[]';
DROP INDEX approvals_coalesce;
CREATE UNIQUE INDEX approvals_coalesce ON approvals (issuer, subject, session, plan_digest, members) WHERE state = 'pending';
ALTER TABLE approval_grants ADD COLUMN members TEXT NOT NULL DEFAULT '[]';
DROP INDEX approval_grants_live;
CREATE UNIQUE INDEX approval_grants_live ON approval_grants (issuer, subject, session, grant_key, members) WHERE revoked_at IS NULL;
ALTER TABLE approval_events ADD COLUMN member TEXT;
CREATE INDEX approval_events_by_member ON approval_events (member, seq) WHERE member IS NOT NULL;
ALTER TABLE approval_tasks ADD COLUMN member TEXT;
ALTER TABLE approval_keys ADD COLUMN member TEXT;
`;

/** The tenant whose calls alone a halt stops (NULL: any calls), and the tenant of a session's operator (empty: the service itself). */
const TENANTS = `
ALTER TABLE policy_halts ADD COLUMN tenant TEXT;
ALTER TABLE console_sessions ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
DROP INDEX console_sessions_by_operator;
CREATE INDEX console_sessions_by_operator ON console_sessions (issuer, subject, tenant, opened_at);
`;

/** The steps that both databases have. */
const LATER_STEPS: readonly string[] = [
  REQUIREMENTS,
  WEBHOOKS,
  TASKS,
  ESCALATIONS,
  POLICY_HALTS,
  POLICY_QUOTAS,
  GRANT_BOUNDS,
  POLICY_FLOW,
  MIN_READER,
  CONSOLE_SESSIONS,
  CLAIMANTS,
  POLICY_FLOW_STORED,
  HUB_MEMBERS,
  TENANTS,
];

export const SQLITE_STEPS: readonly string[] = [
  firstTables(false),
  `\nALTER TABLE approvals ADD COLUMN call_digest TEXT;\n${BY_CALL}`,
  ...LATER_STEPS,
];

export const POSTGRES_STEPS: readonly string[] = [firstTables(true), ...LATER_STEPS].map((step) =>
  step
    .replace(/\bTEXT\b/g, 'TEXT COLLATE "C"')
    .replaceAll("INTEGER", "BIGINT")
    .replace(/\bBLOB\b/g, "BYTEA")
    .replaceAll(") STRICT;", ");"),
);

interface Migration {
  readonly steps: readonly string[];
  /** The version of the tables now. */
  readonly from: number;
  /** The tenant that has the tables; undefined: the service itself. */
  readonly tenant: string | undefined;
  /** Runs the statements of a step, within the transaction of `sql`. */
  readonly run: (step: string) => unknown;
}

/** Applies the steps that the tables lack. Tables that a newer release has changed stay as they are. */
export async function migrate(sql: Sql, { steps, from, tenant, run }: Migration): Promise<void> {
  for (const [index, step] of steps.entries()) {
    if (index < from) continue;
    await run(step);
    await sql`UPDATE approval_schema SET version = ${index + 1}`;
  }
  if (from > 0 || tenant === undefined) return;
  await sql`INSERT INTO approval_counters (name, value) VALUES (${OWNER + tenant}, 0)`;
}

/** Start of the name of the row that names the tables' tenant. Tables of the service itself have no such row. */
const OWNER = "tenant:";

/**
 * Checks that the tables belong to this tenant. A copied file, a search path or a schema of the same name can lead to another's.
 *
 * @throws {StoreProblem} when the tables are not those of this tenant
 */
export async function assertOwner(sql: Sql, tenant: string | undefined): Promise<void> {
  const [row] = await sql`SELECT name FROM approval_counters WHERE name LIKE ${`${OWNER}%`}`;
  const owner = row && text(row, "name").slice(OWNER.length);
  if (owner === tenant) return;
  throw new StoreProblem(`belongs to ${ownerText(owner)}, and is not for ${ownerText(tenant)}: each needs its own`);
}
