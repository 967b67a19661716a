import { hostname } from "node:os";
import { join } from "node:path";
import { type LogFolder, logsIn, workerFolder, workerOf } from "../../audit/logs.ts";
import { type Config, pathFrom } from "../config/config.ts";

/** Returns the name under which this process writes: each worker is an instance of its own. */
export function instanceOf({ instance = hostname(), worker }: Pick<Config, "instance" | "worker">): string {
  return worker === undefined ? instance : `${instance}-${worker}`;
}

/** Returns the folder of the audit log that this process writes: a worker's lies below the audit directory. */
export function logDirOf(config: Pick<Config, "audit" | "folder" | "worker">): string {
  const dir = pathFrom(config, config.audit.dir);
  return config.worker === undefined ? dir : join(dir, workerFolder(config.worker));
}

/** Returns the logs below the audit directory for which this start has no worker: `server.workers` was higher. */
export function formerLogsOf({ server, worker, ...config }: Config): readonly LogFolder[] {
  if (worker !== undefined) return [];
  const own = server.workers === 1 ? 0 : server.workers;
  return logsIn(pathFrom(config, config.audit.dir)).filter((log) => (workerOf(log) ?? 0) > own);
}
