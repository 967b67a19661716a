import { lstatSync, statSync, watch } from "node:fs";
import { dirname } from "node:path";
import { systemCode } from "../core/system-code.ts";
import type { Reloaded } from "./types.ts";

/** What is watched for, and what it is told. */
export interface Watched {
  /** The files and folders that matter now: asked before every look. */
  files(): readonly string[];
  /** Takes over what has changed. */
  run(by: "watch"): Promise<Reloaded>;
}

/** Between two looks: files that are the same at both are whole, and an exchange of several files is over. */
const SETTLE_MS = 250;
/** Files that never come to rest are read as they are. */
const LOOKS_MAX = 40;
/** The net below the watch: a folder may be mounted anew, or be on a file system that tells nothing. */
const LOOK_EVERY_MS = 15_000;
const FOLDERS_MAX = 1_000;

/** Follows the files of the configuration from now on; answers how to stop. */
export function watchReload(watched: Watched): () => void {
  const watch = new ReloadWatch(watched);
  return () => watch.close();
}

class ReloadWatch {
  readonly #watched: Watched;
  readonly #looks: ReturnType<typeof setInterval>;
  /** By folder, how to stop. */
  readonly #folders = new Map<string, () => void>();
  #settling: ReturnType<typeof setTimeout> | undefined;
  /** As the files were when they were last taken over, or refused. */
  #taken: string;
  /** As they were at the last look. */
  #last: string;
  #unsettled = 0;
  #isRunning = false;
  #isClosed = false;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#taken = this.#last = this.#sight();
    this.#looks = setInterval(() => this.#settle(SETTLE_MS), LOOK_EVERY_MS);
    this.#looks.unref();
    // What changed between the first reading and the watch made no event: the first look takes nothing for granted.
    this.#taken = "";
    this.#settle(SETTLE_MS);
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#looks);
    clearTimeout(this.#settling);
    for (const stop of this.#folders.values()) stop();
  }

  #settle(waitMs: number): void {
    if (this.#isClosed || this.#isRunning || this.#settling !== undefined) return;
    this.#settling = setTimeout(() => {
      this.#settling = undefined;
      this.#look();
    }, waitMs);
    this.#settling.unref();
  }

  #look(): void {
    const sight = this.#sight();
    if (sight === this.#taken) {
      this.#last = sight;
      this.#unsettled = 0;
      return;
    }
    this.#unsettled += 1;
    if (sight !== this.#last && this.#unsettled < LOOKS_MAX) {
      this.#last = sight;
      this.#settle(SETTLE_MS);
      return;
    }
    this.#unsettled = 0;
    this.#last = this.#taken = sight;
    void this.#run();
  }

  /** Never rejects, since a reload does not. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    const reloaded = await this.#watched.run("watch");
    this.#isRunning = false;
    if (reloaded.outcome !== "busy") {
      // What changed meanwhile, or is looked at from now on, was not told.
      this.#settle(SETTLE_MS);
      return;
    }
    this.#taken = "";
    this.#settle(reloaded.retryAfterMs);
  }

  /** What differs when a file does, and keeps the watches on the folders where that would show. */
  #sight(): string {
    const files = this.#watched.files();
    this.#follow(files);
    return files.map((file) => `${file} ${sightOf(file)}`).join("\n");
  }

  #follow(files: readonly string[]): void {
    const folders = foldersOf(files);
    for (const [folder, stop] of this.#folders) {
      if (folders.has(folder)) continue;
      stop();
      this.#folders.delete(folder);
    }
    for (const folder of folders) {
      if (this.#folders.has(folder) || this.#folders.size >= FOLDERS_MAX) continue;
      const stop = watchFolder(folder, () => this.#settle(SETTLE_MS));
      if (stop !== undefined) this.#folders.set(folder, stop);
    }
  }
}

/**
 * Folders are watched, not files: Kubernetes and editors put another file in a file's place, and a watch on the old one is dead.
 * So is one on a folder that is a symbolic link: the folder that holds the link is watched too.
 */
function foldersOf(files: readonly string[]): ReadonlySet<string> {
  const named = files.map((file) => (isFolder(file) ? file : dirname(file)));
  return new Set([...named, ...named.filter(isLink).map((folder) => dirname(folder))]);
}

function watchFolder(folder: string, changed: () => void): (() => void) | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, changed);
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    return undefined;
  }
}

function sightOf(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch (error) {
    return systemCode(error);
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch {
    return false;
  }
}
