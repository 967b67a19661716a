import { Anchors } from "./anchors.ts";
import { Work } from "./bounds.ts";
import { ANNOUNCING_WORDS } from "./rules/personal-data.ts";
import { NAME_ANCHORS, type SecretKind, secretKind } from "./secrets/names.ts";
import { cleanText } from "./views/clean-text.ts";
import { decodedView } from "./views/decoded-view.ts";

/** The meaning of a field name for the field's value. */
export interface Label {
  /** The name as separate words when it announces personal data, such as `date of birth`; otherwise empty. */
  readonly words: string;
  readonly secret: SecretKind | undefined;
}

/** Longer names are ignored. UTF-16 units. */
const NAME_CHARS_MAX = 96;

export const NO_LABEL: Label = { words: "", secret: undefined };

const ANNOUNCING = new Anchors(() => ANNOUNCING_WORDS);

/** A name needs one of these to have a meaning. `pat` means a token only as a separate word; `auth` means credentials. */
const MEANINGFUL = new Anchors(() => [...NAME_ANCHORS, "pat", "auth", ...ANNOUNCING_WORDS.map(longestWord)]);

function longestWord(announcing: string): string {
  return announcing.split(" ").reduce((longest, word) => (word.length > longest.length ? word : longest), "");
}

/** Cache of names: most belong to a schema and are the same in every value. */
const known = new Map<string, Label>();
const KNOWN_MAX = 4_096;

/** Returns the name as a reader or a program understands it, without invisible characters. */
export function plainName(name: string): string {
  const clean = cleanText(name);
  return decodedView(clean, new Work())?.text ?? clean;
}

export function labelOf(written: string): Label {
  const name = plainName(written);
  if (name.length > NAME_CHARS_MAX) return NO_LABEL;
  const cached = known.get(name);
  if (cached !== undefined) return cached;
  const label = MEANINGFUL.occursIn(name) ? read(name) : NO_LABEL;
  if (known.size < KNOWN_MAX) known.set(name, label);
  return label;
}

function read(name: string): Label {
  const words = inWords(name);
  return { words: ANNOUNCING.occursIn(words) ? words : "", secret: secretKind(name) };
}

/** Splits a name into words: `dateOfBirth`, `date_of_birth` and `date-of-birth` all become `date of birth`. */
function inWords(name: string): string {
  return name
    .replace(/[_.\-[\]]/g, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase();
}
