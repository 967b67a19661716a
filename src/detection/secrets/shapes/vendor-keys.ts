import type { Finding } from "../../finding.ts";
import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
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
  runEnd,
  runStart,
  TILDE,
  UPPER,
} from "../../views/characters.ts";
import { words } from "../words.ts";
import type { SecretShape } from "./shape.ts";

/** UTF-16 units. */
const AWS_ID_CHARS = 16;
const HMAC_ID_CHARS = 55;
const AWS_SECRET_CHARS = 40;
const AWS_SECRET_GAP_MAX = 160;
const LINE_CHARS_MAX = 512;

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

/** Three characters, a digit and `Q~`, 31 or more: an Azure client secret. */
function matchAzureSecret(text: string, start: number, end: number): Finding | undefined {
  const from = runStart(text, start, BASE64URL | DOT | TILDE, start - 3);
  const to = runEnd(text, end, BASE64URL | DOT | TILDE, end + AZURE_SECRET_CHARS_MAX);
  return start - from === 3 && text.startsWith("Q~", start + 1) && to - end >= 31
    ? { rule: "azure-client-secret", start: from, end: to }
    : undefined;
}

const AZURE_SECRET_CHARS_MAX = 128;
const AZURE_MARKS = Array.from({ length: 10 }, (_, digit) => `${digit}q~`);

/** A bot of Discord: its id in base64, six characters, 27 or more. */
function matchDiscord(text: string, start: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  const token = DISCORD.exec(text.slice(start, start + DISCORD_CHARS_MAX))?.[0];
  return token === undefined ? undefined : { rule: "discord-token", start, end: start + token.length };
}

const DISCORD = /^[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,64}(?![\w-])/;
const DISCORD_CHARS_MAX = 104;
/** How base64 of a number begins: three digits make four letters. */
const NUMBERS_IN_BASE64 = Array.from({ length: 900 }, (_, index) =>
  Buffer.from(String(100 + index))
    .toString("base64")
    .toLowerCase(),
);

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

/** Addresses that let anybody who knows them post. The path behind is the secret. */
function matchWebhook(text: string, _start: number, end: number): Finding | undefined {
  const limit = end + LINE_CHARS_MAX;
  let to = end;
  while (to < limit && (isA(text, to, BASE64URL | BASE64 | DOT | PERCENT) || isOneOf(text, to, "@"))) to += 1;
  return to - end >= 16 ? { rule: "webhook-url", start: end, end: to } : undefined;
}

const WEBHOOKS = words(
  "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/ hooks.slack-gov.com/services/",
  "discord.com/api/webhooks/ discordapp.com/api/webhooks/ discord.com/api/v8/webhooks/ discord.com/api/v9/webhooks/",
  "discord.com/api/v10/webhooks/ outlook.office.com/webhook/ outlook.office365.com/webhook/",
  "webhook.office.com/webhookb2/ hooks.zapier.com/hooks/catch/ api.telegram.org/bot hc-ping.com/ hook.eu1.make.com/",
  "hook.eu2.make.com/ hook.us1.make.com/ hook.us2.make.com/ open.feishu.cn/open-apis/bot/v2/hook/",
  "open.larksuite.com/open-apis/bot/v2/hook/ qyapi.weixin.qq.com/cgi-bin/webhook/send?key= maker.ifttt.com/use/",
);

/** `1/1200000000000000:`, `2/…/…:` and 32 hex digits: a person's token of Asana. */
function matchAsana(text: string, start: number, end: number): Finding | undefined {
  if (!beginsWord(text, start)) return undefined;
  const rest = ASANA.exec(text.slice(end, end + ASANA_CHARS_MAX))?.[0];
  return rest === undefined ? undefined : { rule: "asana-token", start, end: end + rest.length };
}

const ASANA = /^\d{12,17}(?:\/\d{14,19})?:[\da-f]{32}(?![\w-])/;
const ASANA_CHARS_MAX = 72;

/** What vendors hand out and no prefix alone gives away. */
export const VENDOR_KEYS: readonly SecretShape[] = [
  { words: ["akia", "asia", "goog1e"], steps: 400, match: matchAwsSecret },
  { words: [":aa"], steps: 60, match: matchTelegram },
  { words: ["-us"], steps: 80, match: matchMailchimp },
  { words: AZURE_MARKS, steps: 80, match: matchAzureSecret },
  { words: NUMBERS_IN_BASE64, steps: 80, match: matchDiscord },
  { words: ["sig="], steps: 100, match: matchSharedAccess },
  { words: [".atlasv1."], steps: 80, match: matchTerraform },
  { words: ["pat"], steps: 60, match: matchAirtable },
  { words: ["jqqj99"], steps: 100, match: matchAzureKey },
  { words: ["1/12", "2/12"], steps: 80, match: matchAsana },
  { words: ["nral"], steps: 80, match: matchNewRelic },
  { words: Object.keys(MARKED_KEYS).map((mark) => mark.toLowerCase()), steps: 120, match: matchMarkedKey },
  { words: ["!aq"], steps: 100, match: matchSalesforce },
  { words: WEBHOOKS, steps: 100, match: matchWebhook },
];
