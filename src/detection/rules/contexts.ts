import { LOCATION } from "../secrets/structures.ts";
import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  DIGIT,
  DOT,
  EQUALS,
  HEX,
  LINE_END,
  PERCENT,
  TILDE,
  UPPER,
  words,
} from "../views/characters.ts";
import type { BlockRule, ContextRule } from "./rule.ts";

const BASE64_ANY = BASE64URL | BASE64 | EQUALS;

/** Returns text for examples, so that this file contains no text that looks like a credential. */
function filler(length: number, alphabet = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"): string {
  return alphabet.repeat(Math.ceil(length / alphabet.length)).slice(0, length);
}

const hex = (length: number) => filler(length, "0a1b2c3d4e5f6789");
const capitals = (length: number) => filler(length, "A2B3C4D5E6F7G");

/** Keys of Azure's services: their marks, and the number of characters before and after a mark, with padding. */
const AZURE_KEYS: readonly (readonly [marks: string, before: number, after: number])[] = [
  ["+ASt ACDb +ABa APIM", 76, 8],
  ["+ASb +AEh +ARm AIoT AzCa", 33, 7],
  ["AzSe +ACR", 42, 6],
  ["AzFu", 44, 8],
];

/** First four base64 characters of the numbers from 100 to 999, with which ids of bots begin. */
const NUMBERS_IN_BASE64 = Array.from({ length: 900 }, (_, index) =>
  Buffer.from(String(100 + index))
    .toString("base64")
    .toLowerCase(),
);

/** Vendors' keys that contain a fixed mark. */
const MARKED_KEYS: readonly ContextRule[] = [
  {
    id: "aws-secret-key",
    anchors: ["akia", "asia", "goog1e"],
    word: true,
    run: [UPPER | DIGIT, 16],
    near: "(?:^|[^A-Za-z0-9+/])([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/]|$)",
    scope: "text",
    windowMax: [0, 224],
    value: ["digit", "upper", "lower"],
    matches: [`«AKIA${capitals(16)}»,«${filler(40, "aB3/dE5f+G7h")}»`],
    misses: [`AKIA${capitals(15)},${hex(40)}`],
  },
  {
    id: "telegram-token",
    anchors: [":AA"],
    cased: true,
    run: [BASE64URL, 31],
    before: "([0-9]{7,12})$",
    after: String.raw`([\w-]{31,35})(?:[^\w-]|$)`,
    matches: [`bot «123456789:AA${filler(33)}»`],
    misses: [`12345:AA${filler(33)}`],
  },
  {
    id: "mailchimp-key",
    anchors: ["-us"],
    run: [DIGIT, 1],
    before: "(?:^|[^0-9a-fA-F])([0-9a-fA-F]{32})$",
    after: "([0-9]{1,2})",
    matches: [`key «${hex(32)}-us12»`],
    misses: [`sha ${hex(40)}-us12`],
  },
  {
    id: "azure-client-secret",
    anchors: Array.from({ length: 10 }, (_, digit) => `${digit}Q~`),
    cased: true,
    run: [BASE64URL | DOT | TILDE, 31],
    before: String.raw`([\w.~-]{3})$`,
    after: String.raw`([\w.~-]{31,128})`,
    matches: [`value «abC8Q~${filler(34)}» x`],
    misses: [`abC8Q~${filler(20)}`],
  },
  {
    id: "facebook-token",
    anchors: ["access_token=", 'access_token": "', 'access_token":"', "access_token: "],
    after: String.raw`([0-9]{15,16}(?:\||%7[Cc])[\w-]{27,40})(?:[^\w-]|$)`,
    matches: [`access_token=«1234567890123456|${filler(27)}»`],
    misses: [`access_token=1234|${filler(20)}`],
  },
  {
    id: "discord-token",
    anchors: NUMBERS_IN_BASE64,
    word: true,
    run: [BASE64URL, 18],
    before: "$",
    after: String.raw`[\w-]{19,24}\.[\w-]{6}\.[\w-]{27,64}`,
    matches: [`bot «${Buffer.from("123456789012345678").toString("base64")}.${filler(6)}.${filler(27)}»`],
    misses: [`bot ${filler(24)}.${filler(6)}.${filler(20)}`],
  },
  {
    id: "azure-shared-access-signature",
    anchors: ["?sig=", "&sig=", ";sig=", " sig=", '"sig=', "'sig="],
    run: [BASE64_ANY | PERCENT, 40, 512],
    requires: "s[vep]=",
    scope: "text",
    windowMax: [512, 608],
    matches: [`?sv=2024-01-01&sig=«${filler(43)}%3D»`],
    misses: [`?a=1&sig=${filler(43)}`],
  },
  {
    id: "terraform-token",
    anchors: [".atlasv1."],
    run: [BASE64URL | EQUALS, 50],
    before: "([A-Za-z0-9]{14})$",
    after: String.raw`([\w=-]{50,128})`,
    matches: [`«${filler(14)}.atlasv1.${filler(64)}»`],
    misses: [`${filler(9)}.atlasv1.${filler(64)}`],
  },
  {
    id: "airtable-token",
    anchors: ["pat"],
    word: true,
    run: [ALPHANUMERIC, 14],
    before: "()$",
    after: String.raw`([A-Za-z0-9]{14}\.[0-9a-fA-F]{64})(?:[^0-9a-fA-F]|$)`,
    matches: [`«pat${filler(14)}.${hex(64)}» is new`],
    misses: [`pat${filler(14)}.${hex(60)}`],
  },
  {
    id: "azure-key",
    anchors: ["JQQJ99"],
    cased: true,
    run: [ALPHANUMERIC, 20],
    before: "(?:^|[^A-Za-z0-9])([A-Za-z0-9]{52})$",
    after: "([A-Za-z0-9]{20,64})",
    matches: [`key «${filler(52)}JQQJ99${filler(26)}»`],
    misses: [`key ${filler(40)}JQQJ99${filler(26)}`],
  },
  ...AZURE_KEYS.map(
    ([marks, before, after]): ContextRule => ({
      id: "azure-key",
      anchors: marks.split(" "),
      cased: true,
      run: [BASE64 | EQUALS, after],
      before: `(?:^|[^A-Za-z0-9+/])([A-Za-z0-9+/]{${before}})$`,
      after: `([A-Za-z0-9+/=]{${after}})(?:[^A-Za-z0-9+/=]|$)`,
      matches: marks.split(" ").map((mark) => `key: «${filler(before)}${mark}${filler(after - 2)}==»`),
      misses: marks.split(" ").map((mark) => `key: ${filler(before - 1)}${mark}${filler(after)}`),
    }),
  ),
  {
    id: "asana-token",
    anchors: ["1/12", "2/12"],
    word: true,
    run: [DIGIT, 12],
    after: String.raw`[0-9]{12,17}(?:/[0-9]{14,19})?:[0-9a-f]{32}`,
    matches: [`«1/12${"0".repeat(14)}:${hex(32)}»`],
    misses: [`1/12${"0".repeat(14)}:${hex(30)}`],
  },
  {
    id: "new-relic-key",
    anchors: ["NRAL"],
    cased: true,
    before: "(?:^|[^a-z0-9])([a-z0-9]{36})$",
    after: "()(?:[^A-Za-z0-9]|$)",
    matches: [`license «${hex(36)}NRAL»`],
    misses: [`license ${hex(30)}NRAL`],
  },
  {
    id: "maxmind-key",
    anchors: ["_mmk"],
    cased: true,
    before: "(?:^|[^A-Za-z0-9])([A-Za-z0-9]{6}_[A-Za-z0-9]{29})$",
    after: "()(?:[^A-Za-z0-9]|$)",
    matches: [`license «${filler(6)}_${filler(29)}_mmk»`],
    misses: [`license ${filler(6)}_${filler(20)}_mmk`],
  },
  {
    id: "authress-key",
    anchors: [".acc_", ".acc-"],
    before: String.raw`\b((?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6})$`,
    after: String.raw`([A-Za-z0-9-]{10,32}\.[\w+/=-]{30,120})`,
    matches: [`«sc_${filler(12)}.${filler(4)}.acc_${filler(12)}.${filler(40)}»`],
    misses: [`sc_${filler(12)}.acc_${filler(12)}.${filler(20)}`],
  },
  {
    id: "salesforce-session",
    anchors: ["!AQ"],
    cased: true,
    run: [BASE64URL | DOT, 60],
    before: "(?:^|[^A-Za-z0-9])(00D[A-Za-z0-9]{12,16})$",
    after: String.raw`([\w.-]{60,128})`,
    matches: [`sid «00D${filler(14)}!AQ${filler(70)}»`],
    misses: [`sid 00D${filler(14)}!AQ${filler(40)}`],
  },
];

