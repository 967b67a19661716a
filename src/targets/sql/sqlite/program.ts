import { extname, join } from "node:path";

/**
 * The entry point of the process that has a database open, next to this code: the source in a clone, a built file in the package. The
 * single binary knows this name (`cli/binary.ts`).
 */
export const SQLITE_CHILD = join(import.meta.dir, `sqlite-child${extname(import.meta.path)}`);
