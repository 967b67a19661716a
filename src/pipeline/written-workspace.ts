import type { Approvals, Decider } from "../approvals/types.ts";
import type { Registry } from "./registry.ts";
import type { Trail } from "./trail.ts";

/** Who takes the grants back, in the journal. */
const BY: Decider = { issuer: "safe-tool-call", subject: "a write to the workspace" };

/**
 * A session's yes to a command was given for the workspace as it was: once a tool has written to it, the command may do something
 * else, and asks again. The workspace is one for all, so that it does not matter who wrote, or in which session. Undefined for
 * every other call.
 */
export function voidCommandGrants(
  trail: Trail,
  { approvals, registry }: { readonly approvals: Approvals | undefined; readonly registry: Registry },
): Promise<void> | undefined {
  if (approvals === undefined || !trail.wroteFiles) return undefined;
  const commands = registry.list().flatMap(({ tool }) => (tool.category === "command" ? [tool.name] : []));
  return approvals.revokeGrantsFor(commands, BY).catch((error: unknown) => trail.logUnsettled(error));
}