const WEBHOOKS = words(
  "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/ hooks.slack-gov.com/services/",
  "discord.com/api/webhooks/ discordapp.com/api/webhooks/ discord.com/api/v8/webhooks/ discord.com/api/v9/webhooks/",
  "discord.com/api/v10/webhooks/ outlook.office.com/webhook/ outlook.office365.com/webhook/",
  "webhook.office.com/webhookb2/ hooks.zapier.com/hooks/catch/ api.telegram.org/bot hc-ping.com/ hook.eu1.make.com/",
  "hook.eu2.make.com/ hook.us1.make.com/ hook.us2.make.com/ open.feishu.cn/open-apis/bot/v2/hook/",
  "open.larksuite.com/open-apis/bot/v2/hook/ qyapi.weixin.qq.com/cgi-bin/webhook/send?key= maker.ifttt.com/use/",
);

/** Paths before a code that authorizes anyone who has the URL. */
const LINKS = words(
  "/reset-password/ /password-reset/ /password/reset/ /reset_password/ /resetpassword/ /magic-link/ /magiclink/",
  "/invite/ /invitation/ /invitations/ /verify-email/ /confirm-email/ /email/verify/ /activate/ /unlock-account/",
  "/hooks/ /private-",
);

/** Secrets in URLs and in HTTP headers. */
const WEB: readonly ContextRule[] = [
  {
    id: "bearer-token",
    anchors: ["bearer%20", "bearer "],
    word: true,
    run: [BASE64_ANY | DOT | TILDE | PERCENT, 20],
    matches: [`Bearer «${filler(20)}»`],
    misses: ["Bearer tokens are sent"],
  },
  {
    id: "bearer-token",
    anchors: ["bearer\t", "bearer  "],
    word: true,
    after: String.raw`[ \t]{0,7}([\w.~+/=%-]{20,})`,
    scope: "text",
    windowMax: [0, 8_192],
    matches: [`Bearer  «${filler(20)}»`],
    misses: ["Bearer  tokens are sent"],
  },
  {
    id: "basic-credentials",
    anchors: ["basic ", "basic\t"],
    word: true,
    after: String.raw`[ \t]{0,7}([A-Za-z0-9+/=]{6,})`,
    windowMax: [0, 520],
    value: "basic-credentials",
    matches: ["Basic «dXNlcjpodW50ZXIy»"],
    misses: ["basic authentication"],
  },
  {
    id: "webhook-url",
    anchors: WEBHOOKS,
    after: String.raw`([\w.+/%@-]{16,})`,
    scope: "text",
    windowMax: [0, 512],
    matches: [`https://hooks.slack.com/services/«T0AAAAAAA/B0BBBBBBB/${filler(24)}»`],
    misses: ["https://hooks.slack.com/services/"],
  },
  {
    id: "url-signature",
    anchors: ["x-amz-signature=", "x-goog-signature="],
    run: [HEX, 40, 1_024],
    matches: [`?X-Amz-Signature=«${hex(64)}»`],
    misses: ["?X-Amz-Signature=abc"],
  },
  {
    id: "url-signature",
    anchors: ["?signature=", "&signature="],
    run: [BASE64_ANY | PERCENT | TILDE, 24, 1_024],
    requires: "(?i)expires=|accesskeyid=|accessid=|key-pair-id=",
    scope: "text",
    windowMax: [256, 1_280],
    value: "digit",
    matches: [`/k?Expires=1&Signature=«${filler(40)}»`],
    misses: [`/k?a=1&Signature=${filler(40)}`],
  },
  {
    id: "url-code",
    anchors: ["?code=", "&code="],
    run: [BASE64URL | EQUALS | PERCENT, 40, 1_024],
    value: ["digit", "upper"],
    matches: [`/f?code=«${filler(56)}==»`],
    misses: [`/f?code=${filler(20)}`],
  },
  {
    id: "url-code",
    anchors: ["?code=", "&code="],
    run: [BASE64URL | EQUALS | PERCENT, 10, 1_024],
    requires: "[?&]state=|redirect_uri=",
    scope: "text",
    windowMax: [256, 1_280],
    value: ["digit", "letter"],
    matches: ["/callback?code=«a1b2c3d4e5f6»&state=x"],
    misses: ["/orders?code=a1b2c3d4e5f6&page=1"],
  },
  {
    id: "url-code",
    anchors: ["authorization_code"],
    near: String.raw`(?:^|["'?&\s,{])code["']?\s{0,8}[:=]\s{0,8}["']?([\w%.~/+-]{10,})`,
    scope: "text",
    windowMax: [256, 256],
    value: ["digit", "letter"],
    matches: ["code=«a1b2c3d4e5f6»&grant_type=authorization_code"],
    misses: ["grant_type=authorization_code&code=…"],
  },
  {
    id: "url-key",
    anchors: ["otpauth-migration://offline?data="],
    run: [BASE64 | EQUALS | PERCENT, 20, 1_024],
    matches: [`otpauth-migration://offline?data=«${filler(40)}»`],
    misses: ["otpauth-migration://offline?data=x"],
  },
  {
    id: "url-key",
    anchors: words("?key= &key= ?appid= &appid= ?auth= &auth= /magic-link?t= ?ticket= &ticket="),
    run: [BASE64URL, 20, 1_024],
    value: "random",
    matches: [`/v1/x?key=«${filler(32)}»`],
    misses: ["/v1/x?key=customers-by-last-name"],
  },
  {
    id: "url-code",
    anchors: LINKS,
    run: [BASE64URL, 20, 1_024],
    value: "random-or-uuid",
    matches: [`/reset-password/«${filler(32)}»`],
    misses: ["/invite/how-to-invite-somebody"],
  },
];

