import { NOTIFY_POSTGRES } from "../notify/schema.ts";

/**
 * Step n brings a database of version n to n + 1; a step that was released never changes. Text compares by its bytes, as
 * on SQLite: a collation of the system's would let its next update damage the indexes.
 */
export const STEPS: readonly string[] = [
  `
CREATE TABLE approval_schema (version BIGINT NOT NULL);
INSERT INTO approval_schema (version) VALUES (1);

CREATE TABLE approvals (
  id TEXT COLLATE "C" PRIMARY KEY,
  state TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'revoked', 'claimed', 'executed', 'failed', 'in_doubt')),
  version BIGINT NOT NULL,
  issuer TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  actors TEXT COLLATE "C" NOT NULL,
  session TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  category TEXT COLLATE "C" NOT NULL,
  classification TEXT COLLATE "C" NOT NULL,
  risk TEXT COLLATE "C" NOT NULL,
  rules TEXT COLLATE "C" NOT NULL,
  plan_digest TEXT COLLATE "C" NOT NULL,
  call_digest TEXT COLLATE "C",
  view TEXT COLLATE "C" NOT NULL,
  view_digest TEXT COLLATE "C" NOT NULL,
  summary TEXT COLLATE "C" NOT NULL,
  scopes TEXT COLLATE "C" NOT NULL,
  grant_key TEXT COLLATE "C",
  trace_id TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  decide_by BIGINT NOT NULL,
  execute_by BIGINT,
  decided_at BIGINT,
  decided_issuer TEXT COLLATE "C",
  decided_subject TEXT COLLATE "C",
  scope TEXT COLLATE "C",
  decision_reason TEXT COLLATE "C",
  lease_until BIGINT,
  ended_at BIGINT
);
CREATE UNIQUE INDEX approvals_coalesce ON approvals (issuer, subject, session, plan_digest) WHERE state = 'pending';
CREATE INDEX approvals_by_plan ON approvals (issuer, subject, plan_digest, decided_at);
CREATE INDEX approvals_by_call ON approvals (issuer, subject, call_digest, decided_at);
CREATE INDEX approvals_by_caller ON approvals (issuer, subject, created_at, id);
CREATE INDEX approvals_by_state ON approvals (state, created_at, id);
CREATE INDEX approvals_by_age ON approvals (created_at, id);
CREATE INDEX approvals_to_decide ON approvals (decide_by) WHERE state = 'pending';
CREATE INDEX approvals_to_execute ON approvals (execute_by) WHERE state = 'approved';
CREATE INDEX approvals_leased ON approvals (lease_until) WHERE state = 'claimed';
CREATE INDEX approvals_ended ON approvals (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE approval_grants (
  id TEXT COLLATE "C" PRIMARY KEY,
  issuer TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  session TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  grant_key TEXT COLLATE "C" NOT NULL,
  summary TEXT COLLATE "C" NOT NULL,
  approval_id TEXT COLLATE "C" NOT NULL,
  granted_issuer TEXT COLLATE "C" NOT NULL,
  granted_subject TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  revoked_at BIGINT
);
CREATE UNIQUE INDEX approval_grants_live ON approval_grants (issuer, subject, session, grant_key) WHERE revoked_at IS NULL;
CREATE INDEX approval_grants_expiry ON approval_grants (expires_at);

CREATE TABLE approval_sessions (
  issuer TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  minted BIGINT NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  mode_until BIGINT,
  mode_issuer TEXT COLLATE "C",
  mode_subject TEXT COLLATE "C",
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  ended_at BIGINT,
  PRIMARY KEY (issuer, subject, id)
);
CREATE INDEX approval_sessions_by_id ON approval_sessions (id);
CREATE INDEX approval_sessions_expiry ON approval_sessions (expires_at);
CREATE INDEX approval_sessions_modes ON approval_sessions (mode_until) WHERE mode_until IS NOT NULL;

CREATE TABLE approval_keys (
  issuer TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  key_hash TEXT COLLATE "C" NOT NULL,
  args_hash TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK (state IN ('running', 'answered', 'unknown', 'not_run')),
  lease_until BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  answer_bytes BIGINT NOT NULL,
  answer TEXT COLLATE "C",
  PRIMARY KEY (issuer, subject, tool, key_hash)
);
CREATE INDEX approval_keys_expiry ON approval_keys (expires_at);
CREATE TABLE approval_key_totals (
  issuer TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  held_keys BIGINT NOT NULL,
  held_bytes BIGINT NOT NULL,
  PRIMARY KEY (issuer, subject)
);

CREATE TABLE approval_events (
  seq BIGINT PRIMARY KEY,
  at BIGINT NOT NULL,
  type TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C",
  summary TEXT COLLATE "C",
  issuer TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL
);
CREATE INDEX approval_events_age ON approval_events (at);
CREATE TABLE approval_counters (name TEXT COLLATE "C" PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO approval_counters (name, value) VALUES ('events', 0);
`,
  `
ALTER TABLE approvals ADD COLUMN requirement TEXT COLLATE "C";
ALTER TABLE approvals ADD COLUMN requirement_digest TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN votes TEXT COLLATE "C" NOT NULL DEFAULT '[]';
ALTER TABLE approvals ADD COLUMN answer TEXT COLLATE "C";
`,
  NOTIFY_POSTGRES,
];

export const SCHEMA_VERSION = STEPS.length;
