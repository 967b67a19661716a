import { expect, test } from "bun:test";
import { redact } from "../../../src/detection/redact.ts";
import { filterSecrets } from "../../../src/detection/sensitive.ts";
import { filler } from "../secret-examples.ts";
import { LOOK_ALIKES } from "./look-alikes.ts";
import { COLUMNS, LANGUAGES, LOGINS, OTHERS, RARE } from "./secret-positions.ts";

const ROWS = [COLUMNS, LOGINS, LANGUAGES, OTHERS, { hunter2x: RARE }].flatMap((positions) =>
  Object.entries(positions).flatMap(([secret, texts]) => texts.map((text) => [text, secret] as const)),
);

test.each(ROWS)("%j: the value is hidden", (text, secret) => {
  const filtered = filterSecrets(text.replace("~", () => secret));
  expect(filtered.text).not.toContain(secret);
  expect(filtered.text).toContain("[REDACTED]");
});

test.each(LOOK_ALIKES.map((text) => [text] as const))("%j stays", (text) => {
  expect(filterSecrets(text).text).toBe(text);
});

test("each row of a table, and no other column", () => {
  const rows = Array.from({ length: 200 }, (_, index) => `user${index},pw${index}xyz,note${index}a`);
  const seen = filterSecrets(`name,password,note\n${rows.join("\n")}\n`).text.split("\n");
  expect(seen.slice(0, 3)).toEqual(["name,password,note", "user0,[REDACTED],note0a", "user1,[REDACTED],note1a"]);
  expect(seen[200]).toBe("user199,[REDACTED],note199a");
});

test("each row of an INSERT, and no other column", () => {
  const { text } = filterSecrets(
    "INSERT INTO u (name, password, note) VALUES ('a1', 'p1x9zz', 'n1'), ('b2', 'p2x9zz', 'n2');",
  );
  expect(text).toBe(
    "INSERT INTO u (name, password, note) VALUES ('a1', '[REDACTED]', 'n1'), ('b2', '[REDACTED]', 'n2');",
  );
});

test("a table ends at an empty line", () => {
  const text = "name,password\nbob,hunter2x\n\nann,letter2x\n";
  expect(filterSecrets(text).text).toBe("name,password\nbob,[REDACTED]\n\nann,letter2x\n");
});

const H = filler(64, "0a1b2c3d4e5f6789");
const LONG = filler(120);

/** Composed, so that no file contains what looks like a credential. */
const SHAPES: readonly (readonly [title: string, secret: string, text: string])[] = [
  ["a signature in an address", LONG, `https://b.example/k?Expires=1&Signature=${LONG}`],
  ["a short code beside a state", filler(24), `GET /callback?code=${filler(24)}&state=xyz`],
  ["a code beside its grant", filler(22), `code=${filler(22)}&grant_type=authorization_code`],
  ["an assertion", LONG, `SAMLResponse=${LONG}${LONG}&RelayState=x`],
  ["a line of a TLS key log", `${H}aa`, `CLIENT_RANDOM ${H} ${H}aa`],
  [
    "an NT hash",
    filler(32, "0a1b2c3d4e5f6789"),
    `bob:1001:aad3b435b51404eeaad3b435b51404ee:${filler(32, "0a1b2c3d4e5f6789")}:::`,
  ],
  ["a key in DER", LONG, `blob MIIEvQIBADAN${LONG} x`],
  [
    "an OpenPGP key with headers",
    filler(64),
    `-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\nComment: y\n\n${filler(64)}\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----`,
  ],
  ["a static key", H, `-----BEGIN OpenVPN Static key V1-----\n${H}\n${H}\n-----END OpenVPN Static key V1-----`],
  [
    "a key of commercial SSH",
    filler(70),
    `---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: "x"\n${filler(70)}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----`,
  ],
  ["a key of Azure", filler(76), `AccountKey: x ${filler(76)}+ASt${filler(6)}==`],
  ["a JSON Web Key of Python", filler(43), `{'kty': 'oct', 'k': '${filler(43)}'}`],
  [
    "a seed phrase",
    "legal winner",
    "mnemonic: legal winner thank year wave sausage worth useful legal winner thank yellow",
  ],
  ["a registry's account", "Ym9iOmh1bnRlcjJ4", '{"auths": {"r.example": {"auth": "Ym9iOmh1bnRlcjJ4"}}}'],
  ["a mail server's question", "aHVudGVyMng=", "S: 334 UGFzc3dvcmQ6\nC: aHVudGVyMng=\n"],
  ["a digest", filler(32), `Authorization: Digest username="ann", realm="x", response="${filler(32)}"`],
  ["a signed address", H, `https://b.example/k?X-Amz-Date=1&X-Amz-Signature=${H}`],
  ["a long key of Azure", filler(52), `key ${filler(52)}JQQJ99${filler(26)} x`],
  ["a session of Salesforce", filler(70), `sid 00D${filler(14)}!AQ${filler(70)} x`],
  ["a licence of New Relic", filler(36, "0a1b2c3d4e5f6789"), `license ${filler(36, "0a1b2c3d4e5f6789")}NRAL x`],
  ["a registry's account in YAML", "Ym9iOmh1bnRlcjJ4", "auths:\n  r.example:\n    auth: Ym9iOmh1bnRlcjJ4"],
];

