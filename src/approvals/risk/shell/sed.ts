import { words } from "../names.ts";
import { type FilterReach, type Options, optionsOf } from "./options.ts";
import { UNKNOWN } from "./word.ts";

const OPTIONS: Options = {
  letters: "nErszub",
  valued: "efl",
  attached: "i",
  longs: words(
    "quiet silent regexp-extended separate null-data zero-terminated posix debug sandbox follow-symlinks binary",
    "unbuffered help version in-place",
  ),
  valuedLongs: ["expression", "file", "line-length"],
};

interface SedCall {
  readonly scripts: readonly string[];
  /** Files that it reads, or rewrites in their place. */
  readonly files: readonly string[];
  readonly inPlace: boolean;
  /** Where the old contents go, if not beside the file. */
  readonly copies: readonly string[];
  /** Whether all of the program stands in the argv. */
  readonly isWhole: boolean;
}

export function sedCall(args: readonly string[]): SedCall {
  const { options, operands, unknown } = optionsOf(args, OPTIONS);
  const named = options.filter(({ name }) => name === "e" || name === "expression").map(({ value }) => value);
  const fromFile = options.some(({ name }) => name === "f" || name === "file");
  const isGiven = named.length > 0 || fromFile;
  const scripts = isGiven ? named : operands.slice(0, 1);
  return {
    scripts,
    files: [...(isGiven ? operands : operands.slice(1)), ...scripts.flatMap(insertedBy)],
    copies: options.flatMap(({ name, value }) => (/^(?:i|in-place)$/.test(name) && value.includes("/") ? [value] : [])),
    inPlace: options.some(({ name }) => name === "i" || name === "in-place"),
    isWhole: !fromFile && unknown.length === 0 && !args.some((arg) => arg.startsWith(UNKNOWN)),
  };
}

/** Files that the commands `r` and `R` may read: whatever stands behind such a letter at the end of a line. */
function insertedBy(script: string): readonly string[] {
  return script.split("\n", LINES_MAX).flatMap((line) => {
    const words = line.trim().split(/\s+/, LINES_MAX);
    const last = words.at(-1) ?? "";
    if (/^.{0,64}[rR]$/.test(words.at(-2) ?? "")) return [last];
    const at = last.search(/[rR][/~.]/);
    return at === -1 ? [] : [last.slice(at + 1)];
  });
}

const LINES_MAX = 64;

/** `sed`: whether one of its commands writes a file or starts a program. A script that is not understood may do both. */
export function sedReach(args: readonly string[]): FilterReach {
  const { scripts, inPlace, isWhole } = sedCall(args);
  const reaches = scripts.map(scriptReach);
  if (!isWhole || reaches.includes("starts")) return "starts";
  return inPlace || reaches.includes("writes") ? "writes" : "reads";
}

/** One command of a script: where it ends, and what it does. */
interface Step {
  readonly end: number;
  readonly reach: FilterReach;
}

const UNREAD: Step = { end: 0, reach: "starts" };

/** Reads the commands one after the other; addresses are skipped. */
function scriptReach(script: string): FilterReach {
  if (script.includes(UNKNOWN)) return "starts";
  let writes = false;
  for (let at = afterAddress(script, 0); at < script.length; ) {
    const { end, reach } = stepAt(script, at);
    if (reach === "starts") return "starts";
    writes ||= reach === "writes";
    at = afterAddress(script, end);
  }
  return writes ? "writes" : "reads";
}

function stepAt(script: string, from: number): Step {
  const at = from + 1;
  const only = (end: number): Step => ({ end, reach: "reads" });
  switch (script[from] ?? "") {
    case "s":
    case "y":
      return exchange(script, from);
    case "w":
    case "W":
      return { end: lineEnd(script, at), reach: writtenTo(script, at) };
    case "r":
    case "R":
    case "#":
      return only(lineEnd(script, at));
    case "a":
    case "i":
    case "c":
      return only(textEnd(script, at));
    case ":":
    case "b":
    case "t":
    case "T":
      return only(runEnd(script, runEnd(script, at, /[ \t]/), /[^\s;}]/));
    default:
      if (/[\s{};]/.test(script[from] ?? "")) return only(at);
      return PLAIN.test(script[from] ?? "") ? only(runEnd(script, at, /[0-9 ]/)) : UNREAD;
  }
}

