import { type Finding, mergeFindings, replaceFindings } from "./finding.ts";
import { scanPii } from "./pii/pii.ts";
import { scanSecrets } from "./secrets/scan.ts";
import { decodedView } from "./views/decoded-view.ts";
import { encodedSegments } from "./views/encoded-segments.ts";
import { inOriginal } from "./views/view.ts";

/**
 * How much of a text is hidden. `secrets`: credentials. `balanced`: personal data that its shape, checksum or context gives
 * away, too. `strict`: also what only may be personal data, such as private addresses and national telephone numbers.
 */
export type RedactionLevel = "off" | "secrets" | "balanced" | "strict";

export interface SensitiveFinding extends Finding {
  readonly kind: "secret" | "pii";
  /** 1 for secrets. */
  readonly confidence: number;
  /** The word beside it that says what it is. */
  readonly context?: string | undefined;
}

/** Base64 of base64 is read; what lies deeper is not. */
const ENCODINGS_MAX = 2;

const CONFIDENCE_MIN = { balanced: 0.5, strict: 0.2 } as const;

export const REDACTED = "[REDACTED]";

/** All that is sensitive, in order, without overlaps, in the text's own offsets. Linear, whatever the text. */
export function findSensitive(text: string, level: RedactionLevel): readonly SensitiveFinding[] {
  return level === "off" ? [] : mergeFindings(findInViews(text, level, ENCODINGS_MAX));
}

/** The very same string when nothing is found. */
export function hideFindings(text: string, findings: readonly SensitiveFinding[]): string {
  return replaceFindings(text, findings, replacementOf);
}

/** `[REDACTED]` for a secret, `[REDACTED:EMAIL]` for personal data. */
export function replacementOf({ kind, rule }: SensitiveFinding): string {
  return kind === "secret" ? REDACTED : `[REDACTED:${rule}]`;
}

type ActiveLevel = Exclude<RedactionLevel, "off">;

function findInViews(text: string, level: ActiveLevel, encodings: number): readonly SensitiveFinding[] {
  const found = findPlain(text, level);
  const view = decodedView(text);
  if (view !== undefined) {
    for (const finding of findPlain(view.text, level)) found.push(inOriginal(view, finding));
  }
  if (encodings === 0) return found;
  for (const segment of encodedSegments(view?.text ?? text)) {
    const [first] = findInViews(segment.text, level, encodings - 1);
    if (first === undefined) continue;
    const whole = { ...first, start: segment.start, end: segment.end };
    found.push(view === undefined ? whole : inOriginal(view, whole));
  }
  return found;
}

function findPlain(text: string, level: ActiveLevel): SensitiveFinding[] {
  const secrets = scanSecrets(text).map((finding) => ({ ...finding, kind: "secret" as const, confidence: 1 }));
  if (level === "secrets") return secrets;
  const least = CONFIDENCE_MIN[level];
  const personal = scanPii(text).filter(({ confidence }) => confidence >= least);
  return [...secrets, ...personal.map((finding) => ({ ...finding, kind: "pii" as const }))];
}
