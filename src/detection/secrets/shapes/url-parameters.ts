import type { Finding } from "../../finding.ts";
import {
  BASE64,
  BASE64URL,
  classesIn,
  DIGIT,
  EQUALS,
  HEX,
  LETTER,
  PERCENT,
  runEnd,
  TILDE,
  UPPER,
} from "../../views/characters.ts";
import { isUuid, looksRandom } from "../value-shapes.ts";
import { words } from "../words.ts";
import type { SecretShape } from "./shape.ts";

/** UTF-16 units. */
const VALUE_CHARS_MAX = 1_024;
const SECRET_CHARS_MIN = 40;
const SIGNATURE_CHARS_MIN = 24;
const CODE_CHARS_MIN = 10;
const NEAR_CHARS_MAX = 256;

/** What makes a signed address valid: whoever has it needs nothing else. */
function matchSignature(text: string, _start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, HEX, end + VALUE_CHARS_MAX);
  return to - end >= SECRET_CHARS_MIN ? { rule: "url-signature", start: end, end: to } : undefined;
}

/** `&Signature=`, beside a date or a key's id. */
function matchOlderSignature(text: string, start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, BASE64URL | BASE64 | EQUALS | PERCENT | TILDE, end + VALUE_CHARS_MAX);
  if (to - end < SIGNATURE_CHARS_MIN || (classesIn(text, end, to) & DIGIT) === 0) return undefined;
  const near = text.slice(Math.max(0, start - NEAR_CHARS_MAX), to + NEAR_CHARS_MAX).toLowerCase();
  const isSigned = near.includes("expires=") || near.includes("accesskeyid=") || near.includes("accessid=");
  return isSigned || near.includes("key-pair-id=") ? { rule: "url-signature", start: end, end: to } : undefined;
}

/** Codes of authorization, and keys of functions. Beside a state or an address to return to a short one is a code, too. */
function matchCode(text: string, start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, BASE64URL | EQUALS | PERCENT, end + VALUE_CHARS_MAX);
  const seen = classesIn(text, end, to);
  if ((seen & DIGIT) === 0 || (seen & LETTER) === 0) return undefined;
  const near = text.slice(Math.max(0, start - NEAR_CHARS_MAX), to + NEAR_CHARS_MAX);
  const isReturned = STATES.some((word) => near.includes(word));
  const isLong = to - end >= SECRET_CHARS_MIN && (seen & UPPER) !== 0;
  return isLong || (isReturned && to - end >= CODE_CHARS_MIN) ? { rule: "url-code", start: end, end: to } : undefined;
}

const STATES = ["&state=", "?state=", "redirect_uri="];
/** `code=…`, `"code": "…"`: the code. */
const CODE = /(?:^|["'?&\s,{])code["']?\s{0,8}[:=]\s{0,8}["']?([\w%.~/+-]{10,512})/;

/** `grant_type=authorization_code`, and the code near it. */
function matchGrant(text: string, start: number, end: number): Finding | undefined {
  const from = Math.max(0, start - NEAR_CHARS_MAX);
  const found = CODE.exec(text.slice(from, end + NEAR_CHARS_MAX));
  const code = found?.[1] ?? "";
  if (found === null || !/\d/.test(code) || !/[a-z]/i.test(code)) return undefined;
  const at = from + found.index + found[0].length - code.length;
  return { rule: "url-code", start: at, end: at + code.length };
}

const KEY_CHARS_MIN = 20;

/** What an authenticator's accounts are moved with. */
function matchMigration(text: string, _start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, BASE64 | EQUALS | PERCENT, end + VALUE_CHARS_MAX);
  return to - end >= KEY_CHARS_MIN ? { rule: "url-key", start: end, end: to } : undefined;
}

/** `?key=…`: one long piece of letters and digits, as no name of an entry is. */
function matchKey(text: string, _start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, BASE64URL, end + VALUE_CHARS_MAX);
  const isKey = to - end >= KEY_CHARS_MIN && looksRandom(text.slice(end, to));
  return isKey ? { rule: "url-key", start: end, end: to } : undefined;
}

/** `/reset-password/…`: the last part of an address that lets in whoever has it. */
function matchLink(text: string, _start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, BASE64URL, end + VALUE_CHARS_MAX);
  const word = text.slice(end, to);
  const isKey = to - end >= KEY_CHARS_MIN && (isUuid(word) || looksRandom(word));
  return isKey ? { rule: "url-code", start: end, end: to } : undefined;
}

/** What such an address says before it. */
const LINKS = words(
  "/reset-password/ /password-reset/ /password/reset/ /reset_password/ /resetpassword/ /magic-link/ /magiclink/",
  "/invite/ /invitation/ /invitations/ /verify-email/ /confirm-email/ /email/verify/ /activate/ /unlock-account/",
  "/hooks/ /private-",
);

/** What else lets somebody in, by the parameter's name. */
const KEYS = words("?key= &key= ?appid= &appid= ?auth= &auth= /magic-link?t= ?ticket= &ticket=");

export const URL_PARAMETERS: readonly SecretShape[] = [
  { words: ["x-amz-signature=", "x-goog-signature="], steps: 100, match: matchSignature },
  { words: ["?signature=", "&signature="], steps: 400, match: matchOlderSignature },
  { words: ["?code=", "&code="], steps: 400, match: matchCode },
  { words: KEYS, steps: 300, match: matchKey },
  { words: LINKS, steps: 300, match: matchLink },
  { words: ["otpauth-migration://offline?data="], steps: 300, match: matchMigration },
  { words: ["authorization_code"], steps: 1_500, match: matchGrant },
];
