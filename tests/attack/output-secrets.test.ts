import { expect, test } from "bun:test";
import { redact } from "../../src/detection/redact.ts";
import { findSensitive, hideFindings } from "../../src/detection/sensitive.ts";
import { filler } from "../detection/secret-examples.ts";

const hide = (text: string) => hideFindings(text, findSensitive(text, "secrets"));

/** Where a password stands without `=` or `:` behind its name, or behind what hides them. `~` stands for it. */
const PLACES: readonly string[] = [
  // What takes a missing value's place
  'process.env.DB_PASSWORD || "~"',
  'config.password ?? "~"',
  'getenv("DB_PASSWORD") ?: "~"',
  'os.environ.get("DB_PASSWORD") or "~"',
  'os.environ.get("DB_PASSWORD", "~")',
  '{{ .Values.password | default "~" }}',
  // Declarations, settings, arguments
  'let password: string = "~";',
  'var password string = "~"',
  'password: Optional[str] = "~"',
  'char password[32] = "~";',
  'const std::string password{"~"};',
  'os.environ["DB_PASSWORD"] = "~"',
  "env['password'] = \"~\"",
  'client.setPassword("~")',
  "builder.password('~')",
  "withPassword('~')",
  // Tables and files
  "| DB_PASSWORD | ~ |",
  "DB_PASSWORD\t~\n",
  "FROM x\nENV DB_PASSWORD ~\nRUN y",
  "ARG DB_PASSWORD ~",
  "machine h\n  login me\n  password ~\n",
  "requirepass ~\n",
  "  bindpw ~",
  "password: !!str ~\n",
  'password: !secret "~"',
  "password: ~ # rotate it",
  // Sentences
  "The password is ~.",
  "the password is ~ and the user is ann",
  "password is: ~",
  'Your password was changed to "~"',
  "Password for ann: ~",
  // Commands
  "mysql -u root -p~ -h db app",
  "mysql -uroot -p'~' app",
  "redis-cli -h cache -a ~ ping",
  "ldapsearch -x -D cn=admin -w ~ -b dc=x",
  "mongosh -u admin -p ~ host",
  "az login --service-principal -u x -p ~ --tenant t",
  "keytool -list -storepass ~ -keypass ~",
  "openssl rsa -in k -passin pass:~",
  "ALTER USER x IDENTIFIED BY '~';",
  "sqlplus scott/~@orcl",
  "jdbc:oracle:thin:scott/~@//host:1521/svc",
  "NEO4J_AUTH=neo4j/~",
  "jdbc:sqlserver://h:1433;databaseName=x;user=sa;password=~;encrypt=true",
  "pw: ~",
  'psk="~"',
  "user=ann pw=~",
  // Lists and objects in text
  '["--password", "~"]',
  '{"args":["--db-password","~","--verbose"]}',
  '"command": [\n  "--password",\n  "~"\n]',
  '{"log":"[\\"--password\\",\\"~\\"]"}',
  "args:\n  - --password\n  - ~\n  - --verbose",
  '- "--password"\n- "~"',
  '{"db_password": {"value": "~"}}',
  '{"db_password": {"sensitive": true, "type": "string", "value": "~"}}',
  "db_password:\n  value: ~",
  'variable "db_password" {\n  type = string\n  default = "~"\n}',
  '{"password": ["~"]}',
  "password: [~]",
  "password:\n  - ~",
  "+    password:\n+      - ~",
  "Password:\n  ~",
  // Names in mixed case
  "PassWord=~",
  "passWord=~",
  "pAsSwOrD=~",
  '{"db_PassWord": "~"}',
  // Programs and shells
  "machine h login b password ~",
  "machine a login b password ~\nmachine c\n  login d\n  password ~\n",
  "setx DB_PASSWORD ~",
  "set -x DB_PASSWORD ~",
  "setenv DB_PASSWORD ~",
  "vault login ~",
  "rabbitmqctl add_user ann ~",
  "htpasswd -b users ann ~",
  'echo "root:~" | chpasswd',
  "echo ~ | docker login -u ann --password-stdin",
  "unzip -P ~ a.zip",
  "smbclient //h/s -U ann%~",
  'ConvertTo-SecureString "~" -AsPlainText',
  'password: Some("~")',
  'var password = []byte("~")',
  'password={"~"}',
  "SET PASSWORD = PASSWORD('~')",
  "enable secret 5 ~",
  // Pages
  "| password | ~ |",
  "| Password | `~` |",
  "**Password:** ~",
  "**Password**: ~",
  "*password*: `~`",
  "<td>Password</td><td>~</td>",
  "<b>Password:</b> ~",
  "password - ~",
];
const PASSWORDS = ["hunter2", "S3cr3t!pass", "Tr0ub4dor&3", "p4ss_w0rd"];

