import { Anchors, type AnchorVisitor } from "./anchors.ts";
import type { Work } from "./bounds.ts";
import type { ActiveLevel, Finding, SensitiveFinding } from "./finding.ts";
import { ANNOUNCEMENTS, type PiiReading } from "./pii/announced.ts";
import { findEmail } from "./pii/email.ts";
import type { PiiFinding } from "./pii/finding.ts";
import { NextDigit } from "./pii/next-digit.ts";
import { NumberReader } from "./pii/numbers.ts";
import { AssignmentReader } from "./secrets/assignment.ts";
import { CreatedTables } from "./secrets/created-tables.ts";
import { InsertReader } from "./secrets/insert-values.ts";
import { FOOTER, NextOccurrence } from "./secrets/private-key.ts";
import { type Readers, SECRET_RULES } from "./secrets/rules.ts";
import { TableReader } from "./secrets/tables.ts";

const CONFIDENCE_MIN = { secrets: Number.POSITIVE_INFINITY, balanced: 0.5, strict: 0.2 } as const;

/** Steps for reading one character, and for recording one finding. */
const STEPS_PER_CHAR = 3;
const STEPS_PER_FINDING = 250;

/** Longer texts usually contain an anchor. UTF-16 units. */
const SHORT_CHARS_MAX = 256;

const NOTHING: readonly SensitiveFinding[] = [];

const COLON = 0x3a;
const AT = 0x40;

/**
 * Words and marks. The order decides between words that end at the same offset: the id of a key must not hide the secret after
 * it.
 */
const ANCHORS = new Anchors(
  () => [...SECRET_RULES.map(({ word }) => word), ...ANNOUNCEMENTS.map(({ word }) => word)],
  "0123456789:@",
);

/** Finds sensitive text without decoding, in no order and with overlaps. One pass; linear for any text. */
export function scanPlain(text: string, level: ActiveLevel, work: Work): readonly SensitiveFinding[] {
  work.spend(text.length * STEPS_PER_CHAR);
  // Most short texts contain no anchor and need no reader.
  if (text.length <= SHORT_CHARS_MAX && isSilent(text, level)) return NOTHING;
  const scan = new PlainScan(text, level, work);
  ANCHORS.scan(text, scan);
  return scan.found;
}

function isSilent(text: string, level: ActiveLevel): boolean {
  return level === "secrets" ? !ANCHORS.occursIn(text) : !ANCHORS.occursOrMarkIn(text);
}

class PlainScan implements AnchorVisitor {
  readonly found: SensitiveFinding[] = [];
  readonly #text: string;
  readonly #work: Work;
  readonly #confidenceMin: number;
  /** Created on the first anchor, because most texts contain none. */
  #readers: Readers | undefined;
  #reading: PiiReading | undefined;
  #numbers: NumberReader | undefined;
  /** Offset, by rule, before which no finding of the rule starts. */
  #nothingBefore: Map<number, number> | undefined;
  /** Last finding by rule. A rule does not run again inside its own finding, which keeps texts with many anchors linear. */
  #lastFound: Map<number, Finding> | undefined;
  /** Range of the finding with the largest end. Secrets inside it are already hidden and are not listed. */
  #coveredFrom = 0;
  #coveredTo = 0;

  constructor(text: string, level: ActiveLevel, work: Work) {
    this.#text = text;
    this.#work = work;
    this.#confidenceMin = CONFIDENCE_MIN[level];
  }

  word(index: number, start: number, end: number): void {
    if (start < (this.#nothingBefore?.get(index) ?? 0)) return;
    if (index < SECRET_RULES.length) this.#secret(index, start, end);
    else if (this.#confidenceMin <= 1) this.#announced(index, start, end);
  }

  mark(at: number): number {
    if (this.#confidenceMin > 1) return this.#text.length;
    const code = this.#text.charCodeAt(at);
    if (code === AT) {
      this.#personal(findEmail(this.#text, at, this.#work));
      return at + 1;
    }
    this.#numbers ??= new NumberReader(this.#text, this.#work, (found) => this.#personal(found));
    return code === COLON ? this.#numbers.colon(at) : this.#numbers.digit(at);
  }

  #secret(index: number, start: number, end: number): void {
    const rule = SECRET_RULES[index];
    if (rule === undefined || this.#liesInOwnFinding(index, start)) return;
    this.#work.spend(rule.steps);
    this.#readers ??= this.#makeReaders();
    const found = rule.match(this.#text, start, end, this.#readers);
    if (found === undefined) return;
    if (typeof found === "number") this.#nothing(index, found);
    else if ("rule" in found) this.#cover(found);
    else for (const one of found) this.#cover(one);
    if (rule.remembers !== true && typeof found === "object") this.#noteFound(index, found);
  }

  #liesInOwnFinding(index: number, start: number): boolean {
    const last = this.#lastFound?.get(index);
    return last !== undefined && start >= last.start && start < last.end;
  }

  #noteFound(index: number, found: Finding | readonly Finding[]): void {
    const last = "rule" in found ? found : found.at(-1);
    if (last === undefined) return;
    // Each rule reads a range only once, but many rules may read the same range.
    this.#work.spend(last.end - last.start);
    this.#lastFound ??= new Map();
    this.#lastFound.set(index, last);
  }

  #cover({ rule, start, end }: Finding): void {
    if (start >= this.#coveredFrom && end <= this.#coveredTo) return;
    this.#push({ rule, start, end, kind: "secret", confidence: 1 });
    if (end <= this.#coveredTo) return;
    this.#coveredFrom = start;
    this.#coveredTo = end;
  }

  #makeReaders(): Readers {
    const tables = new TableReader(this.#text, this.#work);
    const created = new CreatedTables(this.#text, this.#work);
    return {
      assignments: new AssignmentReader(this.#text, this.#work, tables),
      inserts: new InsertReader(this.#text, this.#work, { tables, created }),
      created,
      footers: new NextOccurrence(this.#text, FOOTER),
      work: this.#work,
    };
  }

  #announced(index: number, start: number, end: number): void {
    this.#reading ??= { digits: new NextDigit(this.#text), work: this.#work };
    const found = ANNOUNCEMENTS[index - SECRET_RULES.length]?.find(this.#text, start, end, this.#reading);
    if (found === undefined) return;
    this.#personal(found);
    this.#nothing(index, found.end);
  }

  #nothing(index: number, before: number): void {
    this.#nothingBefore ??= new Map();
    this.#nothingBefore.set(index, before);
  }

  #personal(found: PiiFinding | undefined): void {
    if (found === undefined || found.confidence < this.#confidenceMin) return;
    const { rule, start, end, confidence, context } = found;
    this.#push({ rule, start, end, confidence, context, kind: "pii" });
  }

  #push(finding: SensitiveFinding): void {
    this.#work.spend(STEPS_PER_FINDING);
    this.#work.find();
    this.found.push(finding);
  }
}
