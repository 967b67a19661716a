import { expect, test } from "bun:test";
import { findSensitive } from "../../src/detection/sensitive.ts";
import { filler } from "../detection/secret-examples.ts";

const HEX = "0a1b2c3d4e5f6789";
const UUID = "7eb9b3c3-a38b-4e7c-aa35-38118f4f59d5";

/** What has the words of a secret's place, and no secret in it. */
const TEXTS: readonly string[] = [
  // Classes, constants, types, colours
  "'Test2::Event::Pass' => '1.302190',",
  "SEC_ERROR_BAD_PASSWORD = SEC_ERROR_BASE + 14,",
  "SEC_OID_TLS_DHE_PSK = 348,",
  "static create(googleCredentials: OAuth2Client): Call",
  "private_key: ed25519.Ed25519PrivateKey,",
  'Token: "#d8dee9", Whitespace: "#bbbbbb"',
  "my $Token = qr/[\\x21-\\x7E]+/;",
  'password = ":****"',
  "#define SN_challengePassword  challengePassword\n#define OBJ_challengePassword  OBJ_pkcs9,7L\n",
  // Formats, manuals, help texts
  "name:password:UID:GID:GECOS:directory:shell",
  "hostname:port:username:password:base_dn:flags",
  "passwd:         compat systemd\ngroup:          compat systemd",
  "  -W, --password   force password prompt (should happen automatically)",
  "The new option --delete-root-password may be used to unset it.",
  "proxy in the form scheme://[user:passwd@]proxy.server:port",
  "ftp://[[user][:pass]@]host[:port]/",
  "http://user:pass@example.com:8080/",
  "amqp://user:password@broker.example/vhost",
  "--secret=projects/my-project/secrets/my-secret/versions/2",
  "credentials: projects/PROJECT_ID/locations/global/keyRings/KEYRING",
  // Elements and forms
  '<label for="password">Password</label>',
  '<string name="password">Password</string>',
  '<string name="new_password">Mot de passe</string>',
  '<property name="password">\x24{db.password}</property>',
  '<property name="password"></property>',
  '<input type="password" name="password" placeholder="Password"/>',
  '<a name="password">Passwords must be long</a>',
  'Content-Disposition: form-data; name="file"\r\n\r\nhello1world2\r\n--x',
  '{"value":"Tr0ub4dor3","name":"LOG_LEVEL"}',
  '{"value":"{{ password }}","name":"DB_PASSWORD"}',
  // Commands
  "docker run -u 1000 -p 8080:80 nginx",
  "docker run -u 1000:1000 -p 127.0.0.1:5432:5432 postgres:16",
  "mkdir -u root -p build/out1",
  "nmap -u x -p 22,80,443 host",
  "python -u train.py -p config2",
  "docker run --user 1000:1000 app",
  "ssh -a host:5432",
  "curl -u $USER:$PASSWORD https://x",
  "oc login -u $OC_USER -p $OC_PASSWORD https://api",
  "skopeo inspect --creds=$CREDS docker://x",
  "cargo login",
  "lftp -u $USER,$PASS host",
  "ConvertTo-SecureString $plain -AsPlainText -Force",
  // Calls
  'HTTPBasicAuth("user", "pass")',
  'requests.get(url, auth=("user", "password"))',
  "smtp.PlainAuth(identity, user, password, host)",
  'page.login("ann", "admin")',
  'basic_auth("user", os.environ["PASSWORD"])',
  // Cookies, codes, addresses
  '{"name": "theme", "value": "dark", "httpOnly": false}',
  '{"name": "lang", "value": "en-GB", "sameSite": "Lax"}',
  '"cookies": [{"name": "consent", "value": "accepted"}]',
  "#HttpOnly_x.example\tFALSE\t/\tTRUE\t0\ttheme\tdark-mode",
  "Recovery codes are shown once.",
  "recovery codes: keep them in a safe place",
  "Enter the verification code is required",
  "OTP 27 was released in 2024",
  "verification code: VC-invalid",
  '"pin": 13',
  "https://x.example/list?key=name&sort=asc",
  "https://x.example/cache?key=user-profile-settings-v2",
  "https://docs.example/invite/how-to-invite-people-to-a-project",
  "https://x.example/hooks/use-effect-with-dependencies-2",
  "https://app.example/reset-password/",
  `session_id=${UUID}`,
  "routing_key: orders.created.v1",
  `build-1/1200000000000001:${filler(20, HEX)}`,
  '"secret_id": "db-credentials"',
  '"encrypt": "true"',
  '{"Type": "String", "Value": "Tr0ub4dor3"}',
  // Sentences
  "encrypted with password PBKDF2WithHmacSHA256",
  "Use the following password policy:\n\n  minimum-length 12\n",
  "Password (string): the password to use",
  // Tables
  "CREATE TABLE t (id int, note text);\nINSERT INTO t VALUES (1, 'Tr0ub4dor3');",
  "INSERT INTO events VALUES (1, 'Tr0ub4dor3');",
];

test.each(TEXTS)("%s stays", (text) => {
  expect(findSensitive(text, "secrets").map(({ rule, start, end }) => `${rule}: ${text.slice(start, end)}`)).toEqual(
    [],
  );
});
