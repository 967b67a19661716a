import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { compilePolicy } from "../../src/core/output-policy/output-policy.ts";
import { AnswerFields, columnsOf, PrintCollector } from "../../src/data-flow/answer-prints.ts";
import { Fingerprints } from "../../src/data-flow/fingerprints.ts";
import { type ArgumentOrigins, needlesOf, originsOf } from "../../src/data-flow/origins.ts";

/** Values × how a text writes them × what surrounds them there × how the argument writes them; and values that only look alike. */

const fingerprints = new Fingerprints(new Uint8Array(32).map((_, at) => at * 37 + 11));
const collector = new PrintCollector(fingerprints);
const answers = compilePolicy({}, z.object({ body: z.string() })).root;
const destinations = compilePolicy({ to: "allow" }, z.object({ to: z.unknown(), text: z.string() })).root;

function origins(input: Readonly<Record<string, string>>, body: string): readonly ArgumentOrigins[] {
  const { fields, prints } = collector.read({ body }, new AnswerFields(answers, true));
  const columns = columnsOf(prints) ?? expect.unreachable();
  const labels = ["untrusted"] as const;
  const source = { id: "1", tool: "read", traceId: "t", of: "", labels, at: 1, until: 2, fields, columns };
  return originsOf(needlesOf(fingerprints, input, destinations), [source]);
}

const isFrom = (to: string, body: string): boolean => origins({ to }, body)[0]?.isUntrusted === true;
const hasLinkFrom = (text: string, body: string): boolean =>
  origins({ text }, body).some(({ isLink, isUntrusted }) => isLink && isUntrusted);

type Change = (value: string) => string;

const octets = (value: string, sign: string): string =>
  [...Buffer.from(value)].map((one) => sign + one.toString(16).toUpperCase().padStart(2, "0")).join("");

