import { linesOf } from "./contents.ts";
import { fileRefusal } from "./refusals.ts";

const HUNK = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/;
const HUNKS_MAX = 1_000;
/** Maximum lines compared while searching for hunks with wrong line numbers. Long lines count several times. */
const COMPARISONS_MAX = 5_000_000;
const COMPARED_AS_ONE_CHARACTERS = 64;
/** Git headers for changes to more than text. A new file with mode 100644 is only text. */
const MORE_THAN_TEXT = /^(?:rename |copy |old mode |new mode |deleted file |new file mode (?!100644))/;
const GIT_HEADER = "diff --git ";
/** Starts the signature at the end of a patch from `git format-patch`. */
const SIGNATURE = /^-- ?\r?$/;
/** Starts the note that the previous line has no newline. */
const REMARK = "\\ ";

interface Hunk {
  /** 1-based line of the old text. Without old lines, the line before the inserted ones. */
  readonly oldStart: number;
  readonly oldLines: readonly string[];
  readonly newLines: readonly string[];
}

/**
 * Applies a unified diff of one file. All context and removed lines must match exactly, including their newlines. A
 * hunk with a wrong line number is applied where its lines match, if there is only one such position. `before` is
 * undefined for a file that does not exist.
 *
 * @throws {Refusal} E_INVALID_PATCH, E_PATCH_MISMATCH naming the hunk
 */
export function applyPatch(before: string | undefined, diff: string): string {
  const { hunks, createsFile } = readPatch(diff);
  if (createsFile && before !== undefined) {
    const message = "The patch creates a file (--- /dev/null) that exists already.";
    throw fileRefusal("E_PATCH_MISMATCH", { message });
  }
  if (before === undefined && hunks.some(({ oldLines }) => oldLines.length > 0)) throw fileRefusal("ENOENT");
  const old = linesOf(before ?? "");
  const result: string[] = [];
  const budget = { comparisons: COMPARISONS_MAX };
  let copied = 0;
  for (const [index, hunk] of hunks.entries()) {
    const at = positionOf(hunk, old, { from: copied, budget });
    if (at === undefined) throw mismatch(index);
    for (let line = copied; line < at; line += 1) result.push(old[line] ?? "");
    for (const line of hunk.newLines) result.push(line);
    copied = at + hunk.oldLines.length;
  }
  for (let line = copied; line < old.length; line += 1) result.push(old[line] ?? "");
  const unfinished = result.findIndex((line) => !line.endsWith("\n"));
  if (unfinished >= 0 && unfinished < result.length - 1) throw mismatch(hunks.length - 1);
  return result.join("");
}

function positionOf(
  { oldStart, oldLines }: Hunk,
  old: readonly string[],
  { from, budget }: { readonly from: number; readonly budget: { comparisons: number } },
): number | undefined {
  if (oldLines.length === 0) return oldStart >= from && oldStart <= old.length ? oldStart : undefined;
  const fits = (at: number): boolean => {
    for (let index = 0; index < oldLines.length; index += 1) {
      const line = oldLines[index] ?? "";
      budget.comparisons -= 1;
      if (old[at + index] !== line) return false;
      budget.comparisons -= Math.floor(line.length / COMPARED_AS_ONE_CHARACTERS);
    }
    return true;
  };
  const stated = oldStart - 1;
  if (stated >= from && fits(stated)) return stated;
  let found: number | undefined;
  for (let at = from; at + oldLines.length <= old.length; at += 1) {
    if (budget.comparisons < 0) return undefined;
    if (!fits(at)) continue;
    if (found !== undefined) return undefined;
    found = at;
  }
  return found;
}