const COOKIE_VALUE = String.raw`["']value["']\s{0,8}:\s{0,8}["']([^"'\s]{8,})["']`;

/** Cookies as browsers and `curl` store them. Other members of the record identify them, because a cookie may have any name. */
const COOKIES: readonly ContextRule[] = [
  {
    id: "cookie",
    anchors: ['"httponly"', '"samesite"', '"hostonly"', '"expirationdate"', "'httponly'", "'samesite'"],
    near: COOKIE_VALUE,
    scope: "object",
    windowMax: [1_024, 1_024],
    value: "token/quoted",
    matches: ['{"name": "x", "value": "«a1b2c3d4e5f6»", "httpOnly": true}'],
    misses: ['{"name": "x", "value": "dark-mode", "httpOnly": true}'],
  },
  {
    id: "cookie",
    anchors: ['"cookies"', "'cookies'"],
    near: COOKIE_VALUE,
    scope: "list",
    windowMax: [0, 4_096],
    value: "token/quoted",
    matches: ['"cookies": [{"name": "x", "value": "«a1b2c3d4e5f6»"}]'],
    misses: ['"cookies": [{"name": "x", "value": "en-GB,en"}]'],
  },
  {
    id: "cookie",
    anchors: ["\ttrue\t/", "\tfalse\t/"],
    after: String.raw`[^\t]*\t(?:TRUE|FALSE)\t\d{1,16}\t[^\t]+\t([^\t]{8,})`,
    windowMax: [0, 5_120],
    value: "token/quoted",
    matches: [".h.example\tTRUE\t/\tTRUE\t1790000000\tsid\t«a1b2c3d4e5f6»"],
    misses: [".h.example\tTRUE\t/\tTRUE\t1790000000\tlang\ten-GB,en"],
  },
];

