import { expect, test } from "bun:test";
import { CONTEXT_RULES } from "../../../src/detection/rules/contexts.ts";
import { DETECTOR_RULES } from "../../../src/detection/rules/rules.ts";
import { Detector, filterSecrets } from "../../../src/detection/sensitive.ts";
import { filler, shapeExamples } from "../secret-examples.ts";
import { COLUMNS, LANGUAGES, LOGINS, OTHERS, RARE, SHAPES } from "../secrets/secret-positions.ts";

const HEX = "0a1b2c3d4e5f6789";

/**
 * Texts in the form of public documents and programs, with other secrets, by their source. `~` marks the secret. Some lack the name
 * of the field, by which another rule would find the secret too.
 */
const PUBLIC: readonly (readonly [source: string, secret: string, text: string])[] = [
  ["RFC 6750, with two spaces", filler(24), "the request was sent with bearer  ~ at 12:00"],
  ["Azure Functions", `${filler(54)}==`, "https://app.azurewebsites.net/api/HttpTrigger1?code=~"],
  ["Google Authenticator, export", filler(60), "otpauth-migration://offline?data=~"],
  ["OpenWeather", filler(32, HEX), "https://api.openweathermap.org/data/2.5/weather?q=London&appid=~"],
  ["a mail that resets a password", filler(32), "Open https://app.example.com/reset-password/~ within an hour."],
  ["Graph API of Facebook", `1234567890123456|${filler(27)}`, "https://graph.facebook.com/debug_token?access_token=~"],
  [
    "discord.py",
    `${btoa("123456789012345678")}.${filler(6)}.${filler(27)}`,
    "client = discord.Client()\nclient.run('~')",
  ],
  ["az storage account keys list", `${filler(76)}+ASt${filler(6)}==`, '{"keyName": "key1", "value": "~"}'],
  ["az servicebus namespace", `${filler(33)}+ASb${filler(6)}=`, "sb://ns.servicebus.windows.net/ RootManage ~"],
  ["az search admin-key show", `${filler(42)}AzSe${filler(6)}`, "admin  ~  eastus"],
  ["Azure Functions, host keys", `${filler(44)}AzFu${filler(6)}==`, '{"default": "~"}'],
  ["python-asana", `1/12${"0".repeat(14)}:${filler(32, HEX)}`, "client = asana.Client.basic('~')"],
  ["GeoIP.conf of MaxMind", `${filler(6)}_${filler(29)}_mmk`, "AccountID 12345\nEditionIDs GeoLite2\n# ~\n"],
  [
    "Authress SDK",
    `sc_${filler(12)}.${filler(4)}.acc_${filler(12)}.${filler(40)}`,
    "new ServiceClientTokenProvider('~')",
  ],
  ["NetExec", "Tr0ub4dor3", "nxc smb 10.0.0.1 -u ann -p ~ --shares"],
  ["lftp", "hunter2x", "lftp -u ann,~ ftp.example.com -e 'mirror -R out /www; bye'"],
  ["HAProxy", "hunter2x", "  stats enable\n  stats auth admin:~\n"],
  ["Impacket", "hunter2x", "psexec.py corp.local/ann:~@10.1.2.3"],
  ["RFC 4954", "dGVzdAB0ZXN0ADEyMzQ=", "S: 250-AUTH GSSAPI DIGEST-MD5\nC: AUTH PLAIN ~\nS: 235 2.7.0 OK"],
  ["RFC 1939", "hunter2x", "C: USER mrose\nS: +OK mrose is a real hoopy frood\nC: PASS ~\n"],
  ["RFC 1939, after the user's name", "hunter2x", "C: PASS ~\nS: +OK maildrop locked and ready"],
  ["vsftpd", "let_me_in", "USER bob\n331 Please specify the password.\nPASS ~\n230 Login successful."],
  ["lua-resty-redis", "Foobared1", 'local res, err = red:auth("~")'],
  ["Requests", "Hunter2x", "requests.get('https://api.example.com/user', auth=('ann', '~'))"],
  ["PHP manual", "Hunter2x", '$link = mysqli_connect("localhost", "my_user", "~", "my_db");'],
  ["Bundler", "hunter2x", "export BUNDLE_GEMS__EXAMPLE__COM=ann:~"],
  [
    "state of Terraform",
    "Xk2#mQ9!pL",
    '{"type": "random_password", "name": "db", "instances": [{"attributes": {"length": 10, "result": "~"}}]}',
  ],
  [
    "aws ssm get-parameter",
    "hunter2x",
    '{"Parameter": {"Name": "/db", "Type": "SecureString", "Value": "~", "Version": 1}}',
  ],
  ["agent of Consul", `${filler(43)}=`, 'datacenter = "dc1"\nencrypt = "~"\nserver = true'],
  [
    "AppRole of Vault",
    "3f9a8b7c-6d5e-4f3f-9a8b-7c6d5e4f3f9a",
    "Key                   Value\n---                   -----\nsecret_id             ~\nsecret_id_ttl         10m",
  ],
  [
    "EditThisCookie",
    "a1b2c3d4e5f6",
    '[{"domain": "h.example", "hostOnly": true, "name": "sid", "value": "~", "id": 1}]',
  ],
  ["HAR 1.2", "a1b2c3d4e5f6", '{"request": {"cookies": [{"name": "sid", "value": "~"}], "headers": []}}'],
  ["curl's cookie jar", "a1b2c3d4e5f6", "#HttpOnly_h.example\tFALSE\t/\tTRUE\t1790000000\tsid\t~"],
  ["a short message", "481516", "Your verification code is ~. Do not share it."],
  ["Cisco IOS, TACACS+", "hunter2x", "tacacs-server host 10.0.0.1 key 7 ~"],
  ["Cisco IOS, SNMP", "hunter2x", "snmp-server community ~ RO 10"],
  ["Cisco IOS, IPsec", "hunter2x", "crypto isakmp key ~ address 10.0.0.1"],
  ["FortiOS", "AK1hunter2xyz", 'config system admin\n  edit "admin"\n    set password ENC ~\n  next'],
  ["snmpd.conf of Net-SNMP", "hunter2xyz", "createUser myuser MD5 ~ DES"],
  ["BIND", filler(24), "nsupdate -y hmac-sha256:ddns-key:~ update.txt"],
  ["VyOS", `${filler(43)}=`, "set interfaces wireguard wg0 peer branch preshared-key ~"],
  ["ZXing", "hunter2x", "WIFI:T:WPA;S:mynetwork;P:~;;"],
  ["secretsdump of Impacket", filler(64, HEX), "CORP\\krbtgt:aes256-cts-hmac-sha1-96:~"],
  ["hashcat", filler(64, HEX), `$krb5tgs$23$*user$realm$test/spn*$~`],
  ["passwd-file of Dovecot", "hunter2x", "user:{PLAIN}~:1000:1000::/home/user"],
  ["reg query", "hunter2x", "    DefaultPassword    REG_SZ    ~"],
];