test.each(SHAPES)("%s", (_title, secret, text) => {
  expect(filterSecrets(text).text).not.toContain(secret);
});

test("a Kubernetes secret in a tree: all of its data, and no other's", () => {
  const manifest = { kind: "Secret", data: { settings: "c3VwM3JjZmc=" }, stringData: { note: "sup3rcfg" } };
  const { value } = redact([manifest, { kind: "ConfigMap", data: { settings: "plain" } }], { level: "secrets" });
  expect(value).toEqual([
    { kind: "Secret", data: { settings: "[REDACTED]" }, stringData: { note: "[REDACTED]" } },
    { kind: "ConfigMap", data: { settings: "plain" } },
  ]);
});

test("a value that is declared sensitive next to it", () => {
  const outputs = { db: { value: "hunter2x", sensitive: true }, host: { value: "db.example", sensitive: false } };
  expect(redact(outputs, { level: "secrets" }).value).toEqual({
    db: { value: "[REDACTED]", sensitive: true },
    host: { value: "db.example", sensitive: false },
  });
});

test("a generated password in a state of Terraform, as text and as a tree", () => {
  const attributes = { bcrypt_hash: "x", keepers: null, length: 10, result: "Xk2#mQ9!pL", special: true };
  const state = {
    resources: [
      {
        type: "random_password",
        name: "db",
        instances: [{ attributes }, { attributes: { ...attributes, result: "Lp!9Qm#2kX" } }],
      },
    ],
  };
  for (const seen of [redact(state, { level: "secrets" }).value, filterSecrets(JSON.stringify(state, null, 2)).text]) {
    const text = JSON.stringify(seen);
    expect(text).not.toContain("Xk2#mQ9!pL");
    expect(text).not.toContain("Lp!9Qm#2kX");
    expect(text).toContain("random_password");
  }
  const answer = { result: "Xk2#mQ9!pL", status: "done" };
  expect(redact(answer, { level: "secrets" }).value).toEqual(answer);
});

test("names of fields in other languages", () => {
  const fields = { пароль: "correcthorse", 密码: "correcthorse", mot_de_passe: "correcthorse", senha: "correcthorse" };
  const seen = redact(fields, { level: "secrets" }).value;
  expect(JSON.stringify(seen)).not.toContain("correcthorse");
});

test.each([
  ["admin_password: ~", "Blue Fish 77!"],
  ["admin_password: ~\nnext: 1", "Blue Fish 77!"],
  ["  - password: ~ # since May", "Blue77 Fish 9!"],
  ["ADMIN_PASSWORD=~", "Blue Fish 77!"],
  ["password = ~\r\n", "My D0g & Cat!"],
  ["a.ini:3:password = ~", "My D0g & Cat!"],
  ["Passwort: ~", "Mein Hund 1$"],
])("%j: a password of several words is hidden to the end of its line", (text, secret) => {
  expect(filterSecrets(text.replace("~", () => secret)).text).toBe(text.replace("~", "[REDACTED]"));
});

test.each([
  "Password: Must have 8 Characters!",
  "Password: Enter at least 1 of !@#",
  "Password: Version 2",
  "Password: See Ticket 42",
  "password: expires in 90 days!",
  "admin_password: Password of the Admin, No. 1!",
  "password: $" + "{PREFIX} Fish 77!",
  "password: {{ PREFIX }} Fish 77!",
  "Password policy: 8 Characters!",
])("%j stays", (text) => {
  expect(filterSecrets(text).text).toBe(text);
});