const PGPASS_END = String.raw`(\S{3,128})[ \t]*$`;

/** Credentials in files and output of programs. */
const FILES: readonly (ContextRule | BlockRule)[] = [
  {
    id: "npm-auth",
    anchors: ["_auth=", "_auth = "],
    before: "(?:^|[^A-Za-z0-9])$",
    after: String.raw`["'\x60]?([\w+/=-]{8,})`,
    windowMax: [1, 513],
    matches: [`//registry.example/:_auth=«${filler(16)}»`],
    misses: ["_auth=$NPM_AUTH"],
  },
  {
    id: "login-password",
    anchors: ["bundle_"],
    word: true,
    after: String.raw`(?i)[a-z\d_]{1,64}__[a-z\d_]{2,64}["']?(?:=|: )["']?[^\s"':/]{1,64}:([^\s"']{3,128})`,
    matches: ["BUNDLE_GEMS__EXAMPLE__COM=ann:«hunter2x»", 'BUNDLE_GEMS__EXAMPLE__COM: "ann:«hunter2x»"'],
    misses: ["BUNDLE_PATH=vendor:x", "BUNDLE_GEMS__EXAMPLE__COM=ann"],
  },
  {
    id: "basic-credentials",
    anchors: ['"auth"'],
    after: String.raw`[ \t]{0,8}:[ \t]{0,8}"([A-Za-z0-9+/=]+)`,
    windowMax: [0, 530],
    value: "basic-credentials",
    matches: ['"auth": "«Ym9iOmh1bnRlcjJ4»"'],
    misses: ['"auth": "required"'],
  },
  {
    id: "basic-credentials",
    anchors: ["auth: "],
    run: [BASE64 | EQUALS, 8, 512],
    before: String.raw`[ \t\r\n]$`,
    scope: "text",
    windowMax: [1, 512],
    value: "account-in-base64",
    matches: ["r.example:\n    auth: «Ym9iOmh1bnRlcjJ4»"],
    misses: ["  auth: required"],
  },
  {
    id: "login-password",
    anchors: [":5432:", ":5433:", ":5434:", ":6432:", ":6543:"],
    before: String.raw`^${LOCATION}?[\w.*-]{1,128}$`,
    after: String.raw`[\w*.-]{1,64}:[\w.@*-]{1,64}:${PGPASS_END}`,
    matches: ["db.example.com:5432:mydb:bob:«hunter2x»"],
    misses: ["at db.example.com:5432:mydb:bob:hunter2x"],
  },
  {
    id: "login-password",
    anchors: [":*:*:"],
    before: String.raw`^${LOCATION}?[\w.*-]{1,128}$`,
    after: String.raw`[\w.@*-]{1,64}:${PGPASS_END}`,
    matches: ["localhost:*:*:bob:«hunter2x»"],
    misses: ["see localhost:*:*:bob:hunter2x"],
  },
  {
    id: "url-password",
    anchors: ["@tcp(", "@unix("],
    before: String.raw`(?:^${LOCATION}?|[\s"'\x60=])[^\s"'\x60=:]+:([^\s"'\x60=%$<{][^\s"'\x60=]*)$`,
    value: "password/line",
    matches: ["bob:«hunter2x»@tcp(127.0.0.1:3306)/db"],
    misses: ["bob:%s@tcp(127.0.0.1:3306)/db"],
  },
  {
    id: "password-hash",
    anchors: ["aad3b435b51404eeaad3b435b51404ee:"],
    run: [HEX, 32],
    after: "([0-9a-fA-F]{32})(?:[^0-9a-fA-F]|$)",
    matches: [`bob:1001:aad3b435b51404eeaad3b435b51404ee:«${hex(32)}»:::`],
    misses: ["aad3b435b51404eeaad3b435b51404ee:x"],
  },
  {
    id: "tls-secret",
    anchors: ["client_random ", "traffic_secret_0 ", "exporter_secret "],
    run: [HEX, 64],
    after: "[0-9a-fA-F]{64} ([0-9a-fA-F]{64,})",
    windowMax: [0, 640],
    matches: [`CLIENT_RANDOM ${hex(64)} «${hex(96)}»`],
    misses: [`CLIENT_RANDOM ${hex(64)} ${hex(32)}`],
  },
  {
    id: "private-key",
    anchors: ["---- begin ssh2 encrypted private key ----"],
    next: LINE_END,
    until: "---- END",
    max: 8_192,
    matches: ["«---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nAAAA\n»---- END SSH2 ENCRYPTED PRIVATE KEY ----"],
    misses: ["a line ---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----, and"],
  },
  {
    id: "putty-private-key",
    anchors: ["private-lines:"],
    next: DIGIT,
    until: "Private-MAC",
    max: 65_536,
    matches: [`«Private-Lines: 1\n${filler(40)}\n»Private-MAC: 00`],
    misses: ["Private-Lines: none"],
  },
  {
    id: "seed-phrase",
    anchors: ["mnemonic", "seed phrase", "recovery phrase", "seed words"],
    after: String.raw`["']?\s{0,8}(?:is)?[:=]{0,2}\s{0,8}["']?([a-z]{3,8}(?: [a-z]{3,8}){11,23})(?:[^a-z]|$)`,
    scope: "text",
    value: "seed-phrase",
    matches: ["mnemonic: «legal winner thank year wave sausage worth useful legal winner thank yellow»"],
    misses: ["mnemonic: the words that your wallet shows and that you have to keep where nobody looks"],
  },
  {
    id: "login-password",
    anchors: ["rocommunity ", "rwcommunity "],
    after: String.raw`([^\s"'\x60,;<>|]{4,128})`,
    value: "community",
    matches: ["rocommunity «hunter2x» 10.0.0.0/8"],
    misses: ["rocommunity public 10.0.0.0/8"],
  },
  {
    id: "jwk-private-key",
    anchors: ['"kty"', "'kty'"],
    near: String.raw`["'](?:d|p|q|dp|dq|qi|k)["']\s{0,30}:\s{0,30}["']([\w-]{16,})`,
    scope: "object",
    windowMax: [4_096, 4_096],
    matches: [`{"kty": "oct", "k": "«${filler(43)}»"}`],
    misses: [`{"kty": "EC", "x": "${filler(43)}"}`],
  },
  {
    id: "sensitive-value",
    anchors: ['"sensitive": true', '"sensitive":true', "sensitive = true", "sensitive   = true"],
    near: String.raw`(?:^|[\s,{"])(?:value|default)"?\s{0,32}[:=]\s{0,8}"((?:[^"\\\r\n]|\\.){1,512})"`,
    scope: "object",
    windowMax: [512, 512],
    value: "password/quoted",
    matches: ['"db": {"value": "«hunter2x»", "type": "string", "sensitive": true}'],
    misses: ['"db": {"value": "", "sensitive": true}', '{"sensitive": true}, {"value": "hunter2x"}'],
  },
  {
    id: "sensitive-value",
    anchors: ['"random_password"'],
    near: String.raw`"result"\s{0,8}:\s{0,8}"((?:[^"\\\r\n]|\\.){1,512})"`,
    scope: "text",
    windowMax: [0, 2_048],
    value: "password/quoted",
    matches: ['{"type": "random_password", "instances": [{"attributes": {"keepers": {}, "result": "«Xk2#mQ9!pL»"}}]}'],
    misses: ['{"type": "random_id", "instances": [{"attributes": {"result": "Xk2#mQ9!pL"}}]}'],
  },
  {
    id: "sensitive-value",
    anchors: ['"securestring"'],
    after: String.raw`[,}\s]{0,8}["']?Value["']?\s{0,8}[:=,]?\s{0,8}["']([^"'\r\n]{3,})["']`,
    scope: "text",
    windowMax: [0, 4_160],
    value: "password/quoted",
    matches: ['{"Type": "SecureString", "Value": "«hunter2x»"}'],
    misses: ['{"Type": "SecureString", "Name": "hunter2x"}'],
  },
  {
    id: "sensitive-value",
    anchors: ['"encrypt"', "encrypt = "],
    after: String.raw`\s{0,8}[:=]?\s{0,8}["']([A-Za-z\d+/]{22}==|[A-Za-z\d+/]{43}=)["']`,
    scope: "text",
    value: "password/quoted",
    matches: [`{"encrypt": "«${filler(43)}=»"}`],
    misses: ['{"encrypt": "true"}'],
  },
  {
    id: "secret-id",
    anchors: ["secret_id", "secretid", "secret id", "secret-id"],
    after: String.raw`(?i)["']?\s{0,32}[:=|]?\s{0,16}["']?([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?:[^\w-]|$)`,
    scope: "text",
    matches: ["secret_id   «3f9a8b7c-6d5e-4f3f-9a8b-7c6d5e4f3f9a»"],
    misses: ["secret_id: web", "secret_id: 3f9a8b7c-6d5e-4f3f-9a8b-7c6d5e4f3f9ab"],
  },
];

