import type { Reading, RuleMatcher } from "../rules/rule.ts";
import {
  BASE64,
  BLANK,
  classesIn,
  DASH,
  EQUALS,
  isA,
  isOneOf,
  LINE_END,
  LOWER,
  NextPosition,
  QUOTE,
  runEnd,
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
  const body = afterHeaders(text, separatorsEnd(text, runEnd(text, end + dashes, DASH, end + dashes + DASHES.length)));
  if (runEnd(text, body, BASE64 | EQUALS, body + BODY_CHARS_MIN) - body < BODY_CHARS_MIN) return undefined;
  const footer = reading.state(footers).after(body);
  const isNear = footer < text.length && footer - body < KEY_CHARS_MAX;
  const stop = isNear ? afterFooter(text, footer) : bodyEnd(text, body);
  return { rule: "private-key", start, end: stop };
};

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
