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

/** Returns whether a sed script only uses commands that print and edit: none that reads or writes files or starts programs. */
function isPlainSed(script: string): boolean {
  if (script.includes(UNKNOWN)) return false;
  let at = 0;
  while (at !== -1) {
    at = afterAddress(script, at);
    if (at >= script.length) return true;
    at = afterCommand(script, at);
  }
  return false;
}

/** Returns the offset after the command at `at`, or -1 when it is not plain. */
function afterCommand(script: string, at: number): number {
  const command = script[at] ?? "";
  if (command === "s" || command === "y") return afterSubstitution(script, at);
  if (/[\s{};dDgGhHlnNpPqQxzF=]/.test(command)) return afterAll(script, at + 1, /[0-9 ]/);
  if (/[:btT]/.test(command)) return afterAll(script, afterAll(script, at + 1, /[ \t]/), /[^\s;}]/);
  const line = script.indexOf("\n", at);
  if (command === "#") return line === -1 ? script.length : line;
  // The text of `a`, `i` and `c` may continue in the next line.
  return /[aic]/.test(command) && line === -1 ? script.length : -1;
}

function afterAll(script: string, from: number, some: RegExp): number {
  let at = from;
  while (at < script.length && some.test(script[at] ?? "")) at += 1;
  return at;
}

/** Returns the offset after `s/pattern/text/flags` or `y/abc/xyz/`, or -1 for the flags `e` and `w`. */
function afterSubstitution(script: string, at: number): number {
  const mark = script[at + 1] ?? "";
  if (/^[\\\n]?$/.test(mark)) return -1;
  const middle = afterDelimiter(script, at + 2, mark, script[at] === "s");
  const end = middle === -1 ? -1 : afterAll(script, afterDelimiter(script, middle, mark, false), /[gpiImM0-9]/);
  return middle === -1 || end === -1 || /[a-zA-Z]/.test(script[end] ?? "") ? -1 : end;
}

/** Returns the offset after an address: numbers, `$`, `/pattern/`, `\cpatternc`, ranges and `!`. */
function afterAddress(script: string, from: number): number {
  let at = from;
  for (;;) {
    const char = script[at] ?? "";
    if (char === "/" || (char === "\\" && script[at + 1] !== undefined)) {
      const skip = char === "/" ? 1 : 2;
      const end = afterDelimiter(script, at + skip, script[at + skip - 1] ?? "", true);
      if (end === -1) return at;
      at = afterAll(script, end, /[IM]/);
    } else if (char !== "" && /[0-9$,~+! \n;]/.test(char)) at += 1;
    else return at;
  }
}

/** Returns the offset after the next unescaped delimiter, or -1. Inside brackets of a pattern, the delimiter does not count. */
function afterDelimiter(script: string, from: number, mark: string, isPattern: boolean): number {
  if (from < 0) return -1;
  for (let at = from; at < script.length; at += 1) {
    const char = script[at];
    if (char === "\\") at += 1;
    else if (char === mark) return at + 1;
    else if (isPattern && char === "\n") return -1;
    else if (isPattern && char === "[") {
      at = bracketEnd(script, at);
      if (at === -1) return -1;
    }
  }
  return -1;
}

/** Returns the offset of the `]` that ends a bracket: a first `]` and those of `[:alpha:]` do not. */
function bracketEnd(script: string, from: number): number {
  let at = from + 1;
  if (script[at] === "^") at += 1;
  if (script[at] === "]") at += 1;
  for (; at < script.length && script[at] !== "\n"; at += 1) {
    const next = script[at + 1] ?? "";
    if (script[at] === "]") return at;
    if (script[at] !== "[" || !/[:.=]/.test(next)) continue;
    const end = script.indexOf(`${next}]`, at + 2);
    if (end === -1) return -1;
    at = end + 1;
  }
  return -1;
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
