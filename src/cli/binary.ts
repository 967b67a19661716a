import { join } from "node:path";

/**
 * Where the single binary begins. Confined commands are started through our own executable, told which file of ours to run
 * (`targets/command/confinement/launchers.ts`); inside a binary no file can be told, so the name decides what it becomes.
 */
const LAUNCHER = join(import.meta.dir, "launcher.ts");

if (process.argv.at(-1) === LAUNCHER) await import("../targets/command/confinement/launcher.ts");
else await import("./main.ts");
