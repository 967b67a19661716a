import type { SqlEngine } from "../engine.ts";
import { serverFaults, serverUsers } from "../server-settings.ts";

/** MariaDB 10.6 and later. */
export const mariadb: SqlEngine = {
  schemes: ["mariadb:"],
  settings: ["tls", "plaintext", "read", "write", "functions", "connections"],
  faults: (entry) => serverFaults(entry, "mariadb"),
  ...serverUsers,
  writtenTypes: async (statement) => (await import("./parameters.ts")).writtenTypes(statement),
  open: async (context, name, entry) => (await import("./system.ts")).openMariaDb(context, name, entry),
};
