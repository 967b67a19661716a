import { UNKNOWN } from "./words.ts";

/** The arguments of a call of sed. */
interface SedCall {
  /** Files that it reads, or rewrites with `inPlace`. */
  readonly files: readonly string[];
  readonly inPlace: boolean;
  /** Paths of backup copies that are written to another folder. */
  readonly copies: readonly string[];
  /** True when every command of its script only prints or edits text. */
  readonly isPlain: boolean;
}

const SED_LONGS =
  /^--(?:quiet|silent|regexp-extended|separate|null-data|zero-terminated|posix|debug|sandbox|follow-symlinks|binary|unbuffered|help|version)$/;

export function readSed(args: readonly string[]): SedCall {
  const scripts: string[] = [];
  const operands: string[] = [];
  const copies: string[] = [];
  let inPlace = false;
  let isKnown = true;
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    const [, name = "", equals, own = ""] = /^--([a-z-]*)(=?)(.*)$/s.exec(arg) ?? [];
    if (arg === "--") {
      operands.push(...args.slice(at + 1));
      break;
    }
    if (!arg.startsWith("-") || arg === "-") operands.push(arg);
    else if (arg.startsWith("--")) {
      if (name !== "" && "expression".startsWith(name)) scripts.push(equals === "" ? (args[++at] ?? "") : own);
      else if (name.length > 2 && "in-place".startsWith(name)) {
        inPlace = true;
        copies.push(own);
      } else isKnown &&= SED_LONGS.test(arg);
    } else {
      const [, letters = "", last = "", value = ""] = /^-([nErszub]*)(.?)(.*)$/s.exec(arg) ?? [];
      if (last === "e") scripts.push(value || (args[++at] ?? ""));
      else if (last === "i") {
        inPlace = true;
        copies.push(value);
      } else if (last === "l") at += value === "" ? 1 : 0;
      else isKnown &&= last === "" && letters !== "";
    }
  }
  if (scripts.length === 0) scripts.push(...operands.splice(0, 1));
  const isPlain = isKnown && !args.some((arg) => arg.startsWith(UNKNOWN)) && scripts.every(isPlainSed);
  return { files: operands, inPlace, copies: copies.filter((copy) => copy.includes("/")), isPlain };
}

/** Matches brackets in a pattern: a first `]` and those of `[:alpha:]` do not end them. */
const BRACKET = String.raw`\[(?:\^?\]|\^(?!\])|(?![\^\]]))(?:\[:[a-z]+:\]|[^\]\n[]|\[(?![:.=]))*\]`;
/** Match a pattern and a text up to the delimiter, which a group with this name matched before. */
const patternUpTo = (mark: string) => String.raw`(?:(?!${mark})(?:\\[^]|${BRACKET}|[^\\\n[]))*${mark}`;
const textUpTo = (mark: string) => String.raw`(?:(?!${mark})(?:\\[^]|[^\\]))*${mark}`;

/** Parts of addresses: numbers, `$`, `/pattern/`, `\cpatternc`, ranges and `!`. */
const ADDRESS = [
  String.raw`[0-9$,~+! \n;]`,
  String.raw`/${patternUpTo("/")}[IM]*`,
  String.raw`\\(?<c>[^\\\n])${patternUpTo(String.raw`\k<c>`)}[IM]*`,
].join("|");

/** Commands that only print or edit: none reads or writes files or starts programs. */
const PLAIN_COMMAND = [
  String.raw`[\s{};dDgGhHlnNpPqQxzF=][0-9 ]*`,
  // A label or a branch, and a comment.
  String.raw`[:btT][ \t]*[^\s;}]*`,
  String.raw`#[^\n]*`,
  // The text of these commands may continue on the next line.
  String.raw`[aic][^\n]*$`,
  // `s/pattern/text/flags` without the flags `e` and `w`, and `y/abc/xyz/`.
  String.raw`s(?<s>[^\\\n])${patternUpTo(String.raw`\k<s>`)}${textUpTo(String.raw`\k<s>`)}[gpiImM0-9]*(?![a-zA-Z0-9])`,
  String.raw`y(?<y>[^\\\n])${textUpTo(String.raw`\k<y>`)}${textUpTo(String.raw`\k<y>`)}(?![a-zA-Z0-9])`,
].join("|");

/** Matches the next command of a script when it is plain. */
const PLAIN_SED = new RegExp(`(?:${ADDRESS})*(?:${PLAIN_COMMAND})`, "y");

function isPlainSed(script: string): boolean {
  if (script.includes(UNKNOWN)) return false;
  PLAIN_SED.lastIndex = 0;
  while (PLAIN_SED.lastIndex < script.length) if (!PLAIN_SED.test(script)) return false;
  return true;
}

const BRACKETS_MAX = 4;
/** Matches text that may start programs, read files or call functions by name, wherever it appears. */
const AWK_ESCAPES = /system|getline|@|\\\n/;

/**
 * Returns whether the arguments contain an awk program that only prints. A redirection or a pipe follows a `print`, so `>` and `|`
 * are searched for only after the first `print`. They may be in strings when the text contains no slash or backslash.
 */
export function awkIsPlain(args: readonly string[]): boolean {
  let at = 0;
  for (; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (/^(?:-[Fv]|--(?:field-separator|assign))$/.test(arg)) at += 1;
    else if (arg === "--") at += 1;
    else if (!/^(?:-[Fv].|--(?:field-separator|assign)=|--(?:posix|csv|version|help|traditional)$)/.test(arg)) break;
    if (arg === "--") break;
  }
  const text = args[at] ?? "";
  // A word that may be a glob is replaced by the names of files.
  if (/^[^\s{}"'$]*[*?[][^\s{}"'$]*$/.test(text)) return false;
  if (text.includes(UNKNOWN) || text.startsWith("-") || AWK_ESCAPES.test(text)) return false;
  const print = text.search(/print/);
  if (print === -1) return true;
  const after = text.slice(print).replaceAll("||", "");
  if (!/[|>]/.test(after)) return true;
  // Without slashes and backslashes, quotes only begin and end strings.
  if (/[/\\]/.test(text)) return false;
  let rest = text.replace(/"[^"\n]*"/g, "0").replaceAll("||", "");
  // Inside brackets, `>` is a comparison.
  for (let depth = 0; depth < BRACKETS_MAX; depth += 1) rest = rest.replace(/\([^()]*\)/g, "0");
  return !/["|]/.test(rest) && !/print[^;{}]*>/.test(rest);
}