test.each(PLACES)("a password is hidden in %s", (place) => {
  for (const password of PASSWORDS) {
    const hidden = hide(place.replaceAll("~", password));
    expect(hidden).not.toContain(password);
    expect(hidden.replaceAll("[REDACTED]", "~")).toBe(place);
  }
});

test.each(["API key: ~", "The API key is ~", "secret access key: ~", "| API key | ~ |", "- **Token**: `~`"])(
  "a name of several words is a name: %s",
  (place) => {
    expect(hide(place.replace("~", "Zk7qP2mX9vLw4RtY8sBn3"))).toBe(place.replace("~", "[REDACTED]"));
  },
);

test.each([
  "(1rmqAyw)NoP~QZC[V0",
  "{R7[I%.M%i]^Lxj",
  "[]KaHhu*vW&2omYJ",
  "*rap0kx7IR",
  ".*~=^Px0j.cJq",
  "xbuM&Bo#{YX0L",
  "NZhY8H=A",
])("a quoted password may begin like a reference, a pattern or a template: %s", (password) => {
  for (const place of ['{"password":"~"}', "password: '~'", 'DB_PASSWORD="~"', '{"db_password": {"value": "~"}}']) {
    expect(hide(place.replace("~", () => password))).toBe(place.replace("~", "[REDACTED]"));
  }
});

test.each([
  'headers["x"] = ("DB_PASSWORD", "~")',
  "('password', '~')",
  "name,value\nDB_PASSWORD,~",
  "define('AUTH_KEY', '~');",
])("in a list that also contains names, a password that looks like one is hidden: %s", (place) => {
  for (const password of ["S3cr3t!pass", "Tr0ub4dor&3", "xK9-mQ2_vB7"]) {
    expect(hide(place.replace("~", password))).not.toContain(password);
  }
});

const HEX = "0a1b2c3d4e5f6789";
const base64 = (text: string) => Buffer.from(text).toString("base64");

