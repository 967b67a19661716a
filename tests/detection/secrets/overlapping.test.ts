import { expect, test } from "bun:test";
import { redact } from "../../../src/detection/redact.ts";
import { filterSecrets } from "../../../src/detection/sensitive.ts";
import { filler } from "../secret-examples.ts";

/** Composed, so that no file contains what looks like a credential. */
function pem(label: string, lines: number, headers = ""): string {
  const body = Array.from({ length: lines }, (_, line) => `${filler(60)}${1_000 + line}`).join("\n");
  return `-----BEGIN ${label}-----\n${headers}${body}\n${filler(20)}==\n-----END ${label}-----`;
}

const KEYS: Readonly<Record<string, string>> = {
  "PKCS #8": pem("PRIVATE KEY", 26),
  RSA: pem("RSA PRIVATE KEY", 25),
  EC: pem("EC PRIVATE KEY", 3),
  OpenSSH: pem("OPENSSH PRIVATE KEY", 38),
  "encrypted PKCS #8": pem("ENCRYPTED PRIVATE KEY", 28),
  "encrypted RSA": pem("RSA PRIVATE KEY", 25, "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123456789ABCDEF\n\n"),
  OpenPGP: pem("PGP PRIVATE KEY BLOCK", 20, "Version: GnuPG v2\n\n"),
  "of 16,384 bits": pem("RSA PRIVATE KEY", 195),
  PuTTY: `PuTTY-User-Key-File-2: ssh-rsa\nPublic-Lines: 1\nAAAAB3NzaC1yc2E\nPrivate-Lines: 2\n${filler(60)}1000\n${filler(60)}1001\nPrivate-MAC: ${filler(40, "0a1b2c3d")}`,
};

const joined = (key: string, join: string) => key.replaceAll("\n", join);

/** Texts with a private key after the name of a secret. */
const PLACES: Readonly<Record<string, (key: string) => string>> = {
  ".env": (key) => `SSH_PRIVATE_KEY="${key}"\nLAST=80`,
  ".env without quotes": (key) => `SSH_PRIVATE_KEY=${key}\nLAST=80`,
  ".env, escaped": (key) => `SSH_PRIVATE_KEY="${joined(key, "\\n")}"\nLAST=80`,
  export: (key) => `export DB_PASSWORD='${key}'\nLAST=80`,
  YAML: (key) => `private_key: |\n  ${joined(key, "\n  ")}\nLAST: 80`,
  "YAML's password": (key) => `password: |-\n  ${joined(key, "\n  ")}\nLAST: 80`,
  CSV: (key) => `id,private_key\n1,"${key}"\n2,LAST80`,
  XML: (key) => `<PrivateKey>${key}</PrivateKey>\nLAST=80`,
  JSON: (key) => `{"password":"${joined(key, "\\n")}","LAST":80}`,
  "JSON in JSON": (key) => JSON.stringify({ body: JSON.stringify({ secret: key }), LAST: 80 }),
  "a list of lines": (key) => `{"private_key":${JSON.stringify(key.split("\n"))},"LAST":80}`,
  "password:": (key) => `password: ${key}\nLAST=80`,
  header: (key) => `Cookie: a=${key}\nLAST=80`,
  diff: (key) => `+SSH_SECRET="${joined(key, "\n+")}"\n+LAST=80`,
  "strings that are joined": (key) => `secret = "${joined(key, '\\n" +\n  "')}";\nLAST=80`,
  "lines that end with CR and LF": (key) => `API_TOKEN="${joined(key, "\r\n")}"\r\nLAST=80`,
  "cut before its END line": (key) => `SSH_PRIVATE_KEY="${key.split("-----END")[0]}`,
};

for (const [position, write] of Object.entries(PLACES)) {
  test.each(Object.entries(KEYS))(
    `a private key after a secret's name is hidden whole in ${position}: %s`,
    (_kind, key) => {
      const text = write(key);
      const lines = key.match(/^\S{60}1\d{3}$/gm) ?? [];
      expect(lines.length).toBeGreaterThan(1);
      for (const level of ["secrets", "balanced", "strict"] as const) {
        const shown = JSON.stringify(redact({ stdout: text }, { level, clean: true }).value);
        expect(lines.filter((line) => shown.includes(line.slice(-24)) || shown.includes(line.slice(0, 24)))).toEqual(
          [],
        );
        if (text.includes("LAST")) expect(shown).toContain("LAST");
      }
    },
  );
}

const secret = `${filler(18)}7`;
const jwt = `eyJ${filler(17)}.eyJ${filler(30)}.${filler(43)}`;

/** A secret that begins inside another finding and ends after it. */
test.each([
  `[password=x][token: ${secret}]`,
  `(password=abc12345)(api_key: ${secret})`,
  `password=x/secret: ${secret}`,
  `password=abc123/token: ${secret}`,
  `pw=https://u:p4ssw0rd@h/token: ${secret}`,
  `password='x9 token="${secret} ' and"`,
  `-----BEGIN PRIVATE KEY-----\n${filler(64)}\n${jwt}`,
  `-----BEGIN RSA PRIVATE KEY-----\n${filler(64)}\n${filler(64)}\n\n${jwt}\n`,
])("%j: both are hidden", (text) => {
  const shown = filterSecrets(text).text;
  expect(shown).not.toContain(secret);
  expect(shown).not.toContain(jwt.slice(-40));
});

test.each([
  ["a quoted value", (value: string) => `{"password":"${value}","next":1}`],
  ["a block of YAML", (value: string) => `password: |\n  ${value.replace(/.{90}/g, "$&\n  ")}\nnext: 1`],
  ["a header", (value: string) => `Cookie: sid=${value}\nnext`],
  ["a quoted header", (value: string) => `{"Authorization":"Bearer ${value}","next":1}`],
])("%s of 10,000 characters is hidden to its end", (_title, write) => {
  const shown = filterSecrets(write(`${filler(9_990)}#!LastOnes`)).text;
  expect(shown).not.toContain("LastOnes");
  expect(shown).toContain("next");
});

test("text next to a secret stays, though the secret contains a secret's name", () => {
  const text = 'password="my secret phrase 17", host: db.internal\ntoken: x/secret, y';
  expect(filterSecrets(text).text).toBe('password="[REDACTED]", host: db.internal\ntoken: x/secret, y');
});

test("names inside values, everywhere: read once, and the last value is hidden", () => {
  for (const near of ["password=x/", "token=x1/", "[token: ", "Cookie: a=b; ", 'password="']) {
    const { text } = filterSecrets(`${near.repeat(100_000 / near.length)}\n password=${secret}`);
    expect(text).not.toContain(secret);
  }
});
