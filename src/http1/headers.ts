/** Characters of a method or of a header's name (RFC 9110, 5.6.2). */
export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Anything but tabs, visible characters and bytes above 0x7f. */
const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** Longest value, and number of names, whose line is kept. */
const KEPT_CHARACTERS_MAX = 64;
const KEPT_NAMES_MAX = 128;
/** The last line of each name: most headers always have the same value, which needs no second check. */
const kept = new Map<string, { readonly value: string; readonly line: string }>();

/** Returns the line of a header; undefined when a character could end the line or the name. */
export function headerLine(name: string, value: string): string | undefined {
  const last = kept.get(name);
  if (last?.value === value) return last.line;
  if (INVALID_VALUE.test(value) || !TOKEN.test(name)) return undefined;
  const line = `${name}: ${value}\r\n`;
  const isKept = value.length <= KEPT_CHARACTERS_MAX && (last !== undefined || kept.size < KEPT_NAMES_MAX);
  if (isKept) kept.set(name, { value, line });
  return line;
}

/** Headers of which the first counts when there are several. Others are joined. */
const FIRST_COUNTS: ReadonlySet<string> = new Set([
  ...["age", "authorization", "content-length", "content-type", "etag", "expires", "from", "host"],
  ...["if-modified-since", "if-unmodified-since", "last-modified", "location", "max-forwards"],
  ...["proxy-authorization", "referer", "retry-after", "server", "user-agent"],
]);

type Headers = Record<string, string | string[] | undefined>;

/** Adds headers, given as names and values in turn, to an empty object: by lower-case name, repeated ones as node has them. */
export function addHeaders(
  fields: readonly string[],
  headers: Headers,
  lowerCaseOf: (name: string) => string,
): Headers {
  for (let at = 0; at < fields.length; at += 2) {
    const name = lowerCaseOf(fields[at] ?? "");
    const value = fields[at + 1] ?? "";
    const before = Object.hasOwn(headers, name) ? headers[name] : undefined;
    if (name === "set-cookie") headers[name] = [...(before ?? []), value];
    else if (before === undefined) headers[name] = value;
    else if (!FIRST_COUNTS.has(name)) headers[name] = `${String(before)}${name === "cookie" ? "; " : ", "}${value}`;
  }
  return headers;
}

/** Removes white space from the end of a value: llhttp reports it. */
export function withoutEndSpace(value: string): string {
  let end = value.length;
  while (end > 0 && isSpaceOrTab(value.charCodeAt(end - 1))) end -= 1;
  return end === value.length ? value : value.slice(0, end);
}

function isSpaceOrTab(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
