import { join } from "node:path";

/**
 * Path of the launcher, which starts confined commands (`targets/command/confinement/launchers.ts`). A single binary cannot run
 * another file, so this path as the last argument selects the launcher.
 */
const LAUNCHER = join(import.meta.dir, "launcher.ts");

if (process.argv.at(-1) === LAUNCHER) await import("../targets/command/confinement/launcher.ts");
else await import("./main.ts");
