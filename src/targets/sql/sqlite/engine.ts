import type { SettingFault, SqlEngine } from "../engine.ts";
import type { SqlEntry } from "../settings.ts";
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
  async open(context, name, entry) {
    const { openSqlite } = await import("./system.ts");
    return openSqlite(context, await context.processes(), { name, entry });
  },
};
