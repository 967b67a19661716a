import { FFIType } from "bun:ffi";
import { errorText } from "../../core/error-text.ts";
import { bindCLibrary } from "../../runtime/c-library.ts";
import { AuditLogError } from "../audit-log-error.ts";

const isMac = process.platform === "darwin";
/** The errno that `flock` sets when another process holds the lock. */
export const WOULD_BLOCK = isMac ? 35 : 11;

const FLOCK = { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } as const;
const ALLOCATE = { args: [FFIType.i32, FFIType.i64, FFIType.i64], returns: FFIType.i32 } as const;

interface Loaded {
  /** Returns `undefined` on success, otherwise the errno. */
  flock(fd: number, operation: number): number | undefined;
  /** `undefined` on systems without this function. */
  readonly allocate: ((fd: number, bytes: number) => number) | undefined;
}

let loaded: Loaded | undefined;

/**
 * Calls `flock(2)`. Returns `undefined` on success, otherwise the errno. The first call opens the C library, which
 * stays open.
 */
export function flock(fd: number, operation: number): number | undefined {
  loaded ??= load();
  return loaded.flock(fd, operation);
}

/**
 * Calls `posix_fallocate(3)`: reserves this many bytes of disk space for the file without writing them. Throws on
 * failure.
 */
export function allocate(fd: number, bytes: number): void {
  loaded ??= load();
  const errno = loaded.allocate?.(fd, bytes);
  if (errno !== 0) {
    throw new AuditLogError(errno === undefined ? "space cannot be reserved on this system" : `errno ${errno}`);
  }
}

function load(): Loaded {
  try {
    const { functions, bind, errno } = bindCLibrary({ flock: FLOCK });
    const fallocate = isMac ? undefined : bind({ posix_fallocate: ALLOCATE }).posix_fallocate;
    return {
      flock(fd, operation) {
        const result = functions.flock(fd, operation);
        const code = errno();
        return result === 0 ? undefined : code;
      },
      allocate: fallocate && ((fd, bytes) => fallocate(fd, 0, bytes)),
    };
  } catch (error) {
    throw new AuditLogError(`the audit directory cannot be locked: ${errorText(error)}`);
  }
}
