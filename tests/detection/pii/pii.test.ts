import { expect, test } from "bun:test";
import fc from "fast-check";
import type { RedactionLevel } from "../../../src/detection/finding.ts";
import { findSensitive, hideFindings } from "../../../src/detection/sensitive.ts";
import { numbers, pick } from "../../eval/corpora.ts";

type Row = readonly [rule: string, text: string, leaves: string];

/** Texts, the rules that match at level `balanced`, and the redacted text. */
const FOUND: readonly Row[] = [
  ["EMAIL", "mail john.doe@example.com now", "mail [REDACTED:EMAIL] now"],
  ["EMAIL", "<jane+x@sub.example.co.uk>", "<[REDACTED:EMAIL]>"],
  ["EMAIL", "müller@exämple.de", "[REDACTED:EMAIL]"],
  ["EMAIL", "john [at] example [dot] com", "[REDACTED:EMAIL]"],
  ["EMAIL", "Author: Jane Roe <jane@roe.org>", "Author: Jane Roe <[REDACTED:EMAIL]>"],
  ["CARD", "4111111111111111", "[REDACTED:CARD]"],
  ["CARD", "4111-1111-1111-1111", "[REDACTED:CARD]"],
  ["CARD", "card 5500.0000.0000.0004", "card [REDACTED:CARD]"],
  ["CARD", "3782 822463 10005", "[REDACTED:CARD]"],
  ["CARD", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "[REDACTED:CARD]"],
  ["CARD", "order 12 4111 1111 1111 1111 99", "order 12 [REDACTED:CARD] 99"],
  ["CARD", "pay with 4111 1111\n1111 1111 today", "pay with [REDACTED:CARD] today"],
  ["CARD", "4111 1111 1111 1111\n2024-01-02 10 11", "[REDACTED:CARD]\n2024-01-02 10 11"],
  ["CARD", "6011 0000 0000 0004 2028 123", "[REDACTED:CARD] 2028 123"],
  ["CARD", "card4111111111111111", "card[REDACTED:CARD]"],
  ["CARD", "30569309025904", "[REDACTED:CARD]"],
  ["IBAN", "DE89370400440532013000", "[REDACTED:IBAN]"],
  ["IBAN", "to DE89 3704 0044 0532 0130 00.", "to [REDACTED:IBAN]."],
  ["IBAN", "gb82west12345698765432", "[REDACTED:IBAN]"],
  ["IBAN", "FR1420041010050500013M02606", "[REDACTED:IBAN]"],
  ["US_SSN", "ssn is 123-45-6789", "ssn is [REDACTED:US_SSN]"],
  ["US_SSN", "SSN: 123 45 6789", "SSN: [REDACTED:US_SSN]"],
  ["US_SSN", "123-45-6789", "[REDACTED:US_SSN]"],
  ["PHONE", "+14155552671", "[REDACTED:PHONE]"],
  ["PHONE", "(415) 555-2671", "[REDACTED:PHONE]"],
  ["PHONE", "phone: 004930901820", "phone: [REDACTED:PHONE]"],
  ["PHONE", "call +44 (0)20 7946 0123 now", "call [REDACTED:PHONE] now"],
  ["IP", "from ::ffff:0:1 or 2001:db8::1%eth0", "from ::ffff:0:1 or [REDACTED:IP]%eth0"],
  ["PHONE", "+1-555-123-4567", "[REDACTED:PHONE]"],
  ["PHONE", "tel: 030 901820", "tel: [REDACTED:PHONE]"],
  ["PHONE", "call me on 4155552671", "call me on [REDACTED:PHONE]"],
  ["IP", "client 203.0.113.7 connected", "client [REDACTED:IP] connected"],
  ["IP", "[2001:0db8:85a3:0000:0000:8a2e:0370:7334]:443", "[[REDACTED:IP]]:443"],
  ["IP", "2001:db8::ff00:42:8329", "[REDACTED:IP]"],
  ["DATE_OF_BIRTH", "DOB: 1985-03-12", "DOB: [REDACTED:DATE_OF_BIRTH]"],
  ["DATE_OF_BIRTH", "born on 12 March 1985", "born on [REDACTED:DATE_OF_BIRTH]"],
  ["DATE_OF_BIRTH", "birthday: March 12, 1985", "birthday: [REDACTED:DATE_OF_BIRTH]"],
  ["BR_CPF", "529.982.247-25", "[REDACTED:BR_CPF]"],
  ["ES_DNI", "DNI 12345678Z", "DNI [REDACTED:ES_DNI]"],
  ["GB_NINO", "National Insurance AB123456C", "National Insurance [REDACTED:GB_NINO]"],
  ["GB_NHS", "NHS 943 476 5919", "NHS [REDACTED:GB_NHS]"],
  ["IN_AADHAAR", "aadhaar 2341 2341 2346", "aadhaar [REDACTED:IN_AADHAAR]"],
  ["NL_BSN", "BSN 111222333", "BSN [REDACTED:NL_BSN]"],
  ["PL_PESEL", "PESEL 44051401359", "PESEL [REDACTED:PL_PESEL]"],
  ["BANK_ACCOUNT", "Your bank account number is 000123456789.", "Your bank account number is [REDACTED:BANK_ACCOUNT]."],
  ["BANK_ACCOUNT", '{"bankAccountNumber":"12345678"}', '{"bankAccountNumber":"[REDACTED:BANK_ACCOUNT]"}'],
  ["BANK_ACCOUNT", "savings account #12345678", "savings account #[REDACTED:BANK_ACCOUNT]"],
  ["BANK_ACCOUNT", "pay to my account number 123456789012", "pay to my account number [REDACTED:BANK_ACCOUNT]"],
  ["BANK_ACCOUNT", "AWS invoice: to account no. 12345678", "AWS invoice: to account no. [REDACTED:BANK_ACCOUNT]"],
  ["BANK_ACCOUNT", "bank accounts are 12345678 (Ann)", "bank accounts are [REDACTED:BANK_ACCOUNT] (Ann)"],
  ["US_ROUTING", "Routing No. 021000021", "Routing No. [REDACTED:US_ROUTING]"],
  ["US_ROUTING", "ABA routing: 021000021", "ABA routing: [REDACTED:US_ROUTING]"],
  ["DRIVING_LICENCE", "driver's license number D1234567", "driver's license number [REDACTED:DRIVING_LICENCE]"],
  ["DRIVING_LICENCE", '{"driverLicenseNumber":"D1234567"}', '{"driverLicenseNumber":"[REDACTED:DRIVING_LICENCE]"}'],
];

