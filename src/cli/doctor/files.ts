import { accessSync, constants, readFileSync, realpathSync, type Stats, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { STREAMS } from "../../audit/chain/chain.ts";
import { dayFilesOf } from "../../audit/journal/day-files.ts";
import { reserveOf } from "../../audit/journal/disk-reserve.ts";
import { systemCode } from "../../core/error-text.ts";
import type { OwnPath } from "../../core/target-kind.ts";
import { tenantFile } from "../../core/tenant-names.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { FILE_URL, namedPaths } from "../../runtime/config/own-paths.ts";
import { type Check, type CheckFinding, configured, failed, notApplicable, ok, warning } from "./check.ts";

/** Fields whose files hold secrets. Public keys and certificates may be read by everybody. */
const SECRET_FIELD =
  /(?:^|\.)(?:clientKey|kubeconfig|configFile|urlFile|storeUrlFile|headersFile|(?!publicKeyFile$)(?:[a-z]+K|k)eyFile|(?:[a-z]+[TS]|[ts])(?:oken|ecret)File)$/;
const PRIVATE_KEY = "PRIVATE KEY-----";
const FILE_BYTES_MAX = 1_048_576;

const OTHERS_READ = 0o004;
const OTHERS_WRITE = 0o002;
const OTHERS_ENTER = 0o001;
const GROUP_WRITE = 0o020;

const KEEP_SECRET =
  "Give the file the mode 0400, or 0440 for the service's group; in Kubernetes set defaultMode: 0440.";

/** Returns a file of the configuration as text; undefined when it is missing, not a file, or large. */
export function smallFile(path: string): string | undefined {
  try {
    const facts = statSync(path);
    return facts.isFile() && facts.size <= FILE_BYTES_MAX ? readFileSync(path, "utf8") : undefined;
  } catch {
    return undefined;
  }
}

export const secretFiles: Check = configured("secret files", (config) => {
  const secrets = namedPaths(config).filter((named) => factsOf(named.path)?.isFile() === true && isSecret(named));
  if (secrets.length === 0) return notApplicable("there is no file with a secret");
  const owners = ownersOf(config);
  const problems = secrets.flatMap((secret) => secretProblems(secret, owners));
  if (problems.length > 0) return problems;
  return [ok(`${secrets.length} files, readable by the service's user and group alone`)];
});

function isSecret({ field, path }: OwnPath): boolean {
  return SECRET_FIELD.test(field) || (/File$/.test(field) && smallFile(path)?.includes(PRIVATE_KEY) === true);
}

/** Users who may own the service's files: root, this user, and the owner of the audit directory, as whom the service runs. */
function ownersOf(config: Config): ReadonlySet<number> {
  const audit = factsOf(pathFrom(config, config.audit.dir));
  return new Set([0, process.getuid?.() ?? 0, ...(audit === undefined ? [] : [audit.uid])]);
}

/** Follows links: Kubernetes mounts a Secret as links to files of another directory. */
function secretProblems({ field, path }: OwnPath, owners: ReadonlySet<number>): readonly CheckFinding[] {
  const facts = factsOf(path);
  if (facts === undefined) return [];
  const { mode, uid } = facts;
  const found: CheckFinding[] = [];
  const at = `${field}: ${path}`;
  if (isOpen(path, mode, OTHERS_READ))
    found.push(failed(`${at} can be read by every user (${octal(mode)})`, KEEP_SECRET));
  if (isOpen(path, mode, OTHERS_WRITE)) {
    found.push(failed(`${at} can be written by every user (${octal(mode)})`, KEEP_SECRET));
  } else if ((mode & GROUP_WRITE) !== 0) {
    found.push(warning(`${at} can be written by its group (${octal(mode)})`, KEEP_SECRET));
  }
  if (!owners.has(uid)) {
    found.push(
      failed(
        `${at} belongs to another user (uid ${uid})`,
        "Make it the service's or root's: its owner can replace it.",
      ),
    );
  }
  return found;
}

/** Returns whether other users have the right, and may enter every directory above. */
function isOpen(path: string, mode: number, right: number): boolean {
  if ((mode & right) === 0) return false;
  for (let above = dirname(realpathSync(path)); ; above = dirname(above)) {
    if (((factsOf(above)?.mode ?? 0) & OTHERS_ENTER) === 0) return false;
    if (above === dirname(above)) return true;
  }
}

function octal(mode: number): string {
  return `0${(mode & 0o777).toString(8).padStart(3, "0")}`;
}

function factsOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

const MEBIBYTE = 1_048_576;
/** The disk is reported when less than this multiple of the reserve is free. */
const ROOM_FACTOR = 4;
const INODES_MIN = 1_000;
const DISK_RUNBOOK = "docs/runbooks.md#safetoolcallauditdiskfills";

export const storage: Check = configured("storage", async (config, deployment) => {
  const dirs = dataDirectories(config);
  const logs = await deployment.audit();
  const isWritten = logs.some(({ writer }) => writer !== undefined);
  const newest = logs.flatMap(({ dir }) => STREAMS.flatMap((stream) => dayFilesOf(dir, stream).slice(-1)));
  const findings = [
    ...dirs.flatMap((dir) => [...directoryProblems(dir, isWritten), ...spaceProblems(dir, config)]),
    ...[...storeFiles(config), ...newest.map(({ path }) => path)].flatMap(dataProblems),
  ];
  return findings.length > 0 ? findings : dirs.map(({ field, path }) => ok(`${field}: ${path}: ${freeText(path)}`));
});

/** Directories that the service writes, with the nearest one that exists. */
interface DataDirectory extends OwnPath {
  readonly nearest: string;
}

/** The database of the approvals, where it is a file. */
function storeFiles(config: Config): readonly string[] {
  const { store } = config.approvals;
  return store === undefined ? [] : [tenantFile(pathFrom(config, store.replace(FILE_URL, "")), config.tenant)];
}

function dataDirectories(config: Config): readonly DataDirectory[] {
  const named = [
    { field: "audit.dir", path: pathFrom(config, config.audit.dir) },
    ...storeFiles(config).map((path) => ({ field: "approvals.store", path: dirname(path) })),
  ];
  return named.map((dir) => ({ ...dir, nearest: nearestOf(dir.path) }));
}

function nearestOf(path: string): string {
  return factsOf(path) === undefined && path !== dirname(path) ? nearestOf(dirname(path)) : path;
}

function directoryProblems({ field, path, nearest }: DataDirectory, isWritten: boolean): readonly CheckFinding[] {
  const at = `${field}: ${nearest}`;
  const mode = factsOf(nearest)?.mode ?? 0;
  const findings: CheckFinding[] = [];
  if (nearest === path && isOpen(path, mode, OTHERS_WRITE)) {
    findings.push(failed(`${at} can be written by every user (${octal(mode)})`, `chmod 0700 ${path}`));
  }
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK);
  } catch (error) {
    // The service that writes it runs as another user.
    if (!isWritten) {
      const next = "Run stc doctor as the service's user; if it is the same, give that user the directory.";
      findings.push(
        failed(`${at} cannot be written by this user (uid ${process.getuid?.()}, ${systemCode(error)})`, next),
      );
    }
  }
  return findings;
}

