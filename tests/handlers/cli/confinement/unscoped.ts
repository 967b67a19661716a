import { cLibrary, cString, pointerTable } from "../../../../src/handlers/cli/confinement/c-library.ts";
import { enterSignalScope } from "../../../../src/handlers/cli/confinement/landlock.ts";
import { supervise } from "../../../../src/handlers/cli/confinement/supervisor.ts";

/**
 * A supervisor of the script that is its last argument, with its domain or, told `unscoped`, without. To be started in a PID
 * namespace of its own: a mistake would end every process that it sees.
 */
const [how = "", script = ""] = process.argv.slice(2);
const c = cLibrary();
const SETPGID = 109n;
const EXECVE = 59n;
const path = BigInt(cString("/bin/sh"));
const tokens = BigInt(pointerTable(["/bin/sh", "-c", script]));

supervise(c, {
  control: 0,
  enterDomain: () => (how === "unscoped" ? undefined : enterSignalScope(c)),
  program: [
    { what: "setpgid", number: SETPGID, args: [0n, 0n] },
    { what: "execve", number: EXECVE, args: [path, tokens, BigInt(pointerTable(["PATH=/usr/bin:/bin"]))] },
  ],
  onStarted: () => {},
});
