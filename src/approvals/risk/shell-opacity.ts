import { forEachChild, type SyntaxNode, type Word } from "unbash";
import { isLiteral } from "./shell-word.ts";

/** What keeps a script from being judged by what it says. */
export type Opaque =
  | "syntax"
  | "too large"
  | "control characters"
  | "program not literal"
  | "indirection"
  | "deferred code"
  | "hidden script";

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
      return prefix === "!" && operation?.type !== "Names" && !isKeys(index) ? "indirection" : undefined;
    }
    default:
      return undefined;
  }
}

/** `${!name[@]}` lists keys; every other `${!name}` reads the variable that a variable names. */
function isKeys(index: Word | undefined): boolean {
  return index?.value === "@" || index?.value === "*";
}

/** Builtins that evaluate a word as arithmetic or as a name with a subscript. */
const EVALUATORS = /^(?:let|declare|typeset|local|test|\[|printf|unset|read)$/;
const TEXT_CHARACTERS_MAX = 512;
const SUBSCRIPT_CODE = /\[.{0,256}(?:\$\(|`)/;

/** Arithmetic and subscripts run what stands in `$( )` inside the value of a variable, however it was quoted. */
export function defersCode(tree: SyntaxNode): boolean {
  let evaluates = false;
  let holdsCode = false;
  const look = (node: SyntaxNode): void => {
    evaluates ||= isEvaluating(node);
    if (node.type === "Assignment" && node.value.type === "Word" && isLiteral(node.value)) {
      holdsCode ||= SUBSCRIPT_CODE.test(node.value.value.slice(0, TEXT_CHARACTERS_MAX));
    }
    forEachChild(node, look);
  };
  look(tree);
  return evaluates && holdsCode;
}

function isEvaluating(node: SyntaxNode): boolean {
  switch (node.type) {
    case "ArithmeticWord":
    case "TestBinary":
    case "TestUnary":
      return true;
    case "ParameterExpansion":
      return node.index !== undefined;
    case "Command":
      return EVALUATORS.test(node.name?.value ?? "");
    default:
      return false;
  }
}
