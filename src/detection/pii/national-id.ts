import { passesLuhn } from "./card.ts";

/**
 * A country's number for a person. It is searched for after its words; only a number with a unique shape is found without them.
 */
export interface NationalId {
  readonly rule: string;
  /** Words that announce the number, in lower case. */
  readonly words: readonly string[];
  /** Returns whether the text is such a number; `compact` has no separators and upper-case letters. */
  matches(compact: string): boolean;
}

/** Returns whether the digits follow the rules for issuing US social security numbers. */
export function isSocialSecurityNumber(digits: string): boolean {
  if (digits.length !== 9) return false;
  const area = digits.slice(0, 3);
  if (area === "000" || area === "666" || digits.slice(3, 5) === "00" || digits.slice(5) === "0000") return false;
  // 9xx with these groups is a taxpayer number for people without a social security number.
  return area < "900" || (digits.slice(3, 5) >= "50" && digits.slice(3, 5) <= "99");
}

/** Checks a Brazilian CPF: two check digits. */
export function isCpf(digits: string): boolean {
  if (digits.length !== 11 || new Set(digits).size === 1) return false;
  return [9, 10].every((length) => {
    const sum = weighted(digits.slice(0, length), (at) => length + 1 - at);
    return ((sum * 10) % 11) % 10 === Number(digits[length]);
  });
}

function weighted(digits: string, weight: (at: number) => number): number {
  let sum = 0;
  for (let at = 0; at < digits.length; at += 1) sum += Number(digits[at]) * weight(at);
  return sum;
}

function isNhsNumber(digits: string): boolean {
  if (!/^\d{10}$/.test(digits)) return false;
  const check = 11 - (weighted(digits.slice(0, 9), (at) => 10 - at) % 11);
  return check !== 10 && check % 11 === Number(digits[9]);
}

function isPesel(digits: string): boolean {
  if (!/^\d{11}$/.test(digits)) return false;
  return weighted(digits, (at) => [1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1][at] ?? 0) % 10 === 0;
}

function isBsn(digits: string): boolean {
  return /^\d{9}$/.test(digits) && weighted(digits, (at) => (at === 8 ? -1 : 9 - at)) % 11 === 0;
}

/** Checks a German tax number: ISO 7064 MOD 11,10. */
function isSteuerId(digits: string): boolean {
  if (!/^[1-9]\d{10}$/.test(digits)) return false;
  let product = 10;
  for (const digit of digits.slice(0, 10)) {
    const sum = (Number(digit) + product) % 10;
    product = ((sum === 0 ? 10 : sum) * 2) % 11;
  }
  return (11 - product) % 10 === Number(digits[10]);
}

const DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE";

/** Checks a Spanish number, including numbers of foreigners (first character X, Y or Z). */
function isDni(compact: string): boolean {
  if (!/^[XYZ\d]\d{7}[A-Z]$/.test(compact)) return false;
  const first = "XYZ".indexOf(compact[0] ?? "");
  const number = Number(first === -1 ? compact.slice(0, 8) : `${first}${compact.slice(1, 8)}`);
  return DNI_LETTERS[number % 23] === compact[8];
}

/** Checks a French number: 13 digits (2A and 2B for Corsica) and a key, which is 97 minus the remainder modulo 97. */
function isNir(compact: string): boolean {
  if (!/^[12]\d{4}(?:\d{2}|2[AB])\d{8}$/.test(compact)) return false;
  const body = compact.slice(0, 13).replace("2A", "19").replace("2B", "18");
  return 97 - Number(BigInt(body) % 97n) === Number(compact.slice(13));
}

const VERHOEFF_PRODUCT = [
  "0123456789",
  "1234067895",
  "2340178956",
  "3401289567",
  "4012395678",
  "5987604321",
  "6598710432",
  "7659821043",
  "8765932104",
  "9876543210",
];
const VERHOEFF_SHIFT = [
  "0123456789",
  "1576283094",
  "5803796142",
  "8916043527",
  "9453126870",
  "4286573901",
  "2793806415",
  "7046913258",
];

/** Checks an Indian number: twelve digits with a Verhoeff check digit. */
function isAadhaar(digits: string): boolean {
  if (!/^[2-9]\d{11}$/.test(digits)) return false;
  let check = 0;
  for (let at = 0; at < digits.length; at += 1) {
    const digit = Number(digits[digits.length - 1 - at]);
    check = Number(VERHOEFF_PRODUCT[check]?.[Number(VERHOEFF_SHIFT[at % 8]?.[digit])]);
  }
  return check === 0;
}

export const US_SSN: NationalId = {
  rule: "US_SSN",
  words: ["ssn", "social security", "soc sec", "social_security", "taxpayer", "itin"],
  matches: isSocialSecurityNumber,
};

export const NATIONAL_IDS: readonly NationalId[] = [
  US_SSN,
  { rule: "BR_CPF", words: ["cpf"], matches: isCpf },
  {
    rule: "CA_SIN",
    words: ["social insurance", "sin number", "sin:"],
    matches: (id) => /^\d{9}$/.test(id) && passesLuhn(id),
  },
  { rule: "DE_TAX_ID", words: ["steuer", "idnr", "tax id", "taxid", "tax number"], matches: isSteuerId },
  { rule: "ES_DNI", words: ["dni", "nie:", "nie ", "documento nacional"], matches: isDni },
  { rule: "FR_NIR", words: ["nir", "securite sociale", "insee"], matches: isNir },
  { rule: "GB_NHS", words: ["nhs"], matches: isNhsNumber },
  {
    rule: "GB_NINO",
    words: ["nino", "national insurance", "ni number"],
    matches: (id) => /^[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]\d{6}[A-D]$/.test(id),
  },
  { rule: "IN_AADHAAR", words: ["aadhaar", "aadhar", "uidai"], matches: isAadhaar },
  {
    rule: "IT_CODICE_FISCALE",
    words: ["codice fiscale", "cod. fisc"],
    matches: (id) => /^[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]$/.test(id),
  },
  { rule: "NL_BSN", words: ["bsn", "burgerservice"], matches: isBsn },
  { rule: "PL_PESEL", words: ["pesel"], matches: isPesel },
  {
    rule: "ZA_ID",
    words: ["id number", "rsa id", "identity number", "id no"],
    matches: (id) => /^\d{13}$/.test(id) && passesLuhn(id),
  },
  {
    rule: "PASSPORT",
    words: ["passport"],
    matches: (id) => /^[A-Z]{0,2}\d{6,9}[A-Z]?$/.test(id) && id.length > 6 && id.length < 11,
  },
  {
    rule: "NATIONAL_ID",
    words: ["national id", "nationalid", "national_id", "personal id"],
    matches: (id) => /^[A-Z]{0,3}\d{6,14}[A-Z]?$/.test(id),
  },
];
