import { closeSync } from "node:fs";
import { O_NOFOLLOW, O_PATH } from "./c-library.ts";
import { type FileIdentity, identify, type PathConfinement } from "./confinement.ts";
import { ENOENT, errnoRefusal, fileRefusal } from "./refusals.ts";

const LINKS_MAX = 40;
/** Maximum depth of directories. Each needs a descriptor during the walk. */
export const DIRECTORIES_MAX = 200;
/** Maximum number of names in a walk, including those in links. */
const NAMES_MAX = 8_192;

/** A directory on the path, with its name on disk. */
interface Visited {
  readonly fd: number;
  readonly name: string;
  readonly id: string;
}

/** The names on disk along a path, and open descriptors of its directories. */
export interface WalkedPath {
  /** Directories from that of the mount to the last one on the path. */
  readonly directories: readonly Visited[];
  /** The name in the last directory; undefined when the path leads to the directory itself. */
  readonly name: string | undefined;
  /** The file with that name, after following links; undefined when there is none. */
  readonly found: FileIdentity | undefined;
  readonly missing: readonly string[];
  close(): void;
}

/**
 * Follows a path one name at a time from an open directory. After a link, it continues with the link's target in the
 * same directory; for `..`, it returns to the descriptor of the previous directory. Neither can leave the start
 * directory.
 *
 * @throws {Refusal} ENOTDIR, E_SANDBOX_VIOLATION …
 */
export function walk(confinement: PathConfinement, root: Omit<Visited, "name">, path: string): WalkedPath {
  const walker = new Walker(confinement, root, path);
  try {
    return walker.follow();
  } catch (error) {
    walker.close();
    throw error;
  }
}

class Walker {
  readonly #confinement: PathConfinement;
  readonly #directories: Visited[];
  /** Remaining names, the next one last. */
  readonly #pending: string[];
  #links = 0;
  #names = 0;

  constructor(confinement: PathConfinement, root: Omit<Visited, "name">, path: string) {
    this.#confinement = confinement;
    this.#directories = [{ ...root, name: "" }];
    this.#pending = path.split("/").reverse();
  }

  follow(): WalkedPath {
    for (let name = this.#pending.pop(); name !== undefined; name = this.#pending.pop()) {
      this.#names += 1;
      if (this.#names > NAMES_MAX) throw fileRefusal("ENAMETOOLONG");
      if (name === "" || name === ".") continue;
      if (name === "..") this.#leave();
      else {
        const end = this.#enter(name);
        if (end !== undefined) return end;
      }
    }
    return this.#result({ name: undefined, found: undefined, missing: [] });
  }

  close(): void {
    for (const { fd } of this.#directories.splice(1)) closeSync(fd);
  }

  #leave(): void {
    const left = this.#directories.length > 1 ? this.#directories.pop() : undefined;
    if (left === undefined) throw fileRefusal("E_SANDBOX_VIOLATION");
    closeSync(left.fd);
  }

  #enter(name: string): WalkedPath | undefined {
    const here = this.#directories.at(-1)?.fd ?? -1;
    const fd = this.#confinement.step(here, name, O_PATH | O_NOFOLLOW);
    if (fd === -ENOENT) return this.#missing(name);
    if (fd < 0) throw errnoRefusal(fd, "walk");
    let isKept = false;
    try {
      const found = identify(fd);
      if (found.kind === "link") this.#followLink(fd);
      else if (found.kind === "directory") {
        if (this.#directories.length > DIRECTORIES_MAX) throw fileRefusal("ENAMETOOLONG");
        this.#directories.push({ fd, name, id: found.id });
        isKept = true;
      } else {
        if (this.#pending.length > 0) throw fileRefusal("ENOTDIR");
        return this.#result({ name, found, missing: [] });
      }
      return undefined;
    } finally {
      if (!isKept) closeSync(fd);
    }
  }

  #followLink(fd: number): void {
    this.#links += 1;
    const target = this.#confinement.library.readLink(fd);
    if (typeof target === "number") throw errnoRefusal(target, "readlink");
    const text = target.toString("utf8");
    const isText = Buffer.from(text).equals(target);
    if (this.#links > LINKS_MAX || text === "" || text.startsWith("/") || !isText) {
      throw fileRefusal("E_SANDBOX_VIOLATION", { message: "The path leads out of its mount." });
    }
    this.#pending.push(...text.split("/").reverse());
  }

  /** Returns the result for a name that does not exist. The rest of the path must be new names, too. */
  #missing(name: string): WalkedPath {
    const rest = this.#pending.reverse();
    const names = [name, ...rest.filter((part) => part !== "" && part !== ".")];
    const last = rest.at(-1);
    if (names.includes("..") || last === "" || last === ".") throw fileRefusal("ENOENT");
    return this.#result({ name: names.pop(), found: undefined, missing: names });
  }

  #result(end: Pick<WalkedPath, "name" | "found" | "missing">): WalkedPath {
    return { ...end, directories: this.#directories, close: () => this.close() };
  }
}
