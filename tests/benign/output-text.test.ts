import { expect, test } from "bun:test";
import { findSensitive } from "../../src/detection/sensitive.ts";
import { filler } from "../detection/secret-examples.ts";

const HEX = "0a1b2c3d4e5f6789";

/** What tools print and people write, with the words and looks of what is hidden. */
const TEXTS: readonly string[] = [
  // Environments and placeholders
  ...["PWD=/home/ann/project", "OLDPWD=/app", "PWD=/", '"PWD": "/Users/ann"', "DB_PASSWORD_FILE=/run/secrets/db"],
  ...["API_KEY=your-api-key-here", "password: replace_me", "password: <password>", "password: \x24{DB_PASSWORD}"],
  ...["password: !vault |", "password: !Ref DatabasePassword", 'password: !Sub "\x24{Password}"', "password: ***"],
  // Programs
  ...["password: string;", "password: Optional[str] = None", "let token: Option<String> = None;"],
  ...['required: ["username", "password"]', '["password", "oauth2", "sha256"]', '["token", "v1beta1"]'],
  ...["('password', 'user2')", '("secret", "configmap-v2")', 'getPassword("ann1")', 'resetPassword("user42")'],
  ...[
    't("password", "Password")',
    't.pass("ended")',
    'prompt.password("Password: ")',
    "paths: ['users.*.password', 'users.*.apiKey']",
  ],
  ...[
    'const kind = isSecret ? "password" : "text";',
    'token ?? "none"',
    "`password` or `salt`",
    "`'*.password'` (redacts it)",
  ],
  ...[
    'names = ["cookie", "authorization", "jsessionid"]',
    'headers["authorization"] = "Basic "',
    '{"PT":"Portugal","PW":"Palau"}',
  ],
  // Sentences
  ...[
    "the password is base64-encoded",
    "the token is sha256 hashed",
    "password is argon2id hashed",
    "The password is required",
  ],
  ...[
    "the directory identified by `path`",
    "identified by the user",
    "authorization is successful",
    "The key is 32 bytes",
  ],
  ...["password was changed 3 days ago", "your token is valid until 2024", "Password for ann:"],
  // Commands
  ...[
    "mysql -u root -p app",
    "mysql -p",
    "mysqldump -p > x.sql",
    "ssh -p 2222 host",
    "mkdir -p /var/lib/x",
    "openssl rsa -in key.pem -pubout",
  ],
  ...["sshpass -p $PW ssh host", "redis-cli -h cache ping", "sqlplus /nolog", "docker run -p 8080:80 nginx"],
  // Ids, digests, public keys
  ...[
    `sha256:${filler(64, HEX)}`,
    `commit ${filler(40, HEX)}`,
    `"integrity": "sha512-${filler(86)}=="`,
    `ETag: "${filler(32, HEX)}"`,
  ],
  ...[
    `{"kty":"EC","crv":"P-256","x":"${filler(43)}","y":"${filler(43)}"}`,
    `{"keys":[{"kty":"RSA","n":"${filler(300)}","e":"AQAB"}]}`,
  ],
  ...[
    "?code=200&page=2",
    "?code=ERR_INVALID_ARGUMENT_TYPE_FOR_THE_REQUESTED_RESOURCE",
    '"auth": "github"',
    '"auth": "Ym9i"',
  ],
  // Numbers
  ...[
    "2024-01-01 12:34:56 1.2.3.4.5",
    'd="M2.01 4.01 0 0111 18c0 1.52-.87 2.83-2.12 3.51.98.32"',
    "17\t20240101\t3.5\t200",
  ],
  ...[
    "ISBN 978-3-16-148410-0",
    "1700000000123",
    "01:02:03:04:05:06",
    "12:34:56",
    'http_requests_total{code="200"} 1027 1395066363000',
  ],
  ...["user\x24{i}@example.com", "lodash@4.17.21", "git@github.com:acme/app.git", "app@sha256", "icon@2x.png"],
];

test.each(TEXTS)("%s stays", (text) => {
  expect(findSensitive(text, "balanced").map(({ rule, start, end }) => `${rule}: ${text.slice(start, end)}`)).toEqual(
    [],
  );
});
