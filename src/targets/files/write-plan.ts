import { closeSync } from "node:fs";
import { sha256Hex } from "../../core/digest.ts";
import type { Refusal } from "../../core/errors.ts";
import type { ExecutionPlan } from "../../core/types.ts";
import { O_RDWR } from "./c-library.ts";
import { identify, READING } from "./confinement.ts";
import { decodedText, linesOf, readWhole } from "./contents.ts";
import type { Mounts } from "./mounts.ts";
import { errnoRefusal, fileRefusal } from "./refusals.ts";
import { checkWorkflow, type WorkflowRules } from "./workflow.ts";
import { locate, type WriteTarget } from "./write-target.ts";

/** The complete write. An approval shows it and is bound to it. */
export interface WritePlan extends ExecutionPlan {
  readonly kind: "fs";
  readonly operation: "write";
  /** Path without links and dots. */
  readonly path: string;
  /** Hex SHA-256 of the current file; null when there is none. */
  readonly currentSha256: string | null;
  readonly newSha256: string;
  readonly bytes: number;
  readonly directories: readonly string[];
  readonly workflow: boolean;
  readonly diff: readonly string[];
  readonly content: string;
}

export interface WriteRequest {
  readonly path: string;
  readonly ifMatchSha256?: string | undefined;
  readonly createDirectories: boolean;
  /** Returns the new content. `before` is undefined for a file that does not exist. */
  readonly make: (before: string | undefined) => string;
  /** True when `make` uses the old content, which must then be text. */
  readonly needsText: boolean;
}

interface WriteLimits {
  readonly maxWriteBytes: number;
  readonly fileBytesMax: number;
  readonly workflow: WorkflowRules;
  readonly signal: AbortSignal;
}

/** Larger files are shown as replaced, without a comparison. */
const COMPARED_BYTES_MAX = 1_048_576;

/**
 * Determines what a write will do, and changes nothing.
 *
 * @throws {Refusal} E_SANDBOX_VIOLATION, E_PRECONDITION_FAILED, E_WRITE_LIMIT …
 */
export async function planWrite(mounts: Mounts, request: WriteRequest, limits: WriteLimits): Promise<WritePlan> {
  const target = locate(mounts, request.path);
  try {
    if (target.missing.length > 0 && !request.createDirectories) {
      throw fileRefusal("ENOENT", { message: "The directory does not exist. createDirectories: true makes it." });
    }
    const current = await readCurrent(mounts, target, limits);
    checkExpected(request.ifMatchSha256, current?.sha256);
    if (request.needsText && current !== undefined && current.text === undefined) {
      throw fileRefusal("E_PATCH_MISMATCH", { message: "The file is not UTF-8 text and cannot be patched." });
    }
    const content = request.make(current?.text);
    const bytes = Buffer.byteLength(content);
    if (bytes > limits.maxWriteBytes) throw overLimit(limits.maxWriteBytes);
    if (target.isWorkflow)
      checkWorkflow(limits.workflow, current === undefined ? undefined : (current.text ?? ""), content);
    const { path, missing, isWorkflow } = target;
    return {
      kind: "fs",
      operation: "write",
      path,
      currentSha256: current?.sha256 ?? null,
      newSha256: sha256Hex(content),
      bytes,
      directories: missing,
      workflow: isWorkflow,
      diff: diffOf(path, current, content),
      content,
    };
  } finally {
    target.close();
  }
}

export function overLimit(maxWriteBytes: number): Refusal {
  return fileRefusal("E_WRITE_LIMIT", { details: { maxWriteBytes } });
}

/** The file as it is now; `text` is undefined when it is not text. */
interface Current {
  readonly sha256: string;
  readonly bytes: number;
  readonly text: string | undefined;
}

async function readCurrent(mounts: Mounts, target: WriteTarget, limits: WriteLimits): Promise<Current | undefined> {
  if (target.found === undefined) return undefined;
  const { fd, version } = openCurrent(mounts, target);
  try {
    const { fileBytesMax: bytesMax, signal } = limits;
    const { sha256, bytes } = await readWhole(fd, target.found.bytes, { bytesMax, signal });
    if (identify(fd).version !== version) throw fileRefusal("E_PRECONDITION_FAILED");
    return { sha256, bytes: bytes.byteLength, text: decodedText(bytes) };
  } finally {
    closeSync(fd);
  }
}

/**
 * Opens the file at a write's target with write access, so that read-only files are not replaced.
 *
 * @throws {Refusal} EACCES; E_PRECONDITION_FAILED when the name belongs to another file now
 */
