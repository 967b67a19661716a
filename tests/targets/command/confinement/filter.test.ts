import { describe, expect, test } from "bun:test";
import { assert, bigInt, boolean, constantFrom, integer, property, record, tuple } from "fast-check";
import { filterProgram, type SeccompOptions } from "../../../../src/targets/command/confinement/filter.ts";

const X86_64 = 0xc000003e;
const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const errno = (number: number): number => 0x00050000 | number;

interface Call {
  readonly number: number;
  readonly arch?: number;
  readonly given?: readonly bigint[];
}

/** Interprets the program as the kernel does; throws when it runs past its end. */
function verdict(options: SeccompOptions, { number, arch = X86_64, given = [] }: Call): number {
  const bytes = filterProgram(options);
  const program = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const memory = new DataView(new ArrayBuffer(64));
  memory.setUint32(0, number, true);
  memory.setUint32(4, arch, true);
  for (const [at, value] of given.entries()) memory.setBigUint64(16 + 8 * at, BigInt.asUintN(64, value), true);
  let a = 0;
  for (let at = 0; at < bytes.byteLength / 8; at += 1) {
    const code = program.getUint16(at * 8, true);
    const [yes, no] = [program.getUint8(at * 8 + 2), program.getUint8(at * 8 + 3)];
    const k = program.getUint32(at * 8 + 4, true);
    if (code === 0x06) return k;
    if (code === 0x20) a = memory.getUint32(k, true);
    else if (code === 0x54) a = (a & k) >>> 0;
    else if (code === 0x15) at += a === k ? yes : no;
    else if (code === 0x35) at += a >= k ? yes : no;
    else if (code === 0x45) at += (a & k) !== 0 ? yes : no;
    else throw new Error(`there is no instruction ${code}`);
  }
  throw new Error("it ran past its end");
}

const NONE: SeccompOptions = { network: false, writes: false, groups: false };
const options = record({ network: boolean(), writes: boolean(), groups: boolean() });

