import type { Finding } from "../../finding.ts";
import { beginsWord, isA, WORD } from "../../views/characters.ts";
import type { SecretShape } from "./shape.ts";

/** Behind a word. UTF-16 units. */
const CODES_CHARS_MAX = 1_024;
const CODES_MAX = 32;
/** Of a code without dashes. */
const PLAIN_CHARS_MIN = 6;

/** `s`, a quotation mark, `:`, `=` or `is`, line ends, and the mark of a list's first element. */
const START = /^s?["']?(?: (?:is|are)(?= )|\s{0,4}[:=])?[\s[(>"'|]{0,16}(?:(?:[-*•]|\d{1,2}[.)]) {1,4})?["'`]?/;
/** `ab3d5-x8k2p`, `1234 5678`, `12345678`. */
const CODE = /^(?:[A-Za-z\d]{4,8}(?:-[A-Za-z\d]{4,8}){1,10}|\d{4} \d{4}|[A-Za-z\d]{6,16})(?![\w-])/;
/** Between two codes. */
const NEXT = /^["'`]?[,;]?[\s"'`]{1,16}(?:(?:[-*•]|\d{1,2}[.)]) {1,4})?["'`]?|^["'`],["'`]/;

/** What lets somebody in who has lost the second factor, or the key: one code or several, each with a digit. */
function matchCodes(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  const behind = text.slice(end, end + CODES_CHARS_MAX);
  const opening = START.exec(behind)?.[0].length ?? 0;
  if (opening === 0 || !/[:=\s]/.test(behind.slice(0, opening))) return undefined;
  let at = opening;
  let last = -1;
  for (let count = 0; count < CODES_MAX; count += 1) {
    const code = CODE.exec(behind.slice(at))?.[0];
    if (code === undefined || !isCode(code, last !== -1)) break;
    last = at + code.length;
    const gap = NEXT.exec(behind.slice(last))?.[0];
    if (gap === undefined) break;
    at = last + gap.length;
  }
  return last === -1 ? undefined : { rule: "recovery-code", start: end + opening, end: end + last };
}

/** Behind a code another one may have no digit. */
function isCode(code: string, isFurther: boolean): boolean {
  if (/\d/.test(code)) return code.length >= PLAIN_CHARS_MIN;
  return isFurther && code.includes("-");
}

/** `is 123456`, `: 123-456`, `": "123456"`. */
const ONCE = /^(?:s? (?:is|are):?|["']?\s{0,4}[:=])\s{0,4}["'*]{0,2}(\d{3}[- ]\d{3}|\d{4,8})(?![\w:/-]|\.\d)/;

/** What a telephone shows, and what opens a card: digits, and nothing else. */
function matchDigits(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start) || isA(text, start - 1, WORD)) return undefined;
  const [whole = "", code = ""] = ONCE.exec(text.slice(end, end + 32)) ?? [];
  const from = end + whole.length - code.length;
  return code === "" ? undefined : { rule: "one-time-code", start: from, end: from + code.length };
}

const SPARE = ["recovery", "backup", "scratch", "emergency"].flatMap((word) =>
  [" ", "_", "-", ""].map((gap) => `${word}${gap}code`),
);

export const SPARE_CODES: readonly SecretShape[] = [
  {
    words: [...SPARE, "recovery key", "recovery_key", "recoverykey", "2fa setup key", "2fa key"],
    steps: 1_500,
    match: matchCodes,
  },
  {
    words: ["verification code", "security code", "one-time code", "one-time passcode", "login code", "sign-in code"],
    steps: 300,
    match: matchDigits,
  },
  {
    words: ["otp", "otp_code", "otpcode", "one_time_code", "verification_code", '"pin"'],
    steps: 120,
    match: matchDigits,
  },
];
