/** Longer names are not read (UTF-16 units). */
const NAME_CHARS_MAX = 96;
/** Longer runs of letters are not split into words (UTF-16 units). */
const RUN_CHARS_MAX = 40;

/**
 * Returns the ways in which a field's name can be read as words, in lower case and singular, without digits at the end of a
 * word: `primaryEmails`, `primary_email`, `Primary-EMAIL2` and `primaryemail` all give `primary email`. `vocabulary`: the words
 * into which a run without separators may be split.
 */
export function readings(name: string, vocabulary: ReadonlySet<string>): readonly (readonly string[])[] {
  if (name.length > NAME_CHARS_MAX) return [];
  const text = name.normalize("NFKC");
  const camel = text.replace(/([\p{Ll}\d])(\p{Lu})/gu, "$1 $2");
  const found = [wordsIn(camel), wordsIn(camel.replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2"))];
  const joined = wordsIn(text.replace(/[^\p{L}\p{N}]/gu, ""))[0];
  if (joined !== undefined) found.push([joined]);
  return distinct(found.map((words) => words.flatMap((word) => takenApart(word, vocabulary))));
}

/** Returns whether a name is plural: `emails`, `phone_numbers`. */
export function isPlural(name: string): boolean {
  const last = name.replace(/[^\p{L}]+$/u, "").toLowerCase();
  return last.endsWith("s") && singular(last) !== last;
}

function wordsIn(text: string): readonly string[] {
  return text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]/u)
    .map((word) => singular(word.replace(/\d{1,8}$/, "")))
    .filter((word) => word !== "");
}

/** Endings of singular words such as `address`, `status`, `diagnosis`. */
const ONE = /(?:ss|us|is)$/;

function singular(word: string): string {
  if (word.endsWith("addresses")) return word.slice(0, -2);
  return word.length > 3 && word.endsWith("s") && !ONE.test(word) ? word.slice(0, -1) : word;
}

/** Splits a run of letters into words that are all in the vocabulary; returns the run when that is not possible. */
function takenApart(run: string, vocabulary: ReadonlySet<string>): readonly string[] {
  if (vocabulary.has(run) || run.length > RUN_CHARS_MAX) return [run];
  /** The fewest words that lead to each end position. */
  const ways: (readonly string[] | undefined)[] = [[]];
  for (let end = 1; end <= run.length; end += 1) {
    for (let start = 0; start < end; start += 1) {
      const before = ways[start];
      const word = run.slice(start, end);
      const known = vocabulary.has(word) || (end < run.length && vocabulary.has(singular(word)));
      if (before === undefined || !known || before.length + 1 >= (ways[end]?.length ?? RUN_CHARS_MAX)) continue;
      ways[end] = [...before, singular(word)];
    }
  }
  return ways[run.length] ?? [run];
}

function distinct(lists: readonly (readonly string[])[]): readonly (readonly string[])[] {
  return [...new Map(lists.map((words) => [words.join(" "), words])).values()];
}
