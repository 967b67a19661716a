import { checkedTenant } from "../core/tenant-names.ts";

/** Returns the name of the PostgreSQL schema that has the tables of a tenant. */
export function schemaOf(tenant: string): string {
  return `stc_${checkedTenant(tenant)}`;
}

/** Returns the schema's identifier in SQL. */
export function quotedSchemaOf(tenant: string): string {
  return `"${schemaOf(tenant)}"`;
}

/** Returns the channel on which events are announced. A database has one list of channels for all of its schemas. */
export function channelOf(tenant: string | undefined): string {
  return tenant === undefined ? "stc_approvals" : `stc_approvals_${checkedTenant(tenant)}`;
}
