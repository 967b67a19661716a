import { type HunkFault, isEmptyLine, isHunkHeader, readHunk, sidesOf } from "../../core/diff-hunk.ts";
import { linesOf } from "./contents.ts";
import { fileRefusal } from "./refusals.ts";

const HUNKS_MAX = 1_000;
/** Maximum lines compared while searching for hunks with wrong line numbers. Long lines count several times. */
const COMPARISONS_MAX = 5_000_000;
const COMPARED_AS_ONE_CHARACTERS = 64;
/** Git headers for changes to more than text. A new file with mode 100644 is only text. */
const MORE_THAN_TEXT = /^(?:rename |copy |old mode |new mode |deleted file |new file mode (?!100644))/;
const GIT_HEADER = "diff --git ";
/** Starts the signature at the end of a patch from `git format-patch`. */
const SIGNATURE = /^-- ?\r?$/;

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
    for (const line of old.slice(copied, at)) result.push(line);
    for (const line of hunk.newLines) result.push(line);
    copied = at + hunk.oldLines.length;
  }
  for (const line of old.slice(copied)) result.push(line);
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
    for (const [index, line] of oldLines.entries()) {
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
  const first = lines.findIndex(isHunkHeader);
  if (first < 0) throw invalid("The patch contains no hunk (@@ -1,3 +1,4 @@).");
  const headers = lines.slice(0, first);
  checkHeaders(headers);
  const hunks: Hunk[] = [];
  for (let at = first; at < lines.length && !isEnd(lines, at); ) {
    if (hunks.length >= HUNKS_MAX) throw invalid(`The patch contains more than ${HUNKS_MAX} hunks.`);
    const hunk = readHunk(lines, at);
    if (hunk === undefined || typeof hunk === "string") throw invalid(problemOf(hunk, lines[at], hunks.length));
    const { before, after } = sidesOf(hunk);
    hunks.push({ oldStart: hunk.oldStart, oldLines: before, newLines: after });
    at += 1 + hunk.lines.length;
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
  return SIGNATURE.test(lines[at] ?? "") && !lines.slice(at).some(isHunkHeader);
}

const ONE_FILE = "The patch changes several files: send one patch for each.";

function problemOf(fault: HunkFault | undefined, line: string | undefined, index: number): string {
  if (fault === "too short") return `Hunk ${index + 1} ends before its counts are met.`;
  if (fault === "too long") return `Hunk ${index + 1} continues after its counts are met.`;
  const isFileHeader = line?.startsWith("--- ") === true || line?.startsWith(GIT_HEADER) === true;
  return isFileHeader ? ONE_FILE : `The text after hunk ${index} is not a hunk.`;
}

function invalid(message: string): ReturnType<typeof fileRefusal> {
  return fileRefusal("E_INVALID_PATCH", { message });
}

function mismatch(index: number): ReturnType<typeof fileRefusal> {
  const message = `Hunk ${index + 1} does not fit: its context and removed lines must occur in the file exactly once, or at the given line.`;
  return fileRefusal("E_PATCH_MISMATCH", { message, details: { hunk: index + 1 } });
}
