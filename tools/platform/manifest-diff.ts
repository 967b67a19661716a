import type { DiffFile, DiffHunk } from "safe-tool-call";

const CONTEXT_LINES = 3;

/** Fields of Kubernetes objects whose values stay here: environment, what secrets and config maps hold, parameters of charts. */
const WITHHELD_FIELD = /^(?:env|envFrom|annotations|data|stringData|binaryData|parameters|values|valuesObject)$/;
const WITHHELD_KIND = /secret|configmap/i;
const SHOWN_INSTEAD = "[withheld]";

export interface ResourceDiff {
  /** `apps/Deployment/payments/api`, or `/dev/null` where it does not exist. */
  readonly oldPath: string;
  readonly newPath: string;
  readonly status: "added" | "deleted" | "modified";
  readonly hunks: readonly DiffHunk[];
  /** Lines that were not shown: they hold environment, annotations, or the data of a secret or config map. */
  readonly withheldLines: number;
}

/**
 * One resource's difference, read from a diff with the whole resource as context: only then is it known which lines stand
 * below which field. From any other, nothing is shown.
 */
export function resourceDiff(resource: string, { hunks }: Pick<DiffFile, "hunks">): ResourceDiff {
  const [whole, ...more] = hunks;
  const isAdded = whole?.oldLines === 0;
  const isDeleted = whole?.newLines === 0;
  const changed = hunks.reduce((sum, { lines }) => sum + lines.filter(isChange).length, 0);
  const isComplete = more.length === 0 && whole !== undefined && whole.oldStart <= 1 && whole.newStart <= 1;
  const isShown = isComplete && !WITHHELD_KIND.test(kindOf(resource));
  const shown = isShown ? withhold(whole) : { hunks: [], withheldLines: changed };
  return {
    oldPath: isAdded ? "/dev/null" : resource,
    newPath: isDeleted ? "/dev/null" : resource,
    status: statusOf(isAdded, isDeleted),
    ...shown,
  };
}

function statusOf(isAdded: boolean, isDeleted: boolean): ResourceDiff["status"] {
  if (isAdded) return "added";
  return isDeleted ? "deleted" : "modified";
}

function kindOf(resource: string): string {
  return resource.split("/").at(-3) ?? resource;
}

function isChange(line: string): boolean {
  return line.startsWith("+") || line.startsWith("-");
}

function withhold(whole: DiffHunk): Pick<ResourceDiff, "hunks" | "withheldLines"> {
  const hidden = new Set([...hiddenLines(whole.lines, "-"), ...hiddenLines(whole.lines, "+")]);
  const lines = whole.lines.map((line, at) => (hidden.has(at) ? masked(line) : line));
  const hunks = narrow({ ...whole, lines });
  return { hunks, withheldLines: hunks.flatMap((hunk) => hunk.lines).filter(isMasked).length };
}

function masked(line: string): string {
  const indent = line.slice(1).search(/[^ ]|$/);
  return line.slice(0, 1 + indent) + SHOWN_INSTEAD;
}

function isMasked(line: string): boolean {
  return line.endsWith(SHOWN_INSTEAD);
}

/** Which lines of one side (`-` the old, `+` the new) stand at or below a withheld field. */
function hiddenLines(lines: readonly string[], side: "-" | "+"): readonly number[] {
  const hidden: number[] = [];
  /** Column of the withheld field that is open. */
  let column = Number.POSITIVE_INFINITY;
  for (const [at, line] of lines.entries()) {
    if (line[0] !== " " && line[0] !== side) continue;
    const text = line.slice(1);
    if (isBelow(text, column)) {
      hidden.push(at);
      continue;
    }
    const field = fieldOf(text);
    column = field !== undefined && WITHHELD_FIELD.test(field.name) ? field.column : Number.POSITIVE_INFINITY;
    if (field?.hasValue && column !== Number.POSITIVE_INFINITY) hidden.push(at);
  }
  return hidden;
}

/** A list may stand at its field's own column. */
function isBelow(text: string, column: number): boolean {
  if (column === Number.POSITIVE_INFINITY) return false;
  const indent = text.search(/[^ ]/);
  return indent === -1 || indent > column || (indent === column && /^-(?: |$)/.test(text.slice(indent)));
}

interface Field {
  readonly name: string;
  readonly column: number;
  readonly hasValue: boolean;
}

/** `name:` at the beginning of a line or of a list's item. */
function fieldOf(text: string): Field | undefined {
  const column = text.search(/[^ -]/);
  const colon = text.indexOf(":", column);
  if (column === -1 || colon === -1) return undefined;
  const name = text.slice(column, colon).replace(/^["']|["']$/g, "");
  const value = text.slice(colon + 1).trim();
  return { name, column, hasValue: !["", "{}", "[]", "null"].includes(value) };
}

/** The hunks that an ordinary diff would have shown. */
function narrow({ oldStart, newStart, lines }: DiffHunk): readonly DiffHunk[] {
  const kept = keptLines(lines);
  const hunks: DiffHunk[] = [];
  let [oldAt, newAt] = [oldStart, newStart];
  let open: { oldStart: number; newStart: number; lines: string[] } | undefined;
  for (const [at, line] of lines.entries()) {
    if (kept.has(at)) {
      open ??= { oldStart: oldAt, newStart: newAt, lines: [] };
      open.lines.push(line);
    } else if (open !== undefined) {
      hunks.push(counted(open));
      open = undefined;
    }
    if (line[0] === " " || line[0] === "-" || line === "") oldAt += 1;
    if (line[0] === " " || line[0] === "+" || line === "") newAt += 1;
  }
  return open === undefined ? hunks : [...hunks, counted(open)];
}

function keptLines(lines: readonly string[]): ReadonlySet<number> {
  const kept = new Set<number>();
  for (const [at, line] of lines.entries()) {
    if (!isChange(line)) continue;
    for (let near = at - CONTEXT_LINES; near <= at + CONTEXT_LINES; near += 1) kept.add(near);
  }
  return kept;
}

function counted(hunk: Pick<DiffHunk, "oldStart" | "newStart" | "lines">): DiffHunk {
  const count = (side: string) =>
    hunk.lines.filter((line) => line === "" || line[0] === " " || line[0] === side).length;
  return { ...hunk, oldLines: count("-"), newLines: count("+") };
}
