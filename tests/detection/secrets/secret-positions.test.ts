import { expect, test } from "bun:test";
import { redact } from "../../../src/detection/redact.ts";
import { filterSecrets } from "../../../src/detection/sensitive.ts";
import { LOOK_ALIKES } from "./look-alikes.ts";
import { COLUMNS, LANGUAGES, LOGINS, OTHERS, RARE, SHAPES } from "./secret-positions.ts";

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
