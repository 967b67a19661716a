import type { Work } from "../bounds.ts";
import type { Finding, Matched } from "../finding.ts";
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
  isOneOf,
  LOWER,
  PERCENT,
  QUOTE,
  runEnd,
  runStart,
  TILDE,
  UPPER,
} from "../views/characters.ts";
import { COMMAND_PASSWORDS } from "./command-passwords.ts";
import { CREDENTIAL_FILES } from "./credential-files.ts";
import { DECLARED_SECRETS } from "./declared-secrets.ts";
import { matchJwk } from "./jwk.ts";
import { LOGIN_COMMANDS } from "./login-commands.ts";
import { URL_PARAMETERS } from "./url-parameters.ts";
import { matchUrlPassword } from "./url-password.ts";
import { isBasicCredentials } from "./value-shapes.ts";

/** A credential of several parts. Its words are in lower case and stand somewhere in it. */
export interface SecretShape {
  readonly words: readonly string[];
  /** What a look takes at most, apart from runs that are read once. */
  readonly steps: number;
  /** A number says that nothing of this shape begins before it, so that a long run is read once. */
  match(text: string, start: number, end: number, readers: { readonly work: Work }): Matched;
}

const BEARER_CHARS_MIN = 20;
const BASIC_CHARS_MIN = 6;
const JWT_PART_CHARS_MIN = 8;
const JWT_PARTS_MAX = 5;
const AWS_ID_CHARS = 16;
const HMAC_ID_CHARS = 55;
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

/** 40 characters of base64 not far behind an access key's id, at Amazon and at Google. */
function matchAwsSecret(text: string, start: number, end: number): Finding | undefined {
  const id = runEnd(text, end, UPPER | DIGIT, end + HMAC_ID_CHARS + 1);
  if (!beginsWord(text, start) || (id - end !== AWS_ID_CHARS && id - end !== HMAC_ID_CHARS)) return undefined;
  const limit = id + AWS_SECRET_GAP_MAX;
  let at = id;
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
  if (
    !isOneOf(text, end + 14, ".") ||
    !beginsWord(text, start) ||
    runEnd(text, end, ALPHANUMERIC, end + 15) !== end + 14
  )
    return undefined;
  const to = runEnd(text, end + 15, HEX, end + 80);
  return to === end + 79 ? { rule: "airtable-token", start, end: to } : undefined;
}

/** Addresses that let anybody who knows them post. The path behind is the secret. */
function matchWebhook(text: string, _start: number, end: number): Finding | undefined {
  const limit = end + LINE_CHARS_MAX;
  let to = end;
  while (to < limit && (isA(text, to, BASE64URL | BASE64 | DOT | PERCENT) || isOneOf(text, to, "@"))) to += 1;
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

/** Azure's keys of 84 characters have `JQQJ99` behind the 52nd. */
function matchAzureKey(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, ALPHANUMERIC, start - 53);
  const to = runEnd(text, end, ALPHANUMERIC, end + 64);
  return text.startsWith("JQQJ99", start) && start - from === 52 && to - end >= 20
    ? { rule: "azure-key", start: from, end: to }
    : undefined;
}

/** By the mark that says whose it is: how many characters stand before it and behind it, with the signs that fill up. */
const MARKED_KEYS: Readonly<Record<string, readonly [before: number, behind: number]>> = {
  ...{
    "+ASt": [76, 8],
    ACDb: [76, 8],
    "+ASb": [33, 7],
    "+AEh": [33, 7],
    "+ARm": [33, 7],
    "+ABa": [76, 8],
    AIoT: [33, 7],
  },
  ...{ AzSe: [42, 6], AzFu: [44, 8], AzCa: [33, 7], "+ACR": [42, 6], APIM: [76, 8] },
};

/** Keys of Azure's services: of a fixed length, with a mark at a fixed place. */
function matchMarkedKey(text: string, start: number, end: number): Finding | undefined {
  const [before, behind] = MARKED_KEYS[text.slice(start, end)] ?? [0, 0];
  const from = runStart(text, start, BASE64, start - before - 1);
  const to = runEnd(text, end, BASE64 | EQUALS, end + behind + 1);
  return before > 0 && start - from === before && to - end === behind
    ? { rule: "azure-key", start: from, end: to }
    : undefined;
}

/** A session of Salesforce: the organization's id, `!AQ`, and as much again. */
function matchSalesforce(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, ALPHANUMERIC, start - 19);
  const to = runEnd(text, end, BASE64URL | DOT, end + 128);
  return text.startsWith("00D", from) && start - from >= 15 && to - end >= 60
    ? { rule: "salesforce-session", start: from, end: to }
    : undefined;
}

/** 36 characters before `NRAL`: a licence of New Relic. */
function matchNewRelic(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, LOWER | DIGIT, start - 37);
  const isOne = text.startsWith("NRAL", start) && start - from === 36 && !isA(text, end, ALPHANUMERIC);
  return isOne ? { rule: "new-relic-key", start: from, end } : undefined;
}

export const SECRET_SHAPES: readonly SecretShape[] = [
  { words: ["private-lines:"], steps: 100, match: matchPuttyKey },
  { words: ["eyj"], steps: 60, match: matchJwt },
  { words: ["bearer"], steps: 60, match: matchBearer },
  { words: ["basic"], steps: 600, match: matchBasic },
  { words: ["://"], steps: 200, match: matchUrlPassword },
  { words: ["akia", "asia", "goog1e"], steps: 400, match: matchAwsSecret },
  { words: [":aa"], steps: 60, match: matchTelegram },
  { words: ["-us"], steps: 80, match: matchMailchimp },
  { words: ["8q~", "7q~"], steps: 80, match: matchAzureSecret },
  { words: ["sig="], steps: 100, match: matchSharedAccess },
  { words: [".atlasv1."], steps: 80, match: matchTerraform },
  { words: ["pat"], steps: 60, match: matchAirtable },
  { words: ["curl"], steps: 400, match: matchCurlUser },
  { words: [" -b '", ' -b "'], steps: 400, match: matchCurlCookie },
  ...COMMAND_PASSWORDS,
  ...LOGIN_COMMANDS,
  ...CREDENTIAL_FILES,
  ...DECLARED_SECRETS,
  ...URL_PARAMETERS,
  { words: ['"kty"', "'kty'"], steps: 9_000, match: matchJwk },
  { words: ["jqqj99"], steps: 100, match: matchAzureKey },
  { words: ["nral"], steps: 80, match: matchNewRelic },
  { words: Object.keys(MARKED_KEYS).map((mark) => mark.toLowerCase()), steps: 120, match: matchMarkedKey },
  { words: ["!aq"], steps: 100, match: matchSalesforce },
  {
    words: words("hooks.slack.com/services/ hooks.slack.com/workflows/ discord.com/api/webhooks/ discordapp.com/api/webhooks/", "webhook.office.com/webhookb2/ hooks.zapier.com/hooks/catch/ api.telegram.org/bot hc-ping.com/ hook.eu1.make.com/", "hook.eu2.make.com/ hook.us1.make.com/ hook.us2.make.com/ open.feishu.cn/open-apis/bot/v2/hook/", "open.larksuite.com/open-apis/bot/v2/hook/ qyapi.weixin.qq.com/cgi-bin/webhook/send?key= maker.ifttt.com/use/"),
    steps: 100,
    match: matchWebhook,
  },
];
