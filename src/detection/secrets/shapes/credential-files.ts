import type { Finding } from "../../finding.ts";
import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  BLANK,
  EQUALS,
  endBefore,
  HEX,
  isA,
  isOneOf,
  LINE_END,
  QUOTE,
  runEnd,
  STOP,
} from "../../views/characters.ts";
import { startBehind } from "../stretches.ts";
import { isBasicCredentials } from "../value-shapes.ts";
import { isSecretValue } from "../values.ts";
import type { SecretShape } from "./shape.ts";

/** UTF-16 units. */
const LINE_CHARS_MAX = 512;
const KEY_CHARS_MAX = 8_192;
const ACCOUNT_CHARS_MAX = 128;
const HASH_CHARS = 32;
const RANDOM_CHARS = 64;

/** `//packages.example/:_authToken=…`, `_auth=…`. */
function matchNpmAuth(text: string, start: number, end: number): Finding | undefined {
  if (isA(text, start - 1, ALPHANUMERIC)) return undefined;
  const from = runEnd(text, end, QUOTE, end + 1);
  const to = runEnd(text, from, BASE64URL | BASE64 | EQUALS, from + LINE_CHARS_MAX);
  return to - from >= 8 ? { rule: "npm-auth", start: from, end: to } : undefined;
}

/** `"auth": "…"` of a registry's configuration: base64 of `user:password`. */
function matchDockerAuth(text: string, _start: number, end: number): Finding | undefined {
  const colon = runEnd(text, end, BLANK, end + 8);
  const value = runEnd(text, colon + 1, BLANK, colon + 8) + 1;
  if (!isOneOf(text, colon, ":") || !isOneOf(text, value - 1, '"')) return undefined;
  const to = runEnd(text, value, BASE64 | EQUALS, value + LINE_CHARS_MAX);
  return isBasicCredentials(text.slice(value, to)) ? { rule: "basic-credentials", start: value, end: to } : undefined;
}

/** `bob:secret`, decoded. */
const ACCOUNT = /^[\x21-\x7e]{1,64}:[\x20-\x7e]{3,256}$/;

/** The same in YAML, where only its look tells it from a word. */
function matchYamlAuth(text: string, start: number, end: number): Finding | undefined {
  if (!isA(text, start - 1, BLANK | LINE_END)) return undefined;
  const to = runEnd(text, end, BASE64 | EQUALS, end + LINE_CHARS_MAX);
  const isAccount = to - end >= 8 && ACCOUNT.test(Buffer.from(text.slice(end, to), "base64").toString("latin1"));
  return isAccount ? { rule: "basic-credentials", start: end, end: to } : undefined;
}

/** `db.example:5432:app:bob:secret`: all before the password, and the password. */
const PASSFILE = /^([\w.*-]{1,128}:(?:\d{2,5}|\*):[\w*.-]{1,64}:[\w.@*-]{1,64}:)(\S{3,128})[ \t]*$/;

/** A line of `.pgpass`: host, port, database, user, password. */
function matchPassfile(text: string, start: number, end: number): Finding | undefined {
  const before =
    text
      .slice(Math.max(0, start - ACCOUNT_CHARS_MAX), start)
      .split(/[\r\n]/)
      .at(-1) ?? "";
  const [after = ""] = text.slice(start, end + LINE_CHARS_MAX).split(/[\r\n]/, 1);
  const fields = PASSFILE.exec(before + after);
  if (fields === null || fields[2] === undefined) return undefined;
  const from = start - before.length + (fields[1] ?? "").length;
  return { rule: "login-password", start: from, end: from + fields[2].length };
}

/** `user:password@tcp(host)/database`, as Go's drivers write it. */
function matchGoSource(text: string, start: number): Finding | undefined {
  const from = startBehind(text, start, BLANK | LINE_END | QUOTE | EQUALS, start - ACCOUNT_CHARS_MAX);
  const colon = text.slice(from, start).indexOf(":");
  const password = from + colon + 1;
  const word = text.slice(password, start);
  if (colon < 1 || "%$<{".includes(word[0] ?? "$") || !isSecretValue(word, "password", "line")) return undefined;
  return { rule: "url-password", start: password, end: start };
}

