import { linesOf } from "./lines.ts";

const CONTEXT_LINES = 3;
/** What a person can be asked to read. */
const SHOWN_LINES_MAX = 400;
const SHOWN_LINE_CHARACTERS_MAX = 500;
/** Changed lines that are looked for one by one; beyond, the whole stretch is shown as removed and added. */
const EDITS_MAX = 400;
/** Characters of equal lines that are looked at for that. Lines that are all alike fit everywhere. */
const COMPARED_CHARACTERS_MAX = 16_000_000;

/** Lines in a row that stay (` `), go (`-`) or come (`+`). */
interface Run {
  readonly mark: " " | "-" | "+";
  readonly lines: readonly string[];
}

/** Where a run of the old and of the new text begins, from 0. */
interface Start {
  readonly old: number;
  readonly fresh: number;
}

/**
 * The unified diff from one text to another, as lines, for a person to read: bounded, and where something is left out the last
 * line says so.
 */
export function unifiedDiff(path: string, before: string | undefined, after: string): readonly string[] {
  const shown = new Shown();
  shown.add(before === undefined ? "--- (new file)" : `--- ${path}`);
  shown.add(`+++ ${path}`);
  showHunks(shown, runsBetween(linesOf(before ?? ""), linesOf(after)));
  return shown.count > shown.lines.length
    ? [...shown.lines, `… ${shown.count - shown.lines.length} more lines`]
    : shown.lines;
}

/** As many lines as are shown, and how many there are. */
class Shown {
  readonly lines: string[] = [];
  count = 0;

  add(line: string): void {
    this.count += 1;
    if (this.lines.length < SHOWN_LINES_MAX) this.lines.push(shownLine(line));
  }

  addRun({ mark, lines }: Run): void {
    const room = SHOWN_LINES_MAX - this.lines.length;
    for (const line of lines.slice(0, room)) this.add(mark + (line.endsWith("\n") ? line.slice(0, -1) : line));
    this.count += Math.max(0, lines.length - room);
    // Only the last line of a text, and so of a run, may have none.
    if (lines.at(-1)?.endsWith("\n") === false) this.add("\\ No newline at end of file");
  }
}

function shownLine(line: string): string {
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

/** Neighbours of one mark as one, and none that is empty. */
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

/** Myers' greedy search for the shortest script, up to a bound of edits and of what is compared. */
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
      let old = furthest(reached, diagonal, edits);
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

function furthest(reached: ReadonlyMap<number, number>, diagonal: number, edits: number): number {
  const down = reached.get(diagonal + 1) ?? -1;
  const right = reached.get(diagonal - 1) ?? -1;
  return diagonal === -edits || (diagonal !== edits && right < down) ? down : right + 1;
}

function scriptOf(
  trace: readonly ReadonlyMap<number, number>[],
  before: readonly string[],
  after: readonly string[],
): readonly Run[] {
  const script: Run[] = [];
  let [old, fresh] = [before.length, after.length];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reached = trace[edits] ?? new Map<number, number>();
    const diagonal = old - fresh;
    const down = reached.get(diagonal + 1) ?? -1;
    const right = reached.get(diagonal - 1) ?? -1;
    const from = diagonal === -edits || (diagonal !== edits && right < down) ? diagonal + 1 : diagonal - 1;
    const oldFrom = edits === 0 ? 0 : (reached.get(from) ?? 0);
    const freshFrom = edits === 0 ? 0 : oldFrom - from;
    const same = Math.max(0, Math.min(old - oldFrom, fresh - freshFrom));
    script.push({ mark: " ", lines: before.slice(old - same, old) });
    if (edits === 0) break;
    script.push(
      old - same > oldFrom
        ? { mark: "-", lines: before.slice(oldFrom, oldFrom + 1) }
        : { mark: "+", lines: after.slice(freshFrom, freshFrom + 1) },
    );
    [old, fresh] = [oldFrom, freshFrom];
  }
  return script.reverse();
}

/** Changes with the context around them; those whose contexts meet are one hunk. */
function showHunks(shown: Shown, runs: readonly Run[]): void {
  let hunk: Run[] = [];
  let start: Start = { old: 0, fresh: 0 };
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
      start = { old: at.old + skipped, fresh: at.fresh + skipped };
      hunk = context.length === 0 ? [] : [{ mark, lines: context }];
    }
    at = { old: at.old + (mark === "+" ? 0 : lines.length), fresh: at.fresh + (mark === "-" ? 0 : lines.length) };
  }
  if (hunk.length > 0) showHunk(shown, start, hunk);
}

function showHunk(shown: Shown, { old, fresh }: Start, runs: readonly Run[]): void {
  const linesBut = (mark: Run["mark"]): number =>
    runs.reduce((count, run) => count + (run.mark === mark ? 0 : run.lines.length), 0);
  const place = (from: number, count: number): string => `${count === 0 ? from : from + 1},${count}`;
  shown.add(`@@ -${place(old, linesBut("+"))} +${place(fresh, linesBut("-"))} @@`);
  for (const run of runs) shown.addRun(run);
}
