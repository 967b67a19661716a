import type { Finding } from "../finding.ts";
import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  BLANK,
  beginsWord,
  classesIn,
  DIGIT,
  DOT,
  EQUALS,
  HEX,
  isA,
  LOWER,
  PERCENT,
  QUOTE,
  runEnd,
  runStart,
  TILDE,
  UPPER,
} from "../views/characters.ts";
import { matchUrlPassword } from "./url-password.ts";

/** A credential of several parts. Its words are in lower case and stand somewhere in it. */
export interface SecretShape {
  readonly words: readonly string[];
  /** What a look takes at most, apart from runs that are read once. */
  readonly steps: number;
  /** A number says that nothing of this shape begins before it, so that a long run is read once. */
  match(text: string, start: number, end: number): Finding | number | undefined;
}

const BEARER_CHARS_MIN = 20;
const BASIC_CHARS_MIN = 6;
const JWT_PART_CHARS_MIN = 8;
const JWT_PARTS_MAX = 5;
const AWS_SECRET_CHARS = 40;
const AWS_SECRET_GAP_MAX = 160;
const LINE_CHARS_MAX = 512;

/** Of a PuTTY key file, the private part: as many lines as it says, which are all that follow. */
function matchPuttyKey(text: string, start: number, end: number): Finding | undefined {
  const count = runEnd(text, end, BLANK, end + 4);
  if (!isA(text, count, DIGIT)) return undefined;
  const stop = text.indexOf("Private-MAC", end);
  return { rule: "putty-private-key", start, end: stop === -1 ? text.length : stop };
}

/** Compact JWS and JWE: parts of base64url, the first a JSON object. */
function matchJwt(text: string, start: number): Finding | number | undefined {
  if (!text.startsWith("eyJ", start)) return undefined;
  const header = runEnd(text, start, BASE64URL);
  if (header - start < JWT_PART_CHARS_MIN || text[header] !== ".") return header;
  let end = runEnd(text, header + 1, BASE64URL);
  const isObject = text.startsWith("eyJ", header + 1);
  if (end - header - 1 < JWT_PART_CHARS_MIN && text[end] !== ".") return header;
  let parts = 2;
  while (text[end] === "." && parts < JWT_PARTS_MAX && (isA(text, end + 1, BASE64URL) || text[end + 1] === ".")) {
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
  const decoded = Buffer.from(text.slice(from, to), "base64").toString("latin1");
  const colon = decoded.indexOf(":");
  const isPlain = runsPrintable(decoded);
  return colon >= 0 && isPlain ? { rule: "basic-credentials", start: from, end: to } : undefined;
}

function runsPrintable(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code === 0x7f) return false;
  }
  return true;
}

/** 40 characters of base64 not far behind an access key's id. */
function matchAwsSecret(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start) || runEnd(text, end, UPPER | DIGIT, end + 17) - end !== 16) return undefined;
  const limit = end + 16 + AWS_SECRET_GAP_MAX;
  let at = end + 16;
  while (at < limit && at < text.length) {
    const run = runEnd(text, at, BASE64, limit + AWS_SECRET_CHARS);
    const seen = classesIn(text, at, run);
    const isMixed = (seen & UPPER) !== 0 && (seen & LOWER) !== 0 && (seen & DIGIT) !== 0;
    if (run - at === AWS_SECRET_CHARS && isMixed) return { rule: "aws-secret-key", start: at, end: run };
    at = run + 1;
  }
  return undefined;
}

/** `123456789:AA…`: a Telegram bot. */
function matchTelegram(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, DIGIT, start - 12);
  if (start - from < 7 || !text.startsWith(":AA", start)) return undefined;
  const to = runEnd(text, end, BASE64URL, end + 40);
  return to - end >= 31 && to - end < 36 ? { rule: "telegram-token", start: from, end: to } : undefined;
}

/** 32 hex digits before `-us12`: Mailchimp. */
function matchMailchimp(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, HEX, start - 33);
  if (start - from !== 32 || !isA(text, end, DIGIT)) return undefined;
  return { rule: "mailchimp-key", start: from, end: runEnd(text, end, DIGIT, end + 2) };
}

/** Three characters, `8Q~`, 31 or more: an Azure client secret. */
function matchAzureSecret(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, BASE64URL | DOT | TILDE, start - 3);
  const to = runEnd(text, end, BASE64URL | DOT | TILDE, end + 64);
  return start - from === 3 && to - end >= 31 ? { rule: "azure-client-secret", start: from, end: to } : undefined;
}

