import type { Finding } from "../../finding.ts";
import {
  ALPHANUMERIC,
  BASE64,
  BLANK,
  beginsWord,
  EQUALS,
  endBefore,
  isA,
  isOneOf,
  LINE_END,
  QUOTE,
  runEnd,
  STOP,
} from "../../views/characters.ts";
import { lineEnd } from "../stretches.ts";
import { rowEnd } from "../table-cells.ts";
import { isNumberedName, isOnly } from "../value-shapes.ts";
import { isSecretValue } from "../values.ts";
import { wordSet } from "../words.ts";
import type { SecretShape } from "./shape.ts";

/** Of a line around a command, and before it for what was said earlier. UTF-16 units. */
const LINE_CHARS_MAX = 192;
const BEFORE_CHARS_MAX = 64;
const DIALOG_CHARS_MAX = 512;
const PASSWORD_CHARS_MIN = 3;

/** What stands before `start` in the line, as far as a prompt may reach. */
function beforeIn(text: string, start: number): string {
  const before = text.slice(Math.max(0, start - BEFORE_CHARS_MAX), start);
  return before.slice(Math.max(before.lastIndexOf("\n"), before.lastIndexOf("\r")) + 1);
}

/** What stands in the line from `end` on. */
function restOf(text: string, end: number): string {
  return text.slice(end, rowEnd(text, end, end + LINE_CHARS_MAX));
}

/** Nothing, a prompt, or what protocols' logs put before what a client says. */
const PROMPT = /^[^a-z]{0,48}(?:redis[^ ]{0,24}> ?|ftp> ?)?$/i;
/** `redis> `, `127.0.0.1:6379[1]> `. */
const OF_REDIS = /(?:redis[^ ]{0,24}|:\d{2,5}(?:\[\d{1,3}\])?)> ?$/i;
const HELLO = /HELLO \d $/;
/** `12:00:01 > `, `[client] C: `: who speaks, or nothing. */
const SPEAKER = /^(?:[\s\d:.,<>*-]{0,48}|.{0,32}[>\]:|] ?)(?:[CS]: ?)?$/i;
const MECHANISM_CHARS_MAX = 16;
/** Of mail: how the client logs in. */
const MECHANISM = /^(?:PLAIN|LOGIN|XOAUTH2|OAUTHBEARER|CRAM-MD5|NTLM|DIGEST-MD5|GSSAPI|SCRAM-SHA-\d{1,3}|EXTERNAL)\b ?/;

/** Redis: `AUTH password`, `AUTH user password`, `HELLO 3 AUTH user password`; mail: `AUTH PLAIN base64`. */
function matchAuth(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start)) return undefined;
  const before = beforeIn(text, start);
  const mechanism = MECHANISM.exec(text.slice(end, end + MECHANISM_CHARS_MAX))?.[0];
  if (mechanism === undefined && !PROMPT.test(before) && !HELLO.test(before)) return end;
  const rest = restOf(text, end);
  if (mechanism !== undefined) return response(text, end + mechanism.length, rest.slice(mechanism.length));
  const words = rest.trimEnd().split(" ");
  const word = words.at(-1) ?? "";
  if (words.length > 2) return end;
  const isToRedis = OF_REDIS.test(before) || HELLO.test(before);
  const at = end + rest.lastIndexOf(word);
  return accepted(word, { isCertain: isToRedis }) ? found(text, at, at + word.length) : end;
}

/** Base64, and nothing behind it. */
function response(text: string, at: number, rest: string): Finding | number {
  const word = rest.trimEnd();
  const isOne = word.length >= 8 && isOnly(word, BASE64 | EQUALS) && /[a-z\d=]/.test(word);
  return isOne ? found(text, at, at + word.length) : at;
}

function accepted(word: string, { isCertain }: { readonly isCertain: boolean }): boolean {
  if (word.length < PASSWORD_CHARS_MIN || word.includes("/") || /^[A-Z-]+$|^\*+$|\.[a-z]{2,4}$|pass$|^test/i.test(word))
    return false;
  if (isCertain) return isSecretValue(word, "password", "line");
  // `Login with GitHub / Google1`
  return !isNumberedName(word) && isSecretValue(word, "password", "told");
}

function found(text: string, start: number, end: number): Finding {
  const from = isA(text, start, QUOTE) ? start + 1 : start;
  const to = isA(text, end - 1, QUOTE) ? end - 1 : end;
  return { rule: "login-password", start: from, end: Math.max(to, from + 1) };
}

