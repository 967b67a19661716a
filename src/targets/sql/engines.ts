import { z } from "zod";
import type { SettingFault, SqlEngine } from "./engine.ts";
import { mariadb } from "./mariadb/engine.ts";
import { postgres } from "./postgres/engine.ts";
import { type EngineSetting, type SqlEntry, sqlEntry, systemSettings } from "./settings.ts";
import { sqlite } from "./sqlite/engine.ts";

/** The engines of a build. */
const ENGINES: readonly SqlEngine[] = [postgres, mariadb, sqlite];

const EVERY_SETTING: ReadonlySet<string> = new Set<EngineSetting>(ENGINES.flatMap(({ settings }) => settings));

/** Returns the engine of an entry, by the scheme of its URL. */
export function engineOf({ url }: Pick<SqlEntry, "url">): SqlEngine | undefined {
  return ENGINES.find(({ schemes }) => schemes.some((scheme) => url.startsWith(scheme)));
}

function entryFaults(entry: SqlEntry): readonly SettingFault[] {
  const engine = engineOf(entry);
  if (engine === undefined) {
    const schemes = ENGINES.flatMap(({ schemes: [scheme = ""] }) => `${scheme}…`);
    return [{ path: ["url"], message: `must be the URL of a database: ${schemes.join(", ")}` }];
  }
  const has: readonly string[] = engine.settings;
  const others = Object.entries(entry).filter(
    ([key, value]) => value !== undefined && EVERY_SETTING.has(key) && !has.includes(key),
  );
  return [
    ...engine.faults(entry),
    ...others.map(([key]) => ({ path: [key], message: `is not for ${engine.schemes[0]}…` })),
  ];
}

/** An entry under `systems`. */
export const sqlSystem = z.strictObject({
  sql: sqlEntry
    .superRefine((entry, context) => {
      for (const { path, message } of entryFaults(entry)) {
        context.addIssue({ code: "custom", path: [...path], message });
      }
    })
    .describe("A database."),
  ...systemSettings,
});
