import { matchAnnouncedPhone, matchBirthDate, matchSpelledEmail, nationalIdMatcher } from "../pii/announced.ts";
import { passesLuhn } from "../pii/card.ts";
import {
  isAadhaar,
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
import type { MatcherRule } from "./rule.ts";

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
const of = (pattern: RegExp) => (id: string) => pattern.test(id);

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
  ["PASSPORT", ["passport"], of(/^(?=.{7,10}$)[A-Z]{0,2}\d{6,9}[A-Z]?$/), "passport «C01234567»", "passport 12345"],
  [
    "NATIONAL_ID",
    ["national id", "nationalid", "national_id", "personal id"],
    of(/^[A-Z]{0,3}\d{6,14}[A-Z]?$/),
    "national id «AB1234567»",
    "national id 12345",
  ],
];

/** Personal data that a word before it announces. */
export const PERSONAL_DATA_RULES: readonly MatcherRule[] = [
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
];

/** Words in a field's name that announce the field's value. */
export const ANNOUNCING_WORDS: readonly string[] = PERSONAL_DATA_RULES.filter(({ id }) => id !== "EMAIL").flatMap(
  ({ anchors }) => anchors,
);
