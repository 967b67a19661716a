import { domainToUnicode } from "node:url";

/**
 * Prepares texts for fingerprints: the plain forms of their characters, what they are when one level of encoding is removed, and
 * pieces of bounded length.
 */

/** Longest text that is read at once, in UTF-16 units: longer ones are read in pieces. */
export const PIECE_CHARACTERS = 8_192;
/** Pieces of one text overlap, so that no value of usual length is cut. */
const OVERLAP_CHARACTERS = 128;
/** Between texts that are read together: no phrase goes across it. */
export const BOUNDARY = "\x01";

const ACCENTS_AND_INVISIBLE = /[\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]+/gu;
const OTHER_SEPARATORS = /[^\p{L}\p{N}\0-\x7f]+/gu;
/** Scripts without spaces: every character is a word. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/gu;
/** Full stops and hyphens of other scripts, which stand in addresses as well. */
const OTHER_STOPS = /\u3002/g;
const OTHER_HYPHENS = /\u2010/g;
/** Percent encoding, entities (a number needs no semicolon in HTML), and the escapes of JSON. */
const ENCODED =
  /(?:%[0-9a-fA-F]{2})+|&(?:(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));?|([a-zA-Z]{2,7});)|\\(?:u([0-9a-fA-F]{4})|([nrt"\\/]))/g;
/** Labels of host names in Punycode (RFC 5890). */
const PUNYCODE = /xn--[a-z0-9-]{1,59}/gi;
/** Octets in quoted-printable, and ends of lines that are none (RFC 2045, section 6.7). */
const QUOTED_PRINTABLE = /(?:=[0-9A-Fa-f]{2})+|=[ \t]*\r?\n/g;
/** What joins the words of an address, with spaces around it. */
const SPACED = / +([@._/+-]) +/g;
const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
  commat: "@",
  period: ".",
  sol: "/",
  colon: ":",
  hyphen: "-",
  dash: "-",
  lowbar: "_",
  plus: "+",
  num: "#",
  quest: "?",
  equals: "=",
  comma: ",",
  semi: ";",
  shy: "",
  zwj: "",
  zwnj: "",
};
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };
const CODE_POINT_LAST = 0x10_ffff;

/** Returns a text without accents and invisible characters, and with the plain forms of its letters and digits. */
export function folded(text: string): string {
  const letters = text.normalize("NFKD").replace(ACCENTS_AND_INVISIBLE, "").toLowerCase();
  const plain = letters.replace(OTHER_STOPS, ".").replace(OTHER_HYPHENS, "-");
  return plain.replace(OTHER_SEPARATORS, " ").replace(UNSPACED, " $& ");
}

/** Returns a text without boundaries: as it is and, when parts of it are encoded, with each kind of encoding removed once. */
export function variantsOf(text: string): readonly string[] {
  const own = withoutBoundaries(text);
  const variants = [own];
  const add = (decoded: string): void => {
    const variant = withoutBoundaries(decoded);
    if (!variants.includes(variant)) variants.push(variant);
  };
  if (own.includes("%") || own.includes("&") || own.includes("\\")) add(own.replace(ENCODED, decoded));
  if (own.includes("=")) add(own.replace(QUOTED_PRINTABLE, octets));
  if (own.includes(" @ ") || own.includes(" . ")) add(own.replace(SPACED, "$1"));
  // Host names in Punycode may be encoded as well.
  for (const variant of [...variants])
    if (variant.includes("--")) add(variant.replace(PUNYCODE, (label) => domainToUnicode(label) || label));
  return variants;
}

function withoutBoundaries(text: string): string {
  return text.includes(BOUNDARY) ? text.replaceAll(BOUNDARY, " ") : text;
}

function decoded(encoded: string, ...groups: readonly (string | undefined)[]): string {
  const [decimal, hex, entity, unit, escaped] = groups;
  if (entity !== undefined) return ENTITIES[entity.toLowerCase()] ?? encoded;
  if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16));
  if (escaped !== undefined) return ESCAPES[escaped] ?? escaped;
  if (decimal === undefined && hex === undefined) return octets(encoded);
  const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
  return code <= CODE_POINT_LAST ? String.fromCodePoint(code) : encoded;
}

/** Returns the text of octets that are written in hexadecimal, each after one other character; nothing for the end of a line. */
function octets(encoded: string): string {
  return Buffer.from(encoded.replaceAll(/[%=\s]/g, ""), "hex").toString("utf8");
}

/** Cuts a text into pieces that overlap. */
export function piecesOf(text: string): readonly string[] {
  if (text.length <= PIECE_CHARACTERS) return [text];
  const pieces: string[] = [];
  for (let at = 0; at + OVERLAP_CHARACTERS < text.length; at += PIECE_CHARACTERS - OVERLAP_CHARACTERS)
    pieces.push(text.slice(at, at + PIECE_CHARACTERS));
  return pieces;
}