const KEYS: readonly (readonly [title: string, secret: string, around?: string])[] = [
  ["Discord bot", `MTk4NjIyNDgzNDcxOTI1MjQ4.C${filler(5)}.${filler(27)}`],
  ["newer Discord bot", `NzUyNzIzNzM3NjgwMjIyNTE5.G${filler(5)}.${filler(38)}`],
  ["ClickHouse key", `4b1d${filler(38)}`],
  ["longer Shopify token", `shpat_${filler(38)}`],
  ["Azure client secret with a 9", `aB3${"9Q~"}${filler(31)}_.~`],
  ["longer Azure client secret", `a.3${"8Q~"}${filler(60)}`],
  ["AWS session token", `IQoJb3JpZ2luX2Vj${filler(200)}`],
  ["AWS signature", filler(64, HEX), "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=~"],
  ["Google signature", filler(128, HEX), "https://storage.googleapis.com/k?X-Goog-Signature=~"],
  ["Google HMAC id", `GOOG1E${filler(55, "A2B3C4D5E6F7G")}`],
  ["Google HMAC secret", filler(40, "aB3/dE5f+G7h"), `GOOG1E${filler(55, "A2B3C4D5E6F7G")}: ~`],
  ["Azure key", `${filler(52)}JQQJ99${filler(26)}`],
  ["Azure function key", `${filler(52)}==`, "https://x.azurewebsites.net/api/f?code=~"],
  ["Fernet token", `gAAAAAB${filler(120)}`],
  ["Firebase token", `APA91b${filler(134)}`],
  ["Grafana key", base64(`{"k":"${filler(40)}","n":"x","id":1}`)],
  ["New Relic licence", `${filler(36, HEX)}NRAL`],
  [
    "Teams webhook",
    `${filler(8, HEX)}@${filler(8, HEX)}/IncomingWebhook/${filler(32, HEX)}`,
    "https://x.webhook.office.com/webhookb2/~",
  ],
  ["Docker credentials", base64("ann:hunter22222"), '{"auths":{"https://index.docker.io/v1/":{"auth":"~"}}}'],
  ["npm credentials", filler(20), "_auth = ~"],
  ["Opsgenie key", "b0a1c2d3-1111-4222-8333-b0a1c2d3e4f5", "Authorization: GenieKey ~"],
  ["digest response", filler(32, HEX), 'Authorization: Digest username="ann", realm="x", nonce="n", response="~"'],
  ["digest response in JSON", filler(32, HEX), '{"h":"Authorization: Digest username=\\"ann\\", response=\\"~\\""}'],
  ["base64 that begins with a slash", `/${filler(20)}/${filler(22)}=`, "SharedAccessKey=~"],
  ["bcrypt hash", `$2b$12$${filler(53)}`, "admin:~"],
  ["shadow hash", `$6$${filler(16)}$${filler(86)}`, "root:~:19000:0:99999:7:::"],
  ["JWK, symmetric", filler(43), '{"kty":"oct","alg":"HS256","k":"~"}'],
  ["JWK, elliptic", filler(43), '{"d": "~", "kty": "EC", "x": "1", "y": "2"}'],
  ["JWK in JSON", filler(43), '{"jwk":"{\\"kty\\":\\"OKP\\",\\"d\\":\\"~\\"}"}'],
];

test.each(KEYS)("%s", (_title, secret, around = "value ~ end") => {
  expect(hide(around.replace("~", secret))).not.toContain(secret);
});

test("a private key's private fields are hidden in a tree, the public ones stay", () => {
  const [x, d] = [filler(43), filler(43).toLowerCase()];
  const { value } = redact(
    {
      keys: [
        { kty: "EC", crv: "P-256", x, d },
        { kty: "RSA", n: x, e: "AQAB" },
      ],
    },
    { level: "secrets" },
  );
  expect(value).toEqual({
    keys: [
      { kty: "EC", crv: "P-256", x, d: "[REDACTED]" },
      { kty: "RSA", n: x, e: "AQAB" },
    ],
  });
});

test("a registry's credentials are hidden in a tree", () => {
  const { value } = redact({ auths: { "r.example": { auth: base64("ann:hunter22222") } } }, { level: "secrets" });
  expect(value).toEqual({ auths: { "r.example": { auth: "[REDACTED]" } } });
});

test.each([
  [{ Cmd: ["app", "--password", "hunter2"] }, { Cmd: ["app", "--password", "[REDACTED]"] }],
  [{ args: ["--verbose", "--password", "--user", "ann"] }, { args: ["--verbose", "--password", "--user", "ann"] }],
  [
    { ParameterKey: "DbPassword", ParameterValue: "hunter2" },
    { ParameterKey: "DbPassword", ParameterValue: "[REDACTED]" },
  ],
  [
    { variable: "DB_PASSWORD", value: "hunter2" },
    { variable: "DB_PASSWORD", value: "[REDACTED]" },
  ],
  [
    { db_password: { sensitive: true, type: "string", value: "hunter2" } },
    { db_password: { sensitive: true, type: "string", value: "[REDACTED]" } },
  ],
  [{ region: { value: "hunter2" } }, { region: { value: "hunter2" } }],
])("in the tree %j the secret is hidden, by the name before, beside or above it", (tree, hidden) => {
  expect(redact(tree, { level: "secrets" }).value).toEqual(hidden);
});

test("an escape sequence at the end of a colour is removed completely", () => {
  const { value } = redact("\u001b[31mjohn@example.com\u001b[0m ok", { level: "balanced", clean: true });
  expect(value).toBe("[REDACTED:EMAIL] ok");
});