test.each([
  "bank account 2024-01-15",
  "bank account opened 20240115",
  "bank account balance: 1234567",
  "account not found: 12345678",
  "account notes 12345678",
  "account number ACC-1234567",
  "account number 12345678.50",
  "accounts need 12345678",
  "routing number 021000022",
  "the routing table has 100000007 rows",
  "driving licence valid until 20300115",
  "driver license class B, 12 points",
  "device driver license: GPL-2.0, 2024-01-15",
  '{"driver": "licensed", "rows": 12345678}',
  ...["AWS account number 123456789012", "Your AWS account number is 123456789012.", "GCP account no. 123456789012"],
  ...['aws_account_number = "123456789012"', '{"awsAccountNumber":"123456789012"}'],
  ...["Error: account number 00000000 not found", "account_no INTEGER DEFAULT 1000000", "accountNumber: 11111111"],
  ...["assertEquals(12345678, account.getAccountNumber())", "account_number_max: 99999999", "accountNumberLength: 17"],
  ...[
    "bank accounts: 1234567",
    "bank_accounts_total 1234567",
    '{"bankAccountId": 1234567}',
    "bank-account-20240115.log",
  ],
  ...["routing_nodes: 123456780", "number_of_routing_shards: 123456780", "routing table 123456780"],
  ...["NVIDIA driver license 535104052", "odbc driver license no 1234567", "nvidia.com/driver-license: 5350000"],
  ...["driver license: 20240101", "driver_licenses_total 1234567", "src/driver-license.ts:1234567"],
  ...["passport: 20240101", "passport.js 0.7.0", '  + account_id = "123456789012"'],
])("%j stays", (text) => {
  expect(findSensitive(text, "balanced")).toEqual([]);
});

/** Lists, in which other numbers come before and after. */
const LISTS: readonly string[] = [
  "123-45-6789",
  "4111 1111 1111 1111",
  "415-555-2671",
  "(415) 555-2671",
  "529.982.247-25",
];

test.each(LISTS)("each of a list of %s", (one) => {
  for (const between of ["\n", "\n\n", "\r\n  ", " ", ", ", ";", "\t", "\n1 2 3\n"]) {
    for (const count of [2, 3, 7, 50]) {
      const text = new Array<string>(count).fill(one).join(between);
      expect([between, count, hideFindings(text, findSensitive(text, "balanced")).includes(one)]).toEqual([
        between,
        count,
        false,
      ]);
    }
  }
});

test.each(FOUND)("%s in %j", (rule, text, leaves) => {
  const findings = findSensitive(text, "balanced");
  expect(findings.map((finding) => finding.rule)).toEqual([rule]);
  expect(hideFindings(text, findings)).toBe(leaves);
});