test.each(PUBLIC)("%s: the secret is hidden", (_source, secret, text) => {
  const filtered = filterSecrets(text.replace("~", () => secret)).text;
  expect(filtered).not.toContain(secret);
  expect(filtered).toContain("[REDACTED]");
});

const TEXTS: readonly string[] = [
  ...[COLUMNS, LOGINS, LANGUAGES, OTHERS, { hunter2x: RARE }].flatMap((positions) =>
    Object.entries(positions).flatMap(([secret, texts]) => texts.map((text) => text.replace("~", () => secret))),
  ),
  ...[...PUBLIC, ...SHAPES].map(([, secret, text]) => text.replace("~", () => secret)),
  ...shapeExamples.map(({ text }) => text),
];
const ALL = Object.values(DETECTOR_RULES).flat();

const ROWS = CONTEXT_RULES.map((rule) => [rule.id, rule.anchors[0], rule] as const);

test.each(ROWS)("%s, %j: decides one of these texts, and its own examples", (_id, _anchor, rule) => {
  const others = new Detector(ALL.filter((other) => other !== rule));
  const decides = (text: string) => others.filterSecrets(text).text !== filterSecrets(text).text;
  const examples = (rule.matches ?? []).map((marked) => marked.replace(/[«»]/g, ""));
  const anchors = rule.anchors.map((anchor) => anchor.toLowerCase());
  const texts = TEXTS.filter((text) => anchors.some((anchor) => text.toLowerCase().includes(anchor)));
  expect(examples.length).toBeGreaterThan(0);
  expect(examples.filter((text) => !decides(text))).toEqual([]);
  expect(texts.some(decides)).toBe(true);
});
