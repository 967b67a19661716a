import type { Finding } from "../../finding.ts";
import {
  BASE64,
  BASE64URL,
  BLANK,
  beginsWord,
  DOT,
  EQUALS,
  isA,
  isOneOf,
  PERCENT,
  runEnd,
  TILDE,
} from "../../views/characters.ts";
import { isBasicCredentials } from "../value-shapes.ts";
import type { SecretShape } from "./shape.ts";

/** UTF-16 units. */
const BEARER_CHARS_MIN = 20;
const BASIC_CHARS_MIN = 6;
const JWT_PART_CHARS_MIN = 8;
const JWT_PARTS_MAX = 5;
const LINE_CHARS_MAX = 512;

/** Compact JWS and JWE: parts of base64url, the first a JSON object. */
function matchJwt(text: string, start: number): Finding | number | undefined {
  if (!text.startsWith("eyJ", start)) return undefined;
  const header = runEnd(text, start, BASE64URL);
  if (header - start < JWT_PART_CHARS_MIN || !isOneOf(text, header, ".")) return header;
  let end = runEnd(text, header + 1, BASE64URL);
  const isObject = text.startsWith("eyJ", header + 1);
  if (end - header - 1 < JWT_PART_CHARS_MIN && !isOneOf(text, end, ".")) return header;
  let parts = 2;
  while (
    isOneOf(text, end, ".") &&
    parts < JWT_PARTS_MAX &&
    (isA(text, end + 1, BASE64URL) || isOneOf(text, end + 1, "."))
  ) {
    end = runEnd(text, end + 1, BASE64URL);
    parts += 1;
  }
  return parts > 2 || isObject ? { rule: "jwt", start, end } : header;
}

/** `Bearer …`, also with `:` or `%20` in place of the blank. */
function matchBearer(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  const from = text.startsWith("%20", end) ? end + 3 : runEnd(text, end, BLANK, end + 8);
  if (from === end) return undefined;
  const classes = BASE64URL | DOT | TILDE | BASE64 | EQUALS | PERCENT;
  if (runEnd(text, from, classes, from + BEARER_CHARS_MIN) - from < BEARER_CHARS_MIN) return undefined;
  return { rule: "bearer-token", start: from, end: runEnd(text, from, classes) };
}

/** `Basic` with base64 of `user:password`. */
function matchBasic(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  const from = runEnd(text, end, BLANK, end + 8);
  const to = runEnd(text, from, BASE64 | EQUALS, from + LINE_CHARS_MAX);
  if (from === end || to - from < BASIC_CHARS_MIN) return undefined;
  return isBasicCredentials(text.slice(from, to)) ? { rule: "basic-credentials", start: from, end: to } : undefined;
}

/** What requests show to be let in, wherever it stands. */
export const BEARER_TOKENS: readonly SecretShape[] = [
  { words: ["eyj"], steps: 60, match: matchJwt },
  { words: ["bearer"], steps: 60, match: matchBearer },
  { words: ["basic"], steps: 600, match: matchBasic },
];
