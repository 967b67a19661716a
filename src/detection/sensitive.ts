import { TooLarge, Work } from "./bounds.ts";
import {
  type ActiveLevel,
  type Finding,
  mergeFindings,
  type RedactionLevel,
  replaceFindings,
  type SensitiveFinding,
} from "./finding.ts";
import type { DetectorRule } from "./rules/rule.ts";
import { DETECTOR_RULES } from "./rules/rules.ts";
import { RuleSet } from "./scan.ts";
import { decodedView, inOriginal } from "./views/decoded-view.ts";
import { type EncodedSegment, encodedSegments } from "./views/encoded-segments.ts";

/** Length of the shortest text that any rule matches: `pw=abc`, `a@b.co`. UTF-16 units. */
const CHARS_MIN = 6;

export const REDACTED = "[REDACTED]";

const NOTHING: readonly SensitiveFinding[] = [];
const NO_SEGMENTS: readonly EncodedSegment[] = [];

/** Finds secrets and personal data by rules, in a text and in what it encodes. */
export class Detector {
  readonly #rules: RuleSet;

  /** @param rules - of rules with the same anchor, the first is applied first */
  constructor(rules: readonly DetectorRule[]) {
    this.#rules = new RuleSet(rules);
  }

  /**
   * Returns all sensitive ranges in order and without overlaps, as offsets in the text. Linear for any text.
   *
   * @throws {TooLarge} when the scan exceeds the budget of `work`
   */
  find(text: string, level: RedactionLevel, work = new Work(text.length)): readonly SensitiveFinding[] {
    if (level === "off" || text.length < CHARS_MIN) return NOTHING;
    const found = this.#findInViews(text, level, work);
    return found.length < 2 ? found : mergeFindings(found);
  }

  /** Same as `find` for a single text. When the scan exceeds its budget, returns one finding that covers the whole text. */
  findOrWhole(text: string, level: RedactionLevel): readonly SensitiveFinding[] {
    try {
      return this.find(text, level);
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      return [{ rule: "too-large", kind: "secret", confidence: 1, start: 0, end: text.length }];
    }
  }

  /**
   * Replaces each secret with `[REDACTED]`, or the whole text when it is too large to be scanned. Returns the same string when
   * there is none. Findings contain no text.
   */
  filterSecrets(text: string): { readonly text: string; readonly findings: readonly Finding[] } {
    const findings = this.findOrWhole(text, "secrets");
    return { text: hideFindings(text, findings), findings };
  }

  #findInViews(text: string, level: ActiveLevel, work: Work): readonly SensitiveFinding[] {
    if (text.length < CHARS_MIN) return NOTHING;
    const plain = this.#rules.scan(text, level, work);
    const view = decodedView(text, work);
    const decoded = view === undefined ? NOTHING : this.#rules.scan(view.text, level, work);
    const segments = work.encodings === 0 ? NO_SEGMENTS : encodedSegments(view?.text ?? text, work);
    if (decoded.length === 0 && segments.length === 0) return plain;
    const found = [...plain];
    if (view !== undefined) for (const finding of decoded) found.push(inOriginal(view, finding));
    for (const segment of segments) {
      work.encodings -= 1;
      const [first] = this.#findInViews(segment.text, level, work);
      work.encodings += 1;
      if (first === undefined) continue;
      const whole = { ...first, start: segment.start, end: segment.end };
      found.push(view === undefined ? whole : inOriginal(view, whole));
    }
    return found;
  }
}

/** The detector with the built-in rules alone. */
export const DETECTOR = new Detector(Object.values(DETECTOR_RULES).flat());

/** Uses only the built-in rules. */
export function findSensitive(text: string, level: RedactionLevel, work?: Work): readonly SensitiveFinding[] {
  return DETECTOR.find(text, level, work);
}

/** Uses only the built-in rules. */
export function filterSecrets(text: string): { readonly text: string; readonly findings: readonly Finding[] } {
  return DETECTOR.filterSecrets(text);
}

export function hideFindings(text: string, findings: readonly SensitiveFinding[]): string {
  return replaceFindings(text, findings, replacementOf);
}

/** Returns `[REDACTED]` for a secret, `[REDACTED:EMAIL]` for personal data. */
export function replacementOf({ kind, rule }: SensitiveFinding): string {
  return kind === "secret" ? REDACTED : `[REDACTED:${rule}]`;
}
