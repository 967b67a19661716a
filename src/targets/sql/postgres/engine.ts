import type { SqlEngine } from "../engine.ts";
import { serverFaults, serverUsers } from "../server-settings.ts";
import { type ParameterType, TEXT_TYPE } from "../values.ts";

/** PostgreSQL 14 and later. */
export const postgres: SqlEngine = {
  schemes: ["postgres:", "postgresql:"],
  settings: ["tls", "plaintext", "read", "write", "caller", "functions", "checkFunctions", "connections"],
  faults: (entry) => serverFaults(entry, "postgres"),
  ...serverUsers,
  writtenTypes: (statement, values) => values.map((value, index) => writtenType(statement, index + 1, value)),
  open: async (context, name, entry) => (await import("./system.ts")).openPostgres(context, name, entry),
};

function writtenType(statement: string, at: number, value: unknown): ParameterType {
  const isJson = new RegExp(`\\$${at}(?:::text)?::jsonb?\\b`, "i").test(statement);
  return { ...TEXT_TYPE, ...(isJson ? { name: "jsonb" } : { isList: Array.isArray(value) }) };
}