describe("the filter", () => {
  test.each([
    ["reads, writes and forks", NONE, [0, 1, 57, 59, 60], ALLOW],
    ["socketpair", NONE, [53], ALLOW],
    ["socket without network", NONE, [41], errno(13)],
    ["ptrace, process memory, descriptors of others", NONE, [101, 310, 311, 438], errno(1)],
    ["io_uring", NONE, [425, 426, 427], errno(1)],
    ["clone3", NONE, [435], errno(38)],
    ["setsid, with groups too", { ...NONE, groups: true }, [112], errno(1)],
    ["setpgid without groups", NONE, [109], errno(1)],
    ["setpgid with groups", { ...NONE, groups: true }, [109], ALLOW],
    [
      "modes, owners, times where nothing may be written",
      NONE,
      [90, 91, 92, 93, 94, 132, 235, 260, 268, 280],
      errno(1),
    ],
    ["by a descriptor where something may", { ...NONE, writes: true }, [91, 93], ALLOW],
    ["by a path where something may: nothing happens", { ...NONE, writes: true }, [90, 92, 132, 268, 452], errno(0)],
  ] as const)("%s", (_title, given, numbers, want) => {
    const verdicts: number[] = numbers.map((number) => verdict(given, { number }));
    expect(verdicts).toEqual(numbers.map(() => want));
  });

  test.each([
    ["TCP", [2n, 1n, 0n], ALLOW],
    ["UDP over IPv6, close on exec", [10n, 0o2000002n, 17n], ALLOW],
    ["MPTCP", [2n, 1n, 262n], errno(13)],
    ["raw", [2n, 3n, 1n], errno(13)],
    ["SCTP", [2n, 1n, 132n], errno(13)],
    ["unix", [1n, 1n, 0n], errno(13)],
    ["netlink", [16n, 3n, 0n], errno(13)],
    ["vsock", [40n, 1n, 0n], errno(13)],
    ["a family behind high bits", [0x1_0000_0001n, 1n, 0n], errno(13)],
  ] as const)("with network, a socket: %s", (_title, given, want) => {
    expect(verdict({ ...NONE, network: true }, { number: 41, given })).toBe(want);
  });

  test.each([
    [44, [0n, 0n, 0n, 0x2000_0000n]],
    [46, [0n, 0n, 0x2000_0000n]],
    [307, [0n, 0n, 0n, 0x2000_0000n]],
  ] as const)("call %i does not connect while it sends", (number, given) => {
    expect(verdict({ ...NONE, network: true }, { number, given })).toBe(errno(13));
    expect(verdict({ ...NONE, network: true }, { number, given: [] })).toBe(ALLOW);
  });

  test.each([
    ["its own descriptor", [3n, 0n, 1n], ALLOW],
    ["a path", [0n, 5n, 1n], errno(0)],
    ["a path whose low word is 0", [0n, 0x7f00_0000_0000n, 1n], errno(0)],
    ["a path, now", [0n, 5n, 0n], errno(1)],
    ["a path, times whose low word is 0", [0n, 5n, 0x7f00_0000_0000n], errno(0)],
  ] as const)("times of %s", (_title, given, want) => {
    expect(verdict({ ...NONE, writes: true }, { number: 280, given })).toBe(want);
  });

  test.each([
    ["itself", 302, [0n], ALLOW],
    ["another's limits", 302, [7n], errno(1)],
    ["its own priority", 141, [0n, 0n], ALLOW],
    ["the user's priority", 141, [2n, 0n], errno(1)],
    ["another's priority", 141, [0n, 7n], errno(1)],
    ["its own I/O priority", 251, [1n, 0n], ALLOW],
    ["the user's I/O priority", 251, [3n, 0n], errno(1)],
    ["a thread", 56, [0x3d0f00n], ALLOW],
    ["a new user namespace", 56, [0x1000_0011n], errno(1)],
    ["to outlive the service", 157, [1n, 0n], errno(1)],
    ["a name", 157, [15n, 5n], ALLOW],
    ["set-id bits", 90, [5n, 0o4755n], errno(1)],
    ["set-id bits by a descriptor", 91, [5n, 0o4755n], errno(1)],
    ["a sticky bit by a descriptor", 91, [5n, 0o1755n], ALLOW],
    ["a new file", 2, [5n, 0o101n, 0o755n], ALLOW],
    ["a new set-id file", 2, [5n, 0o101n, 0o4755n], errno(1)],
    ["a new set-group-id file in a directory", 257, [5n, 5n, 0o101n, 0o2755n], errno(1)],
    ["a new set-id file without a name", 257, [5n, 5n, 0o20200002n, 0o4755n], errno(1)],
    ["an opening, whatever stands where a mode would", 257, [5n, 5n, 0o2000000n, 0o7777n], ALLOW],
    ["a directory, opened", 257, [5n, 5n, 0o2200000n, 0o7777n], ALLOW],
    ["a set-id file by creat", 85, [5n, 0o6755n], errno(1)],
    ["a set-id file by mknod", 133, [5n, 0o104755n], errno(1)],
    ["a set-id file by mknodat", 259, [5n, 5n, 0o104755n], errno(1)],
    ["a pipe", 259, [5n, 5n, 0o010644n], ALLOW],
    ["openat2, whose mode cannot be seen", 437, [5n, 5n, 5n, 24n], errno(38)],
  ] as const)("%s", (_title, number, given, want) => {
    expect(verdict({ ...NONE, writes: true }, { number, given })).toBe(want);
  });

  test("another architecture, or the x32 numbers, end the process", () => {
    assert(
      property(options, integer({ min: 0, max: 0x3fffffff }), boolean(), (given, number, isX32) => {
        const call = isX32 ? { number: 0x40000000 + number } : { number, arch: 0x40000003 };
        expect(verdict(given, call)).toBe(KILL);
      }),
    );
  });

  test("every call has a result, and a profile that allows more refuses no more", () => {
    const call = tuple(
      integer({ min: 0, max: 600 }),
      bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      constantFrom(0n, 1n, 2n),
    );
    const sends = [44, 46, 307];
    assert(
      property(options, call, (given, [number, wide, small]) => {
        const facts = { number, given: [small, wide, small, wide] };
        const mine = verdict(given, facts);
        expect([ALLOW, errno(0), errno(1), errno(13), errno(38)]).toContain(mine);
        const most = verdict({ network: true, writes: true, groups: true }, facts);
        if (mine === ALLOW && !sends.includes(number)) expect(most).toBe(ALLOW);
      }),
      { numRuns: 2_000 },
    );
  });
});
