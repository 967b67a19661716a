import { type AndOr, type Command, forEachChild, type SyntaxNode } from "unbash";

/** Variables that are set by now, whichever way the script went. */
type Sure = Set<string>;

/**
 * Names that are read where they may not be set yet: before it, beside it, or because the part that sets them need not run. What
 * they hold there is not what the script says elsewhere.
 */
export function readEarly(root: SyntaxNode): ReadonlySet<string> {
  const early = new Set<string>();
  look(root, { sure: new Set(), early });
  return early;
}

interface Sight {
  readonly sure: Sure;
  readonly early: Set<string>;
}

/** What is set in here does not count outside. */
function apart({ sure, early }: Sight): Sight {
  return { sure: new Set(sure), early };
}

function look(node: SyntaxNode, sight: Sight): void {
  switch (node.type) {
    case "SimpleExpansion":
      use(node.text.slice(1), sight);
      break;
    case "ParameterExpansion":
      use(node.parameter, sight);
      each(node, sight);
      break;
    case "Assignment":
      each(node, sight);
      sight.sure.add(node.name);
      break;
    case "Command":
      lookAtCommand(node, sight);
      break;
    case "AndOr":
      lookAtList(node, sight);
      break;
    case "Pipeline":
      for (const command of node.commands) look(command, node.commands.length > 1 ? apart(sight) : sight);
      break;
    case "If":
    case "While":
    case "Case":
      lookAtBranches(node, sight);
      break;
    case "For":
    case "Select": {
      for (const word of node.wordlist ?? []) look(word, sight);
      const inner = apart(sight);
      inner.sure.add(node.name.value);
      look(node.body, inner);
      break;
    }
    case "Statement":
      look(node.command, node.background === true ? apart(sight) : sight);
      break;
    case "Function":
    case "Subshell":
    case "Coproc":
    case "CommandExpansion":
    case "ProcessSubstitution":
    case "ArithmeticCommandExpansion":
      each(node, apart(sight));
      break;
    default:
      each(node, sight);
  }
}

function each(node: SyntaxNode, sight: Sight): void {
  forEachChild(node, (child) => look(child, sight));
}

function use(name: string, { sure, early }: Sight): void {
  if (!sure.has(name)) early.add(name);
}

/** In front of a program they are set for that alone. */
function lookAtCommand(node: Command, sight: Sight): void {
  const forProgram = node.name === undefined ? sight : apart(sight);
  for (const part of node.prefix) look(part, forProgram);
  if (node.name !== undefined) look(node.name, sight);
  for (const part of node.suffix) look(part, sight);
  for (const redirect of node.redirects) look(redirect, sight);
}

/** The first always runs; each other one only behind `&&` after all before it. */
function lookAtList({ commands, operators }: AndOr, sight: Sight): void {
  const chained = operators.every((operator) => operator === "&&");
  let inner = sight;
  for (const [index, command] of commands.entries()) {
    if (index === 1 || !chained) inner = index === 0 ? sight : apart(sight);
    look(command, inner);
  }
}

/** What decides always runs, and the branches may not. */
function lookAtBranches(node: SyntaxNode, sight: Sight): void {
  let isFirst = true;
  forEachChild(node, (child) => {
    look(child, isFirst ? sight : apart(sight));
    isFirst = false;
  });
}
