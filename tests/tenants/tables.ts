import { Database } from "bun:sqlite";
import { join } from "node:path";
import { normal } from "./normal.ts";
import type { Tenant, TenantsWorld } from "./tenants-world.ts";

/** Every table of the schema: `acts` says that a tenant's acts leave rows in it, anything else why they do not. */
export const TABLES: Readonly<Record<string, string>> = {
  approval_counters: "acts",
  approval_deliveries: "acts",
  approval_events: "acts",
  approval_grants: "acts",
  approval_key_totals: "acts",
  approval_keys: "acts",
  approval_messages: "acts",
  approval_schema: "acts",
  approval_sessions: "acts",
  approval_tasks: "acts",
  approval_webhooks: "acts",
  approvals: "acts",
  console_secret: "the console is the service's",
  console_sessions: "the console is the service's",
  console_used_sign_ins: "the console is the service's",
  hub_requests: "only a hub has members",
  policy_flow_labels: "acts",
  policy_flow_secret: "acts",
  policy_flow_sources: "acts",
  policy_flow_stored: "acts",
  policy_halts: "acts",
  policy_quota_use: "acts",
};

export type Rows = Readonly<Record<string, readonly object[]>>;

/** Reads the tables of a tenant, or of the service itself. */
export type TablesReader = (world: TenantsWorld, tenant: Tenant | undefined) => Promise<Rows>;

export const sqliteTables: TablesReader = async ({ folder }, tenant) => {
  const file = tenant === undefined ? "approvals.sqlite" : `approvals.${tenant}.sqlite`;
  using database = new Database(join(folder, file), { readonly: true });
  const names = database
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all();
  return Object.fromEntries(names.map(({ name }) => [name, database.query<object, []>(`SELECT * FROM ${name}`).all()]));
};

/** Deliveries are repeated, and leases taken, whatever anybody asks. */
const WITH_TIME = new Set(["approval_deliveries", "approval_webhooks"]);

/** The rows as two services that did the same have them. */
export function normalRows(rows: Rows): unknown {
  return Object.fromEntries(
    Object.entries(rows)
      .filter(([name]) => !WITH_TIME.has(name))
      .map(([name, all]) => [name, all.map((row) => JSON.stringify(normal(row))).sort()]),
  );
}

export function lastingRows(rows: Rows): unknown {
  return Object.fromEntries(Object.entries(rows).filter(([name]) => !WITH_TIME.has(name)));
}
