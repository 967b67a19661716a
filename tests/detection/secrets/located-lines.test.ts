import { expect, test } from "bun:test";
import fc from "fast-check";
import { filterSecrets } from "../../../src/detection/sensitive.ts";
import { filler } from "../secret-examples.ts";
import { LOOK_ALIKES } from "./look-alikes.ts";
import { COLUMNS, LANGUAGES, LOGINS, OTHERS, RARE } from "./secret-positions.ts";

/** What `grep`, `grep -n`, `rg --vimgrep`, `sed -n =` and compilers print before a line. */
const LOCATIONS = ["conf/app.yml:", "conf/app.yml:3:", "conf/app.yml:3:7:", "C:\\conf\\app.yml:3:", ".env:12:", "12:"];

const LINES = [COLUMNS, LOGINS, LANGUAGES, OTHERS, { hunter2x: RARE }]
  .flatMap((positions) => Object.entries(positions))
  .flatMap(([secret, texts]) => texts.map((text) => [text.replace("~", () => secret), secret] as const))
  .filter(([text]) => !text.includes("\n"));

test.each(LOCATIONS)("%j before a line with a secret", (location) => {
  const released = LINES.filter(([line, secret]) => filterSecrets(location + line).text.includes(secret));
  expect(released.map(([line]) => line)).toEqual([]);
});

test.each(LOCATIONS)("%j before a line that looks as if it had a secret", (location) => {
  const hidden = LOOK_ALIKES.filter((line) => filterSecrets(location + line).text !== location + line);
  // A path and a colon look like the user's name of such an address.
  expect(hidden.filter((line) => !line.startsWith("%s:%s@"))).toEqual([]);
});

test.each([
  ["config.yml:3:password: hunter2secret9", "hunter2secret9"],
  ["config.yml:3:password:hunter2secret9", "hunter2secret9"],
  ["config.yml:3:  password: correcthorse", "correcthorse"],
  ["config.yml-3-  password: correcthorse", "correcthorse"],
  ["     3\tpassword: correcthorse", "correcthorse"],
  ["12:password: hunter2secret9", "hunter2secret9"],
  ['values.yaml:12:apiKey: "a8f3k2m9x7q1"', "a8f3k2m9x7q1"],
  ["settings.py:8:PASSWORD: 'hunter2secret9'", "hunter2secret9"],
  ["redis.conf:3:requirepass letmein", "letmein"],
  ["INFO:root:token: a8f3k2m9x7q1z5", "a8f3k2m9x7q1z5"],
  ["INFO:root:password: hunter2secret9", "hunter2secret9"],
  ["INFO:root:password:hunter2", "hunter2"],
  ["WARNING:app.db:db_password:hunter2xyz", "hunter2xyz"],
  ["ERROR:__main__:api_key:a1b2c3d4e5f6a7b8", "a1b2c3d4e5f6a7b8"],
  ["DEBUG:urllib3.connectionpool:token:a1b2c3d4e5f6a7b8", "a1b2c3d4e5f6a7b8"],
  ["2026-01-02 12:30:45 [INFO]:auth:password:hunter2", "hunter2"],
  ["spring:datasource:password:hunter2", "hunter2"],
  ["password=a:token: b8f3k2m9x7q1z5", "b8f3k2m9x7q1z5"],
  ["login:password: hunter2secret9", "hunter2secret9"],
  ["app.xml:3:<password>@hunter2secret9</password>", "hunter2secret9"],
  ["a\nconfig.yml:3:password: hunter2secret9\nb", "hunter2secret9"],
])("%j: the value is hidden", (text, secret) => {
  const filtered = filterSecrets(text).text;
  expect(filtered).not.toContain(secret);
  expect(filtered).toContain("[REDACTED]");
});

test.each([
  "user:password:uid:shell",
  "root:password:0:0:root:/root:/bin/bash",
  "uid:gid:password:home",
  "at 12:30:password: changed",
  "2024-01-02 12:30:45:password:reset",
  "file.ts:12:  password: string;",
  "file.ts:12:  password: UserPassword",
  "file.ts:12:  password: z.string().min(8),",
  "file.go:12:\ttoken: cfg.Token,",
  "foo.py:3:password = None",
  "foo.py:3:    password: Optional[str] = None",
  "foo.py:3:    :param password: the password of the account",
  "user:password:uid:gid",
  "INFO:auth:password:changed",
  "ERROR:root:password:incorrect",
  "WARNING:root:token:expired",
  "INFO:root:user:password:1000",
  "urn:ietf:params:oauth:grant-type:token:exchange2",
  "arn:aws:secretsmanager:us-east-1:123456789012:secret:MySecret-a1b2c3",
  "cache key auth:token:user123",
  "vault:kv:secret:data/app1",
  '"auth:password:reset": "node reset.js",',
  "INFO:root:token refreshed",
  "INFO:root:token: refreshed",
  "ERROR:auth:password: mismatch",
  "WARNING:root:password: must have 8 characters",
  "config.yml:3:5: password: mandatory",
  "schema.yml:7:  password: {type: string}",
  "schema.yml:7:  password: required",
  "docs.md:4:- password: the password of the account",
  "postgres://<user>:<password>@host:5432/db",
  "docs.md:4:redis://:<password>@localhost:6379/0",
  "git clone https://<user>:<token>@git.example.com/a/b.git",
  "<host>:<port>:<password>:db1",
  "docs.md:4:Password: at least 12 characters",
])("%j stays", (text) => {
  expect(filterSecrets(text).text).toBe(text);
});

const KEY_LINES = [filler(64), filler(64), filler(43)];

test.each([
  ["k.pem:1:", "k.pem:2:"],
  ["k.pem-9-", "k.pem-10-"],
  ["     1\t", "     2\t"],
  ["12:00:01 web-1 | ", "12:00:02 web-1 | "],
])("a private key with %j before its first line", (first, other) => {
  for (const footer of [`\n${other}-----END PRIVATE KEY-----\nend`, "", `\n${other}done`]) {
    const body = KEY_LINES.map((line) => `\n${other}${line}`).join("");
    const filtered = filterSecrets(`${first}-----BEGIN PRIVATE KEY-----${body}${footer}`).text;
    expect(filtered).toStartWith(`${first}[REDACTED]`);
    for (const line of KEY_LINES) expect(filtered).not.toContain(line);
  }
});

test.each([
  `docs.md:4:-----BEGIN PRIVATE KEY-----\ndigests.md:6:${filler(64)}`,
  `docs.md:4:the header -----BEGIN PRIVATE KEY----- is\ndocs.md:5:${filler(64)}`,
  `id_rsa:1:-----BEGIN PRIVATE KEY-----\nid_rsa.pub:1:ssh-ed25519 ${filler(64)}`,
  `k.pem:1:-----BEGIN CERTIFICATE-----\nk.pem:2:${filler(64)}`,
])("a header without its key stays: %j", (text) => {
  expect(filterSecrets(text).text).toBe(text);
});

test("any path and number before an assignment", () => {
  const name = fc.stringMatching(/^[a-z0-9_./-]{1,40}\.[a-z]{1,4}$/);
  const line = fc.constantFrom("password: correcthorse", "  DB_PASSWORD: correcthorse", "token=correct8horse9staple");
  fc.assert(
    fc.property(name, fc.nat(9_999_999), fc.boolean(), line, (path, number, hasColumn, text) => {
      const filtered = filterSecrets(`${path}:${number}:${hasColumn ? "7:" : ""}${text}`).text;
      expect(filtered).toMatch(/[:=] ?\[REDACTED\]$/);
    }),
    { numRuns: 300, seed: 41 },
  );
});
