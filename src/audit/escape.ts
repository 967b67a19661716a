/** Characters of an unknown tool's name that stand in the log. */
const NAME_CHARACTERS_MAX = 128;

/** One class, no repetition: linear, so the engine cannot give up on it. */
const BEYOND_PLAIN_ASCII = /[^\x20-\x7e]/;

/**
 * Whatever is not a letter, mark, number, punctuation, symbol or the plain space: controls, line separators, bidi and
 * other format characters, lone surrogates, private and unassigned code points. And what is one of these but invisible
 * (`DI`: fillers, joiners, variation selectors, tags). A list of the dangerous ones would miss the next Unicode version.
 */
const MISLEADING = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|\p{DI}/gu;

/**
 * JSON text on one line, in which no character can mislead a reader. The parsed value stays the same: outside of
 * strings `JSON.stringify` writes plain ASCII only, and inside a `\u` escape stands for the character itself.
 */
export function escapeJson(json: string): string {
  return isPlainAscii(json) ? json : json.replace(MISLEADING, escapeUnits);
}

/** As many bytes as characters is ASCII, found ten times faster than by a search; of its controls `JSON.stringify` leaves DEL alone. */
function isPlainAscii(json: string): boolean {
  return Buffer.byteLength(json) === json.length && !json.includes("\x7f");
}

/**
 * A name that somebody made up, in plain ASCII, so that look-alike letters show. A backslash is doubled, so that a
 * spelled-out escape is not taken for a real one. At most `charactersMax` characters, no escape cut in two.
 */
export function escapeName(text: string, charactersMax: number = NAME_CHARACTERS_MAX): string {
  let name = "";
  for (let at = 0; at < text.length; at += 1) {
    const next = escapeUnit(text.charAt(at));
    if (name.length + next.length > charactersMax) {
      return name;
    }
    name += next;
  }
  return name;
}

function escapeUnit(unit: string): string {
  if (unit === "\\") {
    return "\\\\";
  }
  return BEYOND_PLAIN_ASCII.test(unit) ? escapeUnits(unit) : unit;
}

function escapeUnits(character: string): string {
  let escaped = "";
  for (let at = 0; at < character.length; at += 1) {
    escaped += `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`;
  }
  return escaped;
}
