import { expect, test } from "bun:test";
import { filterSecrets } from "../../../src/detection/sensitive.ts";

const hide = (text: string) => filterSecrets(text).text;
const $ = "$";

const OPERATORS = [
  "=",
  ":=",
  "::=",
  ":::=",
  "?=",
  "??=",
  "+=",
  "||=",
  "|=",
  "&&=",
  ".=",
  "//=",
  "=>",
  "!=",
  "!==",
  "<-",
  "<<-",
  "~=",
  "^=",
  "%=",
];
const NAMES = [
  "DB_PASSWORD",
  "db_password",
  "$password",
  "@password",
  "self.password",
  "ENV['DB_PASSWORD']",
  'env["API_TOKEN"]',
];

test.each(OPERATORS)("a value assigned with %s is hidden, with and without whitespace", (operator) => {
  for (const name of NAMES) {
    expect(hide(`${name} ${operator} "s3cr3tP4ss"\nx`)).toBe(`${name} ${operator} "[REDACTED]"\nx`);
    expect(hide(`${name}${operator}'s3cr3tP4ss';`)).toBe(`${name}${operator}'[REDACTED]';`);
  }
  expect(hide(`DB_PASSWORD ${operator} s3cr3tP4ss\nx`)).toBe(`DB_PASSWORD ${operator} [REDACTED]\nx`);
});

test.each([
  ["config[:password] = 's3cr3tP4ss'", "config[:password] = '[REDACTED]'"],
  ["config[:password] ||= 's3cr3tP4ss'", "config[:password] ||= '[REDACTED]'"],
  ["export DB_PASSWORD ?= correct-horse-battery", "export DB_PASSWORD ?= [REDACTED]"],
  ['Dim password As String = "s3cr3tP4ss"', 'Dim password As String = "[REDACTED]"'],
  ["The password for ann is s3cr3tP4ss", "The password for ann is [REDACTED]"],
  ['password = """s3cr3tP4ss"""', 'password = """[REDACTED]"""'],
  ["API_TOKEN = '''\n  s3cr3tP4ss\n'''\nx", "API_TOKEN = '''\n  [REDACTED]\n'''\nx"],
  ["DB_PASSWORD ?= correcthorse", "DB_PASSWORD ?= [REDACTED]"],
])("%s becomes %s", (text, hidden) => {
  expect(hide(text)).toBe(hidden);
});

test.each([
  "DB_PASSWORD ?= $(shell pass show db)",
  "DB_PASSWORD != cat /run/secrets/db",
  "password ??= process.env.DB_PASSWORD",
  "secret ||= readSecret(2);",
  "password += chars[i % 62];",
  "token += next();",
  "tokens <- token",
  "if (password != password2) return false;",
  "if (password !== confirmPassword) {",
  "token ::= identifier | number",
  "<password> ::= <string>",
  "secret ^= 0x5bd1e995;",
  "token ^= previousToken;",
  "tokens %= 10",
  "if password ~= confirmation then",
  '[data-token^="menu-item"] { color: red }',
  "while (token <= lastToken2) {",
  "password -= 17",
  'password = """Enter the password of the user"""',
  'token = """"""',
  "null!==this._password?this._password+=M:this._user+=M}else",
  "The token for this endpoint is required.",
  "The password for ann is stored in vault2",
  "OnePass::new(&info, 7)",
  "Token::U64(*v) => visitor.visit_u64(*v),",
  "token: Token::Ident2,",
  "use crate::token::Token2;",
])("%s stays", (text) => {
  expect(hide(text)).toBe(text);
});

const WORDS = [
  "CorrectHorse7Battery",
  "Welcome1Please",
  "Summer2024Rocks",
  "XmWobutF77BejTyfu",
  "XqbqItzV7IqhKnlxk",
  "BlueSky42Orange",
];

test.each(WORDS)("a password of capitalized words and a number is hidden: %s", (word) => {
  for (const position of [
    ...["password=~", "--password=~", "--password ~", "password: ~", "DB_PASSWORD=~", "X-Api-Key: ~", "api_key=~"],
    ...[
      "The password is ~.",
      "?pwd=~&user=ann",
      "{password: ~, user: ann}",
      "api_key: ~, x: 1",
      "user=a password=~ x=1",
    ],
  ]) {
    expect(hide(position.replace("~", word))).toBe(position.replace("~", "[REDACTED]"));
  }
});

