import { join } from "node:path";

/**
 * Entry point of the single binary. Confined commands are started through our own executable, which is given the file of ours to
 * run (`targets/command/confinement/launchers.ts`). A binary cannot be given a file to run, so the name in the last argument
 * selects the entry point.
 */
const LAUNCHER = join(import.meta.dir, "launcher.ts");

if (process.argv.at(-1) === LAUNCHER) await import("../targets/command/confinement/launcher.ts");
else await import("./main.ts");
