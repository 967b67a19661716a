import { dirname } from "node:path";
import { type ChainLink, ownHash, readLink } from "../chain/chain.ts";
import type { ChainWalk, Expected } from "../chain/chain-walk.ts";
import { type DayFile, visitLines } from "../journal/line-files.ts";
import { boundsOf } from "../query/day-bounds.ts";

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

/** Position of a line: index of its file among the stream's files, byte offset and line number. */
export interface LinePosition {
  readonly index: number;
  readonly offset: number;
  readonly line: number;
}

/** The facts known at the line where a walk stopped. */
export interface HaltFacts {
  readonly halt: { readonly at: LinePosition; readonly before: LinePosition | undefined; readonly isOfOtherDay?: true };
  readonly walk: ChainWalk;
  /** The greatest number of lines that a checkpoint of a day covers, by day. */
  readonly sizesByDay: ReadonlyMap<string, number>;
}

interface BrokenChain {
  readonly files: readonly DayFile[];
  /** The line that does not follow. */
  readonly at: LinePosition;
  /** The previous line; `undefined` when the line is the first of the walk. */
  readonly before: LinePosition | undefined;
  readonly expected: Expected;
  /** `prev` of the previous line. */
  readonly lastPrev: string | undefined;
  /** Number of lines without a link before the first one that has one. */
  readonly linesBefore: number;
  /** The greatest number of lines that a checkpoint of a day covers, by day. */
  readonly sizesByDay: ReadonlyMap<string, number>;
}

/**
 * Returns the reason why a walk stopped: at a line that does not follow, or at a line that follows but belongs to
 * another day or differs from what was signed or saved.
 */
export function explainHalt(files: readonly DayFile[], { halt, walk, sizesByDay }: HaltFacts): Damage {
  const { at, before } = halt;
  const expected = walk.expected ?? { seq: 0, prev: "" };
  if (halt.isOfOtherDay === true) {
    return wrongDay(files, at, expected.seq - 1);
  }
  if (!walk.isBroken) {
    const message = "the lines up to here are not those that were written: the chain was made anew";
    const seq = expected.seq - 1;
    return { kind: "checkpoint mismatch", file: files[at.index]?.file ?? "", line: at.line, seq, message };
  }
  const { lastPrev, linesBefore } = walk;
  return explain({ files, at, before, expected, lastPrev, linesBefore, sizesByDay });
}

/** Reads on from the line that does not follow, and determines how the log was changed. */
function explain(broken: BrokenChain): Damage {
  const { files, at, expected } = broken;
  const bad = linkAt(files, at);
  const found = findNext(files, at, expected);
  if (bad === undefined) {
    return found === undefined
      ? damage(broken, "changed", "does not agree with its own hash")
      : damage(broken, "inserted", "does not belong to the chain, which goes on after it");
  }
  const misnamed = misnamedFile(files, at.index);
  if (misnamed !== undefined) {
    return misnamed;
  }
  if (bad.seq === 0 && expected.seq === 0) {
    return damage(broken, "changed", "does not follow from what stood before it when the chain began");
  }
  if (bad.seq === expected.seq) {
    return { ...alteredBefore(broken), seq: expected.seq - 1 };
  }
  if (bad.seq < expected.seq) {
    return bad.seq === expected.seq - 1 && bad.prev === broken.lastPrev && bad.hash !== expected.prev
      ? { ...damageAt(broken, broken.before ?? at, "inserted"), seq: bad.seq }
      : { ...damage(broken, "inserted", "stands here once more"), seq: bad.seq };
  }
  if (found !== undefined) {
    return { ...damage(broken, "reordered", `line ${expected.seq} of the chain stands further on`), seq: bad.seq };
  }
  return missingLines(broken, bad.seq);
}

/**
 * Returns the damage for the first file from `index` on whose first line is genuine but does not belong to the day in
 * the file's name.
 */
