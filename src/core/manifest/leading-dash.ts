/**
 * Returns why a pattern does not keep `-` from the front of a string, or does not match the whole string; `undefined` when it
 * does both. Only patterns that begin with one plain element are understood: `^`, then a character, an escape or a class that
 * cannot be `-` and must occur.
 */
export function leadingDashFault(pattern: RegExp): string | undefined {
  const { source, flags } = pattern;
  if (flags.includes("g") || flags.includes("y"))
    return "must not have the flag g or y: its answer would depend on earlier ones";
  if (flags.includes("m")) return "must not have the flag m: ^ and $ would match at every line";
  if (!source.startsWith("^")) return "must begin with ^";
  if (!endsWithAnchor(source)) return "must end with $";
  if (hasTopLevelChoice(source, flags.includes("v")))
    return "must not have a | outside of a group: ^ would bind only the first choice";
  const first = firstElement(source.slice(1), flags);
  if (first === undefined) return "must begin with ^ and then one character or class, not a group, a lookahead or `.`";
  if (mayBeAbsent(source.slice(1 + first.length))) return "must not let its first element be absent (?, * or {0,})";
  if (new RegExp(`^(?:${first})`, flags).test("-")) return "must not let the text begin with -";
  return undefined;
}

function endsWithAnchor(source: string): boolean {
  let backslashes = 0;
  for (let at = source.length - 2; source[at] === "\\"; at -= 1) backslashes += 1;
  return source.endsWith("$") && backslashes % 2 === 0;
}

function hasTopLevelChoice(source: string, nestedClasses: boolean): boolean {
  let depth = 0;
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at];
    if (char === "\\") at += 1;
    else if (char === "[") at += classLength(source.slice(at), nestedClasses) - 1;
    else if (char === "(") depth += 1;
    else if (char === ")") depth -= 1;
    else if (char === "|" && depth === 0) return true;
  }
  return false;
}

/** Returns the length of the character class at the front of `source`. */
export function classLength(source: string, nestedClasses: boolean): number {
  let depth = 0;
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at];
    if (char === "\\") at += 1;
    else if (char === "[" && (depth === 0 || nestedClasses)) depth += 1;
    else if (char === "]") depth -= 1;
    if (depth === 0) return at + 1;
  }
  return source.length;
}

const SYNTAX = "^$.*+?()|{}]";

/** Returns the text of the first element; `undefined` when it is not a plain character, escape or class. */
function firstElement(source: string, flags: string): string | undefined {
  const [char = ""] = flags.includes("u") || flags.includes("v") ? source : source.split("", 1);
  if (char === "" || SYNTAX.includes(char)) return undefined;
  if (char === "\\") return firstEscape(source, flags.includes("u") || flags.includes("v"));
  if (char !== "[") return char;
  const text = source.slice(0, classLength(source, flags.includes("v")));
  // \q{…} holds whole strings, and one of them may begin with -.
  return text.includes("\\q") ? undefined : text;
}

const HEX = /^\\x[0-9a-fA-F]{2}/;
const UNICODE = /^\\u[0-9a-fA-F]{4}/;
const BRACED = /^\\(?:u|[pP])\{[^}]*\}/;
const CONTROL = /^\\c[A-Za-z]/;

function firstEscape(source: string, unicode: boolean): string | undefined {
  const kind = source[1] ?? "";
  const long =
    HEX.exec(source) ?? UNICODE.exec(source) ?? CONTROL.exec(source) ?? (unicode ? BRACED.exec(source) : null);
  if (long !== null) return long[0];
  // Word boundaries match no character; digits and names may be back references to an empty match.
  if ("bBkc0123456789".includes(kind)) return undefined;
  return source.slice(0, 2);
}

/** Returns whether the text after an element lets the element occur zero times. */
function mayBeAbsent(rest: string): boolean {
  if (rest.startsWith("?") || rest.startsWith("*")) return true;
  const least = /^\{(\d+)(?:,\d*)?\}/.exec(rest)?.[1];
  return least !== undefined && Number(least) === 0;
}