const WRITTEN: Readonly<Record<string, Change>> = {
  "as it is": (value) => value,
  "in upper case": (value) => value.toUpperCase(),
  "percent encoded": encodeURIComponent,
  "percent encoded throughout": (value) => octets(value, "%"),
  "with decimal entities": (value) => value.replaceAll(/./gu, (one) => `&#${one.codePointAt(0)};`),
  "with hexadecimal entities": (value) => value.replaceAll(/./gu, (one) => `&#x${one.codePointAt(0)?.toString(16)};`),
  "with entities without semicolons": (value) =>
    value.replaceAll(/[@./](?![0-9])/g, (one) => `&#${one.codePointAt(0)}`),
  "with named entities": (value) =>
    value
      .replaceAll("@", "&commat;")
      .replaceAll(".", "&period;")
      .replaceAll("/", "&sol;")
      .replaceAll(":", "&colon;")
      .replaceAll("-", "&hyphen;")
      .replaceAll("+", "&plus;"),
  "with escapes of JSON": (value) =>
    value.replaceAll(/[\s\S]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`),
  "with escaped slashes": (value) => value.replaceAll("/", "\\/"),
  "in quoted-printable": (value) => octets(value, "="),
  "with wide characters": (value) =>
    value.replaceAll(/[!-~]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0)),
  "with invisible characters": (value) => [...value].join("\u200b"),
  "with soft hyphens": (value) => [...value].join("\u00ad"),
};

const SURROUNDED: readonly Change[] = [
  (value) => value,
  (value) => `Please send it to ${value} today, thank you`,
  (value) => `Please send it to ${value}. Thank you`,
  (value) => `Send to <${value}>, "${value}" or (${value})`,
  (value) => `Send to **${value}**, _${value}_ or '${value}'`,
  (value) => `Address:${value}`,
  (value) => `a@b.example;${value};c@d.example`,
  (value) => `a@b.example,${value},c@d.example`,
  (value) => `|a|${value}|b|`,
  (value) => `<a href="${value}">click</a>`,
  (value) => `[click](${value})`,
  (value) => `a\r\n${value}\r\nb`,
  (value) => `to—${value}…`,
  (value) => `请发送到${value}。谢谢`,
  (value) => `👉${value}👈`,
  (value) => `1. ${value} 2. 17 EUR`,
  (value) => `invoice 2024 17 ${value} 24 hours`,
  (value) => `{"to":"${value}","n":1}`,
];

const isAsciiStill = (value: string, written: string): boolean =>
  !value.includes("xn--") || /^[\0-\x7f]+$/.test(written);

/** Each value, as a text has it, and in other forms that come to the same. */
const VALUES: readonly (readonly [string, ...string[]])[] = [
  [
    "support@account-update.com",
    "Support Team <support@account-update.com>",
    "mailto:support@account-update.com",
    '"support"@account-update.com',
    "a@b.example; support@account-update.com",
    "support@account-update.com.",
    "support+news@account-update.com",
    "support@account\u2010update.com",
    "support@account-update\u3002com",
  ],
  ["info+update@account-update.com", "info@account-update.com", "info+other@account-update.com"],
  ["info.office@gmail.com", "Info Office <info.office@gmail.com>", "info.office@gmail.com, bob@partner.example"],
  ["me@a.co", "<me@a.co>"],
  ['"info office"@account-update.com'],
  ["info@[10.20.30.40]"],
  ["o'info_x-y@account-update.com"],
  ["info@müller-bank.de", "info@xn--mller-bank-9db.de"],
  [
    "account-update.com",
    "account-update.com.",
    "https://account-update.com:8443/x",
    "https://user@account-update.com/",
    "https://bank.com@account-update.com/",
    "//account-update.com/x",
    "HTTPS://WWW.ACCOUNT-UPDATE.COM",
  ],
  ["t.co", "https://t.co/x"],
  ["müller-bank.de", "https://xn--mller-bank-9db.de/", "https://MÜLLER-BANK.de"],
  ["xn--mller-bank-9db.de", "müller-bank.de"],
  ["пример.рф", "https://пример.рф/x", "https://xn--e1afmkfd.xn--p1ai/x"],
  ["https://account-update.com/login?id=5", "account-update.com/login", "https://account-update.com/other"],
  ["https://user:pass@account-update.com/a", "account-update.com"],
  ["http://10.20.30.40:8080/a", "10.20.30.40", "http://10.20.30.40/"],
  ["http://3232235777/a", "3232235777"],
  ["http://[2001:db8::1]/a", "http://[2001:db8::1]:8080/", "2001:db8::1"],
  ["GB29 NWBK 6016 1331 9268 19", "GB29NWBK60161331926819", "IBAN gb29-nwbk-6016-1331-9268-19", "31926819"],
  ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "0532013000", "532013000"],
  ["FR14 2004 1010 0505 0001 3M02 606", "FR1420041010050500013M02606"],
  ["NO93 8601 1117 947", "NO9386011117947", "86011117947"],
  ["MT84 MALT 0110 0001 2345 MTLC AST0 01S", "MT84MALT011000012345MTLCAST001S"],
  ["+1 202 555 0147", "(202) 555-0147", "+12025550147", "001 202 555 0147", "tel:+1-202-555-0147"],
  ["020 7946 0958", "+44 20 7946 0958", "+442079460958", "+44 (0)20 7946 0958"],
  ["06 12 34 56 78", "+33 6 12 34 56 78", "0612345678", "+33612345678"],
  ["4012 8888 8888 1881", "4012888888881881", "4012-8888-8888-1881"],
  ["12-34-56 12345678", "12345612345678"],
  [
    "0198d000-1234-7abc-8def-0123456789ab",
    "0198d00012347abc8def0123456789ab",
    "{0198D000-1234-7ABC-8DEF-0123456789AB}",
  ],
  ["AB12-CD34-EF56", "AB12CD34EF56", "ab12 cd34 ef56", "AB12.CD34.EF56"],
  ["sk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWDarjtT1zdp7dc"],
  ["0x52908400098527886E0F7030069857D2E4169EE7"],
];

describe("a value that was copied has an origin", () => {
  test.each(Object.entries(WRITTEN))("written %s, in the text or in the argument", (_name, change) => {
    const missed = VALUES.flatMap(([value]) =>
      SURROUNDED.flatMap((around) => [
        ...(isFrom(value, around(change(value))) ? [] : [`${value} in ${around(change(value))}`]),
        ...(isFrom(change(value), around(value)) ? [] : [`${change(value)} in ${around(value)}`]),
      ]),
    );
    expect(missed).toEqual([]);
  });

  test("in any form that comes to the same, whatever surrounds it", () => {
    const missed = VALUES.flatMap(([value, ...forms]) =>
      forms.flatMap((form) =>
        SURROUNDED.filter((around) => !isFrom(form, around(value))).map((around) => `${form} in ${around(value)}`),
      ),
    );
    expect(missed).toEqual([]);
  });

  test("when text and argument write it differently, among other values", () => {
    const one = fc.constantFrom(...VALUES);
    const written = fc.constantFrom(...Object.values(WRITTEN));
    const around = fc.constantFrom(...SURROUNDED);
    fc.assert(
      fc.property(
        one,
        fc.nat(),
        written,
        written,
        around,
        one,
        ([value, ...forms], at, inText, inArgument, place, [other]) => {
          const form = [value, ...forms][at % (forms.length + 1)] as string;
          // Punycode with characters that are not ASCII is none.
          fc.pre(isAsciiStill(value, inText(value)) && isAsciiStill(form, inArgument(form)));
          expect(isFrom(inArgument(form), `${other} ${place(inText(value))} ${other}`)).toBe(true);
        },
      ),
      { seed: 21, numRuns: 1_000 },
    );
  });
});

describe("a link in an argument has an origin", () => {
  const LINKS = [
    "https://account-update.com/x",
    "http://account-update.com",
    "account-update.com/x",
    "account-update.com?x=1",
    "account-update.com#x",
    "account-update.com./x",
    "account-update.com:8443/x",
    "//account-update.com/x",
    "/\\account-update.com/x",
    "https:/account-update.com/x",
    "https:\\\\account-update.com\\x",
    "https:\\/\\/account-update.com\\/x",
    "https%3A%2F%2Faccount-update.com%2Fx",
    "https:&#x2f;&#x2f;account-update.com/x",
    "https://u:p@account-update.com/x",
    "https://bank.com@account-update.com/x",
    "http://account-update\u3002com/x",
    "www.account-update.com",
    "mailto:support@account-update.com",
    '"support"@account-update.com',
    "https://partner.example/?u=https://account-update.com/x",
  ];
  const PLACES: readonly Change[] = [
    (link) => `look at ${link} now`,
    (link) => `![x](${link})`,
    (link) => `![x](<${link}>)`,
    (link) => `[x]: ${link}`,
    (link) => `<img src=${link}>`,
    (link) => `url(${link})`,
    (link) => `见${link}。`,
    (link) => JSON.stringify({ link }),
  ];

  test.each(LINKS)("%s", (link) => {
    expect(PLACES.filter((place) => !hasLinkFrom(place(link), "see account-update.com"))).toEqual([]);
    expect(PLACES.filter((place) => hasLinkFrom(place(link), "see another-update.com"))).toEqual([]);
  });

  test.each(["müller-bank.de/x", "info@müller-bank.de", "//müller-bank.de"])("%s", (link) => {
    expect(PLACES.filter((place) => !hasLinkFrom(place(link), "see müller-bank.de"))).toEqual([]);
  });

  test("an encoded link is counted once, and another one of the decoded text is found", () => {
    const links = Array.from({ length: 150 }, (_, at) => `https://a${at}.partner.example/x%20y`).join(" ");
    expect(needlesOf(fingerprints, { text: links }, destinations).isCut).toBe(false);
    expect(hasLinkFrom(`${links} https%3A%2F%2Faccount-update.com`, "see account-update.com")).toBe(true);
  });
});