export function misnamedFile(files: readonly DayFile[], index = 0): Damage | undefined {
  for (const [at, { path, day }] of files.entries()) {
    const place = { index: at, offset: 0, line: 1 };
    const isMisnamed = at >= index && boundsOf(dirname(path), day)?.first.otherDay !== undefined;
    const link = isMisnamed ? linkAt(files, place) : undefined;
    if (link !== undefined) return wrongDay(files, place, link.seq);
  }
  return undefined;
}

function wrongDay(files: readonly DayFile[], { index, line }: LinePosition, seq: number): Damage {
  const { file, day } = files[index] ?? { file: "", day: "" };
  const message = `the line is not of ${day}: the file was renamed or copied, or the line moved here from another file`;
  return { kind: "wrong day", file, line, seq, message };
}

/**
 * Handles a genuine line that names a different previous line: the actual previous line was changed and its hash
 * recalculated.
 */
function alteredBefore(broken: BrokenChain): Damage {
  const { before, at } = broken;
  return before === undefined
    ? damage(broken, "changed", "does not begin this stream's chain")
    : { ...damageAt(broken, before, "changed"), message: `is not the line that line ${at.line} was written after` };
}

function missingLines(broken: BrokenChain, seq: number): Damage {
  const { files, at, before, expected, linesBefore, sizesByDay } = broken;
  const missing = `lines ${expected.seq} to ${seq - 1} of the chain are not here`;
  if (expected.seq === 0 && linesBefore > 0) {
    const line = Math.max(1, linesBefore - seq + 1);
    return { ...damageAt(broken, { ...at, line }, "changed"), seq: 0, message: "has lost its place in the chain" };
  }
  const day = files[before?.index ?? -1]?.day;
  if (before === undefined || day === undefined || before.index === at.index) {
    return { ...damage(broken, "removed", missing), seq: expected.seq };
  }
  if ((sizesByDay.get(day) ?? 0) > expected.seq) {
    return { ...damageAt(broken, before, "cut off"), seq: expected.seq, message: `is the file's last: ${missing}` };
  }
  const isNextDay = Date.parse(files[at.index]?.day ?? "") - Date.parse(day) === DAY_MS;
  return isNextDay
    ? { ...damage(broken, "removed", missing), seq: expected.seq }
    : { ...damage(broken, "gap", `${missing}: a day's file is missing`), seq: expected.seq };
}

const DAY_MS = 86_400_000;

function damage(broken: BrokenChain, kind: DamageKind, message: string): Damage {
  return { ...damageAt(broken, broken.at, kind), message };
}

function damageAt({ files, expected }: BrokenChain, { index, line }: LinePosition, kind: DamageKind): Damage {
  const message = "was put in: the chain goes on past it";
  return { kind, file: files[index]?.file ?? "", line, seq: expected.seq, message };
}

/** Returns the link of the line at a position when the line matches its own hash. */
export function linkAt(files: readonly DayFile[], { index, offset }: LinePosition): ChainLink | undefined {
  let link: ChainLink | undefined;
  visitLines(files[index]?.path ?? "", offset, (bytes, from, to) => {
    link = soundLink(bytes, from, to);
    return false;
  });
  return link;
}

function soundLink(bytes: Buffer, from: number, to: number): ChainLink | undefined {
  const link = readLink(bytes, from, to);
  return link !== undefined && ownHash(bytes, from, to) === link.hash ? link : undefined;
}

/** Searches for the expected line after the bad one. */
function findNext(files: readonly DayFile[], at: LinePosition, { seq, prev }: Expected): ChainLink | undefined {
  let found: ChainLink | undefined;
  let isFirst = true;
  for (const [index, { path }] of files.entries()) {
    if (index < at.index || found !== undefined) {
      continue;
    }
    visitLines(path, index === at.index ? at.offset : 0, (bytes, from, to) => {
      const link = isFirst ? undefined : readLink(bytes, from, to);
      isFirst = false;
      if (link?.seq === seq && link.prev === prev && ownHash(bytes, from, to) === link.hash) {
        found = link;
      }
      return found === undefined;
    });
  }
  return found;
}
