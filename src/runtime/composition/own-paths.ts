import { lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { systemCode } from "../../core/error-text.ts";
import { type Config, pathFrom } from "../config/config.ts";

/** Looks at where the service is to put things, and makes none of them. */

/** Why the audit cannot lie where it is to, as far as looking tells. */
export function auditPlaceProblems(config: Config): readonly string[] {
  const dir = pathFrom(config, config.audit.dir);
  try {
    const found = statSync(dir, { throwIfNoEntry: false });
    return found === undefined || found.isDirectory() ? [] : [`audit.dir: ${dir} is not a directory`];
  } catch (error) {
    return [`audit.dir: ${dir} cannot be read (${systemCode(error)})`];
  }
}

/** Why the socket cannot be made, in the words of the door. Whose it is, and whether it is in use, only the service can tell. */
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
