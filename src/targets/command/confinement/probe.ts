import { CALL, type CLibrary, cString, pointerTo } from "./c-library.ts";
import type { Probe } from "./launchers.ts";

/** Attempts by which a confined process checks that its confinement holds. */

const O_RDONLY = 0;
const O_WRONLY = 1;
const O_RDWR = 2;
const EPERM = 1;
const EACCES = 13;
const ENOSYS = 38;

const AF_UNIX = 1n;
const AF_INET = 2n;
const AF_NETLINK = 16n;
const AF_VSOCK = 40n;
const STREAM = 1n;
const DATAGRAM = 2n;
const MPTCP = 262n;
const MSG_FASTOPEN = 0x20000000n;
const LOOPBACK = [127, 0, 0, 1] as const;
const BUFFER_BYTES = 8;

const CLONE_NEWUSER = 0x10000000n;
const PTRACE_SEIZE = 0x4206n;

export interface ProbeReport {
  /** Attempts that worked but must not. */
  readonly leaks: readonly string[];
  /** Operations that must work but did not: rules that refuse everything prove nothing. */
  readonly missing: readonly string[];
  /** True when TCP and UDP sockets can be created. */
  readonly network: boolean;
}

/** Makes all attempts. `parent` is the process id of the service. */
export function report(c: CLibrary, { canary, port, readable }: Probe, parent: number): ProbeReport {
  const service = BigInt(parent);
  const path = (text: string): bigint => BigInt(cString(text));
  const call = (number: bigint, ...given: readonly bigint[]): number => {
    const [a = 0n, b = 0n, d = 0n, e = 0n, f = 0n, g = 0n] = given;
    return outcome(Number(c.numbers(number, a, b, d, e, f, g)), c);
  };
  const open = (name: string, flags: number): number => outcome(c.open(cString(name), flags, 0), c);
  const network = call(CALL.socket, AF_INET, DATAGRAM, 0n) >= 0;
  const buffer = BigInt(pointerTo(Buffer.alloc(BUFFER_BYTES)));
  const vector = BigInt(pointerTo(new BigUint64Array([buffer, BigInt(BUFFER_BYTES)])));
  const attempts: Readonly<Record<string, () => number>> = {
    "reading the service's files": () => open(canary, O_RDONLY),
    "writing the service's files": () => open(canary, O_WRONLY),
    "truncating the service's files": () => call(CALL.truncate, path(canary), 0n),
    "changing modes": () => call(CALL.chmod, path(canary), 0o6755n),
    "changing attributes": () => call(CALL.setxattr, path(canary), path("user.x"), path(""), 0n),
    "reading the service's environment": () => open(`/proc/${parent}/environ`, O_RDONLY),
    "opening the service's memory": () => open(`/proc/${parent}/mem`, O_RDONLY),
    "reading the service's memory": () => call(CALL.readMemory, service, vector, 1n, vector, 1n),
    "tracing the service": () => call(CALL.ptrace, PTRACE_SEIZE, service),
    "taking the service's descriptors": () => call(CALL.pidfdGet, BigInt(call(CALL.pidfdOpen, service)), 0n),
    "signalling the service": () => outcome(c.kill(parent, 0), c),
    "signalling the service's threads": () => call(CALL.tgkill, service, service),
    "leaving the session": () => call(CALL.setsid),
    "new namespaces": () => call(CALL.unshare, CLONE_NEWUSER),
    chroot: () => call(CALL.chroot, path("/")),
    io_uring: () => call(CALL.ioUring, 1n, BigInt(pointerTo(new Uint8Array(120)))),
    "unix sockets": () => call(CALL.socket, AF_UNIX, STREAM),
    "netlink sockets": () => call(CALL.socket, AF_NETLINK, DATAGRAM),
    "vsock sockets": () => call(CALL.socket, AF_VSOCK, STREAM),
    "MPTCP sockets": () => call(CALL.socket, AF_INET, STREAM, MPTCP),
    "TCP to another port": () => call(CALL.connect, stream(call), address(port), 16n),
    "TCP by fast open": () => call(CALL.sendto, stream(call), buffer, 1n, MSG_FASTOPEN, address(port), 16n),
  };
  const leaks = Object.entries(attempts).filter(([, attempt]) => !isRefused(attempt()));
  const required: Readonly<Record<string, () => number>> = {
    [`reading ${readable}`]: () => open(readable, O_RDONLY),
    "/dev/null": () => open("/dev/null", O_RDWR),
  };
  const missing = Object.entries(required).filter(([, attempt]) => attempt() < 0);
  return { leaks: leaks.map(([what]) => what), missing: missing.map(([what]) => what), network };
}

type Call = (number: bigint, ...given: readonly bigint[]) => number;

/** Returns a TCP socket, or an invalid descriptor, on which calls fail with EBADF. */
function stream(call: Call): bigint {
  const descriptor = call(CALL.socket, AF_INET, STREAM, 0n);
  return BigInt.asUintN(64, BigInt(descriptor));
}

function address(port: number): bigint {
  const bytes = new Uint8Array(16);
  bytes.set([Number(AF_INET), 0, port >> 8, port & 0xff, ...LOOPBACK]);
  return BigInt(pointerTo(bytes));
}

/** Returns whether the call was refused. EBADF means that its socket could not be created. */
function isRefused(result: number): boolean {
  return [-EPERM, -EACCES, -ENOSYS, -EBADF].includes(result);
}

const EBADF = 9;

function outcome(result: number, c: CLibrary): number {
  return result < 0 ? -c.errno() : result;
}