/** What Windows keeps of a password, behind the hash of none. */
function matchNtHash(text: string, _start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, HEX, end + HASH_CHARS + 1);
  return to - end === HASH_CHARS ? { rule: "password-hash", start: end, end: to } : undefined;
}

/** A line of a TLS key log: the client's random, the secret. */
function matchKeyLog(text: string, _start: number, end: number): Finding | undefined {
  const random = runEnd(text, end, HEX, end + RANDOM_CHARS);
  const to = runEnd(text, random + 1, HEX, random + 1 + LINE_CHARS_MAX);
  return random - end === RANDOM_CHARS && isOneOf(text, random, " ") && to - random > RANDOM_CHARS
    ? { rule: "tls-secret", start: random + 1, end: to }
    : undefined;
}

/** A private key as commercial SSH writes it. */
function matchSsh2Key(text: string, start: number, end: number): Finding | undefined {
  if (!isA(text, end, LINE_END)) return undefined;
  const close = text.slice(end, end + KEY_CHARS_MAX).indexOf("---- END");
  const to = close === -1 ? Math.min(text.length, end + KEY_CHARS_MAX) : end + close;
  return { rule: "private-key", start, end: to };
}

/** A wallet's words: so many, and nothing but short words in small letters. */
const PHRASE_WORDS = [24, 21, 18, 15, 12];
const PHRASE_CHARS_MAX = 256;
/** Words that sentences have and wallets have not. */
const NO_PHRASE = /^(?:the|and|for|with|are|not|from|your|our|has|was|which|its|these|were|been)$/;
/** `: "`, ` is `. */
const PHRASE_START = /^(?:["']?\s{0,8}(?:is)?[:=]{0,2}\s{0,8}["']?)/;

function matchSeedPhrase(text: string, _start: number, end: number): Finding | undefined {
  const near = text.slice(end, end + PHRASE_CHARS_MAX);
  const [opening = ""] = PHRASE_START.exec(near) ?? [];
  const [run = ""] = /^[a-z]{3,8}(?: [a-z]{3,8})*(?![a-z])/.exec(near.slice(opening.length)) ?? [];
  const words = run.split(" ");
  const count = PHRASE_WORDS.find((one) => words.length === one);
  if (opening === "" || count === undefined || words.some((word) => NO_PHRASE.test(word))) return undefined;
  return { rule: "seed-phrase", start: end + opening.length, end: end + opening.length + run.length };
}

/** `rocommunity public 10.0.0.0/8`: what an SNMP daemon is asked with. */
function matchCommunity(text: string, _start: number, end: number): Finding | undefined {
  const to = endBefore(text, end, BLANK | LINE_END | QUOTE | STOP, end + ACCOUNT_CHARS_MAX);
  const word = text.slice(end, to);
  const isDefault = word === "public" || word === "private" || "<$%{".includes(word[0] ?? "<");
  return isDefault || word.length < 4 ? undefined : { rule: "login-password", start: end, end: to };
}

/** Files of programs, and what they print of them. */
export const CREDENTIAL_FILES: readonly SecretShape[] = [
  { words: ["_auth=", "_auth = "], steps: 100, match: matchNpmAuth },
  { words: ['"auth"'], steps: 600, match: matchDockerAuth },
  { words: ["auth: "], steps: 600, match: matchYamlAuth },
  { words: [":5432:", ":5433:", ":5434:", ":6432:", ":6543:", ":*:*:", "*:*:*:"], steps: 700, match: matchPassfile },
  { words: ["@tcp(", "@unix("], steps: 200, match: matchGoSource },
  { words: ["aad3b435b51404eeaad3b435b51404ee:"], steps: 80, match: matchNtHash },
  { words: ["client_random ", "traffic_secret_0 ", "exporter_secret "], steps: 700, match: matchKeyLog },
  { words: ["---- begin ssh2 encrypted private key ----"], steps: 3_000, match: matchSsh2Key },
  { words: ["mnemonic", "seed phrase", "recovery phrase", "seed words"], steps: 900, match: matchSeedPhrase },
  { words: ["rocommunity ", "rwcommunity "], steps: 200, match: matchCommunity },
];
