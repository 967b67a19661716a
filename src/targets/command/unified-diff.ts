import { type DiffHunk, type HunkFault, isHunkHeader, readHunk } from "../../core/diff-hunk.ts";
import { lineWithin } from "../../core/partial-answer.ts";
import type { Json } from "../../core/types.ts";
import { parseJson } from "./parser.ts";

type FileStatus = "added" | "deleted" | "renamed" | "modified";

export interface DiffFile {
  /** As written in the diff: `a/src/x.ts`, `/dev/null`. */
  readonly oldPath: string;
  readonly newPath: string;
  readonly status: FileStatus;
  readonly hunks: readonly DiffHunk[];
  /** Lines before the file's header, after the previous file. */
  readonly preamble: readonly string[];
}

export interface UnifiedDiff {
  readonly files: readonly DiffFile[];
  readonly rest: readonly string[];
}

/**
 * Reads a unified diff in one pass. The counts of a hunk determine its length, so no line of a file is taken for a
 * header.
 *
 * @throws {SyntaxError} when a hunk ends before its counts are met
 */
export function parseUnifiedDiff(text: string): UnifiedDiff {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const files: DiffFile[] = [];
  let preamble: string[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (!isHeader(lines, at)) {
      preamble.push(line);
      at += 1;
      continue;
    }
    const { hunks, end } = readHunks(lines, at + 2);
    const [oldPath, newPath] = [pathOf(line), pathOf(lines[at + 1] ?? "")];
    files.push({ oldPath, newPath, status: statusOf({ oldPath, newPath, preamble }), hunks, preamble });
    preamble = [];
    at = end;
  }
  return { files, rest: preamble };
}

function isHeader(lines: readonly string[], at: number): boolean {
  return (
    (lines[at] ?? "").startsWith("--- ") && (lines[at + 1] ?? "").startsWith("+++ ") && isHunkHeader(lines[at + 2])
  );
}

/** Returns the hunks and the index of the line after the last one. */
function readHunks(
  lines: readonly string[],
  from: number,
): { readonly hunks: readonly DiffHunk[]; readonly end: number } {
  const hunks: DiffHunk[] = [];
  let at = from;
  for (let hunk = readHunk(lines, at); hunk !== undefined; hunk = readHunk(lines, at)) {
    if (typeof hunk === "string") throw new SyntaxError(PROBLEMS[hunk]);
    hunks.push(hunk);
    at += 1 + hunk.lines.length;
  }
  return { hunks, end: at };
}

const PROBLEMS: Readonly<Record<HunkFault, string>> = {
  "too short": "a hunk of the diff ends too early",
  "too long": "a hunk of the diff contains more lines than its header says",
};

/** Returns the path in a header, without the timestamp after a tab. */
function pathOf(header: string): string {
  const [path = ""] = header.slice("--- ".length).split("\t");
  return path;
}

function statusOf({ oldPath, newPath, preamble }: Pick<DiffFile, "oldPath" | "newPath" | "preamble">): FileStatus {
  if (oldPath === "/dev/null") return "added";
  if (newPath === "/dev/null") return "deleted";
  return preamble.some((line) => /^rename from /.test(line)) ? "renamed" : "modified";
}

export interface JsonLines {
  readonly values: readonly Json[];
  readonly unreadableLines: number;
}

/** Parses one JSON value per line. Counts lines that cannot be parsed; ignores empty lines. */
export function parseJsonLines(text: string): JsonLines {
  const values: Json[] = [];
  let unreadableLines = 0;
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    try {
      values.push(parseJson(line));
    } catch {
      unreadableLines += 1;
    }
  }
  return { values, unreadableLines };
}

/** Returns the text, or its start (at most `charactersMax` UTF-16 units) with a note on how much is missing. */
export function truncateText(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  const kept = lineWithin(text, charactersMax);
  return `${kept}… [${text.length - kept.length} more characters]`;
}

export interface LineBudget {
  readonly linesMax: number;
  /** Characters of one line; the rest is cut off, with a note. */
  readonly lineCharactersMax: number;
  readonly charactersMax: number;
  /** The end that is kept when not all lines fit. */
  readonly keep: "first" | "last";
}

export interface FittedLines {
  readonly lines: readonly string[];
  readonly droppedLines: number;
}

/** Returns the lines that fit, and the number of the others. */
export function fitLines(
  lines: readonly string[],
  { linesMax, lineCharactersMax, charactersMax, keep }: LineBudget,
): FittedLines {
  const wanted = keep === "first" ? lines : lines.toReversed();
  const kept: string[] = [];
  let characters = 0;
  for (const line of wanted.slice(0, linesMax)) {
    const cut = truncateText(line, lineCharactersMax);
    characters += cut.length;
    if (characters > charactersMax) break;
    kept.push(cut);
  }
  return { lines: keep === "first" ? kept : kept.reverse(), droppedLines: lines.length - kept.length };
}
