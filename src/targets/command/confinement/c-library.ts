import { FFIType, type Pointer, ptr } from "bun:ffi";
import { bindCLibrary } from "../../../runtime/c-library.ts";

/** What the runtime does not offer of the C library, and the system calls that have no function in it. Linux alone. */

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

/** `syscall(2)` takes any number of arguments, a binding only these: by the call that is made with it. */
const SYSTEM_CALLS = {
  /** Number, pointer, size, flags. */
  createRuleset: { syscall: { args: [i64, pointer, u64, u32], returns: i32 } },
  addRule: { syscall: { args: [i64, i32, i32, pointer, u32], returns: i32 } },
  restrictSelf: { syscall: { args: [i64, i32, u32], returns: i32 } },
  /** Number, header, body: `capset`. */
  capset: { syscall: { args: [i64, pointer, pointer], returns: i32 } },
  /** Number and five plain numbers. */
  numbers: { syscall: { args: [i64, u64, u64, u64, u64, u64, u64], returns: i64 } },
} as const;

type Loaded = ReturnType<typeof load>;
export type CLibrary = Loaded;

let loaded: Loaded | undefined;

/** Opened at the first call; stays. Throws where there is no such library. */
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
    /** Right only in the very next statement after a call that failed. */
    errno,
  };
}

/** Ends what cannot go on with the call's name and its errno. */
export function must(result: number, errno: () => number, what: string): number {
  if (result < 0) throw new Error(`${what} (errno ${errno()})`);
  return result;
}

const held: unknown[] = [];

/**
 * A pointer keeps nothing alive: what it points to is held here. For a process that becomes another or ends before that is much;
 * the service itself makes none.
 */
export function pointerTo(bytes: Uint8Array | Int32Array | Uint32Array | BigUint64Array): Pointer {
  held.push(bytes);
  return ptr(bytes);
}

/** A text as C takes it. */
export function cString(text: string): Pointer {
  if (text.includes("\0")) throw new Error("a text holds NUL");
  return pointerTo(Buffer.from(`${text}\0`));
}

/** Pointers to texts, ended by null. */
export function pointerTable(texts: readonly string[]): Pointer {
  return pointerTo(new BigUint64Array([...texts.map((text) => BigInt(cString(text))), 0n]));
}
