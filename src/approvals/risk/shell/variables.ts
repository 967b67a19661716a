import { type Assignment, type Command, forEachChild, type SyntaxNode, type Word, type WordPart } from "unbash";
import { names } from "../names.ts";
import { readEarly } from "./certainty.ts";
import { HOME, INSIDE, isLiteral, NEW_FILE, NOTHING_KNOWN, textOf, UNKNOWN, type VariableLookup } from "./word.ts";

/** Variables that the shell or the service sets: their values are not read here. */
const SET_ELSEWHERE =
  /^(?:PATH|LANG|LC_[A-Z]+|TZ|TERM|OLDPWD|SHLVL|SHELL|SHELLOPTS|UID|EUID|PPID|GROUPS|HOST(?:NAME|TYPE)|OSTYPE|MACHTYPE|S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|REPLY|OPT(?:ARG|IND)|COLUMNS|LINES|DIRSTACK|FUNCNAME|PIPESTATUS|MAPFILE|COPROC|BASH.*|COMP_.*|STC_.*|[^A-Za-z].*|_)$/;

/** Builtins that set the variables they name. */
const SETTERS = names("read mapfile readarray getopts printf let unset declare typeset local export readonly");

/** What variables hold. */
export interface Variables {
  /** Taking those that nobody sets for empty, as they are. */
  readonly resolved: VariableLookup;
  /** Taking those for anything, and those that may not be set where they are read: believed beside the other, so that a wrong guess hides nothing. */
  readonly cautious: VariableLookup;
}

/** What can be told from the text: plain texts that are always the same, and what loops over the files of the place meet. */
export function variablesOf(root: SyntaxNode, cwd: string | undefined): Variables {
  const values = new Map<string, string>();
  let isIndirect = false;
  const set = (name: string, value: string): void => {
    values.set(name, values.has(name) && values.get(name) !== value ? UNKNOWN : value);
  };
  const later: Later[] = [];
  const visit = (node: SyntaxNode): void => {
    const waits = node.type === "Assignment" ? laterOf(node) : undefined;
    if (waits === undefined) note(node, set);
    else later.push(waits);
    isIndirect ||= node.type === "Command" && setsIndirectly(node);
    forEachChild(node, visit);
  };
  visit(root);
  const early = readEarly(root);
  settle(later, { values, early });
  const cautious = (name: string): string => {
    if (isIndirect || (early.has(name) && values.has(name))) return UNKNOWN;
    const own = name === "PWD" ? (cwd ?? UNKNOWN) : UNKNOWN;
    return values.get(name) ?? (name === "HOME" ? HOME : own);
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

/** A variable that is set to what other variables hold. */
interface Later {
  readonly name: string;
  readonly value: Word;
}

function laterOf({ name, value, append, index }: Assignment): Later | undefined {
  if (value.type !== "Word" || append === true || index !== undefined || isLiteral(value)) return undefined;
  return value.parts?.every(isPlainPart) === true ? { name, value } : undefined;
}

function isPlainPart(part: WordPart): boolean {
  if (part.type === "DoubleQuoted") return part.parts.every(isPlainPart);
  if (part.type === "ParameterExpansion") return part.operation === undefined && part.prefix === undefined;
  return part.type === "Literal" || part.type === "SingleQuoted" || part.type === "SimpleExpansion";
}

interface Known {
  readonly values: Map<string, string>;
  readonly early: ReadonlySet<string>;
}

/** Chains of variables that are followed; what changes after that many rounds is not known. */
const ROUNDS_MAX = 8;

/** Each is worth something only where it comes out the same in every round: a value that changes on the way is not known. */
function settle(later: readonly Later[], { values, early }: Known): void {
  const worthOf = (name: string): string =>
    (early.has(name) ? undefined : values.get(name)) ?? (name === "HOME" && !values.has(name) ? HOME : UNKNOWN);
  for (let round = 0; round <= ROUNDS_MAX; round += 1) {
    let isStill = true;
    for (const { name, value } of later) {
      const text = textOf(value, worthOf);
      const before = values.get(name);
      const worth = text.includes(UNKNOWN) || round === ROUNDS_MAX ? UNKNOWN : text;
      const next = before === undefined || before === worth ? worth : UNKNOWN;
      isStill &&= next === before;
      values.set(name, next);
    }
    if (isStill) return;
  }
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

/** Takes down what this very node sets. */
function note(node: SyntaxNode, set: (name: string, value: string) => void): void {
  switch (node.type) {
    case "Assignment":
      set(node.name, assigned(node));
      break;
    case "For":
    case "Select":
      set(node.name.value, metBy(node.wordlist ?? []));
      break;
    case "ArithmeticWord":
      set(node.value, UNKNOWN);
      break;
    case "FileDescriptorVariable":
      set(node.name, UNKNOWN);
      break;
    case "Coproc":
      set(node.name?.value ?? "COPROC", UNKNOWN);
      break;
    case "ParameterExpansion":
      if (node.operation?.type === "Default" && node.operation.operator.endsWith("=")) set(node.parameter, UNKNOWN);
      break;
    case "Command":
      for (const word of SETTERS.has(node.name?.value ?? "") ? node.suffix : [])
        if (word.type === "Word") set(word.value, UNKNOWN);
  }
}

function assigned({ value, append, index }: Assignment): string {
  if (value.type !== "Word") return UNKNOWN;
  if (isLiteral(value) && append !== true && index === undefined) return textOf(value, NOTHING_KNOWN);
  return NEW_FILE.test(value.text) ? `/tmp/${INSIDE}` : UNKNOWN;
}

/** What a loop meets: something below the place, the one path that it names, or nobody knows. */
function metBy(words: readonly Word[]): string {
  if (words.every(isInside)) return words.length === 0 ? UNKNOWN : INSIDE;
  const [only] = words;
  const text = words.length === 1 && only !== undefined ? textOf(only, NOTHING_KNOWN) : UNKNOWN;
  return text.includes(UNKNOWN) ? UNKNOWN : text;
}

/** Whether a word, globs and all, stays below the place where it is read, and is no option. */
function isInside(word: Word): boolean {
  const text = textOf(word, NOTHING_KNOWN);
  return !/^[-/~\0\u0001]/.test(text) && !text.includes(UNKNOWN) && !text.split("/").includes("..");
}
