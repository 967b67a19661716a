import { readFileSync, statSync } from "node:fs";
import { systemCode } from "../../core/error-text.ts";
import { REVOCATION_BYTES_MAX, type RevocationList, readRevocations } from "../../pipeline/identity/revocations.ts";
import { watchFiles } from "../config/watched-files.ts";

/** The state of the revocation list, for operators. */
export interface RevocationState {
  /** `stale`: the file is broken or missing, and the previous list applies. */
  readonly status: "ok" | "stale";
  readonly entries: number;
  /** Why the list is stale. */
  readonly reason?: string;
}

/** Reported once per change. */
export type RevocationEvent =
  | { readonly type: "revocations.loaded"; readonly entries: number }
  | { readonly type: "revocations.refused"; readonly reason: string };

/** The current revocation list of a file: a change takes effect within a second; a broken file changes nothing. */
export class RevocationFile {
  readonly #path: string;
  #bytes: Buffer;
  #list: RevocationList;
  #fault: string | undefined;
  #watch: { close(): void } | undefined;

  private constructor(path: string, { bytes, list }: Loaded) {
    this.#path = path;
    this.#bytes = bytes;
    this.#list = list;
  }

  /** Reads the file; returns a text with the reason when that fails. */
  static open(path: string): RevocationFile | string {
    const loaded = load(path);
    return typeof loaded === "string" ? loaded : new RevocationFile(path, loaded);
  }

  list(): RevocationList {
    return this.#list;
  }

  state(): RevocationState {
    const { entries } = this.#list;
    return this.#fault === undefined ? { status: "ok", entries } : { status: "stale", entries, reason: this.#fault };
  }

  watch(report: (event: RevocationEvent) => void): void {
    this.#watch ??= watchFiles(
      () => [this.#path],
      () => this.#reload(report),
    );
  }

  close(): void {
    this.#watch?.close();
  }

  #reload(report: (event: RevocationEvent) => void): void {
    const loaded = load(this.#path);
    const before = this.#fault;
    if (typeof loaded === "string") {
      this.#fault = loaded;
      if (before !== loaded) report({ type: "revocations.refused", reason: loaded });
      return;
    }
    this.#fault = undefined;
    if (before === undefined && loaded.bytes.equals(this.#bytes)) return;
    this.#bytes = loaded.bytes;
    this.#list = loaded.list;
    report({ type: "revocations.loaded", entries: loaded.list.entries });
  }
}

interface Loaded {
  readonly bytes: Buffer;
  readonly list: RevocationList;
}

function load(path: string): Loaded | string {
  try {
    const found = statSync(path);
    // Reading a pipe would block, and every call with it.
    if (!found.isFile()) return "is not a file";
    if (found.size > REVOCATION_BYTES_MAX) return `is over ${REVOCATION_BYTES_MAX} bytes`;
    const bytes = readFileSync(path);
    const list = readRevocations(bytes);
    return "problem" in list ? list.problem : { bytes, list };
  } catch (error) {
    return `cannot be read (${systemCode(error)})`;
  }
}
