import { FFIType, type Pointer, ptr } from "bun:ffi";
import { bindCLibrary } from "../../native/c-library.ts";

/** System calls on descriptors that the runtime does not offer. Linux only: other systems cannot confine paths. */

const X64 = { openat2: 437, renameat2: 316, getdents64: 217 } as const;
const ARM64 = { openat2: 437, renameat2: 276, getdents64: 61 } as const;

/** Flags of open(2). O_DIRECTORY and O_NOFOLLOW differ on ARM. */
const isArm = process.arch === "arm64";
export const O_RDONLY = 0;
export const O_RDWR = 2;
export const O_WRONLY = 1;
export const O_CREAT = 0o100;
export const O_EXCL = 0o200;
export const O_NOCTTY = 0o400;
export const O_NONBLOCK = 0o4000;
export const O_DIRECTORY = isArm ? 0o40000 : 0o200000;
export const O_NOFOLLOW = isArm ? 0o100000 : 0o400000;
export const O_PATH = 0o10000000;
const O_CLOEXEC = 0o2000000;

const RESOLVE_NO_XDEV = 0x01;
const RESOLVE_NO_MAGICLINKS = 0x02;
const RESOLVE_NO_SYMLINKS = 0x04;
const RESOLVE_BENEATH = 0x08;
/** Follows links that stay below the directory and on its file system. */
export const FOLLOW = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
export const EXACT = FOLLOW | RESOLVE_NO_SYMLINKS;

const EINTR = 4;
const EAGAIN = 11;
const ENAMETOOLONG = 36;
const OPEN_HOW_BYTES = 24;
/** Attempts per call: the kernel asks for a repetition while directories on a path with `..` are renamed. */
const TRIES_MAX = 16;
const PATH_BYTES_MAX = 4_096; // Includes the NUL at the end.
const LINK_BYTES_MAX = 4_096;

const RENAME_NOREPLACE = 1;
const LOCK_EX_NB = 2 | 4;

/** System calls on files. Each returns a negative errno when it fails. */
export interface FileSystemCalls {
  /** Calls openat2(2). Returns a descriptor for `path` below the directory, with the limits in `resolve`. */
  openBeneath(directory: number, path: string, how: OpenHow): number;
  /** Calls openat(2) without following a link. `name` must be one plain name. */
  openName(directory: number, name: string, how: Omit<OpenHow, "resolve">): number;
  /** @param link an O_PATH descriptor */
  readLink(link: number): Buffer | number;
  makeDirectory(directory: number, name: string): number;
  remove(directory: number, name: string): number;
  rename(directory: number, names: { readonly from: string; readonly to: string; readonly replaces: boolean }): number;
  /** Calls getdents64(2). Returns the number of bytes written to the buffer, 0 at the end. */
  readEntries(directory: number, buffer: Uint8Array): number;
  /** Locks a directory unless it is locked. The lock ends with the descriptor. */
  lock(directory: number): number;
}

export interface OpenHow {
  readonly flags: number;
  readonly mode?: number;
  readonly resolve: number;
}

const { i32, i64, u32, u64, ptr: pointer } = FFIType;
const SYSCALL_OPEN = { args: [i64, i32, pointer, pointer, u64], returns: i32 } as const;
const SYSCALL_RENAME = { args: [i64, i32, pointer, i32, pointer, u32], returns: i32 } as const;
const SYSCALL_ENTRIES = { args: [i64, i32, pointer, u64], returns: i32 } as const;
const CALLS = {
  openat: { args: [i32, pointer, i32, u32], returns: i32 },
  readlinkat: { args: [i32, pointer, pointer, u64], returns: i32 },
  mkdirat: { args: [i32, pointer, u32], returns: i32 },
  unlinkat: { args: [i32, pointer, i32], returns: i32 },
  flock: { args: [i32, i32], returns: i32 },
} as const;