export function openCurrent(
  { confinement }: Mounts,
  { directory, name, found }: Pick<WriteTarget, "directory" | "name" | "found">,
): { readonly fd: number; readonly version: string } {
  const fd = confinement.step(directory, name, READING | O_RDWR);
  if (fd < 0) throw errnoRefusal(fd, "open");
  const { id, version } = identify(fd);
  if (id === found?.id) return { fd, version };
  closeSync(fd);
  throw fileRefusal("E_PRECONDITION_FAILED");
}

function checkExpected(expected: string | undefined, current: string | undefined): void {
  if (expected === undefined || expected.toLowerCase() === current) return;
  throw fileRefusal("E_PRECONDITION_FAILED", { details: { currentSha256: current ?? null } });
}

function diffOf(path: string, current: Current | undefined, content: string): readonly string[] {
  const large = Buffer.byteLength(content) > COMPARED_BYTES_MAX || (current?.bytes ?? 0) > COMPARED_BYTES_MAX;
  const isBinary = current !== undefined && current.text === undefined;
  if (isBinary || large) return [`(not shown: the file is ${isBinary ? "not text" : "large"})`];
  return unifiedDiff(path, current?.text, content);
}

/** Lines of a difference before its changes: the names of the file before and after. */
export const DIFF_HEAD_LINES = 2;
/** Maximum lines that a person is asked to read. One more says how many are left out. */
export const DIFF_LINES_MAX = 400;
const CONTEXT_LINES = 3;
const SHOWN_LINE_CHARACTERS_MAX = 500;
/** Maximum changed lines. With more, the whole section is shown as removed and added. */
const EDITS_MAX = 400;
/** Maximum characters of equal lines that are compared, because identical lines match in many positions. */
const COMPARED_CHARACTERS_MAX = 16_000_000;

/** Consecutive lines that are kept (` `), removed (`-`) or added (`+`). */
interface Run {
  readonly mark: " " | "-" | "+";
  readonly lines: readonly string[];
}

/** Start of a run in the old and in the new text, from 0. */
interface Start {
  readonly old: number;
  readonly newAt: number;
}

/** Returns the unified diff between two texts for a person. When it is cut, the last line says so. */
export function unifiedDiff(path: string, before: string | undefined, after: string): readonly string[] {
  const shown = new Shown();
  shown.add(before === undefined ? "--- (new file)" : `--- ${path}`);
  shown.add(`+++ ${path}`);
  showHunks(shown, runsBetween(linesOf(before ?? ""), linesOf(after)));
  return shown.count > shown.lines.length
    ? [...shown.lines, `… ${shown.count - shown.lines.length} more lines`]
    : shown.lines;
}

class Shown {
  readonly lines: string[] = [];
  count = 0;

  add(line: string): void {
    this.count += 1;
    if (this.lines.length < DIFF_LINES_MAX) this.lines.push(shortened(line));
  }

  addRun({ mark, lines }: Run): void {
    const room = DIFF_LINES_MAX - this.lines.length;
    for (const line of lines.slice(0, room)) this.add(mark + (line.endsWith("\n") ? line.slice(0, -1) : line));
    this.count += Math.max(0, lines.length - room);
    // Only the last line of a text may lack a newline.
    if (lines.at(-1)?.endsWith("\n") === false) this.add("\\ No newline at end of file");
  }
}

function shortened(line: string): string {
  if (line.length <= SHOWN_LINE_CHARACTERS_MAX) return line;
  const left = line.length - SHOWN_LINE_CHARACTERS_MAX;
  return `${line.slice(0, SHOWN_LINE_CHARACTERS_MAX).toWellFormed()}… (${left} more characters)`;
}

function runsBetween(before: readonly string[], after: readonly string[]): readonly Run[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let [oldEnd, newEnd] = [before.length, after.length];
  while (oldEnd > start && newEnd > start && before[oldEnd - 1] === after[newEnd - 1]) {
    oldEnd -= 1;
    newEnd -= 1;
  }
  return joined([
    { mark: " ", lines: before.slice(0, start) },
    ...middle(before.slice(start, oldEnd), after.slice(start, newEnd)),
    { mark: " ", lines: before.slice(oldEnd) },
  ]);
}

function joined(runs: readonly Run[]): readonly Run[] {
  const all: { readonly mark: Run["mark"]; readonly parts: (readonly string[])[] }[] = [];
  for (const { mark, lines } of runs) {
    const last = all.at(-1);
    if (lines.length === 0) continue;
    if (last?.mark === mark) last.parts.push(lines);
    else all.push({ mark, parts: [lines] });
  }
  return all.map(({ mark, parts }) => ({ mark, lines: parts.flat() }));
}

