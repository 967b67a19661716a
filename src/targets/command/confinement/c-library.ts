import { FFIType, type Pointer, ptr } from "bun:ffi";
import { bindCLibrary } from "../../../native/c-library.ts";

/** Functions of the C library that the runtime does not offer, and direct system calls. Linux only. */

const { i32, u32, i64, u64, ptr: pointer } = FFIType;

const FUNCTIONS = {
  prctl: { args: [i32, u64, u64, u64, u64], returns: i32 },
  getppid: { args: [], returns: i32 },
  getuid: { args: [], returns: u32 },
  getsid: { args: [i32], returns: i32 },
  getpgid: { args: [i32], returns: i32 },
  open: { args: [pointer, i32, i32], returns: i32 },
  close: { args: [i32], returns: i32 },
  flock: { args: [i32, i32], returns: i32 },
  dup2: { args: [i32, i32], returns: i32 },
  chdir: { args: [pointer], returns: i32 },
  setrlimit: { args: [i32, pointer], returns: i32 },
  sigprocmask: { args: [i32, pointer, pointer], returns: i32 },
  execve: { args: [pointer, pointer, pointer], returns: i32 },
  signal: { args: [i32, u64], returns: u64 },
  clone: { args: [pointer, pointer, i32, pointer], returns: i32 },
  kill: { args: [i32, i32], returns: i32 },
} as const;

/** Bindings of `syscall(2)`, one for each list of argument types. */
const SYSTEM_CALLS = {
  createRuleset: { syscall: { args: [i64, pointer, u64, u32], returns: i32 } },
  addRule: { syscall: { args: [i64, i32, i32, pointer, u32], returns: i32 } },
  restrictSelf: { syscall: { args: [i64, i32, u32], returns: i32 } },
  /** Number, header, body: `capset`. */
  capset: { syscall: { args: [i64, pointer, pointer], returns: i32 } },
  /** Number and six plain numbers. */
  numbers: { syscall: { args: [i64, u64, u64, u64, u64, u64, u64], returns: i64 } },
} as const;

/** Numbers of system calls on x86_64. */
export const CALL = {
  read: 0n,
  open: 2n,
  poll: 7n,
  mmap: 9n,
  mprotect: 10n,
  rtSigaction: 13n,
  rtSigprocmask: 14n,
  madvise: 28n,
  dup2: 33n,
  socket: 41n,
  connect: 42n,
  sendto: 44n,
  execve: 59n,
  exit: 60n,
  wait4: 61n,
  truncate: 76n,
  chdir: 80n,
  chmod: 90n,
  ptrace: 101n,
  setpgid: 109n,
  setsid: 112n,
  capset: 126n,
  setpriority: 141n,
  prctl: 157n,
  chroot: 161n,
  setxattr: 188n,
  exitGroup: 231n,
  tgkill: 234n,
  unshare: 272n,
  pipe2: 293n,
  prlimit: 302n,
  readMemory: 310n,
  ioUring: 425n,
  pidfdOpen: 434n,
  closeRange: 436n,
  pidfdGet: 438n,
  landlockCreate: 444n,
  landlockAdd: 445n,
  landlockRestrict: 446n,
} as const;

/** The last descriptor of `closeRange`. */
export const ALL_DESCRIPTORS = 0xffffffffn;

type Loaded = ReturnType<typeof load>;
export type CLibrary = Loaded;

let loaded: Loaded | undefined;

/** Opens the library at the first call and keeps it open. Throws when there is no such library. */
export function cLibrary(): CLibrary {
  loaded ??= load();
  return loaded;
}

function load() {
  const { functions, bind, errno } = bindCLibrary(FUNCTIONS);
  const system = <Name extends keyof typeof SYSTEM_CALLS>(name: Name) => bind(SYSTEM_CALLS[name]).syscall;
  return {
    ...functions,
    createRuleset: system("createRuleset"),
    addRule: system("addRule"),
    restrictSelf: system("restrictSelf"),
    capset: system("capset"),
    numbers: system("numbers"),
    /** Valid only in the statement right after a failed call. */
    errno,
  };
}

/** Returns the result of a call. Throws an error with its name and errno when it is negative. */
export function orThrow(result: number, errno: () => number, what: string): number {
  if (result < 0) throw new Error(`${what} (errno ${errno()})`);
  return result;
}

const keptAlive: unknown[] = [];

/**
 * Returns a pointer, and keeps the bytes alive until the process ends. Launchers and supervisors soon become another
 * program or end; the service itself calls this rarely.
 */
export function pointerTo(bytes: Uint8Array | Int32Array | Uint32Array | BigUint64Array): Pointer {
  keptAlive.push(bytes);
  return ptr(bytes);
}

/** Returns a NUL-terminated string. */
export function cString(text: string): Pointer {
  if (text.includes("\0")) throw new Error("a text contains NUL");
  return pointerTo(Buffer.from(`${text}\0`));
}

/** Returns a null-terminated array of strings. */
export function pointerTable(texts: readonly string[]): Pointer {
  return pointerTo(new BigUint64Array([...texts.map((text) => BigInt(cString(text))), 0n]));
}
