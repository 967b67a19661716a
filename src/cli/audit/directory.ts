import { AuditLogError } from "../../audit/audit-log-error.ts";
import type { StreamName } from "../../audit/chain/chain.ts";
import { isAuditDir } from "../../audit/journal/day-files.ts";
import { type LogFolder, logsIn, tenantsIn } from "../../audit/logs.ts";
import { dayProblems } from "../../audit/query/day-bounds.ts";
import { LineIndex } from "../../audit/query/line-index.ts";
import { AuditStoreError } from "../../audit/store/store-error.ts";
import { noTenant, tenantDirOf } from "../../core/tenant-names.ts";
import { processEnvironment } from "../../runtime/config/environment.ts";
import { CommandError, EXIT, isColoured, print } from "../output.ts";

const PROGRESS_EVERY_MS = 250;
const MEGABYTE = 1_000_000;

/** Maximum time that a command spends after its answer on the index: as long as the answer took, but no longer than this. */
const INDEX_MS_MAX = 500;

export interface AuditDirectory {
  readonly dir: string;
  /** The directory's own log and those of the workers. */
  readonly logs: readonly LogFolder[];
  readonly nowMs: number;
  readonly isColoured: boolean;
}

/**
 * Returns the audit directory and the current time. Returns undefined, after printing an error and setting the exit code, when
 * the directory does not exist.
 */
export function auditDirectory(named: string | undefined): AuditDirectory | undefined {
  const environment = processEnvironment();
  const dir = named ?? defaultDir();
  if (!isAuditDir(dir)) {
    print.error(`there is no audit directory ${dir}`);
    process.exitCode = EXIT.noInput;
    return undefined;
  }
  return { dir, logs: logsIn(dir), nowMs: Date.now(), isColoured: isColoured(environment) };
}

function defaultDir(): string {
  return processEnvironment()["STC_AUDIT_DIR"] || "audit-logs";
}

/**
 * Returns the directory that a command reads: that of a tenant is below its service's, which is the one that is named.
 *
 * @throws {CommandError} when the service's directory has none of this tenant
 */
export function directoryOf(named: string | undefined, tenant: string | undefined): string | undefined {
  return tenant === undefined ? named : ofTenant(named ?? defaultDir(), tenant);
}

/** Returns the directories that a command reads; none: the default one. */
export function directoriesOf(named: readonly string[], tenant: string | undefined): readonly string[] {
  if (tenant === undefined) return named;
  return (named.length === 0 ? [defaultDir()] : named).map((dir) => ofTenant(dir, tenant));
}

/** The directory says which tenants there are: one that the configuration no longer has still has its audit. */
function ofTenant(dir: string, tenant: string): string {
  const found = tenantDirOf(dir, tenant);
  if (isAuditDir(found) || !isAuditDir(dir)) return found;
  throw new CommandError(EXIT.noInput, noTenant(tenant, tenantsIn(dir), dir));
}

/** Returns the audit directories that were named, at least one; undefined, as for one, when one of them does not exist. */
export function auditDirectories(named: readonly string[]): readonly AuditDirectory[] | undefined {
  const wanted = named.length === 0 ? [undefined] : [...new Set(named)];
  const directories = wanted.map(auditDirectory).filter((directory) => directory !== undefined);
  return directories.length === wanted.length ? directories : undefined;
}

/** Returns the time and whether output is coloured, for questions that no directory answers. */
export function auditMoment(): Pick<AuditDirectory, "nowMs" | "isColoured"> {
  return { nowMs: Date.now(), isColoured: isColoured(processEnvironment()) };
}

/** Passes the indexes of several logs to the work; see `withIndex`. */
export async function withIndexes<T>(
  logs: readonly LogFolder[],
  withoutIndex: boolean | undefined,
  work: (logs: readonly { readonly dir: string; readonly index: LineIndex | undefined }[]) => Promise<T>,
): Promise<T> {
  const [log, ...others] = logs;
  if (log === undefined) return work([]);
  const { dir } = log;
  return withIndex(dir, withoutIndex, (index) =>
    withIndexes(others, withoutIndex, (indexed) => work([{ dir, index }, ...indexed])),
  );
}

/**
 * Passes the index of a large log to the work, and extends the index afterwards for a limited time. Without an index, the
 * work reads everything and nothing is written.
 */
async function withIndex<T>(
  dir: string,
  withoutIndex: boolean | undefined,
  work: (index: LineIndex | undefined) => Promise<T>,
): Promise<T> {
  if (withoutIndex === true) return work(undefined);
  const index = new LineIndex(dir);
  try {
    const beganMs = Date.now();
    const answer = await work(index);
    const answeredMs = Date.now();
    const untilMs = answeredMs + Math.min(answeredMs - beganMs, INDEX_MS_MAX);
    for (const _bytes of index.extend()) if (Date.now() >= untilMs) break;
    return answer;
  } finally {
    index.close();
  }
}

/** Warns on standard error that lines may be missing from an answer, because a day's file is missing or named for another day. */
export function warnOfDays(logs: readonly LogFolder[], streams: readonly StreamName[] = ["calls"]): void {
  for (const { name, dir } of logs) {
    for (const problem of streams.flatMap((stream) => dayProblems(dir, stream))) {
      print.error(`warning: ${name === "" ? "" : `${name}: `}${problem}: run stc audit verify for details`);
    }
  }
}

/** Runs a command. Reports a file that cannot be read, written or deleted in one line. */
export async function guarded(command: () => void | Promise<void>): Promise<void> {
  try {
    await command();
  } catch (error) {
    const isUnreadable = error instanceof AuditLogError || error instanceof AuditStoreError;
    const isFileProblem = error instanceof Error && "syscall" in error;
    if (!isUnreadable && !isFileProblem) throw error;
    print.error(error.message);
    process.exitCode = isUnreadable ? EXIT.noInput : EXIT.cannotWrite;
  }
}

export const NO_CALLS = "no call matches";

/** Reports that nothing was found; as JSON, only the exit code says so. */
export function noCalls(isJson: boolean): void {
  if (!isJson) print.error(NO_CALLS);
  process.exitCode = EXIT.failed;
}

/** Shows the progress of long work, only when a person is waiting at a terminal. */
export class ProgressLine {
  readonly #isShown = process.stderr.isTTY === true;
  #lastMs = Date.now();
  #hasWritten = false;
  #bytes = 0;
  #pageBytes = 0;

  /** Callback for `mayGoOn` of a search: counts the bytes of the page so far, and always continues. */
  readonly count = (pageBytes: number): boolean => {
    this.#bytes += pageBytes < this.#pageBytes ? pageBytes : pageBytes - this.#pageBytes;
    this.#pageBytes = pageBytes;
    const nowMs = Date.now();
    if (this.#isShown && nowMs - this.#lastMs >= PROGRESS_EVERY_MS) {
      this.#lastMs = nowMs;
      this.#hasWritten = true;
      print.progress(`${Math.round(this.#bytes / MEGABYTE)} MB read`);
    }
    return true;
  };

  end(): void {
    if (this.#hasWritten) print.progress("");
    this.#hasWritten = false;
  }
}