/** Finds the shortest edit script with Myers' greedy algorithm, within limits of edits and compared characters. */
function middle(before: readonly string[], after: readonly string[]): readonly Run[] {
  const replaced: readonly Run[] = [
    { mark: "-", lines: before },
    { mark: "+", lines: after },
  ];
  if (before.length === 0 || after.length === 0) return replaced;
  const most = Math.min(before.length + after.length, EDITS_MAX);
  const reached = new Map<number, number>([[1, 0]]);
  const trace: ReadonlyMap<number, number>[] = [];
  let charactersLeft = COMPARED_CHARACTERS_MAX;
  for (let edits = 0; edits <= most && charactersLeft > 0; edits += 1) {
    trace.push(new Map(reached));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let old = endsWithAddition(reached, diagonal, edits)
        ? (reached.get(diagonal + 1) ?? -1)
        : (reached.get(diagonal - 1) ?? -1) + 1;
      while (old < before.length && before[old] === after[old - diagonal] && old - diagonal < after.length) {
        charactersLeft -= before[old]?.length ?? 0;
        old += 1;
      }
      reached.set(diagonal, old);
      if (old >= before.length && old - diagonal >= after.length) return scriptOf(trace, before, after);
    }
  }
  return replaced;
}

/** Returns whether the furthest script on this diagonal ends with an added line instead of a removed one. */
function endsWithAddition(reached: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean {
  const down = reached.get(diagonal + 1) ?? -1;
  const right = reached.get(diagonal - 1) ?? -1;
  return diagonal === -edits || (diagonal !== edits && right < down);
}

function scriptOf(
  trace: readonly ReadonlyMap<number, number>[],
  before: readonly string[],
  after: readonly string[],
): readonly Run[] {
  const script: Run[] = [];
  let [old, newAt] = [before.length, after.length];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reached = trace[edits] ?? new Map<number, number>();
    const diagonal = old - newAt;
    const from = endsWithAddition(reached, diagonal, edits) ? diagonal + 1 : diagonal - 1;
    const oldFrom = edits === 0 ? 0 : (reached.get(from) ?? 0);
    const newFrom = edits === 0 ? 0 : oldFrom - from;
    const same = Math.max(0, Math.min(old - oldFrom, newAt - newFrom));
    script.push({ mark: " ", lines: before.slice(old - same, old) });
    if (edits === 0) break;
    script.push(
      old - same > oldFrom
        ? { mark: "-", lines: before.slice(oldFrom, oldFrom + 1) }
        : { mark: "+", lines: after.slice(newFrom, newFrom + 1) },
    );
    [old, newAt] = [oldFrom, newFrom];
  }
  return script.reverse();
}

/** Shows changes with their context. Changes with overlapping contexts form one hunk. */
function showHunks(shown: Shown, runs: readonly Run[]): void {
  let hunk: Run[] = [];
  let start: Start = { old: 0, newAt: 0 };
  let at = start;
  for (const [index, run] of runs.entries()) {
    const { mark, lines } = run;
    const isLast = index === runs.length - 1;
    if (mark !== " ") hunk.push(run);
    else if (hunk.length > 0 && !isLast && lines.length <= 2 * CONTEXT_LINES) hunk.push(run);
    else {
      if (hunk.length > 0) showHunk(shown, start, [...hunk, { mark, lines: lines.slice(0, CONTEXT_LINES) }]);
      const context = isLast ? [] : lines.slice(-CONTEXT_LINES);
      const skipped = lines.length - context.length;
      start = { old: at.old + skipped, newAt: at.newAt + skipped };
      hunk = context.length === 0 ? [] : [{ mark, lines: context }];
    }
    at = { old: at.old + (mark === "+" ? 0 : lines.length), newAt: at.newAt + (mark === "-" ? 0 : lines.length) };
  }
  if (hunk.length > 0) showHunk(shown, start, hunk);
}

function showHunk(shown: Shown, { old, newAt }: Start, runs: readonly Run[]): void {
  const linesWithout = (mark: Run["mark"]): number =>
    runs.reduce((count, run) => count + (run.mark === mark ? 0 : run.lines.length), 0);
  const range = (from: number, count: number): string => `${count === 0 ? from : from + 1},${count}`;
  shown.add(`@@ -${range(old, linesWithout("+"))} +${range(newAt, linesWithout("-"))} @@`);
  for (const run of runs) shown.addRun(run);
}
