/** The step from an array to any of its elements, written `[]`. */
export const element = Symbol("[]");

/** One or more steps of any kind, written `*`. */
export const wildcard = Symbol("*");

/** The step to a key that no pattern and no schema lists. */
export const otherKey = Symbol("other key");

/** A literal key, `[]` or `*`. The last two are symbols, which no key can equal. */
export type Segment = string | typeof element | typeof wildcard;

/** One step down in a value. */
export type Step = string | typeof element | typeof otherKey;

export interface FieldPattern {
  readonly text: string;
  readonly segments: readonly Segment[];
  /** Number of segments that are literal keys: the first measure of how specific a pattern is. */
  readonly literals: number;
  readonly hasWildcard: boolean;
}

const PATTERN_CHARS_MAX = 512;
const PATTERN_SEGMENTS_MAX = 64;

/**
 * Reads a field pattern: segments joined by `.`; `[]` after a segment (or at the very start) steps into the elements of an
 * array, as in `items[].email`, `matrix[][].x`, `[].name`; a segment `*` matches one or more steps, array steps included, and a
 * leading `*.` matches zero or more. Returns the error instead when the text is malformed.
 */
export function parseFieldPattern(text: string): FieldPattern | { readonly fault: string } {
  if (text.length > PATTERN_CHARS_MAX) return { fault: `longer than ${PATTERN_CHARS_MAX} characters` };
  const segments: Segment[] = [];
  for (const [index, part] of text.split(".").entries()) {
    const fault = readPart(part, index, segments);
    if (fault !== undefined) return { fault };
  }
  if (segments.length > PATTERN_SEGMENTS_MAX) return { fault: `more than ${PATTERN_SEGMENTS_MAX} segments` };
  const literals = segments.filter((segment) => typeof segment === "string").length;
  return { text, segments, literals, hasWildcard: segments.includes(wildcard) };
}

function readPart(part: string, index: number, segments: Segment[]): string | undefined {
  const bracket = part.indexOf("[");
  const name = bracket === -1 ? part : part.slice(0, bracket);
  const suffix = bracket === -1 ? "" : part.slice(bracket);
  if (name === "" && suffix === "") return "has an empty segment";
  if (name === "" && index > 0) return "has `.[]`; write `[]` right after the name, as in `items[].email`";
  if (suffix !== "[]".repeat(suffix.length / 2)) return "has brackets other than `[]`; `[]` means every element";
  if (name.includes("]")) return "has a `]` without `[`";
  if (name === "*" && suffix !== "") return "has `*[]`; `*` already reaches through arrays";
  if (name !== "*" && name.includes("*")) return "has a `*` inside a segment; a `*` must be a whole segment";
  if (name === "__proto__") return "names `__proto__`, which is never released";
  if (name !== "") segments.push(name === "*" ? wildcard : name);
  for (let at = 0; at < suffix.length; at += 2) segments.push(element);
  return undefined;
}

/** Returns the number of segments that match before the first step. A leading `*.` may match nothing. */
export function startPosition(pattern: FieldPattern): number {
  return pattern.segments[0] === wildcard && pattern.segments.length > 1 ? 1 : 0;
}

/** Returns the positions after one more step. A `*` matches one step or more, until the next segment matches. */
export function advance(pattern: FieldPattern, position: number, step: Step): readonly number[] {
  const stays = position > 0 && pattern.segments[position - 1] === wildcard;
  const segment = pattern.segments[position];
  const goesOn = segment === wildcard || segment === step;
  return [...(stays ? [position] : []), ...(goesOn ? [position + 1] : [])];
}

/** Returns, after each of these steps, whether the pattern has been matched completely. */
export function matchesAfter(
  pattern: FieldPattern,
  steps: readonly Step[],
  starts = [startPosition(pattern)],
): readonly boolean[] {
  let positions: readonly number[] = starts;
  return steps.map((step) => {
    positions = [...new Set(positions.flatMap((at) => advance(pattern, at, step)))];
    return positions.includes(pattern.segments.length);
  });
}

/** Joins a displayed path and a step: `items` and `[]` give `items[]`, `items[]` and `email` give `items[].email`. */
export function joinPath(path: string, segment: string): string {
  if (path === "" || segment === "[]") return path + segment;
  return `${path}.${segment}`;
}