/** `"AUTH" "user" "password"` of Redis' monitor. */
function matchMonitored(text: string, _start: number, end: number): Finding | undefined {
  const rest = restOf(text, end);
  const words = /^(?: "[^" ]{1,64}")? "([^"]{3,128})"/.exec(rest);
  const [whole = "", word = ""] = words ?? [];
  if (!accepted(word, { isCertain: true })) return undefined;
  return found(text, end + whole.length - word.length - 1, end + whole.length - 1);
}

/** `AUTH`, and its arguments as Redis' protocol frames them: each behind its length. */
function matchFramed(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  let at = end - "$".length;
  let last: Finding | undefined;
  for (let count = 0; count < 2; count += 1) {
    const frame = /^\$\d{1,4}\r?\n/.exec(text.slice(at, at + 8))?.[0];
    if (frame === undefined) break;
    const from = at + frame.length;
    const to = lineEnd(text, from, from + LINE_CHARS_MAX);
    if (to > from) last = { rule: "login-password", start: from, end: to };
    at = runEnd(text, to, LINE_END, to + 2);
  }
  return last;
}

/** `user default on >password`, `ACL SETUSER bob on >password`. */
function matchAcl(text: string, start: number, end: number): Finding | undefined {
  if (!/\b(?:setuser|user) \S{1,48}(?: \S{1,24}){0,4}$/i.test(beforeIn(text, start))) return undefined;
  const to = endBefore(text, end, BLANK | LINE_END | QUOTE, end + LINE_CHARS_MAX);
  return accepted(text.slice(end, to), { isCertain: true }) ? found(text, end, to) : undefined;
}

/** IMAP: a tag with a number, `LOGIN`, a name, a password, and nothing else in the line. */
function matchImapLogin(text: string, start: number, end: number): Finding | undefined {
  if (!/(?:^|[\s>:\]])[A-Za-z]{0,6}\d{1,8} $/.test(beforeIn(text, start))) return undefined;
  const rest = restOf(text, end);
  const words = /^("[^"]{1,64}"|[^\s"]{1,64}) ("[^"]{1,128}"|[^\s"]{1,128})\s*$/.exec(rest);
  const word = words?.[2];
  return word === undefined
    ? undefined
    : found(text, end + rest.lastIndexOf(word), end + rest.lastIndexOf(word) + word.length);
}

/** FTP, POP3, IRC: `PASS password`. Any word when `USER` was said before it. */
function matchPass(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  if (!SPEAKER.test(beforeIn(text, start))) return undefined;
  const word = restOf(text, end).trim();
  if (word === "" || word.includes(" ")) return undefined;
  const isAfterUser = /(?:^|[\s>:])USER [^\s]{1,64}(?:\s|\\r)/.test(
    text.slice(Math.max(0, start - DIALOG_CHARS_MAX), start),
  );
  return accepted(word, { isCertain: isAfterUser }) ? found(text, end, end + word.length) : undefined;
}

/** What a mail server asks for the password with; the next line answers. */
function matchAskedPassword(text: string, _start: number, end: number): Finding | undefined {
  const line = runEnd(text, end, LINE_END, end + 2);
  const rest = restOf(text, line);
  const word = rest.trimEnd().split(" ").at(-1) ?? "";
  if (line === end || word.length < 4 || !isOnly(word, BASE64 | EQUALS)) return undefined;
  const at = line + rest.lastIndexOf(word);
  return found(text, at, at + word.length);
}

/** `NickServ :IDENTIFY password`, `/msg NickServ identify name password`. */
function matchIdentify(text: string, start: number, end: number): Finding | undefined {
  if (!/nickserv :?$/i.test(beforeIn(text, start))) return undefined;
  const rest = restOf(text, end);
  const word = rest.trimEnd().split(" ").at(-1) ?? "";
  const at = end + rest.lastIndexOf(word);
  return accepted(word, { isCertain: true }) ? found(text, at, at + word.length) : undefined;
}

/** Behind `credential` and its like: `s: bob / `, ` are bob:`. */
const ACCOUNT = /^s?(?!\w)(?: (?:are|is|were|with|as))?:? {0,2}["'`]?([a-z][\w.@-]{0,63})["'`]?(?: ?\/ ?|:)["'`]?/i;
/** Before a colon these are no names of accounts. */
const NO_ACCOUNTS = wordSet("http https sha256 sha512 sha1 md5 arn urn file");

/** `credentials: bob / password`, `creds are bob:password`. Only its look tells a password there. */
function matchCredentials(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  const account = ACCOUNT.exec(text.slice(end, end + 2 * BEFORE_CHARS_MAX));
  if (account === null || NO_ACCOUNTS.has((account[1] ?? "").toLowerCase())) return undefined;
  const from = end + account[0].length;
  let to = endBefore(text, from, BLANK | LINE_END | QUOTE | STOP, from + LINE_CHARS_MAX);
  while (to > from && isOneOf(text, to - 1, ".!?)")) to -= 1;
  const word = text.slice(from, to);
  return isA(text, from, ALPHANUMERIC) && accepted(word, { isCertain: false })
    ? { rule: "login-password", start: from, end: to }
    : undefined;
}

/** Of any of these words, which texts are full of. */
const STEPS_PER_WORD = 30;

interface LoginCommand {
  readonly words: readonly string[];
  /** What a look takes at most. */
  readonly steps: number;
  match(text: string, start: number, end: number): Finding | number | undefined;
  /** Commands are written in capitals. */
  readonly command?: string;
}

const COMMANDS: readonly LoginCommand[] = [
  { words: ["auth ", "authenticate "], steps: 1_200, match: matchAuth, command: "AUTH" },
  { words: ['"auth"'], steps: 400, match: matchMonitored },
  { words: ["auth\r\n$", "auth\n$"], steps: 400, match: matchFramed },
  { words: [" on >"], steps: 500, match: matchAcl },
  { words: ["login "], steps: 1_200, match: matchImapLogin, command: "LOGIN" },
  { words: ["pass "], steps: 1_200, match: matchPass, command: "PASS" },
  { words: ["334 ugfzc3dvcmq6"], steps: 400, match: matchAskedPassword },
  { words: ["identify "], steps: 1_200, match: matchIdentify },
  { words: ["credential", "creds", "log in with", "login with", "login:"], steps: 500, match: matchCredentials },
];

export const LOGIN_COMMANDS: readonly SecretShape[] = COMMANDS.map(({ words, steps, match, command = "" }) => ({
  words,
  steps: STEPS_PER_WORD,
  match: (text, start, end, { work }) => {
    if (!text.startsWith(command, start)) return undefined;
    work.spend(steps);
    return match(text, start, end);
  },
}));