const ACCOUNT = String.raw`s?(?: (?:are|is|were|with|as))?(?::? {1,2}|:|["'\x60])["'\x60]?[A-Za-z][\w.@-]*["'\x60]?(?: ?/ ?|:)`;
const CERTAIN = "certain-login";
const PROMPT = String.raw`^${LOCATION}?[^A-Za-z]{0,48}(?:(?i:redis[^ ]{0,24}> ?|ftp> ?))?$`;
const REDIS = String.raw`(?i)(?:redis[^ ]{0,24}|:\d{2,5}(?:\[\d{1,3}\])?)> ?$|HELLO \d $`;
const SPEAKER = String.raw`(?i)^(?:[\s\d:.,<>*-]{0,48}|.{0,32}[>\]:|] ?)(?:[CS]: ?)?$`;
const MECHANISM =
  "(?:PLAIN|LOGIN|XOAUTH2|OAUTHBEARER|CRAM-MD5|NTLM|DIGEST-MD5|GSSAPI|SCRAM-SHA-\\d{1,3}|EXTERNAL)\\b ?";

const LOGIN = { id: "login-password", scope: "row", windowMax: [64, 192] } as const;

/** Logins in protocols, mail and sentences. */
const LOGINS: readonly ContextRule[] = [
  {
    ...LOGIN,
    anchors: ["AUTH ", "AUTHENTICATE "],
    word: true,
    cased: true,
    after: String.raw`${MECHANISM}([A-Za-z0-9+/=]{8,})\s*$`,
    value: "not-capitals",
    matches: ["AUTH PLAIN «AGJvYgBodW50ZXIyeA==»"],
    misses: ["AUTH PLAIN LOGIN", "250-AUTH LOGIN XOAUTH2"],
  },
  {
    ...LOGIN,
    anchors: ["AUTH "],
    word: true,
    cased: true,
    unless: MECHANISM,
    before: PROMPT,
    after: String.raw`(?:\S+ )?(\S+)\s*$`,
    value: "login",
    matches: ["AUTH «hunter2x»", "AUTH default «hunter2x»"],
    misses: ["AUTH required", "we AUTH hunter2x"],
  },
  {
    ...LOGIN,
    anchors: ["AUTH "],
    word: true,
    cased: true,
    unless: MECHANISM,
    before: REDIS,
    after: String.raw`(?:\S+ )?(\S+)\s*$`,
    value: CERTAIN,
    matches: ["127.0.0.1:6379> AUTH «let_me_in»", "HELLO 3 AUTH default «let_me_in»"],
    misses: ["127.0.0.1:6379> AUTH /path"],
  },
  {
    ...LOGIN,
    anchors: ['"auth"'],
    after: String.raw`(?: "[^" ]{1,64}")? "([^"]{3,128})"`,
    value: CERTAIN,
    matches: ['[0 127.0.0.1:60866] "AUTH" "«hunter2x»"'],
    misses: ['"auth", "x"'],
  },
  {
    ...LOGIN,
    anchors: ["AUTH\r\n$", "AUTH\n$"],
    word: true,
    cased: true,
    scope: "text",
    after: String.raw`\d{1,4}\r?\n([^\r\n]+)(?:\r?\n\$\d{1,4}\r?\n([^\r\n]+))?`,
    matches: ["*2\r\n$4\r\nAUTH\r\n$8\r\n«hunter2x»\r\n"],
    misses: ["AUTH\n$ ls"],
  },
  {
    ...LOGIN,
    anchors: [" on >"],
    before: String.raw`(?i)\b(?:setuser|user) \S{1,48}(?: \S{1,24}){0,4}$`,
    after: String.raw`([^\s"'\x60]{3,})`,
    value: CERTAIN,
    matches: ["ACL SETUSER bob on >«hunter2x» ~* +@all"],
    misses: ["the light is on >hunter2x"],
  },
  {
    ...LOGIN,
    anchors: ["LOGIN "],
    cased: true,
    before: String.raw`(?:^|[\s>:\]])[A-Za-z]{0,6}\d{1,8} $`,
    after: String.raw`(?:"[^"]{1,64}"|[^\s"]{1,64}) (?:"([^"]{1,128})"|([^\s"]{1,128}))\s*$`,
    matches: ["a001 LOGIN bob «hunter2x»", 'A1 LOGIN "bob@x.y" "«hunter2x»"'],
    misses: ["a LOGIN page opens"],
  },
  {
    ...LOGIN,
    anchors: ["PASS "],
    word: true,
    cased: true,
    before: SPEAKER,
    after: String.raw`(\S+)\s*$`,
    value: "login",
    matches: ["C: PASS «hunter2x»"],
    misses: ["PASS tests/a.test.ts", "PASS all"],
  },
  {
    ...LOGIN,
    anchors: ["PASS "],
    word: true,
    cased: true,
    before: String.raw`(?s)(?:^|[\s>:])USER [^\s]{1,64}(?:\s|\\r).*?(?:^|[\r\n])[^\r\n]{0,48}$`,
    after: String.raw`(\S+)\s*(?:$|[\r\n])`,
    scope: "text",
    windowMax: [512, 192],
    value: CERTAIN,
    matches: ["USER bob\n331 next\nPASS «let_me_in»\n"],
    misses: ["USER bob\nPASS to all\n"],
  },
  {
    ...LOGIN,
    anchors: ["334 ugfzc3dvcmq6"],
    after: String.raw`[\r\n]{1,2}(?:[^\r\n]* )?([A-Za-z0-9+/=]{4,})[ \t]*(?:[\r\n]|$)`,
    scope: "text",
    matches: ["S: 334 UGFzc3dvcmQ6\nC: «aHVudGVyMng=»\n"],
    misses: ["334 UGFzc3dvcmQ6"],
  },
  {
    ...LOGIN,
    anchors: ["identify "],
    before: "(?i)nickserv :?$",
    after: String.raw`(?:.* )?(\S+)\s*$`,
    value: CERTAIN,
    matches: ["PRIVMSG NickServ :IDENTIFY «hunter2x»"],
    misses: ["to identify hunter2x"],
  },
  {
    ...LOGIN,
    anchors: ["credential", "creds", "log in with", "login with", "login:"],
    word: true,
    unless: String.raw`(?i)s?\W{0,4}(?:(?:are|is|were|with|as)\W{1,4})?(?:https?|sha(?:1|256|512)|md5|arn|urn|file)\b`,
    after: String.raw`${ACCOUNT}["'\x60]?([A-Za-z0-9](?:[^\s"'\x60,;<>|]*[^\s"'\x60,;<>|.!?)])?)`,
    value: "login",
    matches: ["credentials: bob / «hunter2x»", "creds are bob:«hunter2x».", "Log in with admin / «hunter2x»"],
    misses: ["Login with GitHub / Google1", "login: sha256:0a1b2c3d"],
  },
];

