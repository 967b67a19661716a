import { Anchors, type AnchorVisitor } from "./anchors.ts";
import type { Work } from "./bounds.ts";
import type { ActiveLevel, Finding, Matched, SensitiveFinding } from "./finding.ts";
import type { PiiFinding } from "./pii/digit-groups.ts";
import { findEmail } from "./pii/email.ts";
import { NumberReader } from "./pii/numbers.ts";
import { type CompiledRule, compileRules, type DetectorRule, type Reading } from "./rules/rule.ts";

/** Minimum confidence of personal data, by level. */
const CONFIDENCE_MIN = { secrets: Number.POSITIVE_INFINITY, balanced: 0.5, strict: 0.2 } as const;

/** Confidence of a finding by a rule without check digits, by the rule's level. */
const CONFIDENCE = { secrets: 1, balanced: 0.9, strict: 0.3 } as const;

/** Steps for reading one character, and for recording one finding. */
const STEPS_PER_CHAR = 3;
const STEPS_PER_FINDING = 250;

/** Maximum length of a text that is first searched for any anchor: longer texts usually contain one. UTF-16 units. */
const SHORT_CHARS_MAX = 256;

const NOTHING: readonly SensitiveFinding[] = [];

const COLON = 0x3a;
const AT = 0x40;

/** Rules in the form in which texts are scanned for them. Compiled when the first text is scanned. */
export class RuleSet {
  readonly #rules: readonly DetectorRule[];
  readonly #anchors: Anchors;
  #compiled: readonly CompiledRule[] | undefined;

  constructor(rules: readonly DetectorRule[]) {
    this.#rules = rules;
    this.#anchors = new Anchors(() => this.compiled.map(({ word }) => word), "0123456789:@");
  }

  get compiled(): readonly CompiledRule[] {
    this.#compiled ??= compileRules(this.#rules);
    return this.#compiled;
  }

  /** Finds sensitive text without decoding, in no order and with overlaps. One pass; linear for any text. */
  scan(text: string, level: ActiveLevel, work: Work): readonly SensitiveFinding[] {
    work.spend(text.length * STEPS_PER_CHAR);
    if (text.length <= SHORT_CHARS_MAX && this.#hasNoAnchor(text, level)) return NOTHING;
    const scan = new Scan(text, work, { rules: this.compiled, level });
    this.#anchors.scan(text, scan);
    return scan.found;
  }

  #hasNoAnchor(text: string, level: ActiveLevel): boolean {
    return level === "secrets" ? !this.#anchors.occursIn(text) : !this.#anchors.occursOrMarkIn(text);
  }
}

class Scan implements AnchorVisitor, Reading {
  readonly text: string;
  readonly work: Work;
  readonly found: SensitiveFinding[] = [];
  readonly #rules: readonly CompiledRule[];
  readonly #confidenceMin: number;
  /** Created on demand: most texts contain no anchor. */
  #states: Map<unknown, unknown> | undefined;
  #numbers: NumberReader | undefined;
  /** Offset, by group of rules, before which no finding of the group starts. */
  #nothingBefore: Map<number, number> | undefined;
  /** Last finding by group. A rule does not run again inside its own finding, which keeps texts with many anchors linear. */
  #lastFound: Map<number, Finding> | undefined;
  /** Range of the finding with the largest end. Secrets inside it are already hidden and are not listed. */
  #coveredFrom = 0;
  #coveredTo = 0;
  /** Start of the word that is applied, and of the one that the finding with the largest end comes from. */
  #wordStart = 0;
  #coveredWordStart = 0;

  constructor(text: string, work: Work, { rules, level }: { rules: readonly CompiledRule[]; level: ActiveLevel }) {
    this.text = text;
    this.work = work;
    this.#rules = rules;
    this.#confidenceMin = CONFIDENCE_MIN[level];
  }

