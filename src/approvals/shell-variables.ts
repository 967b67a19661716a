import { forEachChild, type SyntaxNode } from "unbash";
import { HOME, isLiteral, type Lookup, NOTHING_KNOWN, textOf, UNKNOWN } from "./shell-word.ts";

/** Variables that the shell or the service sets: their values are not read here. */
const SET_ELSEWHERE =
  /^(?:PATH|LANG|LC_[A-Z]+|TZ|TERM|OLDPWD|SHLVL|SHELL|SHELLOPTS|UID|EUID|PPID|GROUPS|HOST(?:NAME|TYPE)|OSTYPE|MACHTYPE|S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|REPLY|OPT(?:ARG|IND)|COLUMNS|LINES|DIRSTACK|FUNCNAME|PIPESTATUS|MAPFILE|COPROC|BASH.*|COMP_.*|STC_.*|[^A-Za-z].*|_)$/;

/** Builtins that set the variables they name. */
const SETTERS = new Set(
  "read mapfile readarray getopts printf let unset declare typeset local export readonly".split(" "),
);

/**
 * What the script's variables hold, as far as that can be told from the text: plain texts set once, and nothing at all for
 * those that nobody sets. Beliefs drawn from it only make the rules stricter: each command is also read without it.
 */
export function variablesOf(root: SyntaxNode, cwd: string | undefined): Lookup {
  const values = new Map<string, string>();
  const set = (name: string, value: string): void => {
    values.set(name, values.has(name) && values.get(name) !== value ? UNKNOWN : value);
  };
  const visit = (node: SyntaxNode): void => {
    note(node, set);
    forEachChild(node, visit);
  };
  visit(root);
  return (name) => {
    const known = values.get(name);
    if (known !== undefined) return known;
    if (name === "HOME") return HOME;
    if (name === "PWD") return cwd ?? UNKNOWN;
    if (name === "IFS") return " ";
    return SET_ELSEWHERE.test(name) ? UNKNOWN : "";
  };
}

function note(node: SyntaxNode, set: (name: string, value: string) => void): void {
  if (node.type === "Assignment") {
    const isPlain =
      node.value.type === "Word" && isLiteral(node.value) && node.append !== true && node.index === undefined;
    set(node.name, isPlain && node.value.type === "Word" ? textOf(node.value, NOTHING_KNOWN) : UNKNOWN);
  } else if (node.type === "For" || node.type === "Select") set(node.name.value, UNKNOWN);
  else if (node.type === "ArithmeticWord" || node.type === "FileDescriptorVariable") {
    set(node.type === "ArithmeticWord" ? node.value : node.name, UNKNOWN);
  } else if (node.type === "Coproc") set(node.name?.value ?? "COPROC", UNKNOWN);
  else if (node.type === "ParameterExpansion" && node.operation?.type === "Default") {
    if (node.operation.operator.endsWith("=")) set(node.parameter, UNKNOWN);
  } else if (node.type === "Command" && SETTERS.has(node.name?.value ?? "")) {
    for (const word of node.suffix) if (word.type === "Word") set(word.value, UNKNOWN);
  }
}
