/** The seccomp filter of a child: classic BPF over the number and the arguments of each system call. Only for x86_64. */

export interface SeccompOptions {
  /** True when the child may create TCP and UDP sockets; it can create no others in any case. */
  readonly network: boolean;
  /** True when the child may change times and modes of files through a descriptor. Changes by path never have an effect. */
  readonly writes: boolean;
  /** True when the child may create process groups. New sessions are always refused: their processes could not be found. */
  readonly groups: boolean;
}

const EPERM = 1;
const EACCES = 13;
const ENOSYS = 38;

const ARCH_X86_64 = 0xc000003e;
/** First number of the x32 interface, which numbers the same calls differently. */
const X32_FROM = 0x40000000;

/** Offsets in `struct seccomp_data`. For an argument, that of its low word, which is all that an `int` uses. */
const NUMBER = 0;
const ARCH = 4;
const argument = (index: number): number => 16 + 8 * index;

const LOAD = 0x20;
const AND = 0x54;
const RETURN = 0x06;
const IF_EQUAL = 0x15;
const IF_AT_LEAST = 0x35;
const IF_ANY_BIT = 0x45;

const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const answer = (errno: number): number => 0x00050000 | errno;
/** Succeeds without effect: archivers, installers and git give up on an error, and no rule can check paths. */
const SUCCEED_WITHOUT_EFFECT = answer(0);

/** `ifTrue` and `ifFalse` are numbers of instructions to skip. */
interface Instruction {
  readonly code: number;
  readonly ifTrue?: number;
  readonly ifFalse?: number;
  readonly k: number;
}

/** Always refused: they access other processes, bypass the filter or the file tree, or change the machine. */
const ALWAYS_REFUSED: readonly number[] = [
  // ptrace, process_vm_readv, process_vm_writev, kcmp, pidfd_send_signal, pidfd_getfd, process_madvise, process_mrelease
  ...[101, 310, 311, 312, 424, 438, 440, 448],
  // move_pages, migrate_pages, perf_event_open, bpf, userfaultfd, io_uring_setup, io_uring_enter, io_uring_register
  ...[279, 256, 298, 321, 323, 425, 426, 427],
  // unshare, setns, mount, umount2, pivot_root, chroot, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr,
  // open_tree_attr
  ...[272, 308, 165, 166, 155, 161, 428, 429, 430, 431, 432, 433, 442, 467],
  // add_key, request_key, keyctl; shared memory, semaphores and message queues of System V and POSIX
  ...[248, 249, 250, 29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241],
  // name_to_handle_at, open_by_handle_at, fanotify_init, inotify_init, inotify_init1: access files without their paths, or watch
  // who uses them
  ...[303, 304, 300, 253, 294],
  // init_module, finit_module, delete_module, kexec_load, kexec_file_load, reboot, swapon, swapoff, acct, quotactl, quotactl_fd
  ...[175, 313, 176, 246, 320, 169, 167, 168, 163, 179, 443],
  // settimeofday, clock_settime, adjtimex, clock_adjtime, sethostname, setdomainname, syslog, iopl, ioperm, modify_ldt,
  // personality
  ...[164, 227, 159, 305, 170, 171, 103, 172, 173, 154, 135],
  // setsid: processes that stay in the call's session can be found and ended with it
  112,
];

/** The xattr calls by path, and file_setattr. Landlock has no right for them. */
const ATTRIBUTES_BY_PATH: readonly number[] = [188, 189, 197, 198, 463, 466, 469];

/** chown, lchown, fchownat, utime, utimes, futimesat. */
const OWNERS_AND_TIMES_BY_PATH: readonly number[] = [92, 94, 260, 132, 235, 261];

/** fchmod, fchown, fsetxattr, fremovexattr. Refused without `writes`, because read-only files can be opened, too. */
const ATTRIBUTES_BY_DESCRIPTOR: readonly number[] = [91, 93, 190, 199];

/** Maps the number of a system call to the index of one of its arguments. */
type ArgumentIndexes = Readonly<Record<number, number>>;

