/**
 * Migration for the webhook tables: position of each webhook, deliveries to retry, and received messages. A released step
 * never changes. Keep the two dialects equivalent.
 */
export const NOTIFY_SQLITE = `
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

export const NOTIFY_POSTGRES = `
CREATE TABLE approval_webhooks (
  name TEXT COLLATE "C" PRIMARY KEY,
  seq BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  paused_until BIGINT NOT NULL,
  disabled_at BIGINT,
  lease_owner TEXT COLLATE "C" NOT NULL,
  lease_until BIGINT NOT NULL
);
CREATE TABLE approval_deliveries (
  webhook TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  first_at BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  PRIMARY KEY (webhook, seq)
);
CREATE INDEX approval_deliveries_due ON approval_deliveries (webhook, next_at);
CREATE TABLE approval_messages (
  webhook TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (webhook, id)
);
CREATE INDEX approval_messages_age ON approval_messages (received_at);
`;
