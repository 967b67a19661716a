import { operandsOf } from "./shell-invocation.ts";
import { UNKNOWN } from "./shell-word.ts";

/** What a filter's own program can do: look, write files, or start other programs. */
export type FilterReach = "reads" | "writes" | "starts";

/** `awk`: what its text does besides printing. What cannot be seen counts as starting programs. */
export function awkReach(args: readonly string[]): FilterReach {
  if (
    args.some((arg) => /^-(?:f|i|l|E|e|D|S)|^--(?!posix|re-interval|csv|field-separator|assign|version|help)/.test(arg))
  ) {
    return "starts";
  }
  const text = operandsOf(args, ["-F", "-v"])[0] ?? "";
  const code = withoutTexts(text);
  if (code === undefined || code.includes(UNKNOWN)) return "starts";
  if (/system|getline|@|\/inet/.test(code) || /(?:^|[^|])\|(?:[^|]|$)/.test(code)) return "starts";
  return /print/.test(code) && />/.test(code) && !/>\s*=|>\s*[0-9(]/.test(code) ? "writes" : "reads";
}

/** The program without what stands in quotes or between the slashes of a pattern. */
function withoutTexts(text: string): string | undefined {
  let code = "";
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? "";
    const isPattern = char === "/" && /(?:^|[(,!~&|{;}=])\s?$/.test(code.slice(-2));
    if (char !== '"' && !isPattern) {
      code += char;
      continue;
    }
    const end = closing(text, at + 1, char);
    if (end === -1) return undefined;
    // A redirection's target stays visible.
    code += '""';
    at = end;
  }
  return code;
}

function closing(text: string, from: number, mark: string): number {
  let inClass = false;
  for (let at = from; at < text.length; at += 1) {
    const char = text[at];
    if (char === "\\") at += 1;
    else if (char === "\n") return -1;
    else if (mark !== '"' && char === "[") inClass = true;
    else if (mark !== '"' && char === "]") inClass = false;
    else if (char === mark && !inClass) return at;
  }
  return -1;
}

/** `sed`: whether one of its commands writes a file or starts a program. A script that is not understood may do both. */
export function sedReach(args: readonly string[]): FilterReach {
  if (args.some((arg) => arg.startsWith(UNKNOWN))) return "starts";
  const inPlace = args.some((arg) => /^-[nErszu]*i|^--in-p/.test(arg));
  const file = args.some((arg) => /^-[nErszu]*f|^--fi/.test(arg));
  if (file) return "starts";
  const scripts = sedScripts(args);
  const reaches = scripts.map(scriptReach);
  if (reaches.includes("starts")) return "starts";
  return inPlace || reaches.includes("writes") ? "writes" : "reads";
}

function sedScripts(args: readonly string[]): readonly string[] {
  const named = args.flatMap((arg, at) => {
    if (/^-[nErszu]*e$/.test(arg) || arg === "--expression") return [args[at + 1] ?? ""];
    const own = /^(?:-[nErszu]*e|--expression=)/.exec(arg);
    return own === null ? [] : [arg.slice(own[0].length)];
  });
  return named.length > 0 ? named : operandsOf(args).slice(0, 1);
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
      const middle = afterMark(script, at + 1, mark);
      const end = middle === -1 ? -1 : afterMark(script, middle, mark);
      if (mark === "" || mark === "\\" || mark === "\n" || end === -1) return "starts";
      const flags = /^[gpiImM0-9]*/.exec(script.slice(end, end + 32))?.[0] ?? "";
      at = end + flags.length;
      if (command === "s" && script[at] === "w") {
        reach = "writes";
        at = lineEnd(script, at);
      } else if (/[a-zA-Z]/.test(script[at] ?? "")) return "starts";
    } else if (TEXT_COMMANDS.includes(command)) at = textEnd(script, at);
    else if (FILE_COMMANDS.includes(command)) {
      if (/[wW]/.test(command)) reach = "writes";
      at = lineEnd(script, at);
    } else if (LABEL_COMMANDS.includes(command)) {
      while (at < script.length && !/[;\n}]/.test(script[at] ?? "")) at += 1;
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
      const end = afterMark(script, at + (char === "/" ? 1 : 2), mark);
      if (end === -1) return at;
      at = end;
      while (/[IM]/.test(script[at] ?? "")) at += 1;
    } else if (char !== "" && /[0-9$,~+! ]/.test(char)) at += 1;
    else return at;
  }
}

/** Behind the next unescaped mark; a bracket of a pattern hides it. */
function afterMark(script: string, from: number, mark: string): number {
  for (let at = from; at < script.length; at += 1) {
    const char = script[at];
    if (char === "\\") at += 1;
    else if (char === mark) return at + 1;
  }
  return -1;
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