/** A service that keeps its files private makes no others: these came from elsewhere, such as a backup. */
function dataProblems(path: string): readonly CheckFinding[] {
  const mode = factsOf(path)?.mode ?? 0;
  if (!isOpen(path, mode, OTHERS_READ)) return [];
  return [failed(`${path} can be read by every user (${octal(mode)})`, `chmod 0600 ${path}`)];
}

function spaceProblems({ field, nearest }: DataDirectory, { audit }: Config): readonly CheckFinding[] {
  return spaceFindings(`${field}: ${nearest}`, spaceOf(nearest), audit.diskReserveBytes);
}

/** Space of a file system: bytes, and files that can be made; `inodes` is 0 where their number is not fixed. */
interface DiskSpace {
  readonly free: number;
  readonly total: number;
  readonly inodes: number;
  readonly inodesFree: number;
}

/** Returns what is short on a disk; nothing when there is room. */
export function spaceFindings(
  at: string,
  { free, total, inodes, inodesFree }: DiskSpace,
  reserveBytes: number,
): readonly CheckFinding[] {
  const { reserve, held } = reserveOf(reserveBytes, total);
  const needed = reserve + held;
  const seen = `${at}: ${mebibytes(free)} of ${mebibytes(total)} are free`;
  const next = `Enlarge the volume, or move day files that were exported. ${DISK_RUNBOOK}`;
  const found: CheckFinding[] = [];
  if (free < needed) {
    found.push(failed(`${seen}; below ${mebibytes(needed)} (audit.diskReserveBytes) calls are refused`, next));
  } else if (free < ROOM_FACTOR * needed) found.push(warning(seen, next));
  if (inodes > 0 && inodesFree < INODES_MIN)
    found.push(failed(`${at}: only ${inodesFree} more files can be made`, next));
  return found;
}

function spaceOf(path: string): DiskSpace {
  const { bavail, blocks, bsize, files, ffree } = statfsSync(path);
  return { free: bavail * bsize, total: blocks * bsize, inodes: files, inodesFree: ffree };
}

function freeText(path: string): string {
  return `${mebibytes(spaceOf(nearestOf(path)).free)} free`;
}

function mebibytes(bytes: number): string {
  return `${Math.floor(bytes / MEBIBYTE)} MiB`;
}
