import { type PatternNode, parsePattern } from "./parse.ts";
import { characterTest } from "./program.ts";

const ASCII = 0x80;
const UNIT_LAST = 0xffff;
const CODE_POINT_LAST = 0x10ffff;

/** Whether no character that a pattern matches is beyond ASCII. Asks about every character that there is: for rare cases. */
export function matchesOnlyAscii(pattern: RegExp): boolean {
  const last = /[uv]/.test(pattern.flags) ? CODE_POINT_LAST : UNIT_LAST;
  const kinds = new Map(charactersOf(parsePattern(pattern)).map((node) => [`${node.flags} ${node.source}`, node]));
  return [...kinds.values()].every(({ source, flags }) => {
    const test = characterTest(source, flags);
    for (let code = ASCII; code <= last; code += 1) if (test(code)) return false;
    return true;
  });
}

type Character = Extract<PatternNode, { readonly kind: "character" }>;

function charactersOf(node: PatternNode): readonly Character[] {
  if (node.kind === "character") return [node];
  if (node.kind === "sequence") return node.parts.flatMap(charactersOf);
  if (node.kind === "choice") return node.options.flatMap(charactersOf);
  // A lookahead lets nothing through that the rest does not.
  return node.kind === "repeat" || node.kind === "group" ? charactersOf(node.body) : [];
}
