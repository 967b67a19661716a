import type { Approvals, Decider } from "../approvals/types.ts";
import type { Registry } from "./registry.ts";
import type { Trail } from "./trail.ts";

/** Who takes the grants back, in the journal. */
const BY: Decider = { issuer: "safe-tool-call", subject: "a write to the workspace" };

/**
 * A session's yes to a command was given for the workspace as it was: once a tool has written to it, the command may do something
 * else, and asks again. Undefined for every other call.
 */
export function voidCommandGrants(
  trail: Trail,
  { approvals, registry }: { readonly approvals: Approvals | undefined; readonly registry: Registry },
): Promise<void> | undefined {
  if (approvals === undefined) return undefined;
  const write = trail.fileWrite();
  if (write === undefined) return undefined;
  const commands = new Set(registry.list().flatMap(({ tool }) => (tool.category === "command" ? [tool.name] : [])));
  return takeBack(approvals, commands, write).catch((error: unknown) => trail.logUnsettled(error));
}

type FileWrite = NonNullable<ReturnType<Trail["fileWrite"]>>;

async function takeBack(approvals: Approvals, commands: ReadonlySet<string>, write: FileWrite): Promise<void> {
  const grants = await approvals.listGrants({ requester: write.caller });
  for (const { id, tool, session } of grants) {
    if (session === write.session && commands.has(tool)) await approvals.revokeGrant(id, BY);
  }
}
