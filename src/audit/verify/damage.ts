import { dirname } from "node:path";
import { present } from "../../core/present.ts";
import { type ChainLink, ownHash, readLink } from "../chain/chain.ts";
import { type ChainWalk, type Expected, type Halt, type LinePosition, walkFiles } from "../chain/chain-walk.ts";
import { type DayFile, visitLines } from "../journal/day-files.ts";
import { boundsOf } from "../query/day-bounds.ts";
import { DAY_MS } from "../query/time-range.ts";

/** The kinds of damage to a log. */
export type DamageKind =
  | "changed"
  | "removed"
  | "inserted"
  | "reordered"
  | "cut off"
  | "gap"
  | "wrong day"
  | "checkpoint mismatch"
  | "bad signature"
  | "not signed";

/** The first problem found in a stream. */
export interface Damage {
  readonly kind: DamageKind;
  /** Relative to the audit directory. */
  readonly file: string;
  /** Line number, from 1. */
  readonly line: number;
  readonly seq?: number | undefined;
  readonly message: string;
  /** Set when the only problem is bytes without a line end: a crash cut a line short, or a line is being written. */
  readonly isTornEnd?: true;
}

export function damageText({ kind, file, line, seq, message }: Damage): string {
  return `${kind}: ${file}, line ${line}${seq === undefined ? "" : ` (seq ${seq})`}: ${message}`;
}

/** The facts known at the line where a walk stopped. */
interface HaltFacts {
  readonly halt: Halt;
  readonly walk: ChainWalk;
  /** The greatest number of lines that a checkpoint of a day covers, by day. */
  readonly sizesByDay: ReadonlyMap<string, number>;
}

/**
 * Returns the reason why a walk stopped: at a line that does not follow, or at a line that follows but belongs to
 * another day or differs from what was signed or saved.
 */
export function explainHalt(files: readonly DayFile[], { halt, walk, sizesByDay }: HaltFacts): Damage {
  const expected = walk.expected ?? { seq: 0, prev: "" };
  if (halt.isOfOtherDay) return wrongDay(files, halt.at, expected.seq - 1);
  if (walk.isBroken) return explain({ ...halt, files, expected, walk, sizesByDay });
  const message = "the lines up to here are not those that were written: the chain was made anew";
  return damageAt(files, halt.at, { kind: "checkpoint mismatch", seq: expected.seq - 1, message });
}

/** A chain in which the line `at` does not follow the line `before`. */
interface BrokenChain extends Omit<Halt, "isOfOtherDay">, Omit<HaltFacts, "halt"> {
  readonly files: readonly DayFile[];
  readonly expected: Expected;
}

/** Reads on from the line that does not follow, and determines how the log was changed. */
function explain(broken: BrokenChain): Damage {
  const { files, at, before, expected, walk } = broken;
  const damage = (kind: DamageKind, message: string, seq = expected.seq): Damage =>
    damageAt(files, at, { kind, seq, message });
  const bad = linkAt(files, at);
  const found = findNext(files, at, expected);
  if (bad === undefined) {
    return found === undefined
      ? damage("changed", "does not agree with its own hash")
      : damage("inserted", "does not belong to the chain, which goes on after it");
  }
  const misnamed = misnamedFile(files, at.index);
  if (misnamed !== undefined) return misnamed;
  if (bad.seq === 0 && expected.seq === 0) {
    return damage("changed", "does not follow from what stood before it when the chain began");
  }
  if (bad.seq === expected.seq) {
    // A genuine line names a different previous line: that one was changed and its hash recalculated.
    const seq = expected.seq - 1;
    return before === undefined
      ? damage("changed", "does not begin this stream's chain", seq)
      : damageAt(files, before, {
          kind: "changed",
          seq,
          message: `is not the line that line ${at.line} was written after`,
        });
  }
  if (bad.seq < expected.seq) {
    const isBefore = bad.seq === expected.seq - 1 && bad.prev === walk.lastPrev && bad.hash !== expected.prev;
    return isBefore
      ? damageAt(files, before ?? at, {
          kind: "inserted",
          seq: bad.seq,
          message: "was put in: the chain goes on past it",
        })
      : damage("inserted", "stands here once more", bad.seq);
  }
  return found === undefined
    ? missingLines(broken, bad.seq)
    : damage("reordered", `line ${expected.seq} of the chain stands further on`, bad.seq);
}

