import { BLANK, isA, isOneOf, LETTER, LINE_END, QUOTE, runEnd, STOP, WORD } from "../views/characters.ts";
import { isBesideAccount, loginStyle } from "./login-words.ts";
import type { ValueStyle } from "./values.ts";

/** UTF-16 units. */
const GAP_CHARS_MAX = 16;
const VALUE_CHARS_MAX = 128;

/** A value that stands beside its name without `=` or `:` between them. */
export interface Stated {
  readonly start: number;
  /** Of a quoted value undefined: its quotation mark ends it. */
  readonly end?: number;
  readonly style: ValueStyle;
}

export interface Name {
  readonly from: number;
  readonly to: number;
  /** Behind its quotation mark, when it has one. */
  readonly at: number;
}

const VERBS = [
  ...["is", "was", "will be", "set to", "changed to", "reset to", "is now", "-", "–", "—", "→", "->"],
  ...["ist", "lautet", "est", "es", "é", "è"],
];
/** Behind a word of a script without blanks. */
export const JOINED_VERBS = "是为為は는은";
const VERBS_FIRST = `h${VERBS.map((verb) => verb.charAt(0)).join("")}`;
/** `was changed to`, `has been set to` */
const PASSIVE = /^(?:was|has been|is now) (?:set|reset|changed) to/;
const PASSIVE_CHARS_MAX = 32;
/** Behind a value in a sentence that goes on; behind others the value is one of its words. */
const CONJUNCTIONS: ReadonlySet<string> = new Set(words("and but for on in so please thanks with or"));

/** `The password is hunter2.`, `Password for ann: hunter2` */
export function told(text: string, { to, at }: Name): Stated | undefined {
  const word = blanksEnd(text, to);
  if (at === to && isOneOf(text, to, JOINED_VERBS)) return bare(text, blanksEnd(text, to + 1), "told");
  if (at !== to || word === to) return undefined;
  const owner = isOneOf(text, word, OWNER_FIRST)
    ? OWNER.exec(text.slice(word, word + OWNER_CHARS_MAX))?.[0]
    : undefined;
  const end = owner === undefined ? verbEnd(text, word) : word + owner.length;
  const value =
    end === -1 ? end : runEnd(text, end, owner === undefined ? BLANK : BLANK | LINE_END, end + GAP_CHARS_MAX);
  if (value === -1 || value === end) return undefined;
  if (isA(text, value, QUOTE)) return { start: value + 1, style: "quoted" };
  const stated = bare(text, value, "told");
  return stated?.end !== undefined && endsClause(text, stated.end) ? stated : undefined;
}

function verbEnd(text: string, at: number): number {
  if (!isOneOf(text, at, VERBS_FIRST)) return -1;
  const passive = PASSIVE.exec(text.slice(at, at + PASSIVE_CHARS_MAX))?.[0];
  const verb = passive ?? VERBS.findLast((one) => text.startsWith(one, at) && !isA(text, at + one.length, WORD));
  if (verb === undefined) return -1;
  const end = at + verb.length;
  return isOneOf(text, end, ":") ? end + 1 : end;
}

/** `for ann: `, `is generated for root@localhost: `, `FOR 'ann'@'host' = `. */
const OWNER =
  /^(?:(?:is|was|has been) (?:generated|set|created|changed) )?for (?:the )?[^\s:=]{1,64}(?: user)?(?: \([^()\r\n]{0,64}\))?(?::| ?=)/i;
const OWNER_CHARS_MAX = 192;
const OWNER_FIRST = "fFiIwWhH";

function endsClause(text: string, end: number): boolean {
  const next = blanksEnd(text, end);
  if (next === end || next >= text.length || !isA(text, next, LETTER)) return true;
  return CONJUNCTIONS.has(text.slice(next, runEnd(text, next, LETTER, next + GAP_CHARS_MAX)).toLowerCase());
}

/** `machine h login b password X`, in one line or in several. */
export function login(text: string, { from, to, at }: Name): Stated | undefined {
  const value = runEnd(text, to, BLANK | LINE_END, to + GAP_CHARS_MAX);
  const style = at === to && value > to ? loginStyle(text, from, to) : undefined;
  if (style === undefined)
    return at === to && value > to && isBesideAccount(text, from) ? lastOfClause(text, value) : undefined;
  return isA(text, value, QUOTE) ? { start: value + 1, style: "quoted" } : bare(text, value, style);
}

/** `user bob and password …` */
function lastOfClause(text: string, at: number): Stated | undefined {
  const stated = bare(text, at, "told");
  return stated?.end !== undefined && endsClause(text, stated.end) ? stated : undefined;
}

/** A word of the text, without the mark that ends its sentence. */
export function bare(text: string, start: number, style: ValueStyle): Stated | undefined {
  const limit = Math.min(text.length, start + VALUE_CHARS_MAX);
  let end = start;
  while (end < limit && !isA(text, end, BLANK | LINE_END | QUOTE | STOP)) end += 1;
  const isEnd = style === "told" && isOneOf(text, end - 1, ".!?)");
  const last = isEnd ? end - 1 : end;
  return last > start ? { start, end: last, style } : undefined;
}

export function blanksEnd(text: string, at: number): number {
  return runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
}
