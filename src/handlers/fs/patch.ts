import { linesOf } from "./lines.ts";
import { fileRefusal } from "./refusals.ts";

const HUNK = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/;
const HUNKS_MAX = 1_000;
/** Lines that are compared in search of a hunk whose line number is off. */
const COMPARISONS_MAX = 5_000_000;
/** Begins the remark that the line before it has no newline. */
const REMARK = "\\ ";

interface Hunk {
  /** 1-based line of the old text; with no old lines, the line after which the new ones come. */
  readonly oldStart: number;
  readonly oldLines: readonly string[];
  readonly newLines: readonly string[];
}

/**
 * Applies a unified diff of one file. Every context and removed line must be there exactly, newline included; a hunk whose line
 * number is off is taken where its lines stand, if that is only one place. `before` is undefined for a file that does not exist.
 *
 * @throws {Refusal} E_INVALID_PATCH, E_PATCH_MISMATCH naming the hunk
 */
export function applyPatch(before: string | undefined, diff: string): string {
  const hunks = readHunks(diff);
  if (before === undefined && hunks.some(({ oldLines }) => oldLines.length > 0)) throw fileRefusal("ENOENT");
  const old = linesOf(before ?? "");
  const result: string[] = [];
  const budget = { comparisons: COMPARISONS_MAX };
  let taken = 0;
  for (const [index, hunk] of hunks.entries()) {
    const at = placeOf(hunk, old, { from: taken, budget });
    if (at === undefined) throw mismatch(index);
    for (let line = taken; line < at; line += 1) result.push(old[line] ?? "");
    for (const line of hunk.newLines) result.push(line);
    taken = at + hunk.oldLines.length;
  }
  for (let line = taken; line < old.length; line += 1) result.push(old[line] ?? "");
  const unfinished = result.findIndex((line) => !line.endsWith("\n"));
  if (unfinished >= 0 && unfinished < result.length - 1) throw mismatch(hunks.length - 1);
  return result.join("");
}

interface Seeking {
  readonly from: number;
  readonly budget: { comparisons: number };
}

function placeOf({ oldStart, oldLines }: Hunk, old: readonly string[], seeking: Seeking): number | undefined {
  const { from, budget } = seeking;
  if (oldLines.length === 0) return oldStart >= from && oldStart <= old.length ? oldStart : undefined;
  const fits = (at: number): boolean => {
    const different = oldLines.findIndex((line, index) => old[at + index] !== line);
    budget.comparisons -= different < 0 ? oldLines.length : different + 1;
    return different < 0;
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

function readHunks(diff: string): readonly Hunk[] {
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const first = lines.findIndex((line) => HUNK.test(line));
  if (first < 0) throw invalid("The patch holds no hunk (@@ -1,3 +1,4 @@).");
  if (lines.slice(0, first).filter((line) => line.startsWith("--- ")).length > 1) throw invalid(ONE_FILE);
  if (lines.slice(0, first).some((line) => line.startsWith("+++ /dev/null")))
    throw invalid("A patch cannot remove a file.");
  const hunks: Hunk[] = [];
  for (let at = first; at < lines.length; ) {
    if (hunks.length >= HUNKS_MAX) throw invalid(`The patch holds more than ${HUNKS_MAX} hunks.`);
    const { hunk, end } = readHunk(lines, at, hunks.length);
    hunks.push(hunk);
    at = end;
  }
  return hunks;
}

const ONE_FILE = "The patch changes several files: send one patch for each.";

function readHunk(
  lines: readonly string[],
  start: number,
  index: number,
): { readonly hunk: Hunk; readonly end: number } {
  const header = HUNK.exec(lines[start] ?? "");
  if (header === null) {
    throw invalid((lines[start] ?? "").startsWith("--- ") ? ONE_FILE : `What follows hunk ${index} is no hunk.`);
  }
  const [, oldStart = "0", oldCount = "1", , newCount = "1"] = header;
  let [oldLeft, newLeft] = [Number(oldCount), Number(newCount)];
  const oldLines: string[] = [];
  const newLines: string[] = [];
  let at = start + 1;
  for (; oldLeft > 0 || newLeft > 0; at += 1) {
    const line = lines[at];
    // A blank line of context loses its one blank easily.
    const mark = line === "" ? " " : line?.[0];
    const isOld = mark === " " || mark === "-";
    const isNew = mark === " " || mark === "+";
    if (line === undefined || (!isOld && !isNew)) throw invalid(`Hunk ${index + 1} ends before its counts are met.`);
    const text = line.slice(1) + (isUnfinished(lines, at) ? "" : "\n");
    if (isOld) oldLines.push(text);
    if (isNew) newLines.push(text);
    oldLeft -= isOld ? 1 : 0;
    newLeft -= isNew ? 1 : 0;
    if (isUnfinished(lines, at)) at += 1;
  }
  if (oldLeft < 0 || newLeft < 0) throw invalid(`Hunk ${index + 1} goes on after its counts are met.`);
  return { hunk: { oldStart: Number(oldStart), oldLines, newLines }, end: at };
}

function isUnfinished(lines: readonly string[], at: number): boolean {
  return lines[at + 1]?.startsWith(REMARK) === true;
}

function invalid(message: string): ReturnType<typeof fileRefusal> {
  return fileRefusal("E_INVALID_PATCH", { message });
}

function mismatch(index: number): ReturnType<typeof fileRefusal> {
  const message = `Hunk ${index + 1} does not fit: its context and removed lines must stand in the file exactly once, or where it says.`;
  return fileRefusal("E_PATCH_MISMATCH", { message, details: { hunk: index + 1 } });
}