/**
 * Returns the damage for the first file from `index` on whose first line is genuine but does not belong to the day in
 * the file's name.
 */
export function misnamedFile(files: readonly DayFile[], index = 0): Damage | undefined {
  for (const [at, { path, day }] of files.entries()) {
    const position = { index: at, offset: 0, line: 1 };
    const isMisnamed = at >= index && boundsOf(dirname(path), day)?.first.otherDay !== undefined;
    const link = isMisnamed ? linkAt(files, position) : undefined;
    if (link !== undefined) return wrongDay(files, position, link.seq);
  }
  return undefined;
}

function wrongDay(files: readonly DayFile[], at: LinePosition, seq: number): Damage {
  const { day } = present(files[at.index], "the file of a line");
  const message = `the line is not of ${day}: the file was renamed or copied, or the line moved here from another file`;
  return damageAt(files, at, { kind: "wrong day", seq, message });
}

function missingLines({ files, at, before, expected, walk, sizesByDay }: BrokenChain, next: number): Damage {
  const { seq } = expected;
  if (seq === 0 && walk.linesBefore > 0)
    return lostPosition(present(files[at.index], "the file of a line").file, walk.linesBefore - next);
  const missing = `lines ${seq} to ${next - 1} of the chain are not here`;
  const day = files[before?.index ?? -1]?.day;
  if (before !== undefined && day !== undefined && before.index !== at.index) {
    if ((sizesByDay.get(day) ?? 0) > seq) {
      return damageAt(files, before, { kind: "cut off", seq, message: `is the file's last: ${missing}` });
    }
    const isNextDay = Date.parse(present(files[at.index], "the file of a line").day) - Date.parse(day) === DAY_MS;
    if (!isNextDay) return damageAt(files, at, { kind: "gap", seq, message: `${missing}: a day's file is missing` });
  }
  return damageAt(files, at, { kind: "removed", seq, message: missing });
}

/** Returns the damage of a chain whose first line, after `linesBefore` lines without a link, lost its link. */
export function lostPosition(file: string, linesBefore: number): Damage {
  const line = Math.max(1, linesBefore + 1);
  return { kind: "changed", file, line, seq: 0, message: "has lost its place in the chain" };
}

/** Returns the damage at a line. */
export function damageAt(
  files: readonly DayFile[],
  { index, line }: Pick<LinePosition, "index" | "line">,
  { kind, seq, message }: Pick<Damage, "kind" | "seq" | "message">,
): Damage {
  return { kind, file: present(files[index], "the file of a line").file, line, seq, message };
}

/** Returns the link of the line at a position when the line matches its own hash. */
export function linkAt(files: readonly DayFile[], { index, offset }: LinePosition): ChainLink | undefined {
  let link: ChainLink | undefined;
  visitLines(present(files[index], "the file of a line").path, offset, (bytes, from, to) => {
    const found = readLink(bytes, from, to);
    link = found !== undefined && ownHash(bytes, from, to) === found.hash ? found : undefined;
    return false;
  });
  return link;
}

/** Searches for the expected line after the bad one. */
function findNext(files: readonly DayFile[], at: LinePosition, { seq, prev }: Expected): ChainLink | undefined {
  let found: ChainLink | undefined;
  let isFirst = true;
  walkFiles(files, at, (bytes, from, to) => {
    const link = isFirst ? undefined : readLink(bytes, from, to);
    isFirst = false;
    if (link?.seq === seq && link.prev === prev && ownHash(bytes, from, to) === link.hash) found = link;
    return found === undefined;
  });
  return found;
}
