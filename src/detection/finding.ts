/** Where something was found: offsets of the original text, in UTF-16 units, `end` exclusive. */
export interface Finding {
  /** A rule's name: a secret's format, or a kind of personal data in capitals. */
  readonly rule: string;
  readonly start: number;
  readonly end: number;
}

/** Of looking around a word: what was found, or that nothing is found that begins before an offset. */
export type Matched = Finding | readonly Finding[] | number | undefined;

/** In order, without overlaps: what touches the same characters becomes one finding under the first and longest one's rule. */
export function mergeFindings<Found extends Finding>(findings: readonly Found[]): readonly Found[] {
  if (isSettled(findings)) return findings;
  const merged: Found[] = [];
  let last: Found | undefined;
  for (const finding of inOrder(findings)) {
    if (last === undefined || finding.start >= last.end) {
      merged.push(finding);
      last = finding;
    } else if (finding.end > last.end) {
      last = finding.start === last.start ? finding : { ...last, end: finding.end };
      merged[merged.length - 1] = last;
    }
  }
  return merged;
}

/** A start and an index in one number: text and findings are too short to reach its 53 bits. */
const INDICES = 2 ** 24;

/** By start, and as they were found. Numbers are sorted many times as fast as objects. */
function* inOrder<Found extends Finding>(findings: readonly Found[]): Generator<Found> {
  const keys = Float64Array.from(findings, ({ start }, index) => start * INDICES + index).sort();
  for (const key of keys) {
    const finding = findings[key % INDICES];
    if (finding !== undefined) yield finding;
  }
}

/** `findings` must come from `mergeFindings`. The same string when there are none. */
export function replaceFindings<Found extends Finding>(
  text: string,
  findings: readonly Found[],
  replacement: (finding: Found) => string,
): string {
  if (findings.length === 0) return text;
  const parts: string[] = [];
  let from = 0;
  for (const finding of findings) {
    parts.push(text.slice(from, finding.start), replacement(finding));
    from = finding.end;
  }
  parts.push(text.slice(from));
  return parts.join("");
}

function isSettled(findings: readonly Finding[]): boolean {
  let end = 0;
  for (const finding of findings) {
    if (finding.start < end) return false;
    end = finding.end;
  }
  return true;
}

/**
 * How much of a text is hidden. `secrets`: credentials. `balanced`: personal data that its shape, checksum or context gives
 * away, too. `strict`: also what only may be personal data, such as private addresses and national telephone numbers.
 */
export type RedactionLevel = "off" | "secrets" | "balanced" | "strict";

export type ActiveLevel = Exclude<RedactionLevel, "off">;

export interface SensitiveFinding extends Finding {
  readonly kind: "secret" | "pii";
  /** 1 for secrets. */
  readonly confidence: number;
  /** The word beside it that says what it is. */
  readonly context?: string | undefined;
}
