import { dlopen, FFIType, ptr, read } from "bun:ffi";

/**
 * A hostile program: attacks the process, the file and the port in its arguments, and prints the result of each attempt: an
 * errno, or 0 when it worked.
 */
const [service = "1", canary = "/dev/null", port = "9", allowed = ""] = process.argv.slice(2);

const { i32, i64, u64, ptr: pointer } = FFIType;
const c = dlopen("libc.so.6", {
  syscall: { args: [i64, u64, u64, u64, u64, u64, u64], returns: i64 },
  __errno_location: { args: [], returns: pointer },
  kill: { args: [i32, i32], returns: i32 },
}).symbols;
const errnoAt = c.__errno_location();

const held: unknown[] = [];
function hold(bytes: Uint8Array | BigUint64Array): bigint {
  held.push(bytes);
  return BigInt(ptr(bytes));
}
const text = (value: string): bigint => hold(Buffer.from(`${value}\0`));

function call(number: number, ...given: readonly (bigint | number)[]): number {
  const [a, b, d, e, f, g] = [0, 1, 2, 3, 4, 5].map((at) => BigInt.asUintN(64, BigInt(given[at] ?? 0)));
  const result = c.syscall(BigInt(number), a ?? 0n, b ?? 0n, d ?? 0n, e ?? 0n, f ?? 0n, g ?? 0n);
  return Number(result) >= 0 ? Number(result) : failure();
}

function failure(): number {
  return errnoAt === null ? -1 : -read.i32(errnoAt, 0);
}

function address(to: number): bigint {
  return hold(new Uint8Array([2, 0, to >> 8, to & 255, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
}
function unixAddress(name: string): readonly [bigint, number] {
  const bytes = Buffer.concat([Buffer.from([1, 0]), Buffer.from(name)]);
  return [hold(bytes), bytes.length];
}
const AT_FDCWD = -100;
const pid = Number(service);
const buffer = hold(new Uint8Array(64));
const vector = hold(new BigUint64Array([buffer, 8n]));
const tcp = (): number => call(41, 2, 1, 0);
/** A mapping whose address has a low word of 0: a filter that compares half of the pointer takes it for null. */
const highPointer = (): bigint => {
  const at = 0x6f0000000000n;
  const MAP_FIXED_PRIVATE_ANONYMOUS = 0x32;
  return call(9, at, 4096, 3, MAP_FIXED_PRIVATE_ANONYMOUS, -1, 0) < 0 ? 0n : at;
};

const attacks: Readonly<Record<string, () => number>> = {
  "open the canary": () => call(2, text(canary), 0),
  "open it to write": () => call(2, text(canary), 1),
  "openat2 it": () => call(437, AT_FDCWD, text(canary), hold(new BigUint64Array([0n, 0n, 0n])), 24),
  "truncate it": () => call(76, text(canary), 0),
  "link it here": () => call(86, text(canary), text(`${canary}-link`)),
  "rename it": () => call(82, text(canary), text(`${canary}-moved`)),
  "unlink it": () => call(87, text(canary)),
  "make a file beside it": () => call(2, text(`${canary}-new`), 0o101, 0o600),
  "make a directory beside it": () => call(83, text(`${canary}-dir`), 0o700),
  "execute it": () => call(59, text(canary), hold(new BigUint64Array(1)), hold(new BigUint64Array(1))),
  "chmod it to be run": () => call(90, text(canary), 0o777),
  "fchmodat2 it to be run": () => call(452, AT_FDCWD, text(canary), 0o777, 0),
  "chown it": () => call(92, text(canary), 1, 1),
  "utimensat it": () => call(280, AT_FDCWD, text(canary), 0, 0),
  "utimensat it by a pointer whose low word is 0": () => {
    const at = highPointer();
    return at === 0n ? -1 : call(280, AT_FDCWD, at, 0, 0);
  },
  "setxattr it": () => call(188, text(canary), text("user.x"), buffer, 1, 0),
  "inotify it": () => call(254, call(294, 0), text(canary), 0xfff),
  "read the service's environment": () => call(2, text(`/proc/${pid}/environ`), 0),
  "open the service's memory": () => call(2, text(`/proc/${pid}/mem`), 0),
  "read the service's memory": () => call(310, pid, vector, 1, vector, 1, 0),
  "write the service's memory": () => call(311, pid, vector, 1, vector, 1, 0),
  "trace the service": () => call(101, 16, pid),
  "seize the service": () => call(101, 0x4206, pid),
  "take its descriptor": () => call(438, call(434, pid, 0), 0, 0),
  "signal it": () => (c.kill(pid, 0) === 0 ? 0 : failure()),
  "signal its thread": () => call(234, pid, pid, 0),
  "signal its thread by tkill": () => call(200, pid, 0),
  "queue it a signal": () => call(129, pid, 0, buffer),
  "signal it by a pidfd": () => call(424, call(434, pid, 0), 0, 0, 0),
  "limit its processes": () => call(302, pid, 7, 0, buffer),
  "slow it down": () => call(141, 0, pid, 19),
  "slow the user down": () => call(141, 2, 0, 19),
  "bind it to a processor": () => call(203, pid, 8, buffer),
  "leave the session": () => call(112),
  "outlive the service": () => call(157, 1, 0),
  "new user namespace": () => call(272, 0x10000000),
  "clone into a namespace": () => call(56, 0x10000000 | 17, 0, 0, 0, 0),
  clone3: () => call(435, buffer, 64),
  mount: () => call(165, text("none"), text("/tmp"), text("tmpfs"), 0, 0),
  chroot: () => call(161, text("/")),
  io_uring: () => call(425, 1, buffer),
  bpf: () => call(321, 0, buffer, 64),
  perf: () => call(298, buffer, 0, -1, -1, 0),
  userfaultfd: () => call(323, 0),
  keyring: () => call(250, 0, -3, 1),
  "shared memory": () => call(29, 0, 4096, 0o1600),
  "message queue": () => call(240, text("stc"), 0o102, 0o600, 0),
  "file handle": () => call(303, AT_FDCWD, text(canary), buffer, buffer, 0),
  "x32 number": () => (allowed === "x32" ? call(0x40000000 + 39) : -1),
  "unix socket": () => call(41, 1, 1, 0),
  "abstract unix socket": () => call(42, call(41, 1, 1, 0), ...unixAddress("\0stc-attack")),
  "netlink socket": () => call(41, 16, 3, 0),
  "vsock socket": () => call(41, 40, 1, 0),
  "packet socket": () => call(41, 17, 3, 0),
  "raw socket": () => call(41, 2, 3, 1),
  "MPTCP socket": () => call(41, 2, 1, 262),
  "SCTP socket": () => call(41, 2, 1, 132),
  "TCP by connect": () => call(42, tcp(), address(Number(port)), 16),
  "TCP by fast open": () => call(44, tcp(), buffer, 1, 0x20000000, address(Number(port)), 16),
  "TCP by fast open in sendmsg": () => {
    const message = hold(new BigUint64Array([address(Number(port)), 16n, vector, 1n, 0n, 0n, 0n]));
    return call(46, tcp(), message, 0x20000000);
  },
  "listen on TCP": () => call(49, tcp(), address(0), 16) || call(50, tcp(), 1),
  "UDP socket": () => (allowed === "network" ? -1 : call(41, 2, 2, 0)),
};

const results = Object.entries(attacks).map(([name, attack]) => [name, attack()]);
process.stdout.write(JSON.stringify(Object.fromEntries(results)));