/** Index of the mode in chmod, fchmodat, fchmodat2. */
const MODES_BY_PATH: ArgumentIndexes = { 90: 1, 268: 2, 452: 2 };
/** Set-id and sticky bits. Programs that set them need them, so the call fails instead of succeeding without effect. */
const SPECIAL_MODE_BITS = 0o7000;
/** Bits that give the owner's permissions to anyone who runs the file. No file may get them. */
const SET_ID_BITS = 0o6000;
/** Index of the mode in creat, fchmod, mknod, mknodat. */
const MODES: ArgumentIndexes = { 85: 1, 91: 1, 133: 1, 259: 2 };
/** open, openat. The mode matters only when the flags create a file. */
const OPENS = [
  { call: 2, flags: 1, mode: 2 },
  { call: 257, flags: 2, mode: 3 },
] as const;
/** O_CREAT, and the bit that only O_TMPFILE has. */
const CREATES_A_FILE = 0o20000100;
/** Refused: its mode is in memory, which a filter cannot read. Programs fall back to another call. */
const OPENAT2 = 437;
const SETPGID = 109;
const UTIMENSAT = 280;
const CLONE = 56;
const CLONE3 = 435;
/** CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET. */
const NEW_NAMESPACES = 0x7e020000;
const PRCTL = 157;
const PR_SET_PDEATHSIG = 1;
/** prlimit64, sched_setaffinity, -scheduler, -param, -attr: the first argument must be 0, the caller. */
const CALLER_ONLY: readonly number[] = [302, 203, 144, 142, 314];
/** setpriority, ioprio_set: the first argument must be this value, a process; the second must be 0, the caller. */
const PRIORITIES: ArgumentIndexes = { 141: 0, 251: 1 };
const SOCKET = 41;
const AF_INET = 2;
const AF_INET6 = 10;
const SOCKET_TYPE_BITS = 0xf;
/** IPPROTO_IP (the default of the socket type), TCP and UDP. Not MPTCP, which Landlock does not restrict. */
const PROTOCOLS = [0, 6, 17];
/** Index of the flags in sendto, sendmsg, sendmmsg. */
const SENDS: ArgumentIndexes = { 44: 3, 46: 2, 307: 3 };
/** Flag that opens a connection while sending, which Landlock does not check. */
const MSG_FASTOPEN = 0x20000000;

/** Returns the program in the kernel's form: 8 bytes per instruction. */
export function filterProgram(options: SeccompOptions): Uint8Array {
  const { network, writes, groups } = options;
  const refused = [...ALWAYS_REFUSED, ...ATTRIBUTES_BY_PATH, ...(writes ? [] : ATTRIBUTES_BY_DESCRIPTOR)];
  const byPath = writes ? SUCCEED_WITHOUT_EFFECT : answer(EPERM);
  const instructions = [
    ...[
      load(ARCH),
      skipTwoUnless(ARCH_X86_64),
      load(NUMBER),
      { code: IF_AT_LEAST, ifFalse: 1, k: X32_FROM },
      result(KILL_PROCESS),
    ],
    ...refused.flatMap((call) => refuse(call, EPERM)),
    ...each(MODES_BY_PATH, (mode) => (writes ? plainModes(mode) : [result(byPath)])),
    ...OWNERS_AND_TIMES_BY_PATH.flatMap((call) => when(call, [result(byPath)])),
    ...noSetId(),
    ...refuse(CLONE3, ENOSYS),
    ...(groups ? [] : refuse(SETPGID, EPERM)),
    ...when(UTIMENSAT, writes ? times() : [result(byPath)]),
    ...when(CLONE, refuseIf(0, anyBit(NEW_NAMESPACES), EPERM)),
    ...when(PRCTL, refuseIf(0, equal(PR_SET_PDEATHSIG), EPERM)),
    ...CALLER_ONLY.flatMap((call) => when(call, refuseIf(0, notEqual(0), EPERM))),
    ...each(PRIORITIES, priority),
    ...(network ? sockets() : refuse(SOCKET, EACCES)),
    result(ALLOW),
  ];
  return encode(instructions);
}

