import { TOKEN_RULES } from "../../src/detection/rules/tokens.ts";
import { classOf } from "../../src/detection/views/characters.ts";

/** Returns the same meaningless letters and digits each time. Composed, so that no file contains what looks like a credential. */
export function filler(length: number, alphabet = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"): string {
  return alphabet.repeat(Math.ceil(length / alphabet.length)).slice(0, length);
}

const HEX = "0a1b2c3d4e5f6789";
const CAPITALS = "A2B3C4D5E6F7G";

/** A vendor's token: prefix and the characters after it. */
interface TokenFormat {
  readonly rule: string;
  readonly prefix: string;
  readonly classes: number;
  readonly min: number;
}

export const TOKEN_FORMATS: readonly TokenFormat[] = TOKEN_RULES.flatMap(({ id, anchors, token }) =>
  anchors.map((prefix) => ({ rule: id, prefix, classes: token.classes, min: token.min })),
);

export interface SecretExample {
  readonly rule: string;
  /** The text that must be hidden. */
  readonly secret: string;
  readonly text: string;
}

function bodyOf({ classes, min }: TokenFormat): string {
  const characters = ["7", "a", "Q", "4", "f", "B", "z", "W", "d", "-", "_"].filter(
    (one) => (classOf(one.charCodeAt(0)) & classes) !== 0,
  );
  return filler(min, characters.join(""));
}

/** One example for each token format, and similar texts that do not match. */
export const formatExamples: readonly SecretExample[] = TOKEN_FORMATS.map((format) => {
  const secret = format.prefix + bodyOf(format);
  return { rule: format.rule, secret, text: `value ${secret} end` };
});

export const formatLookAlikes: readonly (readonly [prefix: string, text: string])[] = TOKEN_FORMATS.map((format) => [
  format.prefix,
  `see ${format.prefix}${bodyOf(format).slice(0, Math.min(format.min - 1, 8))} here`,
]);

const pem = (label: string) =>
  `-----BEGIN ${label}-----\n${filler(64)}\n${filler(64)}\n${filler(20)}==\n-----END ${label}-----`;
const jwt = [
  { alg: "HS256", typ: "JWT" },
  { sub: "1234567890", name: "x" },
]
  .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
  .join(".");

type Row = readonly [rule: string, secret: string, around?: string];

/** In the third column, `~` marks the secret. */
const SHAPES: readonly Row[] = [
  ["private-key", pem("RSA PRIVATE KEY")],
  ["private-key", pem("OPENSSH PRIVATE KEY"), "id_ed25519:\n~\nend"],
  ["private-key", pem("EC PRIVATE KEY").replaceAll("\n", "\\n"), '{"k": "~"}'],
  ["private-key", pem("PRIVATE KEY").split("-----END")[0]?.trim() ?? ""],
  ["private-key", pem("ENCRYPTED PRIVATE KEY").replaceAll("\n", "\n+"), "+~"],
  ["jwt", `${jwt}.${filler(43)}`],
  ["jwt", `${jwt}.`, "alg none ~"],
  ["bearer-token", filler(20), "Bearer ~"],
  ["bearer-token", filler(24), "BEARER ~ x"],
  ["authorization-header", filler(12), "Authorization: Token ~"],
  ["authorization-header", filler(30), "authorization: Bearer ~"],
  ["basic-credentials", Buffer.from("user:hunter2").toString("base64"), "Basic ~"],
  ["url-password", "s3cr3t", "postgres://app:~@db:5432/x"],
  ["url-password", "hunter2", "redis://:~@cache:6379/0"],
  ["url-password", "p%40ss", "https://user:~@example.com/a?b=c@d"],
  ["url-password", "a/b#c", "amqp://u:~@mq"],
  ["url-token", filler(24), "https://~@git.example.com/r.git"],
  ["aws-secret-key", filler(40, "aB3/dE5f+G7h"), `AKIA${filler(16, CAPITALS)},~`],
  ["telegram-token", `123456789:AA${filler(33)}`],
  ["mailchimp-key", `${filler(32, HEX)}-us12`],
  ["azure-client-secret", `abC8Q~${filler(34)}`],
  ["azure-shared-access-signature", `${filler(43)}%3D`, "?sv=2024-01-01&sig=~"],
  ["terraform-token", `${filler(14)}.atlasv1.${filler(64)}`],
  ["airtable-token", `pat${filler(14)}.${filler(64, HEX)}`],
  ["webhook-url", `T0AAAAAAA/B0BBBBBBB/${filler(24)}`, "https://hooks.slack.com/services/~"],
  ["curl-user", "s3cret", "curl -s -u admin:~ https://example.com"],
  ["login-password", "s3cretpw", "docker login -u me -p ~ registry"],
  ["login-password", "hunter2", "sshpass -p ~ ssh host"],
  ["token-assignment", filler(64, HEX), "secret_key_base: ~"],
  ["npm-auth", filler(16), "_auth=~"],
  ["putty-private-key", filler(64), "Private-Lines: 1\n~\nPrivate-MAC: 00"],
  ["password-assignment", "hunter2", "password: ~"],
  ["password-assignment", "hunter2", '"password":"~"'],
  ["password-assignment", "hunter2", '{\\"password\\":\\"~\\"}'],
  ["password-assignment", "letmein", "password=~"],
  ["password-assignment", "changeme", "  db_password: ~\n"],
  ["password-assignment", "abc", "PGPASSWORD=~ psql"],
  ["password-assignment", "hunter2", "tool --password ~ --verbose"],
  ["password-assignment", "hunter2", "<password>~</password>"],
  ["password-assignment", "Tr0ub4dor&3", "Password: ~"],
  ["password-assignment", "letmein", "- name: DB_PASSWORD\n  value: ~"],
  ["password-assignment", "my long phrase", 'MYSQL_ROOT_PASSWORD="~"'],
  ["password-assignment", "s3cr3t", "Server=db;User=sa;Password=~;"],
  ["token-assignment", "letters", "export DB_TOKEN='~'"],
  ["token-assignment", "letterss", 'export db_token="~"'],
  [
    "password-assignment",
    "correct horse\n  battery",
    "  password: |\n    ~\nnext: 1".replace("  battery", "    battery"),
  ],
  ["token-assignment", "abc123def456", "api_token: >-\n  ~\nnext: b"],
  ["password-assignment", "hunter2", "p\\assword=~ x"],
  ["password-assignment", "hunter2", "pass''word=~ x"],
  ["password-assignment", "hunter2", "export P\\u0041SSWORD=~ x"],
  ["token-assignment", "foo", "ANTHROPIC_API_KEY=~"],
  ["token-assignment", "bar-1", "OPENAI_API_KEY=~ next"],
  ["token-assignment", "zzz", "PROJ_JARVIS_TOKEN=~"],
  ["token-assignment", "12ab34cd56ef", "X-Api-Key: ~"],
  ["token-assignment", "abc123def", "?access_token=~&x=1"],
  ["token-assignment", "Zx-9_abc", 'client_secret="~"'],
  ["token-assignment", "abc123def456", "token := `~`"],
  ["token-assignment", "abc123def456", "'secret' => '~'"],
  ["token-assignment", `${filler(86)}==`, "AccountKey=~;EndpointSuffix=x"],
  ["key-assignment", filler(24), "STRIPE_KEY=~"],
  ["cookie", "sid=abc123; theme=dark", "Cookie: ~"],
  ["cookie", "session=abcdef123; Path=/", "Set-Cookie: ~"],
];

