import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { TENANT_NAME, tenantDirOf, tenantsDirOf } from "../core/tenant-names.ts";
import { isAuditDir } from "./journal/day-files.ts";

/**
 * The logs of an audit directory: its own, and one in a folder below it for each worker process. Each log has one writer, a lock,
 * a chain, checkpoints and saved positions of its own; readers show them as one.
 */

/** One log: a folder that one process writes. */
export interface LogFolder {
  /** `""` for the log of the directory itself, otherwise the name of the worker's folder. */
  readonly name: string;
  readonly dir: string;
}

const WORKER_FOLDER = /^worker-([1-9]\d{0,3})$/;

/** Returns the name of a worker's folder. It holds the number alone: a container's host name changes with every start. */
export function workerFolder(worker: number): string {
  return `worker-${worker}`;
}

/** Returns the name of a tenant's folder in the audit directory of its service. */
export function tenantFolder(tenant: string): string {
  return tenantDirOf("", tenant);
}

/** A journal that was copied from elsewhere can name any folder. */
export function isTenantFolder(name: unknown): name is string {
  return typeof name === "string" && TENANT_NAME.test(basename(name)) && name === tenantFolder(basename(name));
}

/** Returns the logs of the tenants that have an audit directory below this one, sorted. */
export function tenantLogsIn(dir: string): readonly LogFolder[] {
  return tenantsIn(dir).map((tenant) => ({ name: tenantFolder(tenant), dir: tenantDirOf(dir, tenant) }));
}

/** Returns the names of the tenants that have an audit directory below this one, sorted. */
export function tenantsIn(dir: string): readonly string[] {
  return namesIn(tenantsDirOf(dir))
    .filter((name) => isAuditDir(tenantDirOf(dir, name)))
    .sort();
}

/** Returns the number of the worker that writes a log; undefined for the log of the directory itself. */
export function workerOf({ name }: Pick<LogFolder, "name">): number | undefined {
  const [, worker] = WORKER_FOLDER.exec(name) ?? [];
  return worker === undefined ? undefined : Number(worker);
}

/** Returns the logs of an audit directory: its own first, then those of the workers in the order of their numbers. */
export function logsIn(dir: string): readonly LogFolder[] {
  const workers = namesIn(dir)
    .map((name) => ({ name, dir: join(dir, name) }))
    .filter((log) => workerOf(log) !== undefined && isAuditDir(log.dir));
  return [{ name: "", dir }, ...workers.sort((one, other) => (workerOf(one) ?? 0) - (workerOf(other) ?? 0))];
}

/** Returns no name when the directory cannot be read: reading its own log then reports the error. */
function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