function sockets(): readonly Instruction[] {
  const isOneOf = (index: number, values: readonly number[], mask?: number): readonly Instruction[] => [
    load(argument(index)),
    ...(mask === undefined ? [] : [{ code: AND, k: mask }]),
    ...values.map((k, at) => ({ code: IF_EQUAL, ifTrue: values.length - at, k })),
    result(answer(EACCES)),
  ];
  return [
    ...when(SOCKET, [
      ...isOneOf(0, [AF_INET, AF_INET6]),
      ...isOneOf(1, [1, 2], SOCKET_TYPE_BITS),
      ...isOneOf(2, PROTOCOLS),
      result(ALLOW),
    ]),
    ...each(SENDS, (flags) => refuseIf(flags, anyBit(MSG_FASTOPEN), EACCES)),
  ];
}

const load = (k: number): Instruction => ({ code: LOAD, k });
const result = (k: number): Instruction => ({ code: RETURN, k });
/** Skips the next two instructions unless the value is equal. */
const skipTwoUnless = (k: number): Instruction => ({ code: IF_EQUAL, ifFalse: 2, k });

function refuse(call: number, errno: number): readonly Instruction[] {
  return when(call, [result(answer(errno))]);
}

/** Applies `then` to this call. Every path in `then` must return: loading an argument overwrites the call's number. */
function when(call: number, then: readonly Instruction[]): readonly Instruction[] {
  return [{ code: IF_EQUAL, ifFalse: then.length, k: call }, ...then];
}

function each(calls: ArgumentIndexes, then: (argument: number) => readonly Instruction[]): readonly Instruction[] {
  return Object.entries(calls).flatMap(([call, index]) => when(Number(call), then(index)));
}

// Tests that skip the next instruction when they fail.
const anyBit = (k: number): Instruction => ({ code: IF_ANY_BIT, ifFalse: 1, k });
const equal = (k: number): Instruction => ({ code: IF_EQUAL, ifFalse: 1, k });
const notEqual = (k: number): Instruction => ({ code: IF_EQUAL, ifTrue: 1, k });

/** Refuses the call when the test of an argument succeeds, else allows it. */
function refuseIf(index: number, test: Instruction, errno: number): readonly Instruction[] {
  return [load(argument(index)), test, result(answer(errno)), result(ALLOW)];
}

function plainModes(index: number): readonly Instruction[] {
  const special = anyBit(SPECIAL_MODE_BITS);
  return [load(argument(index)), special, result(answer(EPERM)), result(SUCCEED_WITHOUT_EFFECT)];
}

function noSetId(): readonly Instruction[] {
  const createsFile = { code: IF_ANY_BIT, ifFalse: 3, k: CREATES_A_FILE };
  return [
    ...each(MODES, (mode) => refuseIf(mode, anyBit(SET_ID_BITS), EPERM)),
    ...OPENS.flatMap(({ call, flags, mode }) =>
      when(call, [load(argument(flags)), createsFile, ...refuseIf(mode, anyBit(SET_ID_BITS), EPERM)]),
    ),
    ...refuse(OPENAT2, ENOSYS),
  ];
}

function priority(process: number): readonly Instruction[] {
  return [load(argument(0)), notEqual(process), result(answer(EPERM)), ...refuseIf(1, notEqual(0), EPERM)];
}

/**
 * Returns the instructions for `utimensat`. Without a path, it changes a descriptor, which is allowed. Without times,
 * it is `touch`, which needs an error when the file does not exist. Pointers are compared in two words.
 */
function times(): readonly Instruction[] {
  const [path, given] = [argument(1), argument(2)];
  return [
    ...[
      load(path),
      { code: IF_EQUAL, ifFalse: 3, k: 0 },
      load(path + 4),
      { code: IF_EQUAL, ifFalse: 1, k: 0 },
      result(ALLOW),
    ],
    ...[load(given), { code: IF_EQUAL, ifFalse: 3, k: 0 }, load(given + 4), { code: IF_EQUAL, ifFalse: 1, k: 0 }],
    ...[result(answer(EPERM)), result(SUCCEED_WITHOUT_EFFECT)],
  ];
}

function encode(instructions: readonly Instruction[]): Uint8Array {
  const program = new DataView(new ArrayBuffer(instructions.length * 8));
  for (const [index, { code, ifTrue = 0, ifFalse = 0, k }] of instructions.entries()) {
    program.setUint16(index * 8, code, true);
    program.setUint8(index * 8 + 2, ifTrue);
    program.setUint8(index * 8 + 3, ifFalse);
    program.setUint32(index * 8 + 4, k, true);
  }
  return new Uint8Array(program.buffer);
}