/** Commands with nothing or a number behind them. */
const PLAIN = /[dDgGhHlnNpPqQxzF=]/;

function runEnd(script: string, from: number, some: RegExp): number {
  let at = from;
  while (at < script.length && some.test(script[at] ?? "")) at += 1;
  return at;
}

/** `s/pattern/text/flags` and `y/abc/xyz/`; among the flags of `s`, `e` starts a program and `w` writes a file. */
function exchange(script: string, from: number): Step {
  const isPattern = script[from] === "s";
  const mark = script[from + 1] ?? "";
  const middle = isPattern ? afterPattern(script, from + 2, mark) : afterMark(script, from + 2, mark);
  const end = middle === -1 ? -1 : afterMark(script, middle, mark);
  if (mark === "" || mark === "\\" || mark === "\n" || end === -1) return UNREAD;
  const flags = /^[gpiImM0-9]*/.exec(script.slice(end, end + FLAGS_MAX))?.[0] ?? "";
  const at = end + flags.length;
  if (isPattern && script[at] === "w") return { end: lineEnd(script, at), reach: writtenTo(script, at + 1) };
  return /[a-zA-Z]/.test(script[at] ?? "") ? UNREAD : { end: at, reach: "reads" };
}

const FLAGS_MAX = 32;

/** Numbers, `$`, `/pattern/`, `\cpatternc`, ranges, steps and `!`. */
function afterAddress(script: string, from: number): number {
  let at = from;
  for (;;) {
    const char = script[at] ?? "";
    if (char === "/" || (char === "\\" && script[at + 1] !== undefined)) {
      const mark = char === "/" ? "/" : (script[at + 1] ?? "");
      const end = afterPattern(script, at + (char === "/" ? 1 : 2), mark);
      if (end === -1) return at;
      at = end;
      while (/[IM]/.test(script[at] ?? "")) at += 1;
    } else if (char !== "" && /[0-9$,~+! ]/.test(char)) at += 1;
    else return at;
  }
}

/** Behind the next unescaped mark. */
function afterMark(script: string, from: number, mark: string): number {
  for (let at = from; at < script.length; at += 1) {
    const char = script[at];
    if (char === "\\") at += 1;
    else if (char === mark) return at + 1;
  }
  return -1;
}

/** The same, where a bracket of the pattern hides it. A bracket that does not close makes the script one that sed refuses. */
function afterPattern(script: string, from: number, mark: string): number {
  for (let at = from; at < script.length; at += 1) {
    const char = script[at];
    if (char === "\\") at += 1;
    else if (char === mark) return at + 1;
    else if (char === "\n") return -1;
    else if (char === "[") {
      at = bracketEnd(script, at);
      if (at === -1) return -1;
    }
  }
  return -1;
}

/** Where `[…]` ends: a `]` in front is one of its characters, and `[:alpha:]` in it has one of its own. */
function bracketEnd(script: string, from: number): number {
  let at = from + 1;
  if (script[at] === "^") at += 1;
  if (script[at] === "]") at += 1;
  for (; at < script.length; at += 1) {
    const next = script[at + 1] ?? "";
    if (script[at] === "\n") return -1;
    if (script[at] === "]") return at;
    if (script[at] !== "[" || !":.=".includes(next) || next === "") continue;
    const end = script.indexOf(`${next}]`, at + 2);
    if (end === -1) return -1;
    at = end + 1;
  }
  return -1;
}

const HARMLESS_TARGET = /^\/dev\/(?:stdout|stderr|null)$/;

/** What the file behind `w` is: the terminal, one below where sed stands, or something else. */
function writtenTo(script: string, from: number): FilterReach {
  const path = script.slice(from, lineEnd(script, from)).trim();
  if (HARMLESS_TARGET.test(path)) return "reads";
  // A name that begins with a dot may be one by which programs are started.
  return /^[/~]/.test(path) || path.split("/").some((part) => /^\../.test(part)) ? "starts" : "writes";
}

function lineEnd(script: string, from: number): number {
  const end = script.indexOf("\n", from);
  return end === -1 ? script.length : end + 1;
}

/** The text of `a`, `i` and `c` goes to the end of its line, further where that is escaped. */
function textEnd(script: string, from: number): number {
  let at = from;
  for (;;) {
    const end = lineEnd(script, at);
    if (end >= script.length || script[end - 2] !== "\\") return end;
    at = end;
  }
}
