import { Anchors } from "./anchors.ts";
import { AssignmentReader } from "./assignment.ts";
import type { Finding } from "./finding.ts";
import { NAME_ANCHORS } from "./secret-names.ts";
import { SECRET_SHAPES } from "./secret-shapes.ts";
import { TOKEN_FORMATS } from "./token-formats.ts";
import { matchToken } from "./token-matcher.ts";

type Match = (text: string, start: number, end: number) => Finding | number | undefined;

interface Rule {
  readonly word: string;
  /** `undefined`: a part of a name, to be read by the assignment reader. */
  readonly match: Match | undefined;
}

/** Of two rules with the same word the first is asked first: a key's id must not hide the secret that follows it. */
const RULES: readonly Rule[] = [
  ...SECRET_SHAPES.flatMap((shape) => shape.words.map((word) => ({ word, match: shape.match }))),
  ...TOKEN_FORMATS.map((format) => ({
    word: format.prefix.toLowerCase(),
    match: (text: string, start: number) => matchToken(text, start, format),
  })),
  ...NAME_ANCHORS.map((word) => ({ word, match: undefined })),
];

const ANCHORS = new Anchors(RULES.map(({ word }) => word));

/** All secrets of a text as it stands: in no order, with overlaps. Linear in the text's length, whatever it holds. */
export function scanSecrets(text: string): readonly Finding[] {
  const findings: Finding[] = [];
  const assignments = new AssignmentReader(text);
  // What begins inside a finding is hidden already; skipping it is what keeps dense anchors linear.
  let coveredFrom = 0;
  let coveredTo = 0;
  const nothingBefore = new Uint32Array(RULES.length);
  ANCHORS.scan(text, (rule, start, end) => {
    if ((start < coveredTo && start >= coveredFrom) || start < (nothingBefore[rule] ?? 0)) return;
    const match = RULES[rule]?.match;
    const found = match === undefined ? assignments.match(start, end) : match(text, start, end);
    if (found === undefined) return;
    if (typeof found === "number") {
      nothingBefore[rule] = found;
      return;
    }
    findings.push(found);
    if (found.end <= coveredTo) return;
    coveredFrom = found.start;
    coveredTo = found.end;
  });
  return findings;
}
