import { dlopen, type FFIFunction, FFIType, read } from "bun:ffi";
import { errorText } from "../core/error-text.ts";

const IS_MAC = process.platform === "darwin";
const MUSL_NAME = process.arch === "arm64" ? "aarch64" : "x86_64";
/** File names of the C library: glibc, and musl under both of its names. */
const LIBRARIES = IS_MAC
  ? ["libSystem.B.dylib", "/usr/lib/libSystem.B.dylib"]
  : ["libc.so.6", `libc.musl-${MUSL_NAME}.so.1`, `/lib/ld-musl-${MUSL_NAME}.so.1`];

const ERRNO = { args: [], returns: FFIType.ptr } as const;

type Signatures = Readonly<Record<string, FFIFunction>>;
type Bound<S extends Signatures> = ReturnType<typeof dlopen<S>>["symbols"];

/** Functions of the C library that the runtime does not offer. */
interface CFunctions<S extends Signatures> {
  readonly functions: Bound<S>;
  /** Binds further signatures: a variadic function such as `syscall` needs one binding for each. */
  bind<T extends Signatures>(signatures: T): Bound<T>;
  /** Returns the error number of the previous call. Read it in the very next statement: anything in between may change it. */
  errno(): number;
}

/**
 * Opens the C library and binds the given functions.
 *
 * @throws {Error} with the reason for each library that was tried
 */
export function bindCLibrary<const S extends Signatures>(signatures: S): CFunctions<S> {
  const problems: string[] = [];
  for (const library of LIBRARIES) {
    try {
      return bindFrom(library, signatures);
    } catch (error) {
      problems.push(`${library}: ${errorText(error)}`);
    }
  }
  throw new Error(`no usable C library: ${problems.join("; ")}`);
}

function bindFrom<S extends Signatures>(library: string, signatures: S): CFunctions<S> {
  const { symbols: functions } = dlopen(library, signatures);
  const errnoAt = IS_MAC
    ? dlopen(library, { __error: ERRNO }).symbols.__error()
    : dlopen(library, { __errno_location: ERRNO }).symbols.__errno_location();
  if (errnoAt === null) throw new Error("no errno");
  return {
    functions,
    bind: (others) => dlopen(library, others).symbols,
    errno: () => read.i32(errnoAt, 0),
  };
}
