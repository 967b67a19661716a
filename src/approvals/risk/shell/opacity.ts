import { type Command, forEachChild, type SyntaxNode, type Word } from "unbash";
import { names } from "../names.ts";
import { ARITHMETIC_TEST } from "./set-beside.ts";
import { isLiteral, NOTHING_KNOWN, textOf } from "./word.ts";

/** What keeps a script from being judged by what it says. */
export type Opaque =
  | "syntax"
  | "too large"
  | "control characters"
  | "program not literal"
  | "indirection"
  | "deferred code"
  | "hidden script";

/** Controls but tab and line feed, bidirectional marks, and what is not seen: a reader would see another command. */
const UNSEEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/u;

/** Joiners make one sign of two, or part two letters that would run together; beside ASCII they only hide. */
const LONE_JOINER = /(?:^|[\0-\x7f])[\u200c\u200d]/;

/** Whether a reader would see another text than the shell does. */
export function hidesText(text: string): boolean {
  return UNSEEN.test(text) || LONE_JOINER.test(text) || !text.isWellFormed();
}

/** Whether this very node hides what will happen; what stands below it is looked at apart. */
export function opacityOf(node: SyntaxNode): Opaque | undefined {
  switch (node.type) {
    case "Script":
      return node.errors !== undefined && node.errors.length > 0 ? "syntax" : undefined;
    case "CommandExpansion":
    case "ProcessSubstitution":
    case "ArithmeticCommandExpansion":
      return node.script === undefined ? "syntax" : undefined;
    case "ParameterExpansion": {
      const { operation, prefix, index } = node;
      if (operation?.type === "Unknown") return "syntax";
      if (operation?.type === "Transform" && operation.operand.value === "P") return "indirection";
      if (quotesCode(node)) return "deferred code";
      return prefix === "!" && operation?.type !== "Names" && !isKeys(index) ? "indirection" : undefined;
    }
    default:
      return undefined;
  }
}

/**
 * Whether quotes inside an expansion hold what would be code without them. In double quotes, here-documents and arithmetic they
 * do not quote, whatever they look like.
 */
function quotesCode(node: SyntaxNode): boolean {
  if ((node.type === "SingleQuoted" || node.type === "AnsiCQuoted") && CODE.test(node.text)) return true;
  let found = false;
  forEachChild(node, (child) => {
    found ||= quotesCode(child);
  });
  return found;
}

/** `${!name[@]}` lists keys; every other `${!name}` reads the variable that a variable names. */
function isKeys(index: Word | undefined): boolean {
  return index?.value === "@" || index?.value === "*";
}

/** Builtins that take a word for the name of a variable, with a subscript or without, or for arithmetic. */
const EVALUATORS = names("let declare typeset local unset read wait getopts");
const CODE = /\$\(|`/;

/** What a script says in quotes, and where that is put by. */
interface Texts {
  readonly all: string[];
  /** Values of variables, words of loops, and what is read. */
  readonly kept: string[];
}

/**
 * Arithmetic, subscripts and names of variables run what stands in `$( )` inside a subscript that comes out of a value, however
 * it was quoted. So a script that evaluates something, and holds quoted text that could be such a subscript, is not told by its
 * text: where the text comes to lie is not followed.
 */
export function defersCode(tree: SyntaxNode): boolean {
  const texts: Texts = { all: [], kept: [] };
  let evaluates = false;
  let expandsWords = false;
  const look = (node: SyntaxNode, isKept: boolean): void => {
    evaluates ||= isEvaluating(node);
    expandsWords ||= node.type === "Command" && /^comp(?:gen|lete)$/.test(node.name?.value ?? "");
    const text = textIn(node);
    if (text !== undefined) (isKept ? texts.kept : texts.all).push(text);
    // What stands side by side is one text in the end.
    if (node.type === "Word" && node.parts !== undefined) texts.all.push(textOf(node, NOTHING_KNOWN));
    const keeps = isKept || node.type === "Assignment" || node.type === "HereString";
    forEachChild(node, (child) => look(child, keeps || (node.type === "For" && child.type === "Word")));
  };
  look(tree, false);
  const all = [...texts.all, ...texts.kept];
  const holdsCode = all.some((text) => CODE.test(text));
  if (expandsWords && holdsCode) return true;
  return evaluates && all.some((text) => text.includes("[")) && (holdsCode || isDivided(texts.kept));
}

/** A substitution in two parts, of which neither is one. */
function isDivided(texts: readonly string[]): boolean {
  return texts.some((text) => text.endsWith("$")) && texts.some((text) => text.startsWith("("));
}

/** The text of a node that has no parts, as the shell takes it. */
function textIn(node: SyntaxNode): string | undefined {
  switch (node.type) {
    case "Literal":
    case "SingleQuoted":
    case "AnsiCQuoted":
    case "ArithmeticWord":
      return node.value;
    case "Glob":
    case "ExtendedGlob":
    case "BraceExpansion":
      return node.text;
    case "Word":
      return node.parts === undefined ? node.value : undefined;
    case "HereDocBody":
      return node.parts === undefined ? node.text : undefined;
    default:
      return undefined;
  }
}

function isEvaluating(node: SyntaxNode): boolean {
  switch (node.type) {
    case "ArithmeticWord":
      return true;
    case "TestBinary":
      return ARITHMETIC_TEST.test(node.operator);
    case "TestUnary":
      return node.operator === "-v";
    case "ParameterExpansion":
      return node.index !== undefined || node.operation?.type === "Slice";
    case "Assignment":
      return node.index !== undefined;
    case "Command":
      return isEvaluator(node);
    default:
      return false;
  }
}

function isEvaluator({ name, suffix }: Command): boolean {
  const program = name?.value ?? "";
  if (EVALUATORS.has(program)) return true;
  if (program !== "test" && program !== "[" && program !== "printf") return false;
  const words = suffix.filter((part) => part.type === "Word");
  return (
    words.some((word) => word.value.startsWith("-v")) ||
    (program !== "printf" && words[0] !== undefined && !isLiteral(words[0]))
  );
}
