import type { Finding } from "../../finding.ts";
import { lineEnd } from "../stretches.ts";
import { isSecretValue } from "../values.ts";
import type { SecretShape } from "./shape.ts";

/** UTF-16 units. */
const LINE_CHARS_MAX = 192;

/** What stands behind the words that begin a setting, the last group the secret. */
const SETTINGS: readonly (readonly [words: readonly string[], rest: RegExp])[] = [
  [
    ["tacacs-server ", "radius-server "],
    /^(?:host \S{1,64} )?(?:[a-z-]{1,16} \d{1,5} ){0,3}key (?:\d )?(?!\d\s)(\S{4,64})/d,
  ],
  [["snmp-server community "], /^(?!public\b|private\b)(\S{4,64})/d],
  [["isakmp key "], /^(?:\d )?(\S{4,64}) (?:address|hostname) /d],
  [["set password enc ", "set passwd enc ", "set psksecret enc "], /^(\S{8,256})/d],
  [["createuser "], /^(?:-e \S{1,64} )?\S{1,64} (?:MD5|SHA(?:-\d{3})?) "?([^"\s]{8,64})/d],
  [["nsupdate -y ", "dig -y "], /^(?:hmac-[\w-]{3,10}:)?[\w.-]{1,64}:([A-Za-z\d+/=]{16,128})/d],
  [["preshared-key ", "private-key "], /^([A-Za-z\d+/]{43}=)/d],
  [["wifi:"], /^(?:[TSHRI]:[^;]{0,64};){0,4}P:([^;]{4,64});/d],
  [["aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96"], /^["']?[:=(] ?["']?(?:0x)?([\da-f]{32,64})\b/di],
  [["$krb5tgs$", "$krb5asrep$", "$krb5pa$"], /^(\S{32,4096})/d],
  [["{plain}", "{cleartext}"], /^([^\s:"'`<>{}]{4,128})/d],
  [["reg_sz "], /^ {0,8}(\S{4,128})$/d],
];

/** Of a registry's value its name must say what it is. */
const PASSWORD_VALUE = /password["']? {1,16}$/i;

/** Settings of network devices, and of what stands between machines: a blank before the secret, or a form of its own. */
export const DEVICE_SETTINGS: readonly SecretShape[] = SETTINGS.map(([words, shape]) => ({
  words,
  steps: 500,
  match: (text, start, end): Finding | undefined => {
    const rest = text.slice(end, lineEnd(text, end, end + LINE_CHARS_MAX));
    if (words[0] === "reg_sz " && !PASSWORD_VALUE.test(text.slice(Math.max(0, start - 48), start))) return undefined;
    const [from, to] = shape.exec(rest)?.indices?.[1] ?? [];
    if (from === undefined || !isSecretValue(rest.slice(from, to), "password", "assigned")) return undefined;
    return { rule: "device-secret", start: end + from, end: end + (to ?? from) };
  },
}));