const WORD = String.raw`[^\s"'/]`;
/** Match `ann -p password`, perhaps with another option in between; `ann,password`; `ann:password`. */
const OPTION = String.raw`["']?[^\s"'-][^\s"']{0,63}["']? (?:-[a-zA-Z] [^\s-]\S{0,63} )?-p ?["']?(${WORD}{3,128})["']?(?:\s|$)`;
const LISTED = String.raw`["']?[^\s"',:-][^\s"',:]{0,63},([^\s"',/]{3,128})["']?(?:\s|$)`;
const PAIR = String.raw`["']?[^\s"':/=,-][^\s"':/=,]{0,63}:([^\s"',;/]{3,128})["']?(?:[\s,;)]|$)`;

/** A user's name and password, for any program. The same options also take ports and files. */
const ACCOUNTS: readonly ContextRule[] = [
  {
    id: "login-password",
    anchors: [" -u "],
    has: "-p",
    after: OPTION,
    value: "password/listed",
    matches: ["tool -u ann -p «Tr0ub4dor3»"],
    misses: ["tool -u ann -p 8080", "tool -u ann -p letters"],
  },
  {
    id: "login-password",
    anchors: [" -u "],
    has: ",",
    after: LISTED,
    value: "password/prose",
    matches: ["tool -u ann,«hunter2x»"],
    misses: ["tool -u ann,bob"],
  },
  {
    id: "login-password",
    anchors: [
      ...[" -u ", " --creds ", " --creds=", "-creds ", " --auth ", " --auth=", " --user ", " -a ", "stats auth "],
      ...[" login=", 'user = "', "]:587 ", "]:465 ", "]:25 "],
    ],
    has: ":",
    after: PAIR,
    value: "password/prose",
    matches: ["tool --auth ann:«hunter2x» run"],
    misses: ["tool --user 1000:1000", "tool -u ann:letters"],
  },
  {
    id: "login-password",
    anchors: [".py "],
    has: "@",
    after: String.raw`[\w.-]{1,64}/[\w.$-]{1,64}:([^\s"'@/]{3,128})@[\w.-]{1,64}(?:\s|$)`,
    value: "password/prose",
    matches: ["psexec.py corp/ann:«hunter2x»@10.1.2.3"],
    misses: ["a.py corp/ann:letters@host"],
  },
];

