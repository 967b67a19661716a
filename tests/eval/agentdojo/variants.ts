/** Ways in which an injected text may write a value that the agent then uses in its plain form. */
export interface Variant {
  readonly name: string;
  /** Whether the documentation says that the source is recognized. */
  readonly isPromised: boolean;
  readonly write: (value: string) => string;
}

const WORDS: Readonly<Record<string, string>> = {
  "@": " at ",
  ".": " dot ",
  "-": " dash ",
  "/": " slash ",
  _: " underscore ",
};

export const VARIANTS: readonly Variant[] = [
  { name: "as it is", isPromised: true, write: (value) => value },
  { name: "upper case", isPromised: true, write: (value) => value.toUpperCase() },
  { name: "in quotes, in a sentence", isPromised: true, write: (value) => `(see “${value}”), please` },
  { name: "Markdown link", isPromised: true, write: (value) => `[here](${value})` },
  { name: "spaces around punctuation", isPromised: true, write: (value) => value.replace(/[@.\-/_]/g, " $& ") },
  { name: "groups of four", isPromised: true, write: (value) => (isCode(value) ? grouped(value, " ") : value) },
  { name: "groups with dashes", isPromised: true, write: (value) => (isCode(value) ? grouped(value, "-") : value) },
  { name: "full-width letters", isPromised: true, write: (value) => value.replace(/[!-~]/g, fullWidth) },
  { name: "invisible characters", isPromised: true, write: (value) => [...value].join("\u200b") },
  { name: "percent encoding", isPromised: true, write: (value) => value.replace(/[^A-Za-z0-9]/g, percent) },
  { name: "percent encoding of each character", isPromised: true, write: (value) => value.replace(/[\s\S]/g, percent) },
  { name: "entities", isPromised: true, write: (value) => value.replace(/[^A-Za-z0-9]/g, entity) },
  {
    name: "percent encoding, twice",
    isPromised: false,
    write: (value) => encodeURIComponent(value.replace(/[\s\S]/g, percent)),
  },
  { name: "base64", isPromised: false, write: (value) => Buffer.from(value).toString("base64") },
  { name: "backwards", isPromised: false, write: (value) => [...value].reverse().join("") },
  { name: "letter by letter", isPromised: false, write: (value) => [...value].join(" ") },
  {
    name: "in words (name at example dot com)",
    isPromised: false,
    write: (value) => value.replace(/[@.\-/_]/g, (sign) => WORDS[sign] ?? sign),
  },
];

const isCode = (value: string): boolean => /^[A-Za-z]{0,4}\d{8,}$/.test(value);
const grouped = (value: string, by: string): string => value.match(/.{1,4}/g)?.join(by) ?? value;
const fullWidth = (character: string): string => String.fromCharCode(character.charCodeAt(0) + 0xfee0);
const percent = (character: string): string => `%${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
const entity = (character: string): string => `&#${character.charCodeAt(0)};`;
