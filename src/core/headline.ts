import { isTable } from "./json.ts";
import type { Headline, Json } from "./types.ts";

/** Maximum length of `what`, in UTF-16 units. */
export const WHAT_CHARACTERS_MAX = 240;
/** Maximum length of one member's value. Longer values follow the others, so that they do not displace them. */
const VALUE_CHARACTERS_MAX = 60;
const DEPTH_MAX = 6;
/** The part of a `\u{…}` escape that remains at the end of a text that was cut inside it. */
const CUT_ESCAPE = /\\+(?:u(?:\{[0-9a-f]{0,6})?)?$/;

/** Runs of spaces, tabs and line ends, which could push a text out of what is shown. */
const GAPS = / {4,}|(?<!\\)(?:\\u\{9\}){4,}|(?<!\\)\\u\{a\}(?:(?: |\\u\{9\}|\\u\{d\})*\\u\{a\}){2,}/g;

/**
 * Cuts a shown text, between its characters and escapes, and shortens its gaps. Returns it with the number of characters that were
 * cut off.
 */
export function cutText(whole: string, charactersMax: number): { readonly text: string; readonly left: number } {
  const text = whole.replace(GAPS, (gap) => (gap.startsWith(" ") ? "   " : gap.slice(0, gap.indexOf("}") + 1)));
  if (text.length <= charactersMax) return { text, left: 0 };
  const kept = text
    .slice(0, charactersMax)
    .replace(/[\ud800-\udbff]$/, "")
    .replace(CUT_ESCAPE, "");
  return { text: kept, left: text.length - kept.length };
}

/** Returns a text of the view; of one that the view shortens, its start. */
export function shownText(value: Json | undefined): string {
  const shortened = shortenedIn(value);
  if (shortened !== undefined) return shortened;
  return typeof value === "string" ? value : compact(value ?? null, WHAT_CHARACTERS_MAX);
}

/** Returns the start of a text that the view shortens; undefined for every other value. */
function shortenedIn(value: Json | undefined): string | undefined {
  if (!isTable(value) || value["shortened"] !== true) return undefined;
  return typeof value["begins"] === "string" && Object.keys(value).length === 5 ? value["begins"] : undefined;
}

/** Returns the headline of a call that is described by named values: `to: "ann", count: 2`. */
export function membersHeadline(value: Json, noun = "argument", charactersMax = WHAT_CHARACTERS_MAX): Headline {
  if (!isTable(value)) return { what: compact(value, charactersMax) };
  const all = Object.entries(value).map(([name, member]) => {
    const { text, isCut } = compactMember(member as Json);
    return { text: `${memberName(name)}: ${text}`, isCut };
  });
  const parts = [...all.filter(({ isCut }) => !isCut), ...all.filter(({ isCut }) => isCut)];
  let what = "";
  let shown = 0;
  for (const { text } of parts) {
    const next = what === "" ? cutText(text, charactersMax).text : `${what}, ${text}`;
    if (next.length > charactersMax) break;
    what = next;
    shown += 1;
  }
  return { what, ...moreOf(parts.length - shown, noun) };
}

/** Returns the headline of a question to an approver; undefined for arguments of another form. */
export function questionHeadline(value: Json): Headline | undefined {
  if (!isTable(value)) return undefined;
  const { question, context, choices, ...others } = value;
  if (Object.keys(others).length > 0) return undefined;
  if (typeof question !== "string" && shortenedIn(question) === undefined) return undefined;
  const { text, left } = cutText(shownText(question), WHAT_CHARACTERS_MAX);
  return { does: "Asks", what: `${text}${left > 0 ? "…" : ""}` };
}

/** Says how much is left out; nothing when nothing is. */
export function moreOf(count: number, noun: string): Pick<Headline, "more"> {
  return count > 0 ? { more: `${count} more ${noun}${count === 1 ? "" : "s"}` } : {};
}

function compactMember(value: Json): { readonly text: string; readonly isCut: boolean } {
  const text = compact(value, VALUE_CHARACTERS_MAX);
  return { text, isCut: text.endsWith("…") };
}

/** Returns JSON on one line. A value that is cut ends with `…` outside its quotes. */
function compact(value: Json, charactersMax: number, depth = 0): string {
  const shortened = shortenedIn(value);
  if (shortened !== undefined) return `${quotedText(cutText(shortened, charactersMax).text)}…`;
  if (typeof value === "string") {
    const { text, left } = cutText(value, charactersMax);
    return `${quotedText(text)}${left > 0 ? "…" : ""}`;
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (depth >= DEPTH_MAX) return `${open}…`;
  let text = "";
  for (const [name, item] of Object.entries(value)) {
    const left = charactersMax - text.length;
    if (text.endsWith("…")) return `${open}${text}`;
    if (left <= 0) return `${open}${text}, …`;
    const label = Array.isArray(value) ? "" : `${memberName(name)}: `;
    text += `${text === "" ? "" : ", "}${label}${compact(item as Json, left, depth + 1)}`;
  }
  return `${open}${text}${close}`;
}

/** Returns a text of the view in quotes: no text can look like what follows it. */
export function quotedText(text: string): string {
  return `"${text.replaceAll('"', '\\"')}"`;
}

/** Returns a member's name; in quotes when it could look like something else. */
export function memberName(name: string): string {
  if (/^[\w.-]{1,64}$/.test(name)) return name;
  const { text, left } = cutText(name, VALUE_CHARACTERS_MAX);
  return `${quotedText(text)}${left > 0 ? "…" : ""}`;
}

const BARE_WORD = /^[\w@%+=:,./~^-]+$/;

/** Returns a command's words in the syntax of a shell: words with special characters are in single quotes. */
export function quotedCommand(words: readonly string[]): string {
  return words.map((word) => (BARE_WORD.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

/** Returns a headline as one line of text, for displays without forms of their own. */
export function headlineText({ does, what, more }: { [Name in keyof Headline]: Headline[Name] | undefined }): string {
  return `${does === undefined ? "" : `${does} `}${what ?? ""}${more === undefined ? "" : ` (${more})`}`;
}
