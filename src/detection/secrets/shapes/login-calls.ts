import type { Finding } from "../../finding.ts";
import {
  BLANK,
  beginsWord,
  classesIn,
  DIGIT,
  isA,
  isOneOf,
  LINE_END,
  QUOTE,
  runEnd,
  UPPER,
} from "../../views/characters.ts";
import { behindQuote } from "../stretches.ts";
import { isSecretValue, JUDGED_CHARS_MAX } from "../values.ts";
import { words } from "../words.ts";
import type { SecretShape } from "./shape.ts";

/** Of a call's arguments. UTF-16 units. */
const CALL_CHARS_MAX = 256;
const ARGUMENTS_MAX = 6;
const PASSWORD_CHARS_MIN = 6;

/** Calls of libraries that take a password, by its place among the arguments. */
const CALLS: readonly (readonly [place: number, calls: readonly string[]])[] = [
  [0, words(":auth(")],
  [
    1,
    words(
      "httpbasicauth( httpdigestauth( basicauth( basic_auth( setbasicauth( networkcredential( userpassword( db.auth( auth=(",
      "usernamepasswordcredentials( usernamepasswordauthenticationtoken( passwordauthentication( .login(",
    ).concat("basic_auth "),
  ],
  [2, words("plainauth( mysqli_connect( pdo( getconnection( dbi->connect( mysql.connect( new_mysqli(")],
  [3, ["credentials("]],
];

/** `name("ann", "password")`: a string that its look tells from a name. */
function argumentAt(place: number) {
  return (text: string, start: number, end: number): Finding | undefined => {
    if (!beginsWord(text, start) && !isOneOf(text, start, ".:")) return undefined;
    const limit = end + CALL_CHARS_MAX;
    let at = end;
    for (let count = 0; count < ARGUMENTS_MAX && at < limit; count += 1) {
      const from = runEnd(text, at, BLANK | LINE_END, at + 32);
      const argument = count === place && text.startsWith("Some(", from) ? from + "Some(".length : from;
      const opening = behindQuote(text, argument);
      const to = opening > argument ? stringEnd(text, opening, limit) : wordEnd(text, argument, limit);
      if (count === place) return opening > argument ? password(text, opening, to) : undefined;
      const comma = runEnd(text, opening > argument ? behindQuote(text, to) : to, BLANK, to + 8);
      if (!isOneOf(text, comma, ",")) return undefined;
      at = comma + 1;
    }
    return undefined;
  };
}

function stringEnd(text: string, opening: number, limit: number): number {
  let at = opening;
  while (at < limit && text[at] !== text[opening - 1] && !isA(text, at, LINE_END)) at += 1;
  return isOneOf(text, at - 1, "\\") ? at - 1 : at;
}

/** A name, a member, a number. */
function wordEnd(text: string, from: number, limit: number): number {
  let at = from;
  while (at < limit && !isA(text, at, BLANK | LINE_END | QUOTE) && !isOneOf(text, at, ",()")) at += 1;
  return at;
}

/** Manuals write small letters there. */
function password(text: string, start: number, end: number): Finding | undefined {
  const value = text.slice(start, Math.min(end, start + JUDGED_CHARS_MAX));
  const isMixed = (classesIn(text, start, end) & (DIGIT | UPPER)) !== 0;
  if (value.length < PASSWORD_CHARS_MIN || !isMixed || !isA(text, behindQuote(text, end) - 1, QUOTE)) return undefined;
  return isSecretValue(value, "password", "quoted") ? { rule: "login-password", start, end } : undefined;
}

export const LOGIN_CALLS: readonly SecretShape[] = CALLS.map(([place, calls]) => ({
  words: calls,
  steps: 700,
  match: argumentAt(place),
}));
