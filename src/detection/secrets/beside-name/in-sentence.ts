import { BLANK, endBefore, isA, isOneOf, LETTER, LINE_END, QUOTE, runEnd, WORD } from "../../views/characters.ts";
import { wordSet } from "../words.ts";
import { bare, blanksEnd, type Name, type Stated } from "./bare-word.ts";

/** UTF-16 units. */
const GAP_CHARS_MAX = 16;
const VALUE_CHARS_MAX = 128;

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
const CONJUNCTIONS = wordSet("and but for on in so please thanks with or");

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
  return owner === undefined ? lastOfClause(text, value) : (lastOfLine(text, value) ?? lastOfClause(text, value));
}

/** A word without blanks with which the line ends: commas and the like belong to it. */
function lastOfLine(text: string, at: number): Stated | undefined {
  const end = endBefore(text, at, BLANK | LINE_END | QUOTE, at + VALUE_CHARS_MAX);
  return end > at && (end >= text.length || isA(text, end, LINE_END)) ? { start: at, end, style: "told" } : undefined;
}

/** The word at `at`, when the sentence or a part of it ends there. */
export function lastOfClause(text: string, at: number): Stated | undefined {
  const stated = bare(text, at, "told");
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

/** `for ann: `, `for ann is `, `is generated for root@localhost: `, `FOR 'ann'@'host' = `. */
const OWNER =
  /^(?:(?:is|was|has been) (?:generated|set|created|changed) )?for (?:the )?[^\s:=]{1,64}(?: user)?(?: \([^()\r\n]{0,64}\))?(?::| ?=| is(?= ))/i;
const OWNER_CHARS_MAX = 192;
const OWNER_FIRST = "fFiIwWhH";

function endsClause(text: string, end: number): boolean {
  const next = blanksEnd(text, end);
  if (next === end || next >= text.length || !isA(text, next, LETTER)) return true;
  return CONJUNCTIONS.has(text.slice(next, runEnd(text, next, LETTER, next + GAP_CHARS_MAX)).toLowerCase());
}
