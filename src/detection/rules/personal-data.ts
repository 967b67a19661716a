import { matchAnnouncedPhone, matchBirthDate, matchSpelledEmail, nationalIdMatcher } from "../pii/announced.ts";
import { passesLuhn } from "../pii/card.ts";
import {
  isAadhaar,
  isAssignedNumber,
  isBsn,
  isCpf,
  isDni,
  isNhsNumber,
  isNir,
  isPesel,
  isSocialSecurityNumber,
  isSteuerId,
} from "../pii/identifiers.ts";
import { words } from "../views/characters.ts";
import type { ContextRule, MatcherRule } from "./rule.ts";

type Row = readonly [
  id: string,
  announcedBy: readonly string[],
  isValid: (compact: string) => boolean,
  matches: string,
  misses: string,
];

const luhn = (digits: number) => {
  const pattern = new RegExp(`^\\d{${digits}}$`);
  return (id: string) => pattern.test(id) && passesLuhn(id);
};

/** Checks the routing number of a bank in the United States: its range, and weights 3, 7 and 1. */
function isRoutingNumber(digits: string): boolean {
  if (!/^(?:0\d|1[0-2]|2[1-9]|3[0-2]|6[1-9]|7[0-2]|80)\d{7}$/.test(digits)) return false;
  return [...digits].reduce((sum, digit, at) => sum + Number(digit) * ([3, 7, 1][at % 3] ?? 0), 0) % 10 === 0;
}

const of = (pattern: RegExp) => (id: string) => pattern.test(id) && isAssignedNumber(id);

/** Numbers of persons, by country. They are searched for after the words that announce them. */
const NATIONAL_IDS: readonly Row[] = [
  [
    "US_SSN",
    ["ssn", "social security", "soc sec", "social_security", "taxpayer", "itin"],
    isSocialSecurityNumber,
    "ssn «219099998»",
    "ssn 000123456",
  ],
  ["BR_CPF", ["cpf"], isCpf, "cpf «529.982.247-25»", "cpf 529.982.247-26"],
  [
    "CA_SIN",
    ["social insurance", "sin number", "sin:"],
    luhn(9),
    "social insurance number «046 454 286»",
    "social insurance number 046 454 287",
  ],
  [
    "DE_TAX_ID",
    ["steuer", "idnr", "tax id", "taxid", "tax number"],
    isSteuerId,
    "Steuer-ID «86095742719»",
    "Steuer-ID 86095742718",
  ],
  ["ES_DNI", ["dni", "nie:", "nie ", "documento nacional"], isDni, "DNI «12345678Z»", "DNI 12345678A"],
  ["FR_NIR", ["nir", "securite sociale", "insee"], isNir, "NIR «180126955222380»", "NIR 180126955222381"],
  ["GB_NHS", ["nhs"], isNhsNumber, "NHS «943 476 5919»", "NHS 943 476 5918"],
  [
    "GB_NINO",
    ["nino", "national insurance", "ni number"],
    of(/^[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]\d{6}[A-D]$/),
    "National Insurance «AB 12 34 56 C»",
    "National Insurance DA 12 34 56 C",
  ],
  ["IN_AADHAAR", ["aadhaar", "aadhar", "uidai"], isAadhaar, "Aadhaar «2341 2341 2346»", "Aadhaar 2341 2341 2345"],
  [
    "IT_CODICE_FISCALE",
    ["codice fiscale", "cod. fisc"],
    of(/^[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]$/),
    "codice fiscale «RSSMRA85M01H501Z»",
    "codice fiscale RSSMRA85N01H501Z",
  ],
  ["NL_BSN", ["bsn", "burgerservice"], isBsn, "BSN «111222333»", "BSN 111222334"],
  ["PL_PESEL", ["pesel"], isPesel, "PESEL «44051401359»", "PESEL 44051401358"],
  [
    "ZA_ID",
    ["id number", "rsa id", "identity number", "id no"],
    luhn(13),
    "ID number «8001015009087»",
    "ID number 8001015009088",
  ],
  [
    "US_ROUTING",
    [
      ...["routing num", "routing_num", "routing-num", "routingnum", "routing no", "routing_no ", "routing_no:"],
      ...["routing #", "routing:", "aba ", "aba:", "aba#", "aba_"],
    ],
    isRoutingNumber,
    "routing number «021000021»",
    "routing number 021000022",
  ],
  ["PASSPORT", ["passport"], of(/^(?=.{7,10}$)[A-Z]{0,2}\d{6,9}[A-Z]?$/), "passport «C01234567»", "passport 12345"],
  [
    "NATIONAL_ID",
    ["national id", "nationalid", "national_id", "personal id"],
    of(/^[A-Z]{0,3}\d{6,14}[A-Z]?$/),
    "national id «AB1234567»",
    "national id 12345",
  ],
];

/** Matches what may be between the word and its number: `number`, `no.`, `is`, punctuation. A number after a plural is a count. */
const GAP = String.raw`(?:s[\s_-]{0,2}(?:numbers?|are)\b)?(?:[\s_-]{0,2}(?:numbers?|no|nr|num|is|are)\b|[\s:#="'.(]){0,6}`;
/** Matches what may follow a number: no more of it, no decimals, no unit. */
const END = String.raw`(?:[^\w.,:/%-]|[.,](?:\D|$)|$)`;