  state<State>(make: (reading: Reading) => State): State {
    this.#states ??= new Map();
    const known = this.#states.get(make);
    if (known !== undefined) return known as State;
    const made = make(this);
    this.#states.set(make, made);
    return made;
  }

  word(index: number, start: number, end: number): void {
    const rule = this.#rules[index];
    if (rule === undefined || start < (this.#nothingBefore?.get(rule.group) ?? 0)) return;
    if (rule.level !== "secrets" && CONFIDENCE[rule.level] < this.#confidenceMin) return;
    if (!rule.remembers && this.#isInOwnFinding(rule, start)) return;
    this.work.spend(rule.steps);
    this.#wordStart = start;
    const matched = rule.match(this, start, end);
    if (matched !== undefined) this.#take(rule, matched);
  }

  mark(at: number): number {
    if (this.#confidenceMin > 1) return this.text.length;
    const code = this.text.charCodeAt(at);
    if (code === AT) {
      const email = findEmail(this.text, at, this.work);
      if (email !== undefined) this.#personal(email);
      return at + 1;
    }
    this.#numbers ??= new NumberReader(this.text, this.work, (found) => this.#personal(found));
    return code === COLON ? this.#numbers.colon(at) : this.#numbers.digit(at);
  }

  #isInOwnFinding({ group }: CompiledRule, start: number): boolean {
    const last = this.#lastFound?.get(group);
    return last !== undefined && start >= last.start && start < last.end;
  }

  #take(rule: CompiledRule, matched: Exclude<Matched, undefined>): void {
    const found = typeof matched === "number" ? [] : foundIn(matched);
    for (const one of found) this.#record(rule, one);
    const last = found.at(-1);
    if (typeof matched === "number") this.#skipBefore(rule.group, matched);
    else if ("found" in matched) this.#skipBefore(rule.group, matched.done);
    else if (last !== undefined && rule.level !== "secrets") this.#skipBefore(rule.group, last.end);
    else if (last !== undefined && !rule.remembers) {
      // Each rule reads a range only once, but many rules may read the same range.
      this.work.spend(last.end - last.start);
      this.#lastFound ??= new Map();
      this.#lastFound.set(rule.group, last);
    }
  }

  #record({ level }: CompiledRule, found: Finding): void {
    if (level === "secrets") this.#cover(found);
    else this.#personal({ confidence: CONFIDENCE[level], ...found });
  }

  #cover({ rule, start, end }: Finding): void {
    if (start >= this.#coveredFrom && end <= this.#coveredTo) {
      this.#rename({ rule, start, end });
      return;
    }
    this.#push({ rule, start, end, kind: "secret", confidence: 1 });
    if (end <= this.#coveredTo) return;
    this.#coveredFrom = start;
    this.#coveredTo = end;
    this.#coveredWordStart = this.#wordStart;
  }

  /** Of two words that begin the same finding, the longer one comes later and names it: `sk-ant-`, not `sk-`. */
  #rename({ rule, start, end }: Finding): void {
    const last = this.found.at(-1);
    if (last?.kind !== "secret" || last.start !== start || last.end !== end) return;
    if (this.#wordStart === start && this.#coveredWordStart === start)
      this.found[this.found.length - 1] = { ...last, rule };
  }

  #skipBefore(group: number, before: number): void {
    this.#nothingBefore ??= new Map();
    this.#nothingBefore.set(group, before);
  }

  #personal({ rule, start, end, confidence, context }: PiiFinding): void {
    if (confidence < this.#confidenceMin) return;
    this.#push({ rule, start, end, confidence, context, kind: "pii" });
  }

  #push(finding: SensitiveFinding): void {
    this.work.spend(STEPS_PER_FINDING);
    this.work.find();
    this.found.push(finding);
  }
}

function foundIn(matched: Exclude<Matched, number | undefined>): readonly Finding[] {
  if ("found" in matched) return matched.found;
  return "rule" in matched ? [matched] : matched;
}
