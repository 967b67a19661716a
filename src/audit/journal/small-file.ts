import fs from "node:fs";

const READ = fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK;

/**
 * The text of a file beside the log, which the log can do without: `undefined` when it is missing, larger than `bytesMax`, or
 * no regular file. A named pipe in its place is not waited for.
 */
export function readSmallFile(path: string, bytesMax: number): string | undefined {
  let fd: number;
  try {
    fd = fs.openSync(path, READ);
  } catch {
    return undefined;
  }
  try {
    const facts = fs.fstatSync(fd);
    return facts.isFile() && facts.size <= bytesMax ? fs.readFileSync(fd, "utf8") : undefined;
  } finally {
    fs.closeSync(fd);
  }
}
