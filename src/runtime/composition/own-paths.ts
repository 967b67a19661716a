import { lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { systemCode } from "../../core/error-text.ts";
import { type Config, pathFrom } from "../config/config.ts";

/** Checks the paths at which the service will create files, without creating them. */

/** Returns why the audit directory cannot be used, as far as inspection shows. */
export function auditPlaceProblems(config: Config): readonly string[] {
  const dir = pathFrom(config, config.audit.dir);
  try {
    const found = statSync(dir, { throwIfNoEntry: false });
    return found === undefined || found.isDirectory() ? [] : [`audit.dir: ${dir} is not a directory`];
  } catch (error) {
    return [`audit.dir: ${dir} cannot be read (${systemCode(error)})`];
  }
}

/**
 * Returns why the socket cannot be created, in the listener's words. Only the service can determine its owner and whether it is
 * in use.
 */
export function socketProblems(config: Config): readonly string[] {
  const { socket } = config.server;
  if (socket === undefined) return [];
  const path = pathFrom(config, socket);
  try {
    const folder = statSync(dirname(path), { throwIfNoEntry: false });
    if (folder?.isDirectory() !== true) return [`server.socket: ${dirname(path)} is no folder: make it first`];
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isSocket()) return [];
    const fault = found.isSymbolicLink() ? "is a symbolic link" : "is there already, and is no socket";
    return [`server.socket: ${path} ${fault}`];
  } catch (error) {
    return [`server.socket: cannot be made (${systemCode(error)})`];
  }
}
