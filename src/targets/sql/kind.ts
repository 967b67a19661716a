import { ManifestError } from "../../core/errors.ts";
import type { OpenedKind, TargetKind } from "../../core/target-kind.ts";
import type { SqlTarget } from "../../core/types.ts";
import type { SqlContext, SqlParts } from "./engine.ts";
import { engineOf, sqlSystem } from "./engines.ts";
import { readPart, sqlFaults, sqlStatementPart } from "./manifest.ts";
import { changePlanOf, offlineTexts, planOf } from "./plan.ts";
import { claimsIn, type SqlEntries, type SqlEntry } from "./settings.ts";

/** The target kind `sql`: fixed statements of databases. Its code is loaded only when a database is configured. */
export function sqlKind(parts: SqlParts): TargetKind<SqlContext> {
  return {
    name: "sql",
    key: "sql",
    systems: { keys: ["sql"], schema: sqlSystem, claims: (entry) => claimsIn(entry as { readonly sql: SqlEntry }) },
    data: sqlStatementPart,
    check: sqlFaults,
    category: () => "network",
    reads: ["private"],
    planOffline: ({ target, classification }, entry) => {
      const settings = (entry as { readonly sql: SqlEntry } | undefined)?.sql;
      const engine = settings && engineOf(settings);
      const isChange = classification !== "read";
      if (settings === undefined || engine === undefined || (isChange && !engine.mayChange(settings))) return undefined;
      const user = engine.userOf(settings, isChange);
      const part = readPart(target as SqlTarget);
      const at = { system: target.system, user };
      // Without the database, the number of rows and further effects are unknown.
      const plan = (texts: readonly (string | null)[]) =>
        isChange ? changePlanOf(at, part, texts, { matches: undefined, effects: [] }) : planOf(at, part, texts);
      return async (input) => plan(await offlineTexts(engine, part, input));
    },
    open: (context) => open(context, parts),
  };
}

/** Creates a target with a statement of a database, for a manifest in code. */
export function sqlStatement(system: string, sql: SqlTarget["sql"]): SqlTarget {
  return { system, sql };
}

async function open(context: SqlContext, parts: SqlParts): Promise<OpenedKind> {
  const entries = context.systems as SqlEntries;
  const databases =
    entries.size === 0 ? undefined : await (await import("./databases.ts")).openDatabases(context, parts, entries);
  return {
    prepare: async (tools) => (await databases?.prepare(tools)) ?? new Map(),
    isBroken: ({ target: { system } }) => entries.has(system) && databases?.has(system) !== true,
    bind(tool) {
      if (databases !== undefined) return databases.bind(tool);
      const message = `no database ${tool.target.system} is configured`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    },
    report: (tools) => databases?.report(tools) ?? {},
    quarantineOf: (tool) => databases?.quarantineOf(tool),
    drafts: async (system, asked = { statements: [], hasChanges: false }) => databases?.drafts(system, asked),
    ...(databases?.mayResolve === true && { resolve: (...asked) => databases.resolve(...asked) }),
    placesOf: (tool) => databases?.placesOf(tool) ?? new Map(),
    status: async () => databases?.status() ?? {},
    close: async () => databases?.close(),
  };
}