/** Words before `account number` that make it the account of a cloud. */
const CLOUD = String.raw`(?i)\b(?:aws|amazon|azure|gcp|google(?: cloud)?|cloud)[ ./_-]{0,2}`;
/** Words before `driver licence` that make it the driver of a device or database. */
const DEVICE = String.raw`(?i)\b(?:device|kernel|graphics|gpu|nvidia|printer|network|storage|[jo]dbc|database)[\w.-]*[ /_-]{1,2}`;

/** Numbers without a check digit. They are read only directly after the words that announce them. */
const UNCHECKED_IDS: readonly ContextRule[] = [
  {
    id: "BANK_ACCOUNT",
    anchors: ["account", "acct"].flatMap((word) => [" ", "_", "-", ""].map((gap) => `${word}${gap}n`)),
    level: "balanced",
    word: true,
    notAfter: CLOUD,
    value: "assigned",
    after: String.raw`(?i)(?:umbers?|o|r)\b${GAP}(\d{7,17}|\d{3,6}(?:[ -]\d{3,8}){1,4})${END}`,
    matches: ["account number: «12345678»", '"account_no": "«000123456789»"', "Acct No. «1234 567890»"],
    misses: [
      ...["account number ACC-1234567", "account not found: 12345678", "account number 1234567.50"],
      ...["AWS account number 123456789012", "account number 00000000"],
    ],
  },
  {
    id: "BANK_ACCOUNT",
    anchors: [
      ...["bank", "checking", "savings"].flatMap((word) => [" ", "_", "-", ""].map((gap) => `${word}${gap}account`)),
      "kontonummer",
    ],
    level: "balanced",
    value: "assigned",
    after: String.raw`(?i)${GAP}(\d{7,17}|\d{3,6}(?:[ -]\d{3,8}){1,4})${END}`,
    matches: ["bank account «12345678»", "bankAccount: «000123456789»", "Kontonummer «1234567»"],
    misses: [
      ...["bank account opened 20240115", "bank account 2024-01-15", "bank account balance: 1234567"],
      ...["bank accounts: 1234567", "bankAccountId: 1234567"],
    ],
  },
  {
    id: "DRIVING_LICENCE",
    anchors: ["driver", "drivers", "driver's", "driver’s", "driving"].flatMap((word) =>
      [" ", "_", "-", ""].map((gap) => `${word}${gap}licen`),
    ),
    level: "balanced",
    word: true,
    notAfter: DEVICE,
    value: "assigned",
    after: String.raw`(?i)[cs]e(?:[\s_-]{0,2}id\b)?${GAP}((?-i:[A-Z9]{5}\d{6}[A-Z9]{2}\d[A-Z]{2}|[A-Z]{1,2}\d(?:[ -]?\d){5,13}[A-Z]?)|\d{7,12})${END}`,
    matches: [
      "driver's license «D1234567»",
      '"driving_licence": "«MORGA657054SM9IJ»"',
      "Driver License Number: «S123-456-78-901-0»",
    ],
    misses: [
      ...["driving licence valid until 20300115", "driving licence 2030-01-15", "driver license class B1234567"],
      ...["ODBC driver license no 1234567", "driver license: 20240101"],
    ],
  },
];

/** Personal data that a word before it announces. */
export const PERSONAL_DATA_RULES: readonly (MatcherRule | ContextRule)[] = [
  {
    id: "DATE_OF_BIRTH",
    anchors: words("birth dob d.o.b born geboren geburtsdatum naissance nacimiento nascita bday"),
    level: "balanced",
    steps: 0,
    matcher: matchBirthDate,
    matches: ["born «12 March 1985»", "dob: «1985-03-12»"],
    misses: ["born in 1985"],
  },
  {
    id: "PHONE",
    anchors: words("phone tel mobile cell call fax whatsapp sms contact msisdn handy"),
    level: "balanced",
    steps: 0,
    matcher: matchAnnouncedPhone,
    matches: ["phone 030 «901820»".replace("030 «", "«030 ")],
    misses: ["phone 12345"],
  },
  {
    id: "EMAIL",
    anchors: ["[at]", "(at)", "{at}"],
    level: "balanced",
    steps: 0,
    matcher: matchSpelledEmail,
    matches: ["«john [at] example [dot] com»"],
    misses: ["look [at] this"],
  },
  ...NATIONAL_IDS.map(
    ([id, anchors, isValid, matches, misses]): MatcherRule => ({
      id,
      anchors,
      level: "balanced",
      steps: 0,
      matcher: nationalIdMatcher(id, isValid),
      matches: [matches],
      misses: [misses],
    }),
  ),
  ...UNCHECKED_IDS,
];

/** Words in a field's name that announce the field's value. */
export const ANNOUNCING_WORDS: readonly string[] = PERSONAL_DATA_RULES.filter(({ id }) => id !== "EMAIL").flatMap(
  ({ anchors }) => anchors,
);
