import { Anchors } from "../anchors.ts";
import type { Finding } from "../finding.ts";
import { AssignmentReader } from "./assignment.ts";
import { NAME_ANCHORS } from "./names.ts";
import { FOOTER, matchPrivateKey, NextOccurrence } from "./private-key.ts";
import { SECRET_SHAPES } from "./shapes.ts";
import { TOKEN_FORMATS } from "./token-formats.ts";
import { matchToken } from "./token-matcher.ts";

type Match = (text: string, start: number, end: number, readers: Readers) => Finding | number | undefined;

/** What remembers, while one text is read, how far it has looked. */
interface Readers {
  readonly assignments: AssignmentReader;
  readonly footers: NextOccurrence;
}

interface Rule {
  readonly word: string;
  readonly match: Match;
}

/** Of two rules with the same word the first is asked first: a key's id must not hide the secret that follows it. */
const RULES: readonly Rule[] = [
  { word: "-----begin ", match: (text, start, end, { footers }) => matchPrivateKey(text, start, { end, footers }) },
  ...SECRET_SHAPES.flatMap((shape) => shape.words.map((word) => ({ word, match: shape.match }))),
  ...TOKEN_FORMATS.map((format) => ({
    word: format.prefix.toLowerCase(),
    match: (text: string, start: number) => matchToken(text, start, format),
  })),
  ...NAME_ANCHORS.map((word) => ({
    word,
    match: (_text: string, start: number, end: number, { assignments }: Readers) => assignments.match(start, end),
  })),
];

/** The shortest that any rule takes for a secret, with what announces it: `pw=abcd`. */
const SECRET_CHARS_MIN = 6;
const NONE: readonly Finding[] = [];

const ANCHORS = new Anchors(RULES.map(({ word }) => word));

/** All secrets of a text as it stands: in no order, with overlaps. Linear in the text's length, whatever it holds. */
export function scanSecrets(text: string): readonly Finding[] {
  if (text.length < SECRET_CHARS_MIN) return NONE;
  const findings: Finding[] = [];
  // Most texts hold no anchor at all: what reads on from one is made when there is one.
  let readers: Readers | undefined;
  let nothingBefore: Uint32Array | undefined;
  // What begins inside a finding is hidden already; skipping it is what keeps dense anchors linear.
  let coveredFrom = 0;
  let coveredTo = 0;
  ANCHORS.scan(text, (rule, start, end) => {
    if ((start < coveredTo && start >= coveredFrom) || start < (nothingBefore?.[rule] ?? 0)) return;
    readers ??= { assignments: new AssignmentReader(text), footers: new NextOccurrence(text, FOOTER) };
    const found = RULES[rule]?.match(text, start, end, readers);
    if (found === undefined) return;
    if (typeof found === "number") {
      nothingBefore ??= new Uint32Array(RULES.length);
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
