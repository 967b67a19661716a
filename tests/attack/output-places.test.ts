import { expect, test } from "bun:test";
import { redact } from "../../src/detection/redact.ts";
import { findSensitive, hideFindings } from "../../src/detection/sensitive.ts";
import { filler } from "../detection/secret-examples.ts";

const HEX = "0a1b2c3d4e5f6789";
const UUID = "7eb9b3c3-a38b-4e7c-aa35-38118f4f59d5";

const hide = (text: string) => hideFindings(text, findSensitive(text, "secrets"));

/** Where tools print a password. `~` stands for it. */
const PASSWORDS: readonly string[] = [
  // What programs print of their values
  '[{password,"~"},{user,"app"}]',
  '{password, <<"~">>}',
  'array(2) {\n  ["password"]=>\n  string(12) "~"\n}',
  "Array\n(\n    [user] => app\n    [password] => ~\n)",
  "env[DB_PASSWORD] = ~\n",
  '  # password = "old" -> "~"',
  '      + name  = "DB_PASSWORD"\n      + value = "~"',
  // A value before its name
  '{"value":"~","name":"DB_PASSWORD"}',
  "- value: ~\n  name: DB_PASSWORD",
  // Elements
  '<property name="hibernate.connection.password">~</property>',
  "<db:password>~</db:password>",
  '<wsse:Password Type="http://x.example/PasswordText">~</wsse:Password>',
  "<password><![CDATA[~]]></password>",
  '<entry key="db.password">~</entry>',
  '<string name="db_password">~</string>',
  '<setting name="Password" serializeAs="String"><value>~</value></setting>',
  // Settings
  "password: &pw ~\n",
  "SetEnv DB_PASSWORD ~\n",
  "fastcgi_param DB_PASSWORD ~;",
  "DefaultPassword    REG_SZ    ~",
  'Content-Disposition: form-data; name="password"\r\n\r\n~\r\n--x',
  "ParameterKey=DbPassword,ParameterValue=~",
  '{"Name": "/app/x", "Type": "SecureString", "Value": "~"}',
  "jdbc:sqlserver://db;user=sa;password={~};",
  "db.example:6543:app:app:~",
  "[smtp.example]:587 ann@x.com:~",
  "ann:{PLAIN}~:::::",
  "tacacs-server key ~",
  "crypto isakmp key ~ address 10.0.0.1",
  "snmp-server community ~ RO",
  "WIFI:T:WPA;S:home;P:~;;",
  // Commands
  "lftp -u ann,~ ftp.example",
  "twine upload -u ann -p ~ dist/*",
  "oc login -u ann -p ~ https://api",
  "some-tool connect -u ann -p ~ --fast",
  "skopeo inspect --creds=ann:~ docker://x",
  "http -a ann:~ https://x",
  "psexec.py corp/ann:~@10.0.0.1",
  "grafana-cli admin reset-admin-password ~",
  'ConvertTo-SecureString -String "~" -AsPlainText',
  '$password = ConvertTo-SecureString "~" -AsPlainText -Force',
  "unrar x -p~ x.rar",
  'echo -n "~" | cryptsetup luksOpen /dev/sda1 x -',
  "CREATE DATABASE LINK l CONNECT TO app IDENTIFIED BY \"~\" USING 'x';",
  "debconf: mysql-server mysql-server/root_password password ~",
  // Calls
  'requests.get(url, auth=("ann", "~"))',
  'new NetworkCredential("ann", "~")',
  'req.SetBasicAuth("ann", "~")',
  'smtp.PlainAuth("", "ann@x.com", "~", "mail")',
  'DriverManager.getConnection("jdbc:mysql://db/app", "ann", "~")',
  'db.auth("app", "~")',
  '.basic_auth("ann", Some("~"))',
  // Sentences
  "I logged in with password ~ today",
  "Password (temporary): ~",
  "[Note] A temporary password is generated for root@localhost: ~",
  // Rows of a table that was created before
  "CREATE TABLE `users` (\n `id` int,\n `name` varchar(10),\n `password` varchar(60),\n PRIMARY KEY (`id`)\n);\nINSERT INTO `users` VALUES (1,'ann','~'),(2,'bob','~');",
];

test.each(PASSWORDS)("%s", (place) => {
  for (const password of ["Tr0ub4dor3", "Wq7vN2xZp9Lk", "kT7!xq-9zR"]) {
    const hidden = hide(place.replaceAll("~", password));
    expect(hidden).not.toContain(password);
    expect(hidden).toContain("[REDACTED]");
  }
});

