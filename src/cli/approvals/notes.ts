import type { Tool } from "../../core/types.ts";
import type { Config } from "../../runtime/config/config.ts";

/** What of the approvals starts, and may still not be what was meant. */
export function approvalNotes({ approvals, jwt }: Config, tools: readonly Tool[]): readonly string[] {
  const canAsk = approvals.store !== undefined || approvals.storeUrlFile !== undefined;
  const asking = tools.filter(({ classification }) => classification !== "read").map(({ name }) => name);
  return [
    ...(canAsk && !jwt.issuers.some(({ operators }) => operators)
      ? ["approvals: nobody can decide: no issuer in jwt.issuers is marked operators: true"]
      : []),
    ...(!canAsk && asking.length > 0
      ? [`approvals.store is not set: what must ask is refused; it may concern ${asking.join(", ")}`]
      : []),
    ...(approvals.mode === "default"
      ? []
      : [`approvals.mode: ${approvals.mode} holds for every session, without an end; stc mode sets one for a while`]),
  ];
}