test.each([
  "credentials: OAuth2Client | null",
  "create(credentials: OAuth2ClientCredentials): Call",
  "private_key: ed25519.Ed25519PrivateKey,",
  "secret: Uint8Array, password: Base64String",
  "fn token(&self) -> Token64",
  "let token: JsonWebToken2\n",
  "secret: X509Certificate,",
  "password: Sha256Digest",
  "const KEY: Ed25519PublicKey = keys[0];",
])("the name of a type stays: %s", (text) => {
  expect(hide(text)).toBe(text);
});

test.each(["Api-Token", "ApiToken", "PRIVATE-TOKEN", "Klaviyo-API-Key", "Zoho-oauthtoken", "Custom", "App"])(
  "after any scheme the credentials are hidden: %s",
  (scheme) => {
    for (const position of [
      ...["Authorization: ~", "authorization: ~\r\nHost: x", "-H 'Authorization: ~'", '"Authorization": "~"'],
      ...["Proxy-Authorization: ~", '("Authorization", "~")', '.Set("Authorization", "~")'],
    ]) {
      const write = (value: string) => position.replace("~", `${scheme} ${value}`);
      expect(hide(write("a1b2c3d4e5f6g7h8i9"))).toBe(write("[REDACTED]"));
      expect(hide(write("Credential=a1b2c3d4e5f6, Signature=a1b2c3"))).not.toContain("a1b2c3");
    }
  },
);

test.each([
  "Authorization: required for all endpoints since v2",
  "Authorization: see RFC7235 section 4.2",
  "authorization: the caller must hold role admin2",
  "Authorization: None",
  '"Authorization": "Api-Token " + token',
  'cookie = cookies.find(one => one.name === "x2");',
  "pub const SO_USER_COOKIE: c_int = 4117;",
  "pub const SO_USER_COOKIE: ::c_int = 0x1015;",
  "cookie: HashMap = HashMap::new()",
])("text that is not a header stays: %s", (text) => {
  expect(hide(text)).toBe(text);
});

test.each([
  "api_token = <<EOT\n@@\nEOT",
  "  password = <<-EOT\n    @@\n  EOT\n}",
  "PASSWORD = <<~'EOS'.strip\n  @@\nEOS\nputs 1",
  "DB_PASSWORD=$(cat <<EOF\n@@\nEOF\n)",
])("a here document is hidden to its end: %j", (position) => {
  const write = (value: string) => position.replace("@@", value);
  expect(hide(write("Zx9Qw4Rt7Yp2"))).toBe(write("[REDACTED]"));
  expect(hide(write("Zx9Qw4\nRt7Yp2Lm5"))).toBe(write("[REDACTED]"));
  expect(hide(write(`${$}{data.vault.password}`))).toBe(write(`${$}{data.vault.password}`));
});

test.each([
  `PASSWORD=${$}{PASSWORD:?must be set}`,
  `echo "${$}{DB_PASSWORD:?DB_PASSWORD1 is required}"`,
  `curl ${$}{TOKEN:+--header x-token2}`,
  "password <<EOT without an end",
])("a shell's message about a variable stays: %s", (text) => {
  expect(hide(text)).toBe(text);
});

test("a shell's default of a variable is hidden", () => {
  expect(hide(`echo ${$}{DB_PASSWORD:-s3cretPa55}`)).toBe(`echo ${$}{DB_PASSWORD:[REDACTED]}`);
});

test.each([
  "private_key: certs/server2.key",
  'private_key = "keys/prod-1/server.pem"',
  "PRIVATE_KEY=keys/prod-1/server.pem",
  "'password' => 'required|string|min:8',",
  '"password": "nullable|confirmed"',
])("the name of a key's file and the rules of a form stay: %s", (text) => {
  expect(hide(text)).toBe(text);
});

test.each([
  ["private_key: certs/aB3dE5fG7hJ9kL1", "private_key: [REDACTED]"],
  ["password: 'required|Zx9Qw4Rt7Yp2'", "password: '[REDACTED]'"],
  ["password: 'a1/b2!c3.pem'", "password: '[REDACTED]'"],
])("text that only looks like them is hidden: %s", (text, hidden) => {
  expect(hide(text)).toBe(hidden);
});
