import { LAUNCHER } from "../targets/command/confinement/launchers.ts";
import { SQLITE_CHILD } from "../targets/sql/sqlite/program.ts";

/** A single binary cannot run another file, so the path of a further program as the last argument selects that program. */
const last = process.argv.at(-1);
if (last === LAUNCHER) await import("../targets/command/confinement/launcher.ts");
else if (last === SQLITE_CHILD) await import("../targets/sql/sqlite/sqlite-child.ts");
else await import("./main.ts");
