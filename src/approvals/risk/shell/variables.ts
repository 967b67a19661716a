import { type Command, forEachChild, type SyntaxNode, type Word } from "unbash";
import { HOME, INSIDE, isLiteral, type Lookup, NOTHING_KNOWN, textOf, UNKNOWN } from "./word.ts";

/** Variables that the shell or the service sets: their values are not read here. */
const SET_ELSEWHERE =
  /^(?:PATH|LANG|LC_[A-Z]+|TZ|TERM|OLDPWD|SHLVL|SHELL|SHELLOPTS|UID|EUID|PPID|GROUPS|HOST(?:NAME|TYPE)|OSTYPE|MACHTYPE|S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|REPLY|OPT(?:ARG|IND)|COLUMNS|LINES|DIRSTACK|FUNCNAME|PIPESTATUS|MAPFILE|COPROC|BASH.*|COMP_.*|STC_.*|[^A-Za-z].*|_)$/;

/** A file or folder that is made for the script, where such things lie. */
const NEW_FILE = /^"?\$\(mktemp(?: -d)?\)"?$/;

/** Builtins that set the variables they name. */
const SETTERS = new Set(
  "read mapfile readarray getopts printf let unset declare typeset local export readonly".split(" "),
);

/** What variables hold. */
export interface Variables {
  /** Taking those that nobody sets for empty, as they are. */
  readonly resolved: Lookup;
  /** Taking those for anything: believed beside the other, so that a wrong guess hides nothing. */
  readonly cautious: Lookup;
}

/** What can be told from the text: plain texts that are always the same, and what loops over the files of the place meet. */
export function variablesOf(root: SyntaxNode, cwd: string | undefined): Variables {
  const values = new Map<string, string>();
  let isIndirect = false;
  const set = (name: string, value: string): void => {
    values.set(name, values.has(name) && values.get(name) !== value ? UNKNOWN : value);
  };
  const visit = (node: SyntaxNode): void => {
    note(node, set);
    isIndirect ||= node.type === "Command" && setsIndirectly(node);
    forEachChild(node, visit);
  };
  visit(root);
  const cautious = (name: string): string => {
    if (isIndirect) return UNKNOWN;
    return values.get(name) ?? (name === "HOME" ? HOME : UNKNOWN);
  };
  const resolved = (name: string): string => {
    const known = isIndirect ? UNKNOWN : (values.get(name) ?? (name === "HOME" ? HOME : undefined));
    if (known !== undefined) return known;
    if (name === "PWD") return cwd ?? UNKNOWN;
    if (name === "IFS") return " ";
    return SET_ELSEWHERE.test(name) ? UNKNOWN : "";
  };
  return { resolved, cautious };
}

/** A name that is computed, or a reference to another one. */
function setsIndirectly({ name, suffix }: Command): boolean {
  if (!SETTERS.has(name?.value ?? "")) return false;
  const words = suffix.filter((part) => part.type === "Word");
  const isReference =
    words.some((word) => /^-[a-zA-Z]*n/.test(word.value)) && !/^(?:read|printf)$/.test(name?.value ?? "");
  return isReference || (name?.value === "printf" ? computesName(words) : words.some((word) => !isLiteral(word)));
}

function computesName(words: readonly Word[]): boolean {
  const at = words.findIndex(({ value }) => value.startsWith("-v"));
  const target = words[at]?.value === "-v" ? words[at + 1] : words[at];
  return target !== undefined && !isLiteral(target);
}

function note(node: SyntaxNode, set: (name: string, value: string) => void): void {
  if (node.type === "Assignment") {
    const { value } = node;
    const isPlain = value.type === "Word" && isLiteral(value) && node.append !== true && node.index === undefined;
    const scratch = value.type === "Word" && NEW_FILE.test(value.text) ? `/tmp/${INSIDE}` : UNKNOWN;
    set(node.name, isPlain ? textOf(value, NOTHING_KNOWN) : scratch);
  } else if (node.type === "For" || node.type === "Select") {
    set(node.name.value, node.wordlist?.every(isInside) === true ? INSIDE : UNKNOWN);
  } else if (node.type === "ArithmeticWord") set(node.value, UNKNOWN);
  else if (node.type === "FileDescriptorVariable") set(node.name, UNKNOWN);
  else if (node.type === "Coproc") set(node.name?.value ?? "COPROC", UNKNOWN);
  else if (node.type === "ParameterExpansion" && node.operation?.type === "Default") {
    if (node.operation.operator.endsWith("=")) set(node.parameter, UNKNOWN);
  } else if (node.type === "Command" && SETTERS.has(node.name?.value ?? "")) {
    for (const word of node.suffix) if (word.type === "Word") set(word.value, UNKNOWN);
  }
}

/** Whether a word, globs and all, stays below the place where it is read, and is no option. */
function isInside(word: Word): boolean {
  const text = textOf(word, NOTHING_KNOWN);
  return !/^[-/~\0\u0001]/.test(text) && !text.includes(UNKNOWN) && !text.split("/").includes("..");
}
