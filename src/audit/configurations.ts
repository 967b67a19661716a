import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { sha256Hex } from "../core/digest.ts";
import { asString, asStrings, isTable } from "../core/json.ts";
import type { EpochMs } from "../core/types.ts";
import { diskFiles, makeDirectory } from "./journal/file-operations.ts";

/**
 * The configurations that this log's process has used, in a folder of the log: one text each, in a file that is named by its digest,
 * and a list of when each was adopted. The journal has the same digests, so that a text can be verified.
 */

const FOLDER = "configurations";
const LIST = "versions.json";
const LIST_FORMAT = 1;
/** The oldest go first. */
const VERSIONS_MAX = 200;
/** A longer text is not stored: the journal still has its digest. */
const TEXT_CHARACTERS_MAX = 1_048_576;
const TEXT_FILE = /^[0-9a-f]{64}\.json$/;

/** A configuration since it was adopted, without secrets. */
export interface AdoptedConfiguration {
  /** As call lines name it. */
  readonly policyVersion: string;
  /** Hex SHA-256 of the stored text, which the journal has as well. */
  readonly shownSha256: string;
  /** ISO 8601. */
  readonly since: string;
  /** `start`, `watch`, `signal`, `library`, or `issuer|subject` of an operator. */
  readonly by: string;
  /** Paths that differ from the version before. */
  readonly changes: readonly string[];
  /** Number of further paths. */
  readonly moreChanges: number;
}

interface HistoryOptions {
  /** Folder of the log. */
  readonly dir: string;
  readonly clock: () => EpochMs;
  /** Milliseconds for which a version is kept after another has replaced it; undefined: until there are too many. */
  readonly keepMs: number | undefined;
}

export class ConfigurationHistory {
  readonly #options: HistoryOptions;
  readonly #dir: string;
  /** Oldest first. */
  #versions: readonly AdoptedConfiguration[];

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.#dir = join(options.dir, FOLDER);
    this.#versions = this.#read();
  }

  /** Returns the versions, newest first. The first is the one in use, once it was adopted. */
  versions(): readonly AdoptedConfiguration[] {
    return this.#versions.toReversed();
  }

  /** Stores a text before its digest is journaled. */
  async keep(text: string): Promise<string> {
    const sha256 = sha256Hex(text);
    if (text.length > TEXT_CHARACTERS_MAX || this.textOf(sha256) !== undefined) return sha256;
    makeDirectory(this.#dir);
    await diskFiles.replace(this.#fileOf(sha256), Buffer.from(text));
    return sha256;
  }

  /** Returns a stored text; undefined when it was not kept, or is not the text of this digest any more. */
  textOf(sha256: string): string | undefined {
    try {
      const text = readFileSync(this.#fileOf(sha256), "utf8");
      return sha256Hex(text) === sha256 ? text : undefined;
    } catch {
      return undefined;
    }
  }

  /** Adds a version, unless it is the newest one already, and forgets those that are too old. */
  async adopt(version: Omit<AdoptedConfiguration, "since">): Promise<void> {
    const newest = this.#versions.at(-1);
    if (newest?.policyVersion === version.policyVersion && newest.shownSha256 === version.shownSha256) return;
    const now = this.#options.clock();
    this.#versions = this.#kept([...this.#versions, { ...version, since: new Date(now).toISOString() }], now);
    makeDirectory(this.#dir);
    const list = { format: LIST_FORMAT, versions: this.#versions };
    await diskFiles.replace(join(this.#dir, LIST), Buffer.from(`${JSON.stringify(list, null, 1)}\n`));
    this.#removeUnused();
  }

  /** A version was in use until the next one began. */
  #kept(all: readonly AdoptedConfiguration[], now: EpochMs): readonly AdoptedConfiguration[] {
    const { keepMs = Number.POSITIVE_INFINITY } = this.#options;
    const isYoung = (at: number): boolean => {
      const next = all[at + 1];
      return next === undefined || now - Date.parse(next.since) <= keepMs;
    };
    return all.filter((_, at) => isYoung(at)).slice(-VERSIONS_MAX);
  }

  #removeUnused(): void {
    const used = new Set(this.#versions.map(({ shownSha256 }) => `${shownSha256}.json`));
    const unused = readdirSync(this.#dir).filter((name) => TEXT_FILE.test(name) && !used.has(name));
    for (const name of unused) diskFiles.remove(join(this.#dir, name));
  }

  /** A list that cannot be read starts again: the journal has each adopted version. */
  #read(): readonly AdoptedConfiguration[] {
    try {
      const list: unknown = JSON.parse(readFileSync(join(this.#dir, LIST), "utf8"));
      const rows = isTable(list) && list["format"] === LIST_FORMAT ? list["versions"] : [];
      return Array.isArray(rows) ? rows.flatMap(readVersion).slice(-VERSIONS_MAX) : [];
    } catch {
      return [];
    }
  }

  #fileOf(sha256: string): string {
    return join(this.#dir, `${sha256}.json`);
  }
}

function readVersion(row: unknown): readonly AdoptedConfiguration[] {
  if (!isTable(row)) return [];
  const { changes, moreChanges } = row;
  const [policyVersion, shownSha256, since, by] = ["policyVersion", "shownSha256", "since", "by"].map((name) =>
    asString(row[name]),
  );
  if (policyVersion === undefined || shownSha256 === undefined || since === undefined || by === undefined) return [];
  if (!TEXT_FILE.test(`${shownSha256}.json`)) return [];
  const more = typeof moreChanges === "number" ? moreChanges : 0;
  return [{ policyVersion, shownSha256, since, by, changes: asStrings(changes), moreChanges: more }];
}
