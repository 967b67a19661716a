import { z } from "zod";
import { linearTest } from "../pattern/match.ts";
import { RFC3339 } from "../schema/text-checks.ts";

/** A test of a text whose time is linear in the length of the text. */
export interface TextTest {
  readonly pattern: RegExp;
  readonly test: (text: string) => boolean;
}

const PATTERN_CHARACTERS_MAX = 4_096;

/**
 * Returns the test of a `pattern`. As JSON Schema recommends, it is a Unicode pattern; one that is only valid without the flag,
 * such as `^[\w\-]+\-$`, is read without it.
 *
 * @throws {Error} for a pattern that is not valid, or that cannot be matched in linear time
 */
export function patternTest(source: string): TextTest {
  if (source.length > PATTERN_CHARACTERS_MAX) throw new Error(`is longer than ${PATTERN_CHARACTERS_MAX} characters`);
  let pattern: RegExp;
  try {
    pattern = new RegExp(source, "u");
  } catch {
    pattern = new RegExp(source);
  }
  return { pattern, test: linearTest(pattern) };
}

const { regexes } = z;

/** A URI holds no whitespace, quotes or brackets, and `%` only before two hexadecimal digits. */
const URI_CHARACTERS = String.raw`(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*`;

/** The formats that are checked, with their patterns. */
const CHECKED: Readonly<Record<string, RegExp>> = {
  date: regexes.date,
  time: RFC3339.time,
  "date-time": RFC3339.dateTime,
  duration: regexes.duration,
  email: regexes.email,
  hostname: regexes.hostname,
  ipv4: regexes.ipv4,
  ipv6: regexes.ipv6,
  uuid: regexes.guid,
  uri: new RegExp(`^[A-Za-z][A-Za-z0-9+.-]*:${URI_CHARACTERS}$`),
  "uri-reference": new RegExp(`^${URI_CHARACTERS}$`),
};

/** Formats that say what a value is for and are not checked: those of OpenAPI, and those that few services agree on. */
const NOTED = [
  ...["int32", "int64", "float", "double", "byte", "binary", "password"],
  ...["idn-email", "idn-hostname", "iri", "iri-reference", "uri-template", "json-pointer", "relative-json-pointer"],
  "regex",
] as const;

export const FORMATS: readonly string[] = [...Object.keys(CHECKED), ...NOTED];

/** Returns the test of a format; undefined for a format that is not checked. */
export function formatTest(format: string): TextTest | undefined {
  const pattern = Object.hasOwn(CHECKED, format) ? CHECKED[format] : undefined;
  return pattern === undefined ? undefined : patternTestOf(pattern);
}

const formats = new Map<RegExp, TextTest>();

function patternTestOf(pattern: RegExp): TextTest {
  const known = formats.get(pattern) ?? { pattern, test: linearTest(pattern) };
  formats.set(pattern, known);
  return known;
}
