import { type FilterReach, type Options, optionsOf } from "./options.ts";
import { UNKNOWN } from "./word.ts";

const OPTIONS: Options = {
  letters: "nErszub",
  valued: "efl",
  attached: "i",
  longs: [
    ...["quiet", "silent", "regexp-extended", "separate", "null-data", "zero-terminated", "posix", "debug", "sandbox"],
    ...["follow-symlinks", "binary", "unbuffered", "help", "version", "in-place"],
  ],
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

const DELIMITED = /[sy]/;
const TEXT_COMMANDS = "aic";
const LABEL_COMMANDS = ":btT";
const FILE_COMMANDS = "rRwW";
const PLAIN_COMMANDS = "dDgGhHlnNpPqQxzF=";

/** Reads the commands one after the other; addresses are skipped. */
function scriptReach(script: string): FilterReach {
  let reach: FilterReach = "reads";
  for (let at = 0; at < script.length; ) {
    at = afterAddress(script, at);
    const command = script[at];
    if (command === undefined) break;
    at += 1;
    if (command === "}" || command === "{" || command === ";" || /\s/.test(command)) continue;
    if (command === "#") at = lineEnd(script, at);
    else if (DELIMITED.test(command)) {
      const mark = script[at] ?? "";
      const middle = command === "s" ? afterPattern(script, at + 1, mark) : afterMark(script, at + 1, mark);
      const end = middle === -1 ? -1 : afterMark(script, middle, mark);
      if (mark === "" || mark === "\\" || mark === "\n" || end === -1) return "starts";
      const flags = /^[gpiImM0-9]*/.exec(script.slice(end, end + 32))?.[0] ?? "";
      at = end + flags.length;
      if (command === "s" && script[at] === "w") {
        const written = writtenTo(script, at + 1);
        if (written === "starts") return "starts";
        if (written === "writes") reach = "writes";
        at = lineEnd(script, at);
      } else if (/[a-zA-Z]/.test(script[at] ?? "")) return "starts";
    } else if (TEXT_COMMANDS.includes(command)) at = textEnd(script, at);
    else if (FILE_COMMANDS.includes(command)) {
      const written = /[wW]/.test(command) ? writtenTo(script, at) : "reads";
      if (written === "starts") return "starts";
      if (written === "writes") reach = "writes";
      at = lineEnd(script, at);
    } else if (LABEL_COMMANDS.includes(command)) {
      while (/[ \t]/.test(script[at] ?? "")) at += 1;
      while (at < script.length && !/[\s;}]/.test(script[at] ?? "")) at += 1;
    } else if (PLAIN_COMMANDS.includes(command)) while (/[0-9 ]/.test(script[at] ?? "")) at += 1;
    else return "starts";
  }
  return script.includes(UNKNOWN) ? "starts" : reach;
}

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