const STAYS: readonly string[] = [
  ...[
    "order 4111111111111112",
    "commit 3f9a8b7c6d5e4f3f9a8b7c6d5e4f3f9a8b7c6d5e",
    "2026-11-22T01:43:21.123Z",
    "1763775801123",
  ],
  ...["1763775801123456789", "v1.2.3", "1.2.3.4-beta", "version 4.5.6.7", "Chrome/120.0.6099.71", "1.0.0.0"],
  ...["550e8400-e29b-41d4-a716-446655440000", "12345678-1234-1234-1234-123456789012", "web-7d9f8b6c5-x2k4p"],
  ...["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "localhost:8080", "10.244.1.17"],
  ...[
    "51.5073509, -0.1277583",
    "127.0.0.1",
    "lodash@4.17.21",
    "@types/node@20.1.0",
    "icon@2x.png",
    "user@1000.service",
  ],
  ...["git@github.com:org/repo.git", "std::string", "a::b", "::1", "fe80::1", "12:34:56", "00:1A:2B:3C:4D:5E"],
  ...["1,234,567,890", "100-200-300", "2024/11/22 10:11:12", "pid 12345 port 65535", "0.4539578763621486"],
  ...["@@ -1234,17 +1234,19 @@", "+20261122", "INV-2026-000123456", "index 1234567..89abcde 100644"],
  ...["customer 1234567890", "amount 1234567890123", "12 34 56 78 90 12", "id=9007199254740993", "3.14159265358979"],
  ...[
    "2026-11-22 01:43:21,123",
    "call 5 times in 1000 ms",
    "contact id 12345678",
    "started 2026-11-22",
    "foo@bar",
    "a@b.c",
  ],
  ...[
    "1234 5678 9012 3456",
    "build 2024.11.22.1",
    "RFC 9110 section 10.1.1",
    "2024-11-22_10-11-12",
    "0000000000000000",
  ],
  ...["f47ac10b58cc4372a5670e02b2c3d479", "1111-2222-3333-4444", "call graph 202611220143", "telemetry 20261122014321"],
  ...["phone_verified=true count=1234567", "mobile app 2.14.1234567", "000-12-3456", "666-12-3456", "299.1.1.1"],
];

test.each(STAYS.map((text) => [text] as const))("%j stays at balanced", (text) => {
  expect(findSensitive(text, "balanced")).toEqual([]);
});

const BY_LEVEL: readonly (readonly [text: string, found: Readonly<Record<RedactionLevel, readonly string[]>>])[] = [
  ["pod at 10.2.3.4", { off: [], secrets: [], balanced: [], strict: ["IP"] }],
  ["to john@example.com", { off: [], secrets: [], balanced: ["EMAIL"], strict: ["EMAIL"] }],
  [
    "password: hunter2",
    { off: [], secrets: ["password-assignment"], balanced: ["password-assignment"], strict: ["password-assignment"] },
  ],
  ["020 7946 0958", { off: [], secrets: [], balanced: [], strict: ["PHONE"] }],
];

test.each(BY_LEVEL)("levels: %j", (text, found) => {
  for (const level of ["off", "secrets", "balanced", "strict"] as const) {
    expect(findSensitive(text, level).map(({ rule }) => rule)).toEqual([...found[level]]);
  }
});

test.each([
  ["4111 1111 1111 1111\n5500 0000 0000 0004\n", "~\n~\n"],
  ["4111 1111 1111 1111 5500 0000 0000 0004", "~ ~"],
  ["17\t4111 1111 1111 1111\t2024\n18\t5500 0000 0000 0004\t2025", "17\t~\t2024\n18\t~\t2025"],
  ["1 4111-1111-1111-1111 100\n2 5500-0000-0000-0004 200", "1 ~ 100\n2 ~ 200"],
])("cards of a table: %j", (text, shown) => {
  expect(hideFindings(text, findSensitive(text, "balanced"))).toBe(shown.replaceAll("~", "[REDACTED:CARD]"));
});

test("of 320 tables of random four-digit numbers at most two lose a number", () => {
  const next = numbers(7);
  const column = () => String(1_000 + Math.floor(next() * 9_000));
  let damaged = 0;
  for (const columns of [1, 2, 3, 4, 5, 6, 8, 12]) {
    for (let table = 0; table < 40; table += 1) {
      const separator = pick(next, [" ", "  ", "\t"]);
      const rows = Array.from({ length: 20 }, () => Array.from({ length: columns }, column).join(separator));
      if (findSensitive(rows.join("\n"), "balanced").length > 0) damaged += 1;
    }
  }
  expect(damaged).toBeLessThanOrEqual(2);
});

test("the confidence and reason of a finding", () => {
  expect(findSensitive("born 1985-03-12", "balanced")).toEqual([
    { rule: "DATE_OF_BIRTH", kind: "pii", start: 5, end: 15, confidence: 0.95, context: "born" },
  ]);
});

test("any text: offsets are in order and in range, and hidden text is not found again", () => {
  const pieces = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom(...FOUND.map(([, text]) => text), ...STAYS));
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
      const text = parts.join("\n");
      let from = 0;
      for (const { start, end } of findSensitive(text, "strict")) {
        expect(start).toBeGreaterThanOrEqual(from);
        expect(end).toBeGreaterThan(start);
        from = end;
      }
      expect(from).toBeLessThanOrEqual(text.length);
    }),
    { numRuns: 300, seed: 41 },
  );
});

test.each([
  ["paid for aws from bank account number 12345678", "12345678"],
  ["bank account number 123456789012 (google pay account)", "123456789012"],
  ["network driver error; driver's license D1234567", "D1234567"],
])("a word somewhere on the line releases nothing: %s", (text, number) => {
  expect(hideFindings(text, findSensitive(text, "balanced"))).not.toContain(number);
});
