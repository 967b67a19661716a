import { linesOf } from "./lines.ts";

const CONTEXT_LINES = 3;
/** What a person can be asked to read. */
const SHOWN_LINES_MAX = 400;
const SHOWN_LINE_CHARACTERS_MAX = 500;
/** Changed lines that are looked for one by one; beyond, the whole stretch is shown as removed and added. */
const EDITS_MAX = 400;

/** Lines that stay (` `), go (`-`) or come (`+`), in order. */
interface Edit {
  readonly mark: " " | "-" | "+";
  readonly line: string;
}

/**
 * The unified diff from one text to another, as lines, for a person to read: bounded, and where something is left out the last
 * line says so.
 */
export function unifiedDiff(path: string, before: string | undefined, after: string): readonly string[] {
  const edits = editsBetween(linesOf(before ?? ""), linesOf(after));
  const header = [before === undefined ? "--- (new file)" : `--- ${path}`, `+++ ${path}`];
  const all = [...header, ...hunks(edits)];
  const shown = all.slice(0, SHOWN_LINES_MAX).map(shownLine);
  return all.length > shown.length ? [...shown, `… ${all.length - shown.length} more lines`] : shown;
}

function shownLine(line: string): string {
  if (line.length <= SHOWN_LINE_CHARACTERS_MAX) return line;
  const left = line.length - SHOWN_LINE_CHARACTERS_MAX;
  return `${line.slice(0, SHOWN_LINE_CHARACTERS_MAX).toWellFormed()}… (${left} more characters)`;
}

function editsBetween(before: readonly string[], after: readonly string[]): readonly Edit[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let [oldEnd, newEnd] = [before.length, after.length];
  while (oldEnd > start && newEnd > start && before[oldEnd - 1] === after[newEnd - 1]) {
    oldEnd -= 1;
    newEnd -= 1;
  }
  return [
    ...marked(" ", before.slice(0, start)),
    ...middle(before.slice(start, oldEnd), after.slice(start, newEnd)),
    ...marked(" ", before.slice(oldEnd)),
  ];
}

function marked(mark: Edit["mark"], lines: readonly string[]): readonly Edit[] {
  return lines.map((line) => ({ mark, line }));
}

/** Myers' greedy search for the shortest script, up to a bound of edits. */
function middle(before: readonly string[], after: readonly string[]): readonly Edit[] {
  const replaced = [...marked("-", before), ...marked("+", after)];
  if (before.length === 0 || after.length === 0) return replaced;
  const most = Math.min(before.length + after.length, EDITS_MAX);
  const reached = new Map<number, number>([[1, 0]]);
  const trace: ReadonlyMap<number, number>[] = [];
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(new Map(reached));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let old = furthest(reached, diagonal, edits);
      while (old < before.length && before[old] === after[old - diagonal] && old - diagonal < after.length) old += 1;
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
): readonly Edit[] {
  const script: Edit[] = [];
  let [old, fresh] = [before.length, after.length];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reached = trace[edits] ?? new Map<number, number>();
    const diagonal = old - fresh;
    const down = reached.get(diagonal + 1) ?? -1;
    const right = reached.get(diagonal - 1) ?? -1;
    const from = diagonal === -edits || (diagonal !== edits && right < down) ? diagonal + 1 : diagonal - 1;
    const oldFrom = edits === 0 ? 0 : (reached.get(from) ?? 0);
    const freshFrom = edits === 0 ? 0 : oldFrom - from;
    while (old > oldFrom && fresh > freshFrom) {
      old -= 1;
      fresh -= 1;
      script.push({ mark: " ", line: before[old] ?? "" });
    }
    if (edits === 0) break;
    script.push(
      old > oldFrom ? { mark: "-", line: before[oldFrom] ?? "" } : { mark: "+", line: after[freshFrom] ?? "" },
    );
    [old, fresh] = [oldFrom, freshFrom];
  }
  return script.reverse();
}

function hunks(edits: readonly Edit[]): readonly string[] {
  const near = nearChanges(edits);
  const lines: string[] = [];
  let [old, fresh] = [1, 1];
  for (let at = 0; at < edits.length; at += 1) {
    if (!near[at]) {
      old += 1;
      fresh += 1;
      continue;
    }
    let end = at;
    while (end < edits.length && near[end]) end += 1;
    const hunk = edits.slice(at, end);
    const removed = hunk.filter(({ mark }) => mark !== "+").length;
    const added = hunk.filter(({ mark }) => mark !== "-").length;
    const place = (from: number, count: number): string => `${count === 0 ? from - 1 : from},${count}`;
    lines.push(`@@ -${place(old, removed)} +${place(fresh, added)} @@`, ...hunk.flatMap(written));
    old += removed;
    fresh += added;
    at = end - 1;
  }
  return lines;
}

function written({ mark, line }: Edit): readonly string[] {
  return line.endsWith("\n") ? [`${mark}${line.slice(0, -1)}`] : [`${mark}${line}`, "\\ No newline at end of file"];
}

/** Which lines are changes, or within the context of one. */
function nearChanges(edits: readonly Edit[]): readonly boolean[] {
  const near = new Array<boolean>(edits.length).fill(false);
  for (let at = 0; at < edits.length; at += 1) {
    if (edits[at]?.mark === " ") continue;
    const until = Math.min(edits.length, at + CONTEXT_LINES + 1);
    for (let index = Math.max(0, at - CONTEXT_LINES); index < until; index += 1) near[index] = true;
  }
  return near;
}