const DEVICE = { id: "device-secret", value: "password/assigned", windowMax: [64, 192] } as const;

/** Settings of network devices and connections, with a space before the secret or in a special format. */
const DEVICES: readonly ContextRule[] = [
  {
    ...DEVICE,
    anchors: ["tacacs-server ", "radius-server "],
    after: String.raw`(?:host \S{1,64} )?(?:[a-z-]{1,16} \d{1,5} ){0,3}key (?:\d )?(\S{4,64})`,
    matches: ["radius-server host 10.0.0.1 auth-port 1812 key 7 «hunter2x»"],
    misses: ["radius-server host 10.0.0.1"],
  },
  {
    ...DEVICE,
    anchors: ["snmp-server community "],
    unless: String.raw`(?:public|private)\b`,
    after: String.raw`(\S{4,64})`,
    matches: ["snmp-server community «hunter2x» RO"],
    misses: ["snmp-server community public RO"],
  },
  {
    ...DEVICE,
    anchors: ["isakmp key "],
    after: String.raw`(?:\d )?(\S{4,64}) (?:address|hostname) `,
    matches: ["crypto isakmp key «hunter2x» address 10.0.0.1"],
    misses: ["crypto isakmp key required"],
  },
  {
    ...DEVICE,
    anchors: ["set password enc ", "set passwd enc ", "set psksecret enc "],
    after: String.raw`(\S{8,})`,
    matches: ["set password ENC «AK1hunter2xyz»"],
    misses: ["set password ENC short"],
  },
  {
    ...DEVICE,
    anchors: ["createuser "],
    after: String.raw`(?:-e \S{1,64} )?\S{1,64} (?:MD5|SHA(?:-\d{3})?) "?([^"\s]{8,64})`,
    matches: ["createUser bob SHA «hunter2xyz» AES"],
    misses: ["createUser bob"],
  },
  {
    ...DEVICE,
    anchors: ["nsupdate -y ", "dig -y "],
    after: String.raw`(?:hmac-[\w-]{3,10}:)?[\w.-]{1,64}:([A-Za-z\d+/=]{16,128})`,
    matches: [`dig -y hmac-sha256:k:«${filler(24)}» h.example`],
    misses: ["dig -y k"],
  },
  {
    ...DEVICE,
    anchors: ["preshared-key ", "private-key "],
    run: [BASE64, 43],
    after: String.raw`([A-Za-z\d+/]{43}=)`,
    matches: [`set peer preshared-key «${filler(43)}=»`],
    misses: ["set private-key file"],
  },
  {
    ...DEVICE,
    anchors: ["wifi:"],
    after: "(?:[TSHRI]:[^;]{0,64};){0,4}P:([^;]{4,64});",
    matches: ["WIFI:T:WPA;S:net;P:«hunter2x»;;"],
    misses: ["WIFI:S:net;;"],
  },
  {
    ...DEVICE,
    anchors: ["aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96"],
    after: String.raw`(?i)["']?[:=(] ?["']?(?:0x)?([\da-f]{32,64})\b`,
    matches: [`aes256-cts-hmac-sha1-96:«${hex(64)}»`],
    misses: ["aes256-cts-hmac-sha1-96: enabled"],
  },
  {
    ...DEVICE,
    anchors: ["$krb5tgs$", "$krb5asrep$", "$krb5pa$"],
    after: String.raw`(\S{32,})`,
    windowMax: [0, 4_096],
    matches: [`$krb5tgs$«23$*bob$X$${hex(64)}»`],
    misses: ["$krb5tgs$"],
  },
  {
    ...DEVICE,
    anchors: ["{plain}", "{cleartext}"],
    after: String.raw`([^\s:"'\x60<>{}]{4,128})`,
    matches: ["bob:{PLAIN}«hunter2x»:1000"],
    misses: ["{plain}: text"],
  },
  {
    ...DEVICE,
    anchors: ["reg_sz "],
    before: `(?i)password["']? {1,16}$`,
    after: String.raw` {0,8}(\S{4,128})$`,
    matches: ["DefaultPassword    REG_SZ    «hunter2x»"],
    misses: ["DefaultUserName    REG_SZ    hunter2x"],
  },
];

