import { storable } from "./columns.ts";
import { type SqlText, type StoreDatabase, sql } from "./sql-text.ts";

/** The logs whose lines a reader of the store gets: all, or those of one tenant; `undefined`: those of the service itself. */
export type StoreScope = "all" | { readonly tenant: string | undefined };

/** Returns the condition that a line or a log is of this tenant; undefined: of the service itself. */
export function isOfTenant(tenant: string | undefined): SqlText {
  // The service's own lines have no tenant, and its logs an empty one.
  return tenant === undefined ? sql`(tenant IS NULL OR tenant = ${""})` : sql`tenant = ${storable(tenant)}`;
}

/** Returns a query for the logs of all others in this table. */
export function logsOfOthers(logs: SqlText, tenant: string | undefined): SqlText {
  return sql`SELECT log FROM ${logs} WHERE coalesce(tenant, ${""}) <> ${storable(tenant ?? "")}`;
}

/**
 * Returns a database that holds the scope's lines, logs and checkpoints and no others. The tables themselves are replaced, so that no
 * statement can leave the condition out.
 */
export function scoped(database: StoreDatabase, scope: StoreScope): StoreDatabase {
  if (scope === "all") return database;
  const { lines, logs, checkpoints } = database.dialect;
  const isOwn = isOfTenant(scope.tenant);
  const own = (table: SqlText, condition: SqlText): SqlText => sql`(SELECT * FROM ${table} WHERE ${condition}) AS own`;
  const dialect = {
    ...database.dialect,
    lines: own(lines, isOwn),
    logs: own(logs, isOwn),
    checkpoints: own(checkpoints, sql`(log, stream) IN (SELECT log, stream FROM ${logs} WHERE ${isOwn})`),
  };
  return { dialect, read: (statement) => database.read(statement), close: () => database.close() };
}
