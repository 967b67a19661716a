/** Ways to write a value so that a naive filter does not see it; `kinds` names those for which it is expected to be found. */
export interface Evasion {
  readonly name: string;
  readonly write: (value: string) => string;
  readonly found: readonly string[];
}

const ALL = ["EMAIL", "CARD", "IBAN", "US_SSN", "PHONE", "IP", "DATE_OF_BIRTH", "SECRET"];
const NUMBERS = ["CARD", "US_SSN", "DATE_OF_BIRTH"];

const between = (value: string, inserted: string) => [...value].join(inserted);
const each = (value: string, write: (code: number) => string) =>
  [...value].map((one) => write(one.charCodeAt(0))).join("");
const base64 = (value: string) => Buffer.from(value).toString("base64");
const digitsFrom = (zero: number) => (value: string) =>
  value.replace(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit)));
const half = (value: string, cut: string) => value.slice(0, value.length / 2) + cut + value.slice(value.length / 2);

export const EVASIONS: readonly Evasion[] = [
  { name: "as it is", write: (value) => value, found: ALL },
  { name: "zero-width blanks", write: (value) => between(value, "\u200b"), found: ALL },
  { name: "soft hyphens", write: (value) => between(value, "\u00ad"), found: ALL },
  { name: "word joiners", write: (value) => between(value, "\u2060"), found: ALL },
  { name: "tag characters", write: (value) => between(value, String.fromCodePoint(0xe0041)), found: ALL },
  { name: "variation selectors", write: (value) => between(value, "\ufe0f"), found: ALL },
  {
    name: "full width",
    write: (value) =>
      each(value, (code) =>
        code > 0x20 && code < 0x7f ? String.fromCharCode(code + 0xfee0) : String.fromCharCode(code),
      ),
    found: ALL,
  },
  { name: "Arabic digits", write: digitsFrom(0x660), found: NUMBERS },
  { name: "Devanagari digits", write: digitsFrom(0x966), found: NUMBERS },
  { name: "mathematical digits", write: digitsFrom(0x1d7ce), found: NUMBERS },
  { name: "percent", write: (value) => each(value, (code) => `%${code.toString(16).padStart(2, "0")}`), found: ALL },
  {
    name: "percent twice",
    write: (value) => each(value, (code) => `%25${code.toString(16).padStart(2, "0")}`),
    found: ALL,
  },
  { name: "HTML decimal", write: (value) => each(value, (code) => `&#${code};`), found: ALL },
  { name: "HTML hexadecimal", write: (value) => each(value, (code) => `&#x${code.toString(16)};`), found: ALL },
  {
    name: "JSON escapes",
    write: (value) => each(value, (code) => `\\u${code.toString(16).padStart(4, "0")}`),
    found: ALL,
  },
  {
    name: "hexadecimal escapes",
    write: (value) => each(value, (code) => `\\x${code.toString(16).padStart(2, "0")}`),
    found: ALL,
  },
  { name: "base64 of a line", write: (value) => base64(`born tel here: ${value} and so on`), found: ALL },
  { name: "base64 twice", write: (value) => base64(base64(`born tel here: ${value} and so on`)), found: ALL },
  { name: "base64url", write: (value) => Buffer.from(`born here: ${value}?>~`).toString("base64url"), found: ALL },
  { name: "hexadecimal", write: (value) => Buffer.from(`born ${value}`).toString("hex"), found: ALL },
  {
    name: "UTF-16 in base64",
    write: (value) => Buffer.from(`born ${value}`, "utf16le").toString("base64"),
    found: ALL,
  },
  { name: "terminal colours", write: (value) => half(value, "\u001b[31m"), found: ALL },
  { name: "no-break blanks for blanks", write: (value) => value.replaceAll(" ", "\u00a0"), found: ALL },
  {
    name: "long dashes for dashes",
    write: (value) => value.replaceAll("-", "\u2013"),
    found: ["EMAIL", "CARD", "IBAN", "US_SSN", "PHONE", "IP", "DATE_OF_BIRTH"],
  },
  { name: "a line end in the middle", write: (value) => half(value, "\n"), found: [] },
  { name: "reversed", write: (value) => [...value].reverse().join(""), found: [] },
  {
    name: "rot13",
    write: (value) =>
      value.replace(/[a-z]/gi, (one) =>
        String.fromCharCode((((one.charCodeAt(0) & 31) + 12) % 26) + (one.charCodeAt(0) & 96) + 1),
      ),
    found: [],
  },
];