test.each([
  ["tacacs-server host Tr0ub4dor3 key Tr0ub4dor3", "tacacs-server host Tr0ub4dor3 key [REDACTED]"],
  ["psexec.py corp/ann:Tr0ub4dor3@Tr0ub4dor3.example", "psexec.py corp/ann:[REDACTED]@Tr0ub4dor3.example"],
])("where a host has the same name the password is hidden: %s", (text, hidden) => {
  expect(hide(text)).toBe(hidden);
});

/** Tokens, keys and codes: the secret, and where it stands. */
const TOKENS: readonly (readonly [place: string, secret: string])[] = [
  ['{"name": "sid", "value": "~", "path": "/", "httpOnly": true}', filler(32)],
  ['{"httpOnly":true,"name":"auth","value":"~"}', filler(48)],
  ['"cookies": [{"name": "lang", "value": "en"}, {"name": "sid", "value": "~"}]', filler(32)],
  ["#HttpOnly_x.example\tFALSE\t/\tTRUE\t0\tsid\t~", filler(32)],
  ["Recovery codes:\n~\nk2l3m-9n8p7", "m65e4-03m6g"],
  ['"backup_codes":["~","22507088"]', "80334014"],
  ["Backup codes:\n1. ~\n2. 2663 3129", "8940 5601"],
  ["Recovery Key: ~", "075869-275756-416734-123726-709054-523256-299400-316327"],
  ["Your verification code is ~.", "079892"],
  ["otp=~", "709456"],
  ['"pin": "~"', "4815"],
  ["https://hooks.slack-gov.com/services/~", `T${filler(8)}/B${filler(8)}/${filler(24)}`],
  ["https://discord.com/api/v10/webhooks/~", `862036642441399227/${filler(68)}`],
  ["https://app.example/reset-password/~", filler(40, HEX)],
  ["https://app.example/password/reset/~?email=a", filler(40)],
  ["https://app.example/invite/~", UUID],
  ["https://mm.example/hooks/~", filler(26)],
  ["https://maps.example/json?key=~", filler(39)],
  ["otpauth-migration://offline?data=~", filler(60)],
  ["using 1/1200000000000001:~ now", filler(32, HEX)],
  ["using live_~ now", `vyT4C8CnMpu27fp0O5h82CTNBlxTLk5b_z6Hbuyz`],
  ["secret_id               ~", UUID],
  ["SecretID:         ~", UUID],
  ['"encrypt": "~"', `${filler(43)}=`],
  ["password: ~", `*${filler(40, HEX).toUpperCase()}`],
  ["wg set wg0 peer x preshared-key ~", `${filler(42)}8=`],
  ["session_id=~", filler(32, HEX)],
  ["routing_key: ~", filler(32, HEX)],
  ["PASSWORD_PEPPER=~", filler(20)],
  ["$krb5tgs$23$*ann$CORP$x*$~", `${filler(32, HEX)}$${filler(200, HEX)}`],
  ['<meta name="csrf-token" content="~">', filler(32)],
  ["Please use the following password to proceed to installation:\n\n~\n", filler(32, HEX)],
  ["Password for the [elastic] user (reset with x):\n  ~\n", filler(20)],
];

test.each(TOKENS)("%s", (place, secret) => {
  expect(hide(place.replace("~", secret))).not.toContain(secret);
});

test("in a tree, cookies and parameters marked as secret are hidden", () => {
  const value = filler(32);
  const tree = {
    cookies: [
      { name: "sid", value, httpOnly: true },
      { name: "theme", value: "dark", sameSite: "Lax" },
    ],
    parameter: { Name: "/app/x", Type: "SecureString", Value: "hunter2" },
  };
  expect(redact(tree, { level: "secrets" }).value).toEqual({
    cookies: [
      { name: "sid", value: "[REDACTED]", httpOnly: true },
      { name: "theme", value: "dark", sameSite: "Lax" },
    ],
    parameter: { Name: "/app/x", Type: "SecureString", Value: "[REDACTED]" },
  });
});

test("no other column of a created table is hidden", () => {
  const text =
    "CREATE TABLE t (id int, note text, api_token text, UNIQUE (id));\nINSERT INTO t VALUES (1, 'Tr0ub4dor3', '~');";
  expect(hide(text.replace("~", filler(30)))).toContain("VALUES (1, 'Tr0ub4dor3', '[REDACTED]')");
});
