import type { Reading, RuleMatcher } from "../rules/rule.ts";
import {
  afterLineEnd,
  BASE64,
  BLANK,
  classesIn,
  DASH,
  EQUALS,
  isA,
  isOneOf,
  LINE_END,
  LOWER,
  lineEnd,
  NextPosition,
  QUOTE,
  runEnd,
  runStart,
  startAfter,
  type TextRange,
} from "../views/characters.ts";

const LABEL_CHARS_MAX = 64;
const DASHES = "-----";
const FOOTER = "-----END ";

/** Maximum length of a key with an END line: the largest keys in use, with a log's prefix on each line. UTF-16 units. */
const KEY_CHARS_MAX = 8_192;

/** Minimum length of the body; shorter text only mentions a key. UTF-16 units. */
const BODY_CHARS_MIN = 16;

/** Minimum length of a line of base64 other than the last. UTF-16 units. */
const LINE_CHARS_MIN = 24;

/** Maximum number of lines such as `Proc-Type: 4,ENCRYPTED` before the body. */
const HEADERS_MAX = 4;
const HEADER_CHARS_MAX = 128;
/** Matches a line end, literal or escaped, or the end of a string that holds one line. */
const HEADER_END = /\\[nr]|["'\r\n]/;
const OPENPGP_HEADERS: ReadonlySet<string> = new Set(["Version", "Comment", "Hash", "Charset", "MessageID"]);

/** Matches `RSA PRIVATE KEY`, `OpenVPN Static key V1`. */
const SECRET_KEY = /private key|static key/i;

/** Finds a PEM private key from `-----BEGIN ` to its END line, or to its last base64 line when it is cut off. */
export const matchPrivateKey: RuleMatcher = (reading, start, end) => {
  const { text } = reading;
  const label = text.slice(end, end + LABEL_CHARS_MAX);
  const dashes = label.indexOf(DASHES);
  if (dashes === -1 || !SECRET_KEY.test(label.slice(0, dashes))) return undefined;
  const head = runEnd(text, end + dashes, DASH, end + dashes + DASHES.length);
  const next = afterHeaders(text, separatorsEnd(text, head));
  const isNext = runEnd(text, next, BASE64 | EQUALS, next + BODY_CHARS_MIN) - next >= BODY_CHARS_MIN;
  if (!isNext) reading.work.spend((HEADERS_MAX + 1) * PREFIXED_CHARS_MAX * STEPS_PER_CHAR);
  const lines = new PrefixedLines(text, start);
  const body = isNext ? next : lines.body(head);
  if (body === -1) return undefined;
  const footer = reading.state(footers).after(body);
  const isNear = footer < text.length && footer - body < KEY_CHARS_MAX;
  if (isNear) return { rule: "private-key", start, end: afterFooter(text, footer) };
  return { rule: "private-key", start, end: isNext ? bodyEnd(text, body) : lines.bodyEnd(body) };
};

/** Maximum length of a line with a prefix, and minimum length of the first line's base64. UTF-16 units. */
const PREFIXED_CHARS_MAX = 256;
const PREFIXED_BODY_CHARS_MIN = 40;
const STEPS_PER_CHAR = 4;

/**
 * Reads the lines below when each begins with what a search or a log prints before the lines of a file: `k.pem:2:MII…`,
 * `12:00:01 app | MII…`. The prefixes differ only in their digits.
 */
class PrefixedLines {
  readonly #text: string;
  readonly #prefix: string;

  constructor(text: string, start: number) {
    this.#text = text;
    this.#prefix = withoutDigits(text.slice(startAfter(text, start, LINE_END, start - PREFIXED_CHARS_MAX), start));
  }

  /** Returns the start of the base64 in one of the lines below the offset; -1 when there is none. */
  body(head: number): number {
    if (this.#prefix === "" || !isA(this.#text, head, LINE_END)) return -1;
    let line = afterLineEnd(this.#text, head);
    for (let lines = 0; lines <= HEADERS_MAX; lines += 1) {
      const { start, end } = this.#base64(line);
      if (end - start >= PREFIXED_BODY_CHARS_MIN) return start;
      line = afterLineEnd(this.#text, end);
    }
    return -1;
  }

  /** Returns the end of the last line that ends with base64. */
  bodyEnd(body: number): number {
    let last = lineEnd(this.#text, body);
    while (last - body < KEY_CHARS_MAX) {
      const { start, end } = this.#base64(afterLineEnd(this.#text, last));
      if (end - start < LINE_CHARS_MIN) break;
      last = end;
    }
    return last;
  }

  /** Returns the base64 at the end of a line; an empty range when the line begins with another prefix. */
  #base64(line: number): TextRange {
    const end = lineEnd(this.#text, line, line + PREFIXED_CHARS_MAX);
    const start = runStart(this.#text, end, BASE64 | EQUALS, line);
    return withoutDigits(this.#text.slice(line, start)) === this.#prefix ? { start, end } : { start: end, end };
  }
}

function withoutDigits(prefix: string): string {
  return prefix.replace(/\d+/g, "");
}

const footers = ({ text }: Reading): NextPosition =>
  new NextPosition((from) => {
    const at = text.indexOf(FOOTER, from);
    return at === -1 ? text.length : at;
  });

function afterFooter(text: string, footer: number): number {
  const close = text.slice(footer + FOOTER.length, footer + LABEL_CHARS_MAX + FOOTER.length).indexOf(DASHES);
  return close === -1 ? footer : footer + FOOTER.length + close + DASHES.length;
}

/** Skips whitespace, line ends (literal or escaped), quotes, string concatenation, and prefixes of comment or quoted lines. */
function separatorsEnd(text: string, from: number): number {
  let at = from;
  const limit = from + HEADER_CHARS_MAX;
  while (at < limit) {
    if (isOneOf(text, at, "\\")) at += isOneOf(text, at + 1, "nrt") ? 2 : 1;
    else if (isA(text, at, BLANK | LINE_END) || isOneOf(text, at, "\"'`>|,")) at += 1;
    else if (isOneOf(text, at, "+.&#*") && isA(text, at - 1, BLANK | LINE_END | QUOTE)) at += 1;
    else return at;
  }
  return at;
}

function afterHeaders(text: string, from: number): number {
  let at = from;
  for (let headers = 0; headers < HEADERS_MAX; headers += 1) {
    const line = text.slice(at, at + HEADER_CHARS_MAX);
    const [name = ""] = line.split(":", 1);
    const isNamed = name.includes("-") || OPENPGP_HEADERS.has(name);
    const isHeader = name.length < line.length && name.length < BODY_CHARS_MIN && isNamed;
    const end = line.search(HEADER_END);
    if (!isHeader || end === -1) return at;
    at = separatorsEnd(text, at + end);
  }
  return at;
}

function bodyEnd(text: string, body: number): number {
  let end = body;
  let at = body;
  while (at < text.length) {
    const line = runEnd(text, at, BASE64 | EQUALS);
    const isWord = line - at < LINE_CHARS_MIN && (classesIn(text, at, line) & ~LOWER) === 0;
    if (line === at || isWord) return end;
    end = line;
    if (line - at < LINE_CHARS_MIN) return end;
    at = separatorsEnd(text, line);
  }
  return end;
}
