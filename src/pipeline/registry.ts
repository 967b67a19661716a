import { ManifestError, Refusal } from "../core/errors.ts";
import { type Admitted, type Found, type Known, mint, type RegisteredTool } from "../core/evidence.ts";
import { compileInputPolicy } from "../core/manifest/input-policy.ts";
import { closestName } from "../core/nearest.ts";
import { compilePolicy } from "../core/output-policy/output-policy.ts";
import { compileScan } from "../core/output-policy/scan-policy.ts";
import type { CallerContext, Handler, Tool } from "../core/types.ts";
import { couldUse } from "./built-in-points.ts";

/** Handlers by their key in a manifest's `target`. The pipeline knows no kind by name. */
export type HandlerTable = Readonly<Record<string, Handler>>;

export interface Registry {
  /** Never refuses: only authenticated callers learn whether a tool exists. */
  find(name: string): Found;
  known(found: Found, admitted: Admitted): Known;
  list(): readonly RegisteredTool[];
}

/** @throws {ManifestError} when the target is not of exactly one kind of this build; it never counts as another kind */
function handlerOf({ name, target }: Tool, handlers: HandlerTable): Handler {
  const [handler, another] = Object.entries(handlers).flatMap(([key, each]) => (key in target ? [each] : []));
  if (handler !== undefined && another === undefined) return handler;
  const message = `is not of one kind that this build has: ${Object.keys(handlers).join(", ")}`;
  throw new ManifestError(name, [{ field: "target", message }]);
}

/** Alternative names, under which a tool may be called but is not listed. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["fs.list", "fs_list"],
  ["fs.read", "fs_read"],
  ["fs.search", "fs_search"],
  ["fs.write", "fs_write"],
  ["fs.apply_patch", "fs_apply_patch"],
]);

/** Models add the name of the server or of the toolbox: `functions.find_orders`, `mcp__orders__find_orders`. */
const NAME_PREFIX = /^.{0,128}(?:[./:]|__)/s;

/** Returns the tool that was probably meant, among those that the caller may use. */
export function meantTool(
  name: string,
  tools: readonly RegisteredTool[],
  { permissions }: Pick<CallerContext, "permissions">,
): string | undefined {
  const own = tools.filter(({ tool }) => couldUse(permissions, tool.permissions.required)).map(({ tool }) => tool.name);
  const bare = name.replace(NAME_PREFIX, "");
  return closestName(name, own) ?? (bare === name ? undefined : closestName(bare, own));
}

/**
 * Binds every tool to its handler and compiles its policies, once.
 *
 * @throws {AggregateError} with one `ManifestError` per tool that cannot be registered
 */
export function createRegistry(
  tools: readonly Tool[],
  handlers: HandlerTable,
  identify: (tool: Tool) => string,
  argsDigestOf: (tool: Tool) => string | undefined = () => undefined,
): Registry {
  const registered = new Map<string, RegisteredTool>();
  const errors: ManifestError[] = [];
  for (const tool of tools) {
    try {
      if (registered.has(tool.name)) {
        throw new ManifestError(tool.name, [{ field: "name", message: "is already used by another tool" }]);
      }
      registered.set(tool.name, {
        tool,
        binding: handlerOf(tool, handlers).bind(tool),
        outputPolicy: compilePolicy(tool.outputPolicy, tool.output),
        inputPolicy: compileInputPolicy(tool.inputPolicy, tool.input),
        scan: compileScan(tool.scan),
        identity: identify(tool),
        argsDigest: argsDigestOf(tool),
      });
    } catch (error) {
      if (!(error instanceof ManifestError)) throw error;
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, "tools that cannot be registered");
  const listed = Object.freeze([...registered.values()]);

  return {
    find: (name) => mint<Found>({ name, registered: registered.get(ALIASES.get(name) ?? name) }),
    known: ({ name, registered: entry }, { caller }) => {
      if (entry === undefined) {
        const meant = meantTool(name, listed, caller);
        const message = `There is no tool of this name${meant === undefined ? "." : `; did you mean ${meant}?`}`;
        throw new Refusal("TOOL_NOT_FOUND", `${message} GET /tools lists the tools you may use.`, {
          details: { tool: name.slice(0, 128), ...(meant !== undefined && { didYouMean: meant }) },
        });
      }
      const { tool, binding, outputPolicy, inputPolicy, scan, identity } = entry;
      return mint<Known>({ tool, binding, outputPolicy, inputPolicy, scan, identity, caller });
    },
    list: () => listed,
  };
}
