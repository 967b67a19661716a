import type { ApprovalStore } from "./dialect.ts";

/** A server that several replicas share. Its driver is loaded only where it is configured. */
export const postgresStore: ApprovalStore = {
  name: "PostgreSQL",
  setting: "storeUrlFile",
  accepts: /^postgres(?:ql)?:\/\/\S+$/,
  form: "a postgres:// URL",
  example: "postgres://…",
  async open(url, parts) {
    const { openPostgres } = await import("./postgres-approvals.ts");
    return openPostgres(url, parts);
  },
  async inspect(url, parts) {
    const { inspectPostgres } = await import("./postgres-approvals.ts");
    return inspectPostgres(url, parts);
  },
  async stateTransactions(url, parts) {
    const { postgresState } = await import("./postgres-approvals.ts");
    return postgresState(url, parts);
  },
};
