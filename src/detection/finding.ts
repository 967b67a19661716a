/** A match in a text. Offsets refer to the original text, in UTF-16 units; `end` is exclusive. */
export interface Finding {
  /** Name of the rule: the format of a secret, or a kind of personal data in capitals. */
  readonly rule: string;
  readonly start: number;
  readonly end: number;
}

/** Findings of a window, and the offset before which the rule has no others. */
export interface Searched {
  readonly found: readonly Finding[];
  readonly done: number;
}

/** Result of matching around a word: findings, or an offset before which no finding can start. */
export type Matched = Finding | readonly Finding[] | Searched | number | undefined;

/** Sorts findings and merges overlapping ones into one finding, with the rule of the first and longest. */
export function mergeFindings<Found extends Finding>(findings: readonly Found[]): readonly Found[] {
  if (isOrdered(findings)) return findings;
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

/** Multiplier that packs a start and an index into one number; texts and findings are too small to exceed its 53 bits. */
const INDICES = 2 ** 24;

/**
 * Yields findings by start, and in their original order for the same start. Sorting numbers is many times faster than sorting
 * objects.
 */
function* inOrder<Found extends Finding>(findings: readonly Found[]): Generator<Found> {
  const keys = Float64Array.from(findings, ({ start }, index) => start * INDICES + index).sort();
  for (const key of keys) {
    const finding = findings[key % INDICES];
    if (finding !== undefined) yield finding;
  }
}

/** Replaces findings that `mergeFindings` returned. Returns the same string when there are none. */
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

function isOrdered(findings: readonly Finding[]): boolean {
  let end = 0;
  for (const finding of findings) {
    if (finding.start < end) return false;
    end = finding.end;
  }
  return true;
}

/**
 * Redaction level of a text.
 * - `secrets`: credentials.
 * - `balanced`: also personal data that is identified by its shape, checksum or context.
 * - `strict`: also text that may be personal data, such as private addresses and national telephone numbers.
 */
export type RedactionLevel = "off" | "secrets" | "balanced" | "strict";

export type ActiveLevel = Exclude<RedactionLevel, "off">;

export interface SensitiveFinding extends Finding {
  readonly kind: "secret" | "pii";
  readonly confidence: number;
  /** The nearby word that identifies the finding. */
  readonly context?: string | undefined;
}