function readPatch(diff: string): { readonly hunks: readonly Hunk[]; readonly createsFile: boolean } {
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const first = lines.findIndex((line) => HUNK.test(line));
  if (first < 0) throw invalid("The patch contains no hunk (@@ -1,3 +1,4 @@).");
  const headers = lines.slice(0, first);
  checkHeaders(headers);
  const hunks: Hunk[] = [];
  for (let at = first; at < lines.length && !isEnd(lines, at); ) {
    if (hunks.length >= HUNKS_MAX) throw invalid(`The patch contains more than ${HUNKS_MAX} hunks.`);
    const { hunk, end } = readHunk(lines, at, hunks.length);
    hunks.push(hunk);
    at = end;
  }
  return { hunks, createsFile: headers.some((line) => line.startsWith("--- /dev/null")) };
}

function checkHeaders(headers: readonly string[]): void {
  const count = (start: string): number => headers.filter((line) => line.startsWith(start)).length;
  if (count("--- ") > 1 || count(GIT_HEADER) > 1) throw invalid(ONE_FILE);
  if (count("+++ /dev/null") > 0) throw invalid("A patch cannot remove a file.");
  // Text before Git's header is a message, and may contain anything.
  const own = headers.slice(headers.findIndex((line) => line.startsWith(GIT_HEADER)));
  if (count(GIT_HEADER) > 0 && own.some((line) => MORE_THAN_TEXT.test(line))) {
    throw invalid("A patch may only change the text of a file: no renames, copies or modes.");
  }
}

/** Returns whether the rest is only empty lines or a signature. */
function isEnd(lines: readonly string[], at: number): boolean {
  if (isEmptyLine(lines[at])) return lines.slice(at).every(isEmptyLine);
  return SIGNATURE.test(lines[at] ?? "") && !lines.slice(at).some((line) => HUNK.test(line));
}

function isEmptyLine(line: string | undefined): boolean {
  return line === "" || line === "\r";
}

const ONE_FILE = "The patch changes several files: send one patch for each.";

function readHunk(
  lines: readonly string[],
  start: number,
  index: number,
): { readonly hunk: Hunk; readonly end: number } {
  const first = lines[start] ?? "";
  const header = HUNK.exec(first);
  if (header === null) {
    const isFileHeader = first.startsWith("--- ") || first.startsWith(GIT_HEADER);
    throw invalid(isFileHeader ? ONE_FILE : `The text after hunk ${index} is not a hunk.`);
  }
  const [, oldStart = "0", oldCount = "1", , newCount = "1"] = header;
  let [oldLeft, newLeft] = [Number(oldCount), Number(newCount)];
  const oldLines: string[] = [];
  const newLines: string[] = [];
  let at = start + 1;
  for (; oldLeft > 0 || newLeft > 0; at += 1) {
    const line = lines[at];
    // Editors often remove the leading space of an empty context line.
    const mark = isEmptyLine(line) ? " " : line?.[0];
    const isOld = mark === " " || mark === "-";
    const isNew = mark === " " || mark === "+";
    if (line === undefined || (!isOld && !isNew)) throw invalid(`Hunk ${index + 1} ends before its counts are met.`);
    const text = (isEmptyLine(line) ? line : line.slice(1)) + (lacksNewline(lines, at) ? "" : "\n");
    if (isOld) oldLines.push(text);
    if (isNew) newLines.push(text);
    oldLeft -= isOld ? 1 : 0;
    newLeft -= isNew ? 1 : 0;
    if (lacksNewline(lines, at)) at += 1;
  }
  if (oldLeft < 0 || newLeft < 0) throw invalid(`Hunk ${index + 1} continues after its counts are met.`);
  return { hunk: { oldStart: Number(oldStart), oldLines, newLines }, end: at };
}

function lacksNewline(lines: readonly string[], at: number): boolean {
  return lines[at + 1]?.startsWith(REMARK) === true;
}

function invalid(message: string): ReturnType<typeof fileRefusal> {
  return fileRefusal("E_INVALID_PATCH", { message });
}

function mismatch(index: number): ReturnType<typeof fileRefusal> {
  const message = `Hunk ${index + 1} does not fit: its context and removed lines must occur in the file exactly once, or at the given line.`;
  return fileRefusal("E_PATCH_MISMATCH", { message, details: { hunk: index + 1 } });
}
