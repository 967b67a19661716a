import type { Finding } from "../../finding.ts";
import { BLANK, beginsWord, isA, isOneOf, QUOTE } from "../../views/characters.ts";
import type { SecretShape } from "./shape.ts";

const LINE_CHARS_MAX = 512;
const CURL_CHARS_MAX = 256;
const CURL_FLAGS = [" -u ", " --user ", " --user=", " --proxy-user ", " -u"];

/** `curl … -u user:password`. */
function matchCurlUser(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start) || !isA(text, end, BLANK)) return undefined;
  const [line = ""] = text.slice(end, end + CURL_CHARS_MAX).split("\n", 1);
  const flag = CURL_FLAGS.find((word) => line.includes(word));
  if (flag === undefined) return end + line.length;
  const from = end + line.indexOf(flag) + flag.length;
  const value = isA(text, from, QUOTE) ? from + 1 : from;
  let to = value;
  let colon = -1;
  while (to < end + line.length && !isA(text, to, BLANK | QUOTE)) {
    if (isOneOf(text, to, ":") && colon === -1) colon = to;
    to += 1;
  }
  if (colon === -1 || colon + 1 >= to || "$<{".includes(text[colon + 1] ?? "")) return to;
  return { rule: "curl-user", start: colon + 1, end: to };
}

/** `curl … -b 'a=b'`. */
function matchCurlCookie(text: string, start: number, end: number): Finding | undefined {
  if (!text.slice(Math.max(0, start - CURL_CHARS_MAX), start).includes("curl")) return undefined;
  const limit = Math.min(text.length, end + LINE_CHARS_MAX);
  let to = end;
  while (to < limit && text[to] !== text[end - 1]) to += 1;
  const value = text.slice(end, to);
  return /^[\w.-]{1,64}=[^$<{]{4}/.test(value) ? { rule: "cookie", start: end, end: to } : undefined;
}

/** What `curl` is given to log in with. */
export const CURL_OPTIONS: readonly SecretShape[] = [
  { words: ["curl"], steps: 400, match: matchCurlUser },
  { words: [" -b '", ' -b "'], steps: 400, match: matchCurlCookie },
];
