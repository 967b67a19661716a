import { expect, test } from "bun:test";
import { findSensitive, hideFindings } from "../../src/detection/sensitive.ts";

const hide = (text: string) => hideFindings(text, findSensitive(text, "balanced"));

const VALUES: Readonly<Record<string, readonly string[]>> = {
  EMAIL: ["john.smith@example.com", "o'brien+tag@mail.co.uk", "jürgen@müller.de"],
  CARD: ["4111111111111111", "4111 1111 1111 1111", "5500-0000-0000-0004", "3782 822463 10005"],
  IBAN: ["DE89370400440532013000", "GB29 NWBK 6016 1331 9268 19"],
  US_SSN: ["123-45-6789"],
  PHONE: ["+44 20 7946 0123", "(415) 555-2671", "+49 30 901820"],
  IP: ["203.0.113.7", "93.184.216.34", "2001:4860:4860::8888"],
};

/** What stands around `~` stays, character for character. */
const CARRIERS: readonly string[] = [
  ...["~", "Sent ~.", "(~)", "[~, ~]", "<~>", "`~`", "a;~;b", "~!", "~, and ~"],
  ...['{"a":"~","b":1}', '{"m":"{\\"a\\":\\"~\\"}"}', "{'to': '~'}", "to=~", "level=info user=~ ok=true", 'to="~" n=1'],
  ...["User(id=17, to=~, n=3)", "{ID:17 To:~ N:3}", "a: 1\nto: ~\nb: 2", "- ~\n- x", "to:~", "export TO='~'"],
  ...["X-User: ~\r\nHost: x", "<to>~</to>", '<u to="~"/>', "a|~|b", "**~**", "[x](mailto:~)"],
  ...["| 1 | ~ |", "id,to\n17,~,3", "17\t~\t3", "17\t200\t~\t3.5", "INSERT INTO u VALUES (1, '~', NULL);"],
  ...["-~\n+x", "@@ -1 +1 @@\n-x\n+~\n", "a\\n~\\nb", "a\r\n~\r\nb", '"Env": ["TO=~"]'],
  ...["2024-01-01T12:34:56.789Z INFO [worker-3] sent to ~ in 35ms", "Error: no user ~\n    at find (/app/a.js:1:2)"],
  ...["联系~谢谢", "📧~📧", "連絡先は~です。"],
];

for (const [kind, values] of Object.entries(VALUES)) {
  test.each(CARRIERS)(`${kind} is hidden in %s, and nothing else`, (carrier) => {
    for (const value of values) {
      expect(hide(carrier.replaceAll("~", value))).toBe(carrier.replaceAll("~", `[REDACTED:${kind}]`));
    }
  });
}

test.each([
  "2024-01-01 12:34:56 ~ GET / 200",
  "2024-01-01 ~ started",
  "504 ~:8080",
  "status 200 ~ 17",
  "rt 0.004 ~",
  "4111 1111 1111 1111 ~",
  "7 1 ~ 2 ~",
])("an address after numbers is hidden: %s", (line) => {
  expect(hide(line.replaceAll("~", "203.0.113.7"))).not.toContain("203.0.113.7");
});

test.each(["host:~", "remote:~ up", "addr:~", "node:~"])(
  "an address after a name and a colon is hidden: %s",
  (line) => {
    expect(hide(line.replace("~", "2001:4860:4860::8888"))).toBe(line.replace("~", "[REDACTED:IP]"));
  },
);

test.each(["exаmple.com", "example.cоm", "example.coм", "eхample.com", "example.ϲom", "exampӏe.com", "exɑmple.com"])(
  "an address with one look-alike letter in its domain is hidden: %s",
  (domain) => {
    expect(hide(`mail john.smith@${domain} now`)).toBe("mail [REDACTED:EMAIL] now");
  },
);

test.each([
  ["user=john@example.com", "user=[REDACTED:EMAIL]"],
  ["bounce+john=example.com@lists.example.com", "[REDACTED:EMAIL]"],
  ["mailto:john@example.com?cc=ann@example.com", "mailto:[REDACTED:EMAIL]?cc=[REDACTED:EMAIL]"],
  ["a/b/john@example.com", "a/b/[REDACTED:EMAIL]"],
  ["用户@例子.公司", "[REDACTED:EMAIL]"],
  ["请将发票发送到john@example.com。", "请将发票发送到[REDACTED:EMAIL]。"],
  ["+(415) 555-2671", "+[REDACTED:PHONE]"],
  ["My number: 415-555-2671.", "My number: [REDACTED:PHONE]."],
  ["lib-123-45-6789-1 and 123-45-6789.5", "lib-123-45-6789-1 and 123-45-6789.5"],
  ["17  (415) 555-2671  3", "17  [REDACTED:PHONE]  3"],
])("%s becomes %s", (text, hidden) => {
  expect(hide(text)).toBe(hidden);
});
