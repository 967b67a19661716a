const HEADER = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/;
/** Starts the note that the previous line has no newline. */
const REMARK = "\\ ";

/** A hunk of a unified diff. Its line numbers start at 1, and its counts are those of its lines. */
export interface DiffHunk {
  readonly oldStart: number;
  readonly oldLines: number;
  readonly newStart: number;
  readonly newLines: number;
  /** Each line with its mark: a space, `+`, `-`, or `\` for "No newline at end of file". */
  readonly lines: readonly string[];
}

/** Why a hunk is refused: it has fewer, or more, lines than its header says. */
export type HunkFault = "too short" | "too long";

export function isHunkHeader(line: string | undefined): boolean {
  return HEADER.test(line ?? "");
}

/**
 * Reads the hunk whose header is at `at`. The counts of a hunk determine its length, so no line of a file is taken for a
 * header. Returns undefined where there is no header. Rejected: the parser of the package `diff`, which skips text
 * between hunks that it does not know.
 */
export function readHunk(lines: readonly string[], at: number): DiffHunk | HunkFault | undefined {
  const header = HEADER.exec(lines[at] ?? "");
  if (header === null) return undefined;
  const [, oldStart, oldCount = "1", newStart, newCount = "1"] = header;
  const [oldLines, newLines] = [Number(oldCount), Number(newCount)];
  let [oldLeft, newLeft] = [oldLines, newLines];
  let end = at + 1;
  while (oldLeft > 0 || newLeft > 0) {
    const mark = hunkMark(lines[end]);
    if (mark === undefined) return "too short";
    if (mark !== "+") oldLeft -= 1;
    if (mark !== "-") newLeft -= 1;
    if (oldLeft < 0 || newLeft < 0) return "too long";
    end += isRemark(lines[end + 1]) ? 2 : 1;
  }
  return {
    oldStart: Number(oldStart),
    oldLines,
    newStart: Number(newStart),
    newLines,
    lines: lines.slice(at + 1, end),
  };
}

/** Returns the mark of a line of a hunk; undefined for a line that belongs to no hunk, and for a remark. */
function hunkMark(line: string | undefined): " " | "+" | "-" | undefined {
  // Editors and some programs strip the mark of an empty unchanged line.
  if (isEmptyLine(line)) return " ";
  const mark = line?.[0];
  return mark === " " || mark === "+" || mark === "-" ? mark : undefined;
}

/** Returns the lines of a hunk before and after the change, without marks, each with its newline if it has one. */
export function sidesOf(hunk: DiffHunk): { readonly before: readonly string[]; readonly after: readonly string[] } {
  const before: string[] = [];
  const after: string[] = [];
  for (const [index, line] of hunk.lines.entries()) {
    const mark = hunkMark(line);
    if (mark === undefined) continue;
    const text = (isEmptyLine(line) ? line : line.slice(1)) + (isRemark(hunk.lines[index + 1]) ? "" : "\n");
    if (mark !== "+") before.push(text);
    if (mark !== "-") after.push(text);
  }
  return { before, after };
}

export function isEmptyLine(line: string | undefined): boolean {
  return line === "" || line === "\r";
}

function isRemark(line: string | undefined): boolean {
  return line?.startsWith(REMARK) === true;
}
