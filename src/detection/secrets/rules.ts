import type { Work } from "../bounds.ts";
import type { Matched } from "../finding.ts";
import type { AssignmentReader } from "./assignment.ts";
import type { CreatedTables } from "./created-tables.ts";
import type { InsertReader } from "./insert-values.ts";
import { NAME_ANCHORS } from "./names.ts";
import { matchPrivateKey, type NextOccurrence } from "./private-key.ts";
import { SECRET_SHAPES } from "./shapes.ts";
import { TOKEN_FORMATS } from "./token-formats.ts";
import { matchToken } from "./token-matcher.ts";

/** What remembers, while one text is read, how far it has looked. */
export interface Readers {
  readonly assignments: AssignmentReader;
  readonly inserts: InsertReader;
  readonly created: CreatedTables;
  readonly footers: NextOccurrence;
  readonly work: Work;
}

export interface SecretRule {
  /** Lower case; stands somewhere in or before the secret. */
  readonly word: string;
  /** What a look around the word takes at most, apart from runs that are read once. */
  readonly steps: number;
  /** Its reader remembers how far it has read, so that the rule may be asked at every word. */
  readonly remembers?: true;
  /** A number says that the rule finds nothing that begins before it. */
  match(text: string, start: number, end: number, readers: Readers): Matched;
}

const KEY_STEPS = 400;
const TOKEN_STEPS = 60;
const NAME_STEPS = 60;
const INSERT_STEPS = 40;

/** Of two rules with the same word the first is asked first: a key's id must not hide the secret that follows it. */
export const SECRET_RULES: readonly SecretRule[] = [
  {
    word: "-----begin ",
    steps: KEY_STEPS,
    match: (text, start, end, { footers }) => matchPrivateKey(text, start, { end, footers }),
  },
  ...SECRET_SHAPES.flatMap(({ words, steps, match }) => words.map((word) => ({ word, steps, match }))),
  ...TOKEN_FORMATS.map((format) => ({
    word: format.prefix.toLowerCase(),
    steps: TOKEN_STEPS,
    match: (text: string, start: number) => matchToken(text, start, format),
  })),
  {
    word: "into ",
    steps: INSERT_STEPS,
    match: (_text, start, end, { inserts }) => inserts.match(start, end),
  },
  {
    word: "create table ",
    steps: INSERT_STEPS,
    match: (_text, start, end, { created }) => {
      created.read(start, end);
      return undefined;
    },
  },
  {
    word: "copy ",
    steps: INSERT_STEPS,
    match: (_text, start, end, { inserts }) => inserts.matchCopy(start, end),
  },
  ...NAME_ANCHORS.map((word) => ({
    word,
    steps: NAME_STEPS,
    remembers: true as const,
    match: (_text: string, start: number, end: number, { assignments }: Readers) => assignments.match(start, end),
  })),
];
