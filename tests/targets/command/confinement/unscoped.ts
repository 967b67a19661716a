import {
  cLibrary,
  cString,
  orThrow,
  pointerTable,
  pointerTo,
} from "../../../../src/targets/command/confinement/c-library.ts";
import { enterSignalScope } from "../../../../src/targets/command/confinement/landlock.ts";
import { supervise } from "../../../../src/targets/command/confinement/supervisor.ts";

/**
 * Supervises the script in its last argument: with a signal scope, without one (`unscoped`), or with one on a machine that
 * refuses `pidfd_open` (`no-pidfd`). Start it in its own PID namespace: a mistake would end every process that it sees.
 */
const [how = "", script = ""] = process.argv.slice(2);
const c = cLibrary();
const SETPGID = 109n;
const EXECVE = 59n;
const path = BigInt(cString("/bin/sh"));
const tokens = BigInt(pointerTable(["/bin/sh", "-c", script]));

if (how === "no-pidfd") refusePidfds();

supervise(c, {
  control: 0,
  enterDomain: () => (how === "unscoped" ? undefined : enterSignalScope(c)),
  program: [
    { what: "setpgid", number: SETPGID, args: [0n, 0n] },
    { what: "execve", number: EXECVE, args: [path, tokens, BigInt(pointerTable(["PATH=/usr/bin:/bin"]))] },
  ],
  onStarted: () => {},
});

/** Fails with EPERM, as under a container's profile that does not know the call. */
function refusePidfds(): void {
  const instructions = [
    [0x20, 0, 0], // the number of the call
    [0x15, 1, 434], // pidfd_open: the next one, any other: the last one
    [0x06, 0, 0x00050001],
    [0x06, 0, 0x7fff0000],
  ] as const;
  const program = new DataView(new ArrayBuffer(instructions.length * 8));
  for (const [index, [code, no, k]] of instructions.entries()) {
    program.setUint16(index * 8, code, true);
    program.setUint8(index * 8 + 3, no);
    program.setUint32(index * 8 + 4, k, true);
  }
  const header = new DataView(new ArrayBuffer(16));
  header.setUint16(0, instructions.length, true);
  header.setBigUint64(8, BigInt(pointerTo(new Uint8Array(program.buffer))), true);
  const [noNewPrivileges, seccomp, byFilter] = [38, 22, 2n];
  orThrow(c.prctl(noNewPrivileges, 1n, 0n, 0n, 0n), c.errno, "PR_SET_NO_NEW_PRIVS");
  orThrow(c.prctl(seccomp, byFilter, BigInt(pointerTo(new Uint8Array(header.buffer))), 0n, 0n), c.errno, "seccomp");
}
