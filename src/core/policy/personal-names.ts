import { readings } from "./name-words.ts";
import {
  ASIDES,
  ASKING,
  COMPOUNDS,
  HEADS,
  HIDDEN,
  IN_FIGURES,
  MAYBE_COMPOUNDS,
  MAYBE_HEADS,
  NUMBER_WORDS,
  NUMBERED,
  OFFICES,
  PARTS,
  PERSONS,
  THINGS,
  TRAILERS,
  VOCABULARY,
  WRAPPERS,
} from "./personal-words.ts";

/** `certain`: a person's own particulars stand there; `likely`: they may, and so may something else. */
export type Certainty = "certain" | "likely";

/** What names say of the value that they lead to. */
export interface PersonalName {
  /** Which of the names says it. */
  readonly at: number;
  readonly certainty: Certainty;
  /** Whether a number could be such a value: a telephone number can, an e-mail address cannot. */
  readonly takesNumber: boolean;
}

const COMPOUND_WORDS_MAX = 3;

/**
 * Whether the names that lead to a field, from the top and lists left out, say that personal data stands there. A name's last words
 * decide, with those of the name above it: an `emailTemplate` is a template, a `pod.name` no person's.
 */
export function personalName(names: readonly string[]): PersonalName | undefined {
  const read = names.map((name) => readings(name, VOCABULARY));
  const isAside = read.at(-1)?.some((words) => ASIDES.has(words.at(-1) ?? "")) ?? false;
  let likely: PersonalName | undefined;
  for (const [at, own] of read.entries()) {
    const above = read.slice(0, at).findLast((words) => !isWrapper(words)) ?? [[]];
    const found = strongest(own.flatMap((words) => above.map((over) => judge(words, over.slice(-2)))));
    if (found === undefined) continue;
    if (found.certainty === "certain" && !(isAside && at < names.length - 1)) return { at, ...found };
    likely ??= { at, ...found, certainty: "likely" };
  }
  return likely;
}

function isWrapper(reading: readonly (readonly string[])[]): boolean {
  return reading.every((words) => words.every((word) => WRAPPERS.has(word)));
}

type Judged = Omit<PersonalName, "at">;

function strongest(judged: readonly (Judged | undefined)[]): Judged | undefined {
  return judged.find((found) => found?.certainty === "certain") ?? judged.find((found) => found !== undefined);
}

function judge(words: readonly string[], above: readonly string[]): Judged | undefined {
  if (words.some((word) => HIDDEN.has(word)) || (words.length > 1 && ASKING.has(words[0] ?? ""))) return undefined;
  const stem = [...words];
  let isNumber = false;
  for (;;) {
    const certainty = certaintyOf(stem, { above, isNumber });
    const last = stem.at(-1) ?? "";
    if (certainty !== undefined) return { certainty, takesNumber: isNumber || IN_FIGURES.has(last) };
    if (stem.length < 2 || !TRAILERS.has(last)) return undefined;
    isNumber ||= NUMBER_WORDS.has(last);
    stem.pop();
  }
}

interface Around {
  readonly above: readonly string[];
  readonly isNumber: boolean;
}

function certaintyOf(words: readonly string[], { above, isNumber }: Around): Certainty | undefined {
  const whole = [...above, ...words];
  const last = words.at(-1) ?? "";
  const before = whole.at(-2) ?? "";
  if (last === "name" || last === "address") {
    if (PERSONS.has(before) || (last === "address" && compound(whole))) return "certain";
    if (last === "address") return THINGS.has(before) || words.length > 1 ? undefined : "likely";
  }
  if (PARTS[above.at(-1) ?? ""]?.has(words.join(" "))) return thing(above.slice(0, -1)) ? undefined : "certain";
  if (HEADS.has(last)) return ofHead(last, whole);
  if (isNumber && tails(whole).some((tail) => NUMBERED.has(tail))) return "certain";
  if (compound(whole)) return thing(whole.slice(0, -2)) ? undefined : "certain";
  const isMaybe = MAYBE_HEADS.has(last) || tails(whole).some((tail) => MAYBE_COMPOUNDS.has(tail));
  return isMaybe ? "likely" : undefined;
}

function ofHead(head: string, whole: readonly string[]): Certainty | undefined {
  const before = whole.slice(0, -1);
  if (head.endsWith("name") && thing(before)) return undefined;
  const isOffice = OFFICES.has(before.at(-1) ?? "") || before.slice(-2).join(" ") === "service account";
  return isOffice ? "likely" : "certain";
}

function compound(words: readonly string[]): boolean {
  return tails(words).some((tail) => COMPOUNDS.has(tail));
}

function thing(words: readonly string[]): boolean {
  return THINGS.has(words.at(-1) ?? "");
}

function tails(words: readonly string[]): readonly string[] {
  return Array.from({ length: COMPOUND_WORDS_MAX }, (_, at) => words.slice(-at - 1).join(" "));
}
