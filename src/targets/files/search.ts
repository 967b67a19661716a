import { closeSync, readSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { RE2JS } from "re2js";
import { lineWithin } from "../../core/partial-answer.ts";
import type { Json } from "../../core/types.ts";
import { type FileSystemCalls, O_DIRECTORY, O_NOFOLLOW } from "./c-library.ts";
import { READING } from "./confinement.ts";
import { type IgnoreFile, isIgnored, readIgnoreRules } from "./gitignore.ts";
import { identify } from "./identity.ts";
import type { SearchLimits } from "./limits.ts";
import { type Entry, readEntries } from "./list.ts";
import { aim, type Mount, type Mounts, mountPath, walkTo } from "./mounts.ts";
import { foldName } from "./protected-names.ts";
import { ENOENT, errnoRefusal, fileRefusal, notRegular, thrownRefusal } from "./refusals.ts";

export interface SearchOrder {
  readonly path: string;
  readonly pattern: string;
  readonly literal: boolean;
  readonly ignoreCase: boolean;
  /** Lines of context. */
  readonly before: number;
  readonly after: number;
  readonly maxMatches: number;
  /** Names that begin with a dot, too. */
  readonly all: boolean;
}

interface SearchContext {
  readonly limits: SearchLimits;
  readonly signal: AbortSignal;
  /** Milliseconds. */
  readonly now: () => number;
}

const DEPTH_MAX = 64;
const DIRECTORY_ENTRIES_MAX = 50_000;
const IGNORE_BYTES_MAX = 65_536;
const LINE_CHARACTERS_SHOWN = 500;
/** Of all lines that are answered, and of their files' paths. */
const SHOWN_CHARACTERS_MAX = 200_000;
const SNIFFED_BYTES = 8_192;
const SLICE_MS = 8;
/** No part of the first line. */
const BYTE_ORDER_MARK = "\ufeff";

/** Why a search ended before all was searched. */
type Stop = "matches" | "files" | "bytes" | "time" | "size";

/**
 * Lines that match, in the order of paths. Links are not followed, `.git` is left out, and so is what `.gitignore` files say,
 * unless the path names it. Other calls have their turn in between.
 *
 * @throws {Refusal} ENOENT, E_SANDBOX_VIOLATION, E_INVALID_PATTERN
 */
export async function search(mounts: Mounts, order: SearchOrder, context: SearchContext): Promise<Json> {
  const run = new Search(mounts, order, context);
  const aimed = aim(mounts, order.path);
  const walked = walkTo(mounts, aimed);
  try {
    const { directories, name, found } = walked;
    const last = directories.at(-1);
    if (last === undefined || (name !== undefined && found === undefined)) throw fileRefusal("ENOENT");
    const names = directories.slice(1).map((directory) => directory.name);
    if (name !== undefined) await run.namedFile(aimed.mount, { directory: last.fd, names: [...names, name] });
    else {
      const above = directories.slice(0, -1).map(({ fd }, depth) => run.ignoreFile(fd, depth));
      await run.directory(aimed.mount, { fd: last.fd, names, ignores: above.flatMap((file) => file ?? []) });
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

interface OpenFile {
  readonly fd: number;
  readonly bytes: number;
}

interface NamedFile {
  readonly directory: number;
  readonly names: readonly string[];
}

class Search {
  readonly #mounts: Mounts;
  readonly #order: SearchOrder;
  readonly #context: SearchContext;
  readonly #pattern: LinePattern;
  readonly #matches: Json[] = [];
  readonly #began: number;
  readonly #buffer: Buffer;
  #sliceBegan: number;
  #shown = 0;
  #files = 0;
  #bytes = 0;
  #skipped = 0;
  #stop: Stop | undefined;

  constructor(mounts: Mounts, order: SearchOrder, context: SearchContext) {
    this.#mounts = mounts;
    this.#order = order;
    this.#context = context;
    this.#pattern = compilePattern(order);
    this.#buffer = Buffer.allocUnsafeSlow(context.limits.fileBytesMax + 1);
    this.#began = this.#sliceBegan = context.now();
  }

  answer(): Json {
    const { path } = this.#order;
    const truncated = this.#stop !== undefined;
    return {
      ...{ path, matches: this.#matches, truncated, filesSearched: this.#files, filesSkipped: this.#skipped },
      ...(this.#stop !== undefined && { hint: HINTS[this.#stop] }),
    };
  }

  /** @throws {Refusal} where the one file that was named cannot be searched */
  async namedFile(mount: Mount, { directory, names }: NamedFile): Promise<void> {
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
    // What is gone, or not to be entered, is passed over.
    if (fd < 0) return this.#skip();
    try {
      if (this.#mounts.protectedIds.has(identify(fd).id)) return this.#skip();
      const own = this.ignoreFile(fd, names.length);
      const below = own === undefined ? ignores : [...ignores, own];
      for (const { name, kind } of this.#entriesOf(library, fd)) {
        if (this.#stop !== undefined) return;
        if (kind === "link" || kind === "other" || foldName(name) === ".git") continue;
        if (name.startsWith(".") && !this.#order.all) continue;
        await this.#entry(mount, { fd, names: [...names, name], ignores: below }, kind);
        await this.#rest();
      }
    } finally {
      closeSync(fd);
    }
  }

  /** None, of a directory that is gone by now. */
  #entriesOf(library: FileSystemCalls, directory: number): readonly Entry[] {
    try {
      return readEntries(library, directory, DIRECTORY_ENTRIES_MAX).entries;
    } catch {
      this.#skip();
      return [];
    }
  }

  /** The rules that a directory adds. */
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

  /** `fd` is that of the directory that holds the entry. */
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

  async #searchOpen({ fd, bytes: size }: OpenFile, mount: Mount, names: readonly string[]): Promise<void> {
    const { limits } = this.#context;
    if (this.#files >= limits.filesMax) return this.#end("files");
    const length = this.#read(fd, Math.min(size, limits.fileBytesMax) + 1);
    if (length > limits.fileBytesMax) return this.#skip();
    this.#bytes += length;
    if (this.#bytes > limits.bytesMax) return this.#end("bytes");
    const bytes = this.#buffer.subarray(0, length);
    if (bytes.subarray(0, SNIFFED_BYTES).includes(0)) return this.#skip();
    this.#files += 1;
    const { literal } = this.#pattern;
    if (literal === undefined || bytes.includes(literal)) {
      await this.#searchText(bytes.toString("utf8"), mountPath(mount.name, names));
    }
  }

  async #searchText(text: string, path: string): Promise<void> {
    const { before, after, maxMatches } = this.#order;
    const lines = (text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text).split("\n");
    if (lines.at(-1) === "") lines.pop();
    for (let at = 0; at < lines.length; at += 1) {
      const line = withoutReturn(lines[at] ?? "");
      if (this.#pattern.matches(line)) {
        if (this.#matches.length >= maxMatches) return this.#end("matches");
        const match = {
          ...{ path, line: at + 1, text: shown(line) },
          before: lines.slice(Math.max(0, at - before), at).map(shown),
          after: lines.slice(at + 1, at + 1 + after).map(shown),
        };
        this.#shown += path.length + match.text.length + [...match.before, ...match.after].join("").length;
        if (this.#shown > SHOWN_CHARACTERS_MAX) return this.#end("size");
        this.#matches.push(match);
      }
      if (this.#context.now() - this.#sliceBegan > SLICE_MS) await this.#rest();
      if (this.#stop !== undefined) return;
    }
  }

  /** Lets others have their turn, and looks whether there is time left. */
  async #rest(): Promise<void> {
    const { now, limits, signal } = this.#context;
    if (now() - this.#sliceBegan <= SLICE_MS) return;
    await setImmediate();
    signal.throwIfAborted();
    this.#sliceBegan = now();
    if (this.#sliceBegan - this.#began > limits.timeMs) this.#end("time");
  }

  #read(fd: number, bytesMax: number): number {
    let length = 0;
    try {
      for (let read = -1; read !== 0 && length < bytesMax; length += read) {
        const room = bytesMax - length;
        read = readSync(fd, this.#buffer, length, room, length);
        // One byte was asked for more than there should be: less than that is the end.
        if (read < room) return length + read;
      }
    } catch (error) {
      throw thrownRefusal(error, "read");
    }
    return length;
  }

  #skip(): void {
    this.#skipped += 1;
  }

  #end(stop: Stop): void {
    this.#stop ??= stop;
  }
}

const HINTS: Readonly<Record<Stop, string>> = {
  matches: "There are more matches. Raise maxMatches, search a directory below, or make the pattern narrower.",
  files: "There are more files than one search looks at. Search a directory below.",
  bytes: "There is more than one search reads. Search a directory below.",
  time: "The time for one search was over. Search a directory below, or a plainer pattern.",
  size: "The matching lines are more than one answer holds. Ask for less context or a narrower pattern.",
};

function withoutReturn(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}

function shown(line: string): string {
  const text = withoutReturn(line);
  return text.length <= LINE_CHARACTERS_SHOWN ? text : `${lineWithin(text, LINE_CHARACTERS_SHOWN)}…`;
}

/** Decides line by line. `literal`: bytes that a file must hold for any of its lines to match; most files are done with it. */
interface LinePattern {
  readonly literal: Buffer | undefined;
  matches(line: string): boolean;
}

interface PatternOrder {
  readonly pattern: string;
  readonly literal: boolean;
  readonly ignoreCase: boolean;
}

/** Steps of the compiled program: each may be looked at for each character. */
const PROGRAM_SIZE_MAX = 2_500;
/** Of a longer line an expression sees only the beginning: between two lines nobody else has a turn. */
const LINE_CHARACTERS_MAX = 16_384;
/** Steps of the program times characters of a line: a large program sees less of a long line. */
const LINE_WORK_MAX = 8_000_000;
/** Characters of a text times those of a line, from which on it is looked for by its bytes. */
const LITERAL_WORK_MAX = 1_000_000;

/**
 * RE2 takes time in the length of the line, whatever the pattern; engines that backtrack do not, and Bun's gives up and says
 * that nothing matches.
 *
 * @throws {Refusal} E_INVALID_PATTERN
 */
export function compilePattern({ pattern, literal, ignoreCase }: PatternOrder): LinePattern {
  const isPlain = literal || !/[\\^$.|?*+()[\]{}]/.test(pattern);
  if (isPlain && !ignoreCase) return literalPattern(pattern);
  const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0;
  try {
    const compiled = RE2JS.compile(literal ? RE2JS.quote(pattern) : pattern, flags);
    if (compiled.programSize() > PROGRAM_SIZE_MAX) throw new RangeError("the pattern is too large");
    const needed = ignoreCase || literal ? undefined : neededLiteral(pattern);
    const charactersMax = Math.min(LINE_CHARACTERS_MAX, Math.floor(LINE_WORK_MAX / compiled.programSize()));
    const test = (line: string): boolean => compiled.test(line.slice(0, charactersMax));
    if (needed === undefined) return { literal: undefined, matches: test };
    const { literal: bytes, matches } = literalPattern(needed);
    return { literal: bytes, matches: (line) => matches(line) && test(line) };
  } catch (error) {
    throw fileRefusal("E_INVALID_PATTERN", { cause: error });
  }
}

/** The engine's search in texts tries each place anew, its search in bytes does not. */
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
 * The longest run of plain characters that every match must contain, found without understanding more than that: patterns with
 * choices, groups, sets or flags need nothing.
 */
function neededLiteral(pattern: string): string | undefined {
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
    // What may be absent, or come again, ends the run before it.
    if (!isPlain || "?*+".includes(follower || " ")) end();
    else run += isEscape ? "." : character;
  }
  end();
  const longest = runs.reduce((best, one) => (one.length > best.length ? one : best), "");
  return longest.length >= LITERAL_CHARACTERS_MIN ? longest : undefined;
}
