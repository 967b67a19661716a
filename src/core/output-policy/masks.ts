/** Only this many characters of a longer text are masked; one `…` replaces the rest (UTF-16 units). */
const MASKED_CHARS_MAX = 1_024;

/** Longer grapheme clusters can hide text, so only their first code point is kept (UTF-16 units). */
const GRAPHEME_CHARS_MAX = 16;

/** A longer last label of a domain is not a top-level domain, and is not kept. */
const TLD_CHARS_MAX = 10;

const LONG_DIGITS = { from: 8, kept: 4 } as const;
const SHORT_DIGITS = { from: 5, kept: 2 } as const;

const SEPARATORS = " -./()+,:_#";

const VISIBLE = /[\p{L}\p{N}\p{P}\p{S}]/u;
const DIGIT = /^\p{Nd}/u;
const LETTER_OR_DIGIT = /^[\p{L}\p{N}]/u;
const KEEPABLE = /^[\p{L}\p{Extended_Pictographic}\p{Regional_Indicator}]/u;
const TLD = /^[A-Za-z]{2,}$/;

/** Tags and supplementary variation selectors: invisible characters that can encode any text. */
const HIDDEN_TEXT = /[\u{e0000}-\u{e0fff}]/u;

const ASCII_CODES = 0x80;

type Clusters = ArrayLike<string>;

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/**
 * Shows the kind of a value and little of its content. Words keep their first letter (`John Smith` → `J*** S****`); an
 * e-mail address keeps the first letter of each part and its top-level domain (`j***@e******.com`); digit strings keep
 * their separators and their last four digits of eight or more, or the last two of five to seven; a letter at the end takes the
 * place of a digit; numbers and booleans become `***`; null stays null. A visible value is never returned unchanged.
 */
export function mask(value: string | number | boolean | null): string | null {
  if (value === null) return null;
  if (typeof value !== "string") return "***";
  const masked = maskText(value);
  return masked === value && VISIBLE.test(value) ? "[masked]" : masked;
}

function maskText(text: string): string {
  if (text.length > MASKED_CHARS_MAX) return `${maskWords(split(text.slice(0, MASKED_CHARS_MAX)))}…`;
  const clusters = split(text);
  return maskEmail(text) ?? maskDigits(clusters) ?? maskWords(clusters);
}

/** Splits a text into user-perceived characters. An ASCII text serves as the list of its own characters. */
function split(text: string): Clusters {
  if (isAscii(text)) return text;
  return Array.from(graphemes.segment(text), ({ segment }) => segment);
}

function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) if (text.charCodeAt(at) > 0x7e) return false;
  return true;
}

function maskWords(clusters: Clusters): string {
  let masked = "";
  let start = 0;
  for (let at = 0; at < clusters.length; at += 1) {
    if (!isWhitespace(clusters[at] ?? "")) continue;
    masked += `${maskWord(clusters, start, at)} `;
    start = at + 1;
  }
  return masked + maskWord(clusters, start, clusters.length);
}

/** Masks a word, keeping its first character when that is a letter or a pictograph and others follow. */
function maskWord(clusters: Clusters, start = 0, end = clusters.length): string {
  const first = clusters[start] ?? "";
  if (!isKeepable(first) || !hidesSomething(clusters, start + 1, end)) return "*".repeat(end - start);
  return firstCharacter(first) + "*".repeat(end - start - 1);
}

function hidesSomething(clusters: Clusters, start: number, end: number): boolean {
  for (let at = start; at < end; at += 1) {
    const cluster = clusters[at] ?? "";
    if (isDigit(cluster) || isKeepable(cluster) || isOtherLetterOrDigit(cluster)) return true;
  }
  return false;
}

function isWhitespace(cluster: string): boolean {
  const code = cluster.charCodeAt(0);
  return code < ASCII_CODES && cluster.length === 1
    ? code === 0x20 || (code >= 0x09 && code <= 0x0d)
    : cluster.trim() === "";
}

// For speed, ASCII characters are classified without a regular expression.
function isDigit(cluster: string): boolean {
  const code = cluster.charCodeAt(0);
  return code < ASCII_CODES ? code >= 0x30 && code <= 0x39 : DIGIT.test(cluster);
}

function isKeepable(cluster: string): boolean {
  const code = cluster.charCodeAt(0);
  return code < ASCII_CODES ? (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a : KEEPABLE.test(cluster);
}

function isOtherLetterOrDigit(cluster: string): boolean {
  return cluster.charCodeAt(0) >= ASCII_CODES && LETTER_OR_DIGIT.test(cluster);
}

function firstCharacter(cluster: string): string {
  if (cluster.length <= GRAPHEME_CHARS_MAX && !HIDDEN_TEXT.test(cluster)) return cluster;
  return String.fromCodePoint(cluster.codePointAt(0) ?? 0x2a);
}

/** Returns `undefined` when the text is not one e-mail address. */
function maskEmail(text: string): string | undefined {
  const at = text.indexOf("@");
  if (at < 1 || at !== text.lastIndexOf("@") || /\s/.test(text)) return undefined;
  const labels = text.slice(at + 1).split(".");
  if (labels.length < 2 || labels.includes("")) return undefined;
  const last = labels.pop() ?? "";
  const tld = last.length <= TLD_CHARS_MAX && TLD.test(last) ? last : maskWord(split(last));
  return `${maskWord(split(text.slice(0, at)))}@${[...labels.map((label) => maskWord(split(label))), tld].join(".")}`;
}

/** Returns `undefined` when digits are not more than half of the text, separators not counted. */
function maskDigits(clusters: Clusters): string | undefined {
  let digits = 0;
  let others = 0;
  for (let at = 0; at < clusters.length; at += 1) {
    const cluster = clusters[at] ?? "";
    if (isDigit(cluster)) digits += 1;
    else if (!SEPARATORS.includes(cluster)) others += 1;
  }
  if (digits <= others) return undefined;
  let hidden = digits + others - keptDigits(digits);
  let masked = "";
  for (let at = 0; at < clusters.length; at += 1) {
    const cluster = clusters[at] ?? "";
    if (SEPARATORS.includes(cluster)) {
      masked += cluster;
      continue;
    }
    masked += hidden <= 0 && isDigit(cluster) ? firstCharacter(cluster) : "*";
    hidden -= 1;
  }
  return masked;
}

function keptDigits(digits: number): number {
  if (digits >= LONG_DIGITS.from) return LONG_DIGITS.kept;
  return digits >= SHORT_DIGITS.from ? SHORT_DIGITS.kept : 0;
}
