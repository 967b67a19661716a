import { TooLarge, Work } from "./bounds.ts";
import {
  type ActiveLevel,
  mergeFindings,
  type RedactionLevel,
  replaceFindings,
  type SensitiveFinding,
} from "./finding.ts";
import { scanPlain } from "./plain-scan.ts";
import { decodedView } from "./views/decoded-view.ts";
import { type EncodedSegment, encodedSegments } from "./views/encoded-segments.ts";
import { inOriginal } from "./views/view.ts";

/** Length of the shortest text that any rule matches: `pw=abc`, `a@b.co`. UTF-16 units. */
const CHARS_MIN = 6;

export const REDACTED = "[REDACTED]";

/**
 * Returns all sensitive ranges in order and without overlaps, as offsets in the text. Linear for any text.
 *
 * @throws {TooLarge} when the scan exceeds the budget of `work`
 */
export function findSensitive(
  text: string,
  level: RedactionLevel,
  work = new Work(text.length),
): readonly SensitiveFinding[] {
  if (level === "off" || text.length < CHARS_MIN) return NOTHING;
  const found = findInViews(text, level, work);
  return found.length < 2 ? found : mergeFindings(found);
}

/**
 * Same as `findSensitive` for a single text. When the scan exceeds its budget, returns one finding that covers the whole text.
 */
export function findOrWhole(text: string, level: RedactionLevel): readonly SensitiveFinding[] {
  try {
    return findSensitive(text, level);
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    return [{ rule: "too-large", kind: "secret", confidence: 1, start: 0, end: text.length }];
  }
}

/** Replaces the findings. Returns the same string when there are none. */
export function hideFindings(text: string, findings: readonly SensitiveFinding[]): string {
  return replaceFindings(text, findings, replacementOf);
}

/** Returns `[REDACTED]` for a secret, `[REDACTED:EMAIL]` for personal data. */
export function replacementOf({ kind, rule }: SensitiveFinding): string {
  return kind === "secret" ? REDACTED : `[REDACTED:${rule}]`;
}

const NOTHING: readonly SensitiveFinding[] = [];
const NO_SEGMENTS: readonly EncodedSegment[] = [];

function findInViews(text: string, level: ActiveLevel, work: Work): readonly SensitiveFinding[] {
  if (text.length < CHARS_MIN) return NOTHING;
  const plain = scanPlain(text, level, work);
  const view = decodedView(text, work);
  const decoded = view === undefined ? NOTHING : scanPlain(view.text, level, work);
  const segments = work.encodings === 0 ? NO_SEGMENTS : encodedSegments(view?.text ?? text, work);
  if (decoded.length === 0 && segments.length === 0) return plain;
  const found = [...plain];
  if (view !== undefined) for (const finding of decoded) found.push(inOriginal(view, finding));
  for (const segment of segments) {
    work.encodings -= 1;
    const [first] = findInViews(segment.text, level, work);
    work.encodings += 1;
    if (first === undefined) continue;
    const whole = { ...first, start: segment.start, end: segment.end };
    found.push(view === undefined ? whole : inOriginal(view, whole));
  }
  return found;
}
