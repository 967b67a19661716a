import type { SettingFault, SqlEngine } from "../engine.ts";
import type { SqlEntry } from "../settings.ts";
import { TEXT_TYPE } from "../values.ts";
import { pathIn } from "./address.ts";

/** SQLite, with the runtime's own library, in a process of its own. */
export const sqlite: SqlEngine = {
  schemes: ["sqlite:"],
  settings: ["writable", "connections"],
  faults: ({ url }: SqlEntry): readonly SettingFault[] =>
    pathIn(url) !== undefined
      ? []
      : [{ path: ["url"], message: "must be sqlite: and a file, such as sqlite:./shop.sqlite" }],
  userOf: () => undefined,
  mayChange: ({ writable }) => writable === true,
  writtenTypes: (_, values) => values.map((value) => ({ ...TEXT_TYPE, name: TYPES[typeof value] ?? TEXT_TYPE.name })),
  async open(context, name, entry) {
    const { openSqlite } = await import("./system.ts");
    return openSqlite(context, await context.processes(), { name, entry });
  },
};

/** Types of values that an input schema allows, as `SqliteUser` has them by the schema. */
const TYPES: Readonly<Record<string, string>> = { number: "double precision", boolean: "boolean", object: "jsonb" };
