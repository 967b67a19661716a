import { Refusal } from "../../core/errors.ts";
import type { TargetStatus } from "../../core/types.ts";

/** Refusals of the file tools, by `details.code`. The messages tell the agent what to do. */
export const FILE_REFUSALS = {
  ENOENT: { status: "NOT_FOUND", message: "There is no such file or directory. fs_list shows what there is." },
  EISDIR: { status: "INVALID_ARGUMENT", message: "The path leads to a directory; a file is needed here." },
  ENOTDIR: { status: "INVALID_ARGUMENT", message: "A part of the path is not a directory." },
  ENAMETOOLONG: { status: "INVALID_ARGUMENT", message: "The path, or a name in it, is too long." },
  EACCES: { status: "FAILED_PRECONDITION", message: "The file system does not permit this operation there." },
  E_SANDBOX_VIOLATION: {
    status: "INVALID_ARGUMENT",
    message: "The path must begin with a mount and stay inside it: @mount/relative/path.",
  },
  E_READ_LIMIT: { status: "OUT_OF_RANGE", message: "The file is too large to be read." },
  E_WRITE_LIMIT: { status: "OUT_OF_RANGE", message: "The content is over the size limit for writing." },
  E_INVALID_FRONTMATTER: { status: "INVALID_ARGUMENT", message: "The YAML frontmatter cannot be read." },
  E_SCHEMA_VALIDATION: { status: "INVALID_ARGUMENT", message: "The frontmatter does not fit the workflow's schema." },
  E_INVALID_TRANSITION: { status: "FAILED_PRECONDITION", message: "The workflow's graph has no such transition." },
  E_PRECONDITION_FAILED: {
    status: "FAILED_PRECONDITION",
    message: "The file differs from the expected version. Read it again and repeat the change.",
  },
  E_INVALID_PATCH: { status: "INVALID_ARGUMENT", message: "The patch cannot be read as a unified diff of one file." },
  E_PATCH_MISMATCH: { status: "FAILED_PRECONDITION", message: "The patch does not apply to the file." },
  E_INVALID_PATTERN: { status: "INVALID_ARGUMENT", message: "The pattern is not a valid RE2 regular expression." },
} as const satisfies Record<string, { readonly status: TargetStatus; readonly message: string }>;

export type FileRefusalCode = keyof typeof FILE_REFUSALS;

interface FileRefusalOptions {
  /** Replaces the default message. Never contains a path of the machine or text from a file. */
  readonly message?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

export function fileRefusal(code: FileRefusalCode, options: FileRefusalOptions = {}): Refusal {
  const { status, message } = FILE_REFUSALS[code];
  return new Refusal("TARGET_REFUSED", options.message ?? message, {
    details: { status, code, ...options.details },
    ...(options.cause !== undefined && { cause: options.cause }),
  });
}

/** Refusal codes by errno. Other errnos are failures of the machine, not of the call. */
const ERRNOS: Readonly<Record<number, FileRefusalCode>> = {
  1: "EACCES",
  2: "ENOENT",
  13: "EACCES",
  18: "E_SANDBOX_VIOLATION",
  20: "ENOTDIR",
  21: "EISDIR",
  26: "EACCES",
  30: "EACCES",
  36: "ENAMETOOLONG",
  40: "E_SANDBOX_VIOLATION",
};

export const ENOENT = 2;
export const EEXIST = 17;
export const EINVAL = 22;
export const ELOOP = 40;

/** The file is a socket, or a pipe for writing that nobody reads. */
const ENXIO = 6;
/** EFBIG, ENOSPC, EDQUOT: the file is too large, the disk is full, or the quota is used up. */
const DISK_FULL: ReadonlySet<number> = new Set([27, 28, 122]);
/** Too few descriptors, too little memory, or too much activity: a later attempt may succeed. */
const TRANSIENT: ReadonlySet<number> = new Set([4, 11, 12, 16, 23, 24]);

/** @param result negative errno */
export function errnoRefusal(result: number, what: string): Refusal {
  const errno = -result;
  const cause = new Error(`${what}: errno ${errno}`);
  const code = ERRNOS[errno];
  if (code !== undefined) return fileRefusal(code, { cause });
  if (errno === ENXIO) return notRegular(cause);
  const options = { details: { code: "E_INTERNAL" }, cause };
  if (TRANSIENT.has(errno)) return new Refusal("TARGET_UNAVAILABLE", "The file system is busy.", options);
  const message = DISK_FULL.has(errno)
    ? "The file system is full. The file is unchanged; tell a person."
    : "The file system failed.";
  return new Refusal("TARGET_FAILED", message, options);
}

export function thrownRefusal(error: unknown, what: string): Refusal {
  if (error instanceof Refusal) return error;
  const errno = error instanceof Error && "errno" in error ? Number(error.errno) : Number.NaN;
  if (Number.isInteger(errno)) return errnoRefusal(-Math.abs(errno), what);
  return new Refusal("INTERNAL", "The file could not be handled.", { details: { code: "E_INTERNAL" }, cause: error });
}

export function notRegular(cause?: unknown): Refusal {
  const message = "The path names something that is neither a file nor a directory.";
  return fileRefusal("E_SANDBOX_VIOLATION", { message, ...(cause !== undefined && { cause }) });
}