describe("values that only look alike have no origin", () => {
  /** Of each family, no value is from a text that has another one. */
  const FAMILIES: Readonly<Record<string, readonly string[]>> = {
    "colleagues at one host": ["alice", "bob.smith", "carol_jones", "d.miller", "erin-white", "f+x"].map(
      (name) => `${name}@acme-corp.example`,
    ),
    "users of a mail service": ["alice", "bob.smith", "carol_jones"].map((name) => `${name}@gmail.com`),
    "addresses with a tag": ["alice+news@acme.example", "bob+news@acme.example", "carol@acme.example"],
    versions: ["1.2.3", "v2.10.0", "10.4.1-beta.2", "2024.11.3", "1.45.0", "0.9.12-rc1", "v18.20.4"],
    prices: ["19.99", "1,299.00 EUR", "$49.90", "€ 1.250,00", "100 USD", "2500", "EUR 75", "12,50 €"],
    places: ["10117 Berlin", "SW1A 1AA", "SW1A 2AA", "75008 Paris", "90210-1234", "90210-5678", "1010 Wien", "K1A 0B1"],
    streets: ["10 Downing Street, London", "221B Baker Street, London NW1 6XE", "Hauptstraße 12, 10115 Berlin"],
    identifiers: [
      "0198d000-1234-7abc-8def-0123456789ab",
      "0198d000-1234-7abc-9def-0123456789ac",
      "01JDXYZ3K8Q2W4E6R8T0Y2U4I6",
      "01JDXYZ3K8A9S8D7F6G5H4J3K2",
      "INV-2026-0012",
      "INV-2026-0013",
      "RE 2026/00123",
      "RE 2026/00124",
      "ORD-100234",
      "ORD-100235",
      "PO 4500012345",
      "PO 4500012346",
      "INV-2026-12-0001",
      "INV-2026-12-0002",
      "ISO 27001",
      "RFC 2045",
      "192.168.1.10",
      "192.168.1.11",
      "10.0.0.0/8",
    ],
    files: [
      "report-2026-12.pdf",
      "report-2026-11.pdf",
      "invoice_0012.pdf",
      "invoice_0013.pdf",
      "budget.xlsx",
      "photo.jpg",
    ],
    phones: ["+1 202 555 0147", "+1 202 555 0199", "(202) 555-0123", "+49 30 901820", "030 901822", "020 7946 0958"],
    accounts: [
      "DE89 3704 0044 0532 0130 00",
      "DE05 3704 0044 0532 0999 11",
      "GB29 NWBK 6016 1331 9268 19",
      "4012 8888 8888 1881",
      "4012888888881882",
    ],
    words: ["general", "support team", "customer service", "weekly report", "Berlin", "London office", "project plan"],
    hosts: [
      "https://www.acme.example/a",
      "https://docs.globex.example/a",
      "http://localhost:3000",
      "https://initech.io",
    ],
  };
  const about = (value: string): string => `Hello, this is about ${value}, please confirm. Thank you.`;

  test.each(Object.entries(FAMILIES))("%s", (_name, values) => {
    const wrong = values.flatMap((value) =>
      values.filter((other) => other !== value && isFrom(value, about(other))).map((other) => `${value} from ${other}`),
    );
    expect(wrong).toEqual([]);
  });

  const DATES =
    `2026-12-11|11.12.2026|12/11/2026|Dec 11, 2026|11 December 2026|2026-12-11T10:30:00Z|2026-12-11T10:30:00.123Z
2026-12-11 10:30:00.123456|2026-12-11T10:30:00+01:00|20261211T103000Z|10:30|10:30:45|Fri, 11 Dec 2026 10:30:00 +0000|2026-W50-5
2026-345|11-Dec-2026|Q4 2026|FY2026|11.12.26|from 2026-12-11 to 2026-12-18|11th December 2026|2026年12月11日
2026-12-11T10:31:00.123456789Z|11/12/2026 10:30:45.123|2026-12-11_10-30-00|10:30 am|Friday, December 11, 2026 at 10:30 AM`.split(
      /[|\n]/,
    );

  test("dates and times, even the same", () => {
    const wrong = DATES.flatMap((value) =>
      DATES.filter((other) => isFrom(value, about(other))).map((other) => `${value} from ${other}`),
    );
    expect(wrong).toEqual([]);
  });
});
