import type { SyntaxNode, Word } from "unbash";

/** Variables that a node sets without being an assignment: arithmetic, `{name}>file`, `${name:=x}`, `coproc NAME`. */
export function setBeside(node: SyntaxNode): readonly string[] {
  switch (node.type) {
    case "ArithmeticBinary":
      return ASSIGNS.test(node.operator) && node.left.type === "ArithmeticWord" ? [node.left.value] : [];
    case "ArithmeticUnary":
      return STEPS.test(node.operator) && node.operand.type === "ArithmeticWord" ? [node.operand.value] : [];
    case "TestBinary":
      return ARITHMETIC_TEST.test(node.operator) ? [...setIn(node.left.value), ...setIn(node.right.value)] : [];
    case "FileDescriptorVariable":
      return [node.name];
    case "Coproc":
      return node.name === undefined ? [] : [node.name.value];
    case "Assignment":
      return setInIndex(node.index);
    case "ParameterExpansion": {
      const { operation, parameter, index } = node;
      const isSet = operation?.type === "Default" && operation.operator.endsWith("=");
      return [...(isSet ? [parameter] : []), ...setInIndex(index)];
    }
    default:
      return [];
  }
}

const ASSIGNS = /^(?:[-+*/%&|^]|<<|>>)?=$/;
const STEPS = /^(?:\+\+|--)$/;
export const ARITHMETIC_TEST = /^-(?:eq|ne|lt|le|gt|ge)$/;

function setInIndex(index: Word | undefined): readonly string[] {
  return index === undefined ? [] : setIn(index.value);
}

/** `PATH=1`, `a[PATH+=1]`, `PATH++`, `--PATH`: what a text of arithmetic sets. */
export function setIn(text: string): readonly string[] {
  return [...text.matchAll(SETS)].map(([, before = "", after = ""]) => before + after);
}

const SETS =
  /(\b[A-Za-z_]\w{0,63})\s{0,8}(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s{0,8}([A-Za-z_]\w{0,63})/g;