/** Calls of libraries that take a password, by its position among the arguments. */
const CALLS: readonly (readonly [position: number, calls: readonly string[], matches: string])[] = [
  [0, [":auth("], `client:auth("«Hunter2x»")`],
  [
    1,
    words(
      "httpbasicauth( httpdigestauth( basicauth( basic_auth( setbasicauth( networkcredential( userpassword( db.auth( auth=(",
      "usernamepasswordcredentials( usernamepasswordauthenticationtoken( passwordauthentication( .login(",
    ).concat("basic_auth "),
    `requests.get(u, auth=("ann", "«Hunter2x»"))`,
  ],
  [
    2,
    words("plainauth( mysqli_connect( pdo( getconnection( dbi->connect( mysql.connect( new_mysqli("),
    `mysqli_connect("h", $user, '«Hunter2x»', "db")`,
  ],
];
const EARLIER = String.raw`(?:\s{0,32}(?:\\*"[^"\r\n]*"|\\*'[^'\r\n]*'|[^\s"',()\x60]*)[ \t]{0,8},)`;
const STRING = String.raw`\s{0,32}(?:Some\()?\\*(?:"([^"\r\n]{6,}?)\\*"|'([^'\r\n]{6,}?)\\*'|\x60([^\x60\r\n]{6,}?)\x60)`;

const LOGIN_CALLS: readonly ContextRule[] = CALLS.map(([position, anchors, matches]) => ({
  id: "login-password",
  anchors,
  word: true,
  after: `${EARLIER}{${position}}${STRING}`,
  scope: "text",
  value: ["mixed", "password/quoted"],
  matches: [matches],
  misses: [matches.replace(/«.*»/, "letters")],
}));

/** Digits of a one-time code or of a card's PIN. */
const ONCE = String.raw`(?:s? (?:is|are):?|["']?\s{0,4}[:=])\s{0,4}["'*]{0,2}(\d{3}[- ]\d{3}|\d{4,8})(?:[^\w:/.-]|\.\D|\.?$)`;

const CODES: readonly ContextRule[] = [
  {
    id: "one-time-code",
    anchors: [
      ...["verification code", "security code", "one-time code", "one-time passcode", "login code", "sign-in code"],
      ...["otp", "otp_code", "otpcode", "one_time_code", "verification_code", '"pin"'],
    ],
    before: String.raw`(?:^|\W)$`,
    after: ONCE,
    scope: "text",
    windowMax: [1, 32],
    matches: ["Your verification code is «123456».", '{"otp": "«123456»"}', '{"pin": "«4711»"}'],
    misses: ["OTP: 2026-01-02", "error code: 123456"],
  },
];

/** Secrets that the text around them identifies. */
export const CONTEXT_RULES: readonly (ContextRule | BlockRule)[] = [
  ...WEB,
  ...MARKED_KEYS,
  ...ACCOUNTS,
  ...LOGINS,
  ...LOGIN_CALLS,
  ...FILES,
  ...COOKIES,
  ...CODES,
  ...DEVICES,
];
