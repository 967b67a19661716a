/**
 * Returns the decoded segments of a request target's path: without query, and without scheme and host when the target is a whole
 * URL. Undefined for a segment with an invalid escape. A decoded segment may hold a slash: it is no separator.
 */
export function segmentsOf(target: string): readonly (string | undefined)[] {
  const path = target.replace(/^[a-z]{1,8}:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
  return path.split("/").map(decoded);
}

function decoded(segment: string): string | undefined {
  try {
    return segment.includes("%") ? decodeURIComponent(segment) : segment;
  } catch {
    return undefined;
  }
}
