import { LAUNCHER } from "../targets/command/confinement/launchers.ts";

/** A single binary cannot run another file, so the launcher's path as the last argument selects the launcher. */
if (process.argv.at(-1) === LAUNCHER) await import("../targets/command/confinement/launcher.ts");
else await import("./main.ts");
