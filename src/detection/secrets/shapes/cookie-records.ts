import type { Finding, Matched } from "../../finding.ts";
import { BLANK, LINE_END, runEnd } from "../../views/characters.ts";
import { isSecretValue, JUDGED_CHARS_MAX } from "../values.ts";
import type { SecretShape } from "./shape.ts";

/** Around a member that only cookies have, and of a line. UTF-16 units. */
const RECORD_CHARS_MAX = 1_024;
const LIST_CHARS_MAX = 4_096;
const COOKIES_MAX = 64;

/** `"value": "…"` of a record: what browsers send back is of one piece. */
const VALUE = /["']value["']\s{0,8}:\s{0,8}(["'])([^"'\s]{8,4096})\1/g;

function valuesIn(text: string, from: number, to: number): readonly Finding[] {
  const found: Finding[] = [];
  for (const match of text.slice(from, to).matchAll(VALUE)) {
    const value = match[2] ?? "";
    const start = from + match.index + match[0].length - value.length - 1;
    if (isCookie(value)) found.push({ rule: "cookie", start, end: start + value.length });
    if (found.length === COOKIES_MAX) break;
  }
  return found;
}

/** A setting (`theme=dark`, `en-GB`, a small number) is none. */
function isCookie(value: string): boolean {
  return isSecretValue(value.slice(0, JUDGED_CHARS_MAX), "token", "quoted");
}

/** `"httpOnly": true` and its like: the value of the same object. */
function matchRecord(text: string, start: number, end: number): Matched {
  const before = text.slice(Math.max(0, start - RECORD_CHARS_MAX), start);
  const opening = Math.max(before.lastIndexOf("{"), before.lastIndexOf("}"));
  if (opening === -1 || before[opening] === "}") return undefined;
  const after = text.slice(end, end + RECORD_CHARS_MAX);
  const closing = /[{}]/.exec(after)?.index ?? after.length;
  const found = valuesIn(text, start - before.length + opening, end + closing);
  return found.length === 0 ? end + closing : found;
}

/** `"cookies": [{"name": "…", "value": "…"}]`. */
function matchList(text: string, _start: number, end: number): Matched {
  const colon = runEnd(text, end, BLANK | LINE_END, end + 8);
  const open = text[colon] === ":" ? runEnd(text, colon + 1, BLANK | LINE_END, colon + 32) : colon;
  if (text[open] !== "[") return undefined;
  const inside = text.slice(open, open + LIST_CHARS_MAX);
  const close = inside.indexOf("]");
  const to = open + (close === -1 ? inside.length : close);
  const found = valuesIn(text, open, to);
  return found.length === 0 ? to : found;
}

/** Of a cookie file: whether subdomains have it, the path, whether it is for TLS only, when it ends, its name. */
const FILE_LINE = /^[^\t\r\n]{1,256}\t(?:TRUE|FALSE)\t\d{1,16}\t[^\t\r\n]{1,256}\t([^\t\r\n]{8,4096})/;

function matchFileLine(text: string, _start: number, end: number): Finding | undefined {
  const [line = "", value = ""] = FILE_LINE.exec(text.slice(end - 1, end + RECORD_CHARS_MAX + LIST_CHARS_MAX)) ?? [];
  if (!isCookie(value)) return undefined;
  const to = end - 1 + line.length;
  return { rule: "cookie", start: to - value.length, end: to };
}

/** Cookies as browsers, recordings of them and `curl` keep them: their names say nothing, their company does. */
export const COOKIE_RECORDS: readonly SecretShape[] = [
  {
    words: ['"httponly"', '"samesite"', '"hostonly"', '"expirationdate"', "'httponly'", "'samesite'"],
    steps: 3_000,
    match: matchRecord,
  },
  { words: ['"cookies"', "'cookies'"], steps: 5_000, match: matchList },
  { words: ["\ttrue\t/", "\tfalse\t/"], steps: 1_500, match: matchFileLine },
];