/** A shared access signature, when the parameters that belong to it are near. */
function matchSharedAccess(text: string, start: number, end: number): Finding | undefined {
  if (!"?&; \"'".includes(text[start - 1] ?? "?")) return undefined;
  const to = runEnd(text, end, BASE64URL | BASE64 | PERCENT | EQUALS, end + LINE_CHARS_MAX);
  const near = text.slice(Math.max(0, start - LINE_CHARS_MAX), to + 96);
  const belongs = near.includes("sv=") || near.includes("se=") || near.includes("sp=");
  return to - end >= 40 && belongs ? { rule: "azure-shared-access-signature", start: end, end: to } : undefined;
}

/** Fourteen characters, `.atlasv1.`, sixty or more: Terraform Cloud. */
function matchTerraform(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, ALPHANUMERIC, start - 14);
  const to = runEnd(text, end, BASE64URL | EQUALS, end + 128);
  return start - from === 14 && to - end >= 50 ? { rule: "terraform-token", start: from, end: to } : undefined;
}

/** Airtable: `pat`, 14 characters, a dot, 64 hex digits. */
function matchAirtable(text: string, start: number, end: number): Finding | undefined {
  if (text[end + 14] !== "." || !beginsWord(text, start) || runEnd(text, end, ALPHANUMERIC, end + 15) !== end + 14)
    return undefined;
  const to = runEnd(text, end + 15, HEX, end + 80);
  return to === end + 79 ? { rule: "airtable-token", start, end: to } : undefined;
}

/** Addresses that let anybody who knows them post. The path behind is the secret. */
function matchWebhook(text: string, _start: number, end: number): Finding | undefined {
  const to = runEnd(text, end, BASE64URL | BASE64 | DOT | PERCENT, end + LINE_CHARS_MAX);
  return to - end >= 16 ? { rule: "webhook-url", start: end, end: to } : undefined;
}

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
    if (text[to] === ":" && colon === -1) colon = to;
    to += 1;
  }
  if (colon === -1 || colon + 1 >= to || "$<{".includes(text[colon + 1] ?? "")) return to;
  return { rule: "curl-user", start: colon + 1, end: to };
}

const LOGIN_FLAGS = [" -p ", " -p", " --password "];

/** `docker login -p password`, `sshpass -p password`. */
function matchLogin(text: string, start: number, end: number): Finding | number | undefined {
  if (!beginsWord(text, start) || !isA(text, end, BLANK)) return undefined;
  const [line = ""] = text.slice(end, end + CURL_CHARS_MAX).split("\n", 1);
  const flag = LOGIN_FLAGS.find((word) => line.includes(word));
  if (flag === undefined) return end + line.length;
  const from = end + line.indexOf(flag) + flag.length;
  const value = isA(text, from, QUOTE) ? from + 1 : from;
  let to = value;
  while (to < end + line.length && !isA(text, to, BLANK | QUOTE)) to += 1;
  return to - value < 3 || "$<{-".includes(text[value] ?? "-") ? to : { rule: "login-password", start: value, end: to };
}

/** `//registry.npmjs.org/:_authToken=…`, `_auth=…`. */
function matchNpmAuth(text: string, _start: number, end: number): Finding | undefined {
  const from = runEnd(text, end, QUOTE, end + 1);
  const to = runEnd(text, from, BASE64URL | BASE64 | EQUALS, from + LINE_CHARS_MAX);
  return to - from >= 8 ? { rule: "npm-auth", start: from, end: to } : undefined;
}

export const SECRET_SHAPES: readonly SecretShape[] = [
  { words: ["private-lines:"], steps: 100, match: matchPuttyKey },
  { words: ["eyj"], steps: 60, match: matchJwt },
  { words: ["bearer"], steps: 60, match: matchBearer },
  { words: ["basic"], steps: 600, match: matchBasic },
  { words: ["://"], steps: 200, match: matchUrlPassword },
  { words: ["akia", "asia"], steps: 400, match: matchAwsSecret },
  { words: [":aa"], steps: 60, match: matchTelegram },
  { words: ["-us"], steps: 80, match: matchMailchimp },
  { words: ["8q~", "7q~"], steps: 80, match: matchAzureSecret },
  { words: ["sig="], steps: 100, match: matchSharedAccess },
  { words: [".atlasv1."], steps: 80, match: matchTerraform },
  { words: ["pat"], steps: 60, match: matchAirtable },
  { words: ["curl"], steps: 400, match: matchCurlUser },
  { words: ["docker login", "podman login", "helm registry login", "sshpass"], steps: 400, match: matchLogin },
  { words: ["_auth="], steps: 100, match: matchNpmAuth },
  {
    words: [
      ...[
        "hooks.slack.com/services/",
        "hooks.slack.com/workflows/",
        "discord.com/api/webhooks/",
        "discordapp.com/api/webhooks/",
      ],
      ...["webhook.office.com/webhookb2/", "hooks.zapier.com/hooks/catch/", "api.telegram.org/bot"],
    ],
    steps: 100,
    match: matchWebhook,
  },
];
