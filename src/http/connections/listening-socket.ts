import { chmodSync, lstatSync, renameSync, unlinkSync } from "node:fs";
import { connect, type Server } from "node:net";
import { StartupError } from "../../core/errors.ts";
import { systemCode } from "../../core/system-code.ts";

export interface SocketPlace {
  /** Absolute. */
  readonly path: string;
  readonly mode: number;
}

/** The kernel takes 107 bytes; the socket is made under a longer name first. */
const PATH_BYTES_MAX = 90;
const FIELD = "server.socket";

/**
 * Listens at the path. A socket that nobody listens at any more is replaced; anything else that stands there is not ours to
 * take away. The socket is made under another name and moved into its place with its mode, so that it never stands there with
 * another one, and so that closing the server, which deletes the name it was made under, cannot delete what stands there then.
 *
 * @returns how to take it away
 * @throws {StartupError}
 */
export async function listenAt(server: Server, { path, mode }: SocketPlace, pid: number): Promise<() => void> {
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) throw new StartupError([`${FIELD}: is over ${PATH_BYTES_MAX} bytes`]);
  await assertFree(path);
  const made = `${path}.${pid}`;
  removeStale(made);
  await listening(server, made);
  chmodSync(made, mode);
  const { dev, ino } = lstatSync(made);
  renameSync(made, path);
  return () => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.dev === dev && found.ino === ino) unlinkSync(path);
  };
}

async function assertFree(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (found.isSymbolicLink()) throw new StartupError([`${FIELD}: ${path} is a symbolic link`]);
  if (!found.isSocket()) throw new StartupError([`${FIELD}: ${path} is there already, and is no socket`]);
  if (found.uid !== process.getuid?.()) throw new StartupError([`${FIELD}: ${path} is somebody else's socket`]);
  const answer = await knock(path);
  if (answer === "ECONNREFUSED" || answer === "ENOENT") return;
  throw new StartupError([`${FIELD}: ${path} is in use${answer === "taken" ? "" : ` (${answer})`}`]);
}

/** `taken` when somebody listens; else the system's code. */
function knock(path: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve("taken");
    });
    socket.on("error", (error) => resolve(systemCode(error)));
  });
}

/** What an earlier process of the same number left behind when it died between two steps. */
function removeStale(made: string): void {
  const found = lstatSync(made, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new StartupError([`${FIELD}: ${made} is in the way`]);
  unlinkSync(made);
}

/** Bound at once, and so under this mask: nobody else can connect before the mode is set. */
function listening(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", (error) => reject(new StartupError([`${FIELD}: cannot be made (${systemCode(error)})`])));
  const mask = process.umask(0o177);
  try {
    server.listen(path, resolve);
  } catch (error) {
    reject(new StartupError([`${FIELD}: cannot be made (${systemCode(error)})`]));
  } finally {
    process.umask(mask);
  }
  return promise;
}
