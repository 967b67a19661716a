import { closeSync, readSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { RE2JS } from "re2js";
import { lineWithin } from "../../core/partial-answer.ts";
import type { Json } from "../../core/types.ts";
import { type FileSystemCalls, O_DIRECTORY, O_NOFOLLOW } from "./c-library.ts";
import { identify, READING } from "./confinement.ts";
import { withoutByteOrderMark, withoutReturn } from "./contents.ts";
import { type IgnoreFile, isIgnored, readIgnoreRules } from "./gitignore.ts";
import { type Entry, readEntries } from "./list.ts";
import { foldName, type Mount, type Mounts, mountPath, resolveMount } from "./mounts.ts";
import { ENOENT, errnoRefusal, fileRefusal, notRegular, thrownRefusal } from "./refusals.ts";
import { walk } from "./walk.ts";

export interface SearchRequest {
  readonly path: string;
  readonly pattern: string;
  readonly literal: boolean;
  readonly ignoreCase: boolean;
  readonly before: number;
  readonly after: number;
  readonly maxMatches: number;
  /** True to include names that start with a dot. */
  readonly all: boolean;
}

export interface SearchLimits {
  readonly filesMax: number;
  readonly bytesMax: number;
  /** Larger files are skipped and counted. */
  readonly fileBytesMax: number;
  readonly timeMs: number;
}

interface SearchContext {
  readonly limits: SearchLimits;
  readonly signal: AbortSignal;
  readonly now: () => number;
}

const DEPTH_MAX = 64;
const DIRECTORY_ENTRIES_MAX = 50_000;
const IGNORE_BYTES_MAX = 65_536;
const LINE_CHARACTERS_SHOWN = 500;
/** Maximum characters of all returned lines and their paths. */
const RESULT_CHARACTERS_MAX = 200_000;
const SNIFFED_BYTES = 8_192;
const SLICE_MS = 8;

type Stop = "matches" | "files" | "bytes" | "time" | "size";

/**
 * Returns matching lines, ordered by path. Does not follow links. Skips `.git` and everything that `.gitignore` files
 * exclude, unless the path names it. Other calls can run in between.
 *
 * @throws {Refusal} ENOENT, E_SANDBOX_VIOLATION, E_INVALID_PATTERN
 */
export async function search(mounts: Mounts, request: SearchRequest, context: SearchContext): Promise<Json> {
  const run = new Search(mounts, request, context);
  const mounted = resolveMount(mounts, request.path);
  const walked = walk(mounts.confinement, mounted.mount, mounted.relative);
  try {
    const { directories, name, found } = walked;
    const last = directories.at(-1);
    if (last === undefined || (name !== undefined && found === undefined)) throw fileRefusal("ENOENT");
    const names = directories.slice(1).map((directory) => directory.name);
    if (name !== undefined) await run.namedFile(mounted.mount, { fd: last.fd, names: [...names, name] });
    else {
      const above = directories.slice(0, -1).map(({ fd }, depth) => run.ignoreFile(fd, depth));
      await run.directory(mounted.mount, { fd: last.fd, names, ignores: above.flatMap((file) => file ?? []) });
    }
    return run.answer();
  } finally {
    walked.close();
  }
}

interface Directory {
  readonly fd: number;
  readonly names: readonly string[];
  readonly ignores: readonly IgnoreFile[];
}

class Search {
  readonly #mounts: Mounts;
  readonly #request: SearchRequest;
  readonly #context: SearchContext;
  readonly #pattern: LinePattern;
  readonly #matches: Json[] = [];
  readonly #startedAt: number;
  readonly #buffer: Buffer;
  #sliceStartedAt: number;
  #resultCharacters = 0;
  #filesSearched = 0;
  #bytesRead = 0;
  #filesSkipped = 0;
  #stop: Stop | undefined;

  constructor(mounts: Mounts, request: SearchRequest, context: SearchContext) {
    this.#mounts = mounts;
    this.#request = request;
    this.#context = context;
    this.#pattern = compilePattern(request);
    this.#buffer = Buffer.allocUnsafeSlow(context.limits.fileBytesMax + 1);
    this.#startedAt = this.#sliceStartedAt = context.now();
  }

  answer(): Json {
    const { path } = this.#request;
    const truncated = this.#stop !== undefined;
    return {
      path,
      matches: this.#matches,
      truncated,
      filesSearched: this.#filesSearched,
      filesSkipped: this.#filesSkipped,
      ...(this.#stop !== undefined && { hint: HINTS[this.#stop] }),
    };
  }

  /**
   * Searches the one file that the path names.
   *
   * @throws {Refusal} when this file cannot be searched
   */
  async namedFile(mount: Mount, { fd: directory, names }: Omit<Directory, "ignores">): Promise<void> {
    const fd = this.#mounts.confinement.step(directory, names.at(-1) ?? "", READING | O_NOFOLLOW);
    if (fd < 0) throw errnoRefusal(fd, "open");
    try {
      const { kind, id, bytes } = identify(fd);
      if (kind !== "file") throw notRegular();
      if (this.#mounts.protectedIds.has(id)) throw fileRefusal("E_SANDBOX_VIOLATION");
      await this.#searchOpen({ fd, bytes }, mount, names);
    } finally {
      closeSync(fd);
    }
  }

  async directory(mount: Mount, { fd: parent, names, ignores }: Directory): Promise<void> {
    const { step, library } = this.#mounts.confinement;
    const fd = step(parent, ".", READING | O_DIRECTORY);
    if (fd < 0) return this.#skip();
    try {
      if (this.#mounts.protectedIds.has(identify(fd).id)) return this.#skip();
      const own = this.ignoreFile(fd, names.length);
      const below = own === undefined ? ignores : [...ignores, own];
      for (const { name, kind } of this.#entriesOf(library, fd)) {
        if (this.#stop !== undefined) return;
        if (kind === "link" || kind === "other" || foldName(name) === ".git") continue;
        if (name.startsWith(".") && !this.#request.all) continue;
        await this.#entry(mount, { fd, names: [...names, name], ignores: below }, kind);
        await this.#yieldIfDue();
      }
    } finally {
      closeSync(fd);
    }
  }

  #entriesOf(library: FileSystemCalls, directory: number): readonly Entry[] {
    try {
      return readEntries(library, directory, DIRECTORY_ENTRIES_MAX).entries;
    } catch {
      this.#skip();
      return [];
    }
  }

  ignoreFile(directory: number, depth: number): IgnoreFile | undefined {
    const fd = this.#mounts.confinement.step(directory, ".gitignore", READING | O_NOFOLLOW);
    if (fd < 0) return undefined;
    try {
      const { kind, bytes } = identify(fd);
      if (kind !== "file" || bytes > IGNORE_BYTES_MAX) return undefined;
      return { depth, rules: readIgnoreRules(this.#buffer.toString("utf8", 0, this.#read(fd, IGNORE_BYTES_MAX))) };
    } finally {
      closeSync(fd);
    }
  }

  /** Searches one entry of the directory `fd`. */
  async #entry(mount: Mount, { fd, names, ignores }: Directory, kind: string): Promise<void> {
    if (kind === "directory" && isIgnored(ignores, names, true)) return;
    const opened = this.#mounts.confinement.step(fd, names.at(-1) ?? "", READING | O_NOFOLLOW);
    if (opened < 0) return opened === -ENOENT ? undefined : this.#skip();
    try {
      const identity = identify(opened);
      if (identity.kind === "directory") {
        if (names.length > DEPTH_MAX || isIgnored(ignores, names, true)) return this.#skip();
        return await this.directory(mount, { fd: opened, names, ignores });
      }
      if (isIgnored(ignores, names, false)) return;
      const isSearchable = identity.kind === "file" && identity.bytes <= this.#context.limits.fileBytesMax;
      if (!isSearchable || this.#mounts.protectedIds.has(identity.id)) return this.#skip();
      await this.#searchOpen({ fd: opened, bytes: identity.bytes }, mount, names);
    } finally {
      closeSync(opened);
    }
  }

  async #searchOpen(
    { fd, bytes: size }: { readonly fd: number; readonly bytes: number },
    mount: Mount,
    names: readonly string[],
  ): Promise<void> {
    const { limits } = this.#context;
    if (this.#filesSearched >= limits.filesMax) return this.#end("files");
    const length = this.#read(fd, Math.min(size, limits.fileBytesMax) + 1);
    if (length > limits.fileBytesMax) return this.#skip();
    this.#bytesRead += length;
    if (this.#bytesRead > limits.bytesMax) return this.#end("bytes");
    const bytes = this.#buffer.subarray(0, length);
    if (bytes.subarray(0, SNIFFED_BYTES).includes(0)) return this.#skip();
    this.#filesSearched += 1;
    const { literal } = this.#pattern;
    if (literal === undefined || bytes.includes(literal)) {
      await this.#searchText(bytes.toString("utf8"), mountPath(mount.name, names));
    }
  }

  async #searchText(text: string, path: string): Promise<void> {
    const { before, after, maxMatches } = this.#request;
    const lines = withoutByteOrderMark(text).split("\n");
    if (lines.at(-1) === "") lines.pop();
    for (let at = 0; at < lines.length; at += 1) {
      const line = withoutReturn(lines[at] ?? "");
      if (this.#pattern.matches(line)) {
        if (this.#matches.length >= maxMatches) return this.#end("matches");
        const match = {
          path,
          line: at + 1,
          text: shown(line),
          before: lines.slice(Math.max(0, at - before), at).map(shown),
          after: lines.slice(at + 1, at + 1 + after).map(shown),
        };
        this.#resultCharacters += path.length + match.text.length + [...match.before, ...match.after].join("").length;
        if (this.#resultCharacters > RESULT_CHARACTERS_MAX) return this.#end("size");
        this.#matches.push(match);
      }
      if (this.#context.now() - this.#sliceStartedAt > SLICE_MS) await this.#yieldIfDue();
      if (this.#stop !== undefined) return;
    }
  }

  async #yieldIfDue(): Promise<void> {
    const { now, limits, signal } = this.#context;
    if (now() - this.#sliceStartedAt <= SLICE_MS) return;
    await setImmediate();
    signal.throwIfAborted();
    this.#sliceStartedAt = now();
    if (this.#sliceStartedAt - this.#startedAt > limits.timeMs) this.#end("time");
  }

  #read(fd: number, bytesMax: number): number {
    let length = 0;
    try {
      for (let read = -1; read !== 0 && length < bytesMax; length += read) {
        const room = bytesMax - length;
        read = readSync(fd, this.#buffer, length, room, length);
        // One byte more than expected was requested, so a shorter read is the end of the file.
        if (read < room) return length + read;
      }
    } catch (error) {
      throw thrownRefusal(error, "read");
    }
    return length;
  }

  #skip(): void {
    this.#filesSkipped += 1;
  }

  #end(stop: Stop): void {
    this.#stop ??= stop;
  }
}

const HINTS: Readonly<Record<Stop, string>> = {
  matches: "There are more matches. Raise maxMatches, search a directory below, or make the pattern narrower.",
  files: "There are more files than one search reads. Search a directory below.",
  bytes: "There is more text than one search reads. Search a directory below.",
  time: "The search timed out. Search a directory below, or use a simpler pattern.",
  size: "The matching lines do not fit one answer. Ask for less context or a narrower pattern.",
};

function shown(line: string): string {
  const text = withoutReturn(line);
  return text.length <= LINE_CHARACTERS_SHOWN ? text : `${lineWithin(text, LINE_CHARACTERS_SHOWN)}…`;
}

/** A pattern for single lines. A file without the bytes in `literal` has no match. */
interface LinePattern {
  readonly literal: Buffer | undefined;
  matches(line: string): boolean;
}

/** Maximum size of the compiled program: each step may be visited for each character. */
const PROGRAM_SIZE_MAX = 2_500;
/** Maximum characters of a line that are matched: no other call runs meanwhile. */
const LINE_CHARACTERS_MAX = 16_384;
/** Maximum product of program size and line length: a large program sees less of a long line. */
const LINE_WORK_MAX = 8_000_000;
/** Maximum product of the lengths of a literal and a line. Above it, the literal is searched for as bytes. */
const LITERAL_WORK_MAX = 1_000_000;

/**
 * Compiles a pattern with RE2, whose time is linear in the length of the line. Backtracking engines take longer, and
 * Bun's gives up and reports no match.
 *
 * @throws {Refusal} E_INVALID_PATTERN
 */
export function compilePattern({
  pattern,
  literal,
  ignoreCase,
}: Pick<SearchRequest, "pattern" | "literal" | "ignoreCase">): LinePattern {
  const isPlain = literal || !/[\\^$.|?*+()[\]{}]/.test(pattern);
  if (isPlain && !ignoreCase) return literalPattern(pattern);
  const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0;
  try {
    const compiled = RE2JS.compile(literal ? RE2JS.quote(pattern) : pattern, flags);
    if (compiled.programSize() > PROGRAM_SIZE_MAX) throw new RangeError("the pattern is too large");
    const required = ignoreCase || literal ? undefined : requiredLiteral(pattern);
    const charactersMax = Math.min(LINE_CHARACTERS_MAX, Math.floor(LINE_WORK_MAX / compiled.programSize()));
    const test = (line: string): boolean => compiled.test(line.slice(0, charactersMax));
    if (required === undefined) return { literal: undefined, matches: test };
    const { literal: bytes, matches } = literalPattern(required);
    return { literal: bytes, matches: (line) => matches(line) && test(line) };
  } catch (error) {
    throw fileRefusal("E_INVALID_PATTERN", { cause: error });
  }
}

/** Matches a literal. The runtime's search in strings starts again at each position; its search in bytes does not. */
function literalPattern(text: string): LinePattern {
  const literal = Buffer.from(text);
  const isLong = (line: string): boolean => line.length * text.length > LITERAL_WORK_MAX;
  return {
    literal,
    matches: (line) => (isLong(line) ? Buffer.from(line).includes(literal) : line.includes(text)),
  };
}

const LITERAL_CHARACTERS_MIN = 3;

/**
 * Returns the longest literal text that every match must contain; `undefined` for patterns with choices, groups, sets
 * or flags, which this simple analysis does not cover.
 */
function requiredLiteral(pattern: string): string | undefined {
  if (/[|()[\]{}]|\\[^bBdDsSwW.]/.test(pattern)) return undefined;
  const runs: string[] = [];
  let run = "";
  const end = (): void => {
    runs.push(run);
    run = "";
  };
  const characters = [...pattern];
  for (let at = 0; at < characters.length; at += 1) {
    const character = characters[at] ?? "";
    const next = characters[at + 1] ?? "";
    const isEscape = character === "\\";
    const isPlain = isEscape ? next === "." : !".^$?*+".includes(character);
    if (isEscape) at += 1;
    const follower = isEscape ? (characters[at + 1] ?? "") : next;
    // A character that may be absent or repeated ends the run before it.
    if (!isPlain || "?*+".includes(follower || " ")) end();
    else run += isEscape ? "." : character;
  }
  end();
  const longest = runs.reduce((best, one) => (one.length > best.length ? one : best), "");
  return longest.length >= LITERAL_CHARACTERS_MIN ? longest : undefined;
}
