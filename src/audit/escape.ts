/** Maximum characters of an unknown tool's name in the log. */
const NAME_CHARACTERS_MAX = 128;

/** One character class without repetition: matching is linear, so the regex engine cannot exceed a limit. */
const BEYOND_PLAIN_ASCII = /[^\x20-\x7e]/;

/**
 * Matches every character that is not a letter, mark, number, punctuation, symbol or plain space: controls, line
 * separators, bidi and other format characters, lone surrogates, private-use and unassigned code points. Also matches
 * characters of the allowed kinds that are invisible (`DI`: fillers, joiners, variation selectors, tags). A list of
 * dangerous characters would miss those of the next Unicode version.
 */
const MISLEADING = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|\p{DI}/gu;

/**
 * Escapes JSON text so that it is one line without characters that can mislead a reader. The parsed value stays the
 * same: outside strings, `JSON.stringify` writes only plain ASCII; inside strings, a `\u` escape represents the
 * character itself.
 */
export function escapeJson(json: string): string {
  return isPlainAscii(json) ? json : json.replace(MISLEADING, escapeUnits);
}

/** Escapes any text to one line in the same way. JSON text contains no control characters; other text may. */
export function escapeLine(text: string): string {
  return escapeJson(text.replace(/[\x00-\x1f]/g, escapeUnits));
}

/**
 * Returns true when the text is plain ASCII: it then has as many bytes as characters, a test ten times faster than a
 * search. Of the ASCII controls, `JSON.stringify` leaves only DEL unescaped.
 */
function isPlainAscii(json: string): boolean {
  return Buffer.byteLength(json) === json.length && !json.includes("\x7f");
}

/**
 * Escapes an untrusted name to plain ASCII, so that look-alike characters become visible. Doubles backslashes, so that
 * a literal `\u…` in the name is not mistaken for an escape. Returns at most `charactersMax` characters and never cuts
 * an escape in two.
 */
export function escapeName(text: string, charactersMax: number = NAME_CHARACTERS_MAX): string {
  let name = "";
  for (let at = 0; at < text.length; at += 1) {
    const next = escapeUnit(text.charAt(at));
    if (name.length + next.length > charactersMax) return name;
    name += next;
  }
  return name;
}

function escapeUnit(unit: string): string {
  if (unit === "\\") return "\\\\";
  return BEYOND_PLAIN_ASCII.test(unit) ? escapeUnits(unit) : unit;
}

function escapeUnits(character: string): string {
  let escaped = "";
  for (let at = 0; at < character.length; at += 1) {
    escaped += `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`;
  }
  return escaped;
}
