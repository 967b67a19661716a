import { dlopen, FFIType, read } from "bun:ffi";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError } from "../audit-log-error.ts";

/** The two calls of the C library that the runtime does not offer. */

const isMac = process.platform === "darwin";
/** The errno of a lock that somebody else holds. */
export const WOULD_BLOCK = isMac ? 35 : 11;

const muslName = process.arch === "arm64" ? "aarch64" : "x86_64";
const LIBRARIES = isMac
  ? ["libSystem.B.dylib", "/usr/lib/libSystem.B.dylib"]
  : ["libc.so.6", `libc.musl-${muslName}.so.1`, `/lib/ld-musl-${muslName}.so.1`];

/** `undefined` when done, else the errno. */
type Flock = (fd: number, operation: number) => number | undefined;

interface Loaded {
  readonly flock: Flock;
  readonly allocate: ((fd: number, bytes: number) => number) | undefined;
}

let loaded: Loaded | undefined;

/** `flock(2)`: `undefined` when done, else the errno. The library is opened at the first call and stays. */
export function flock(fd: number, operation: number): number | undefined {
  loaded ??= load();
  return loaded.flock(fd, operation);
}

/** `posix_fallocate(3)`: gives the file so many bytes of the disk, without writing them. Throws when it cannot. */
export function allocate(fd: number, bytes: number): void {
  loaded ??= load();
  const errno = loaded.allocate?.(fd, bytes);
  if (errno !== 0) {
    throw new AuditLogError(errno === undefined ? "space cannot be reserved on this system" : `errno ${errno}`);
  }
}

function load(): Loaded {
  const problems: string[] = [];
  for (const library of LIBRARIES) {
    try {
      return isMac ? loadMac(library) : loadLinux(library);
    } catch (error) {
      problems.push(`${library}: ${errorText(error)}`);
    }
  }
  throw new AuditLogError(`no C library to lock the audit directory with: ${problems.join("; ")}`);
}

const FLOCK = { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } as const;
const ERRNO = { args: [], returns: FFIType.ptr } as const;
const ALLOCATE = { args: [FFIType.i32, FFIType.i64, FFIType.i64], returns: FFIType.i32 } as const;

function loadLinux(library: string): Loaded {
  const { symbols } = dlopen(library, { flock: FLOCK, posix_fallocate: ALLOCATE, __errno_location: ERRNO });
  const { posix_fallocate: posixAllocate } = symbols;
  return {
    flock: checked(symbols.flock, symbols.__errno_location()),
    allocate: (fd, bytes) => posixAllocate(fd, 0, bytes),
  };
}

function loadMac(library: string): Loaded {
  const { symbols } = dlopen(library, { flock: FLOCK, __error: ERRNO });
  return { flock: checked(symbols.flock, symbols.__error()), allocate: undefined };
}

type ErrnoPointer = ReturnType<ReturnType<typeof dlopen<{ errno: typeof ERRNO }>>["symbols"]["errno"]>;

/** errno is read in the very next statement: anything in between may change it. */
function checked(lock: (fd: number, operation: number) => number, errnoAt: ErrnoPointer): Flock {
  return (fd, operation) => {
    const result = lock(fd, operation);
    const errno = errnoAt === null ? 0 : read.i32(errnoAt, 0);
    return result === 0 ? undefined : errno;
  };
}