/** Returns the library, or undefined when there is no usable one. */
export function loadCLibrary(): FileSystemCalls | undefined {
  if (process.platform !== "linux" || !["x64", "arm64"].includes(process.arch)) return undefined;
  try {
    return load();
  } catch {
    // The tools are then not registered, which is reported at start.
    return undefined;
  }
}

function load(): FileSystemCalls {
  const { functions: c, bind, errno } = bindCLibrary(CALLS);
  const { syscall: open } = bind({ syscall: SYSCALL_OPEN });
  const { syscall: rename } = bind({ syscall: SYSCALL_RENAME });
  const { syscall: entries } = bind({ syscall: SYSCALL_ENTRIES });
  const numbers = isArm ? ARM64 : X64;
  const orErrno = (result: number): number => {
    const code = errno();
    return result >= 0 ? result : -code;
  };
  const [path, other] = [new CText(), new CText()];
  const [how, target] = [new StableMemory(OPEN_HOW_BYTES), new StableMemory(LINK_BYTES_MAX)];
  const howWords = new Uint32Array(how.bytes.buffer);
  return {
    openBeneath(directory, name, { flags, mode = 0, resolve }) {
      howWords.set([flags | O_CLOEXEC, 0, mode, 0, resolve, 0]);
      if (!path.write(name)) return -ENAMETOOLONG;
      return retry(() => orErrno(open(numbers.openat2, directory, path.at, how.at, OPEN_HOW_BYTES)));
    },
    openName(directory, name, { flags, mode = 0 }) {
      if (!path.write(name)) return -ENAMETOOLONG;
      return retry(() => orErrno(c.openat(directory, path.at, flags | O_CLOEXEC | O_NOFOLLOW, mode)));
    },
    readLink(link) {
      path.write("");
      const length = orErrno(c.readlinkat(link, path.at, target.at, LINK_BYTES_MAX));
      return length < 0 ? length : Buffer.from(target.bytes.subarray(0, length));
    },
    makeDirectory: (directory, name) =>
      path.write(name) ? orErrno(c.mkdirat(directory, path.at, 0o777)) : -ENAMETOOLONG,
    remove: (directory, name) => (path.write(name) ? orErrno(c.unlinkat(directory, path.at, 0)) : -ENAMETOOLONG),
    rename(directory, { from, to, replaces }) {
      if (!path.write(from) || !other.write(to)) return -ENAMETOOLONG;
      return orErrno(
        rename(numbers.renameat2, directory, path.at, directory, other.at, replaces ? 0 : RENAME_NOREPLACE),
      );
    },
    readEntries: (directory, buffer) => orErrno(entries(numbers.getdents64, directory, ptr(buffer), buffer.byteLength)),
    lock: (directory) => orErrno(c.flock(directory, LOCK_EX_NB)),
  };
}

/**
 * Memory with a fixed address for as long as the library is loaded. Bytes that are created for one call may be freed
 * before the call reads them, because a pointer does not keep them alive.
 */
class StableMemory {
  readonly bytes: Buffer<ArrayBuffer>;
  readonly at: Pointer;

  constructor(size: number) {
    this.bytes = Buffer.from(new ArrayBuffer(size));
    this.at = ptr(this.bytes);
  }
}

class CText extends StableMemory {
  constructor() {
    super(PATH_BYTES_MAX);
  }

  /**
   * Returns false for a path that is too long. Throws for NUL, which would cut the path short, and for lone surrogates,
   * which would change it; callers have refused both.
   */
  write(path: string): boolean {
    if (path.includes("\0") || !path.isWellFormed()) throw new RangeError("a path with NUL or a lone surrogate");
    if (Buffer.byteLength(path) >= PATH_BYTES_MAX) return false;
    this.bytes[this.bytes.write(path)] = 0;
    return true;
  }
}

function retry(call: () => number): number {
  let result = call();
  for (let tries = 1; (result === -EAGAIN || result === -EINTR) && tries < TRIES_MAX; tries += 1) result = call();
  return result;
}