export const shapeExamples: readonly SecretExample[] = SHAPES.map(([rule, secret, around = "~"]) => ({
  rule,
  secret,
  text: around.replace("~", () => secret),
}));

/** Texts that stay: names without values, references, programs, prose, and ids that only look random. */
export const plainTexts: readonly string[] = [
  ...["readonly secret: Uint8Array }", "token: Base64String, x", "postgres://user:password@host:5432/db"],
  ...[
    "SECRET='must be set by the user'",
    'password: ""',
    "password: '   '",
    "token: |",
    "password: >-\nnext: 1",
    "C:\\Users\\key\\x",
  ],
  ...["task-abcdefghij0123456789xyz", "disk-aaaaaaaaaaaaaaaaaaaaaaaa", "sk-fading-circle-container-element-x"],
  ...["password: string;", "token: string", "const token = await getToken();", "password: required", "maxTokens: 4096"],
  ...["page_token=CAUQAA12345", "secretName: my-secret-1", "secret: db-credentials", "imagePullSecret: regcred"],
  ...["password: $" + "{PASSWORD}", "PASSWORD=$PW", "token=<redacted>", "tokenCount=5", "primaryKey=id"],
  ...[
    "partition_key=abcdefghijklmnop1234",
    "password=process.env.DB",
    "password: config.password,",
    "token=self.token",
  ],
  ...["http://localhost:8080/a@b", "git@github.com:org/repo.git", "the token: expired", "token_type=Bearer"],
  ...["Invalid password: must contain 8 characters", 'WWW-Authenticate: Bearer realm="x"', "key: value"],
  ...[pem("CERTIFICATE"), pem("PUBLIC KEY"), 'const x = "-----BEGIN PRIVATE KEY-----";'],
  ...["commit 3f9a8b7c6d5e4f3f9a8b7c6d5e4f3f9a8b7c6d5e", "cache_key=user:12345678901234567890a"],
  ...["public_key=abcdEFG1234567hijk12", "idempotency-key: 3f9a8b7c-6d5e-4f3f-9a8b-7c6d5e4f3f9a", "foreign key = abc"],
  ...["monkey=banana12345678901234", "Authorization: Bearer", "authorization: required for this route"],
  ...["password: z.string().min(8)", "token: z.string()", "tokens = text.split(' ')", "password=self.password"],
  ...['"password": "The password of the user"', '"token": "https://example.com/oauth/token"', "KEY=value"],
  ...["tokenFile=/var/run/secrets/token", "--token-file /var/run/x", "secretKeyRef:\n  name: db\n  key: password"],
  ...["if (password == null)", "password = password", "pass: 5 fail: 3", "PASS: all tests", "pass=12 fail=0"],
  ...["compass: north", "cookie: SameSite", "bypass=true", "author: jane", "cookies are nice"],
  ...["sshd: Accepted password for root from 10.2.3.4", 'key: "app.kubernetes.io/name"', "private: true"],
  ...["PRIVATE_KEY_PATH=/etc/ssl/key.pem", "SECRET_NAME=web", "TOKEN_URL=https://x/token", "accessKeyId: foo"],
  ...["docker login registry.example.com", "sshpass -p $PW ssh host", "Secret:  regcred", "password:  12 bytes"],
  ...[
    "Tokens:            default-token-x7k2p",
    "if (password == secret)",
    "this.authorization = headers.authorization;",
  ],
  ...["pods/token-controller-5d8f9", `${jwt.split(".")[0]}`, "basic authentication", "// token: the caller's token"],
];
