import type { SqlEngine } from "../engine.ts";
import { serverFaults, serverUsers } from "../server-settings.ts";

/** PostgreSQL 14 and later. */
export const postgres: SqlEngine = {
  schemes: ["postgres:", "postgresql:"],
  settings: ["tls", "plaintext", "read", "write", "caller", "functions", "checkFunctions", "connections"],
  faults: (entry) => serverFaults(entry, "postgres"),
  ...serverUsers,
  open: async (context, name, entry) => (await import("./system.ts")).openPostgres(context, name, entry),
};
