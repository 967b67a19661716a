import type { ApprovalStore } from "./dialect.ts";

/** A server that several replicas share. Its driver is loaded only where it is configured. */
export const postgresStore: ApprovalStore = {
  name: "PostgreSQL",
  setting: "storeUrlFile",
  accepts: /^postgres(?:ql)?:\/\/\S+$/,
  form: "a postgres:// URL",
  example: "postgres://…",
  async open(url, { log }) {
    const { openPostgres } = await import("./postgres.ts");
    return openPostgres(url, log);
  },
  async inspect(url, { now }) {
    const { inspectPostgres } = await import("./postgres.ts");
    return inspectPostgres(url, now);
  },
  async stateTransactions(url) {
    const { postgresState } = await import("./postgres.ts");
    return postgresState(url);
  },
};
