import {
  ALPHANUMERIC,
  BLANK,
  beginsWord,
  DASH,
  DIGIT,
  isA,
  isOneOf,
  LETTER,
  runEnd,
  words,
} from "../views/characters.ts";
import { CERTAIN, type PiiFinding } from "./digit-groups.ts";

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

export function isNhsNumber(digits: string): boolean {
  if (!/^\d{10}$/.test(digits)) return false;
  const check = 11 - (weighted(digits.slice(0, 9), (at) => 10 - at) % 11);
  return check !== 10 && check % 11 === Number(digits[9]);
}

export function isPesel(digits: string): boolean {
  if (!/^\d{11}$/.test(digits)) return false;
  return weighted(digits, (at) => [1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1][at] ?? 0) % 10 === 0;
}

export function isBsn(digits: string): boolean {
  return /^\d{9}$/.test(digits) && weighted(digits, (at) => (at === 8 ? -1 : 9 - at)) % 11 === 0;
}

/** Checks a German tax number: ISO 7064 MOD 11,10. */
export function isSteuerId(digits: string): boolean {
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
export function isDni(compact: string): boolean {
  if (!/^[XYZ\d]\d{7}[A-Z]$/.test(compact)) return false;
  const first = "XYZ".indexOf(compact[0] ?? "");
  const number = Number(first === -1 ? compact.slice(0, 8) : `${first}${compact.slice(1, 8)}`);
  return DNI_LETTERS[number % 23] === compact[8];
}

/** Checks a French number: 13 digits (2A and 2B for Corsica) and a key, which is 97 minus the remainder modulo 97. */
export function isNir(compact: string): boolean {
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
export function isAadhaar(digits: string): boolean {
  if (!/^[2-9]\d{11}$/.test(digits)) return false;
  let check = 0;
  for (let at = 0; at < digits.length; at += 1) {
    const digit = Number(digits[digits.length - 1 - at]);
    check = Number(VERHOEFF_PRODUCT[check]?.[Number(VERHOEFF_SHIFT[at % 8]?.[digit])]);
  }
  return check === 0;
}

/** Account structure by country, after the check digits: digits (n), upper-case letters (a), both (c). From SWIFT's registry. */
const STRUCTURES = words(
  "AD:8n12c AE:19n AL:8n16c AT:16n AZ:4a20c BA:16n BE:12n BG:4a6n8c BH:4a14c BR:23n1a1c BY:4c4n16c CH:5n12c CR:18n",
  "CY:8n16c CZ:20n DE:18n DK:14n DO:4c20n EE:16n EG:25n ES:20n FI:14n FO:14n FR:10n11c2n GB:4a14n GE:2a16n GI:4a15c",
  "GL:14n GR:7n16c GT:4c20c HR:17n HU:24n IE:4a14n IL:19n IQ:4a15n IS:22n IT:1a10n12c JO:4a4n18c KW:4a22c KZ:3n13c",
  "LB:4n20c LC:4a24c LI:5n12c LT:16n LU:3n13c LV:4a13c LY:21n MC:10n11c2n MD:2c18c ME:18n MK:3n10c2n MR:23n",
  "MT:4a5n18c MU:4a19n3a NL:4a10n NO:11n PK:4a16c PL:24n PS:4a21c PT:21n QA:4a21c RO:4a16c RS:18n SA:2n18c",
  "SC:4a20n3a SD:14n SE:20n SI:15n SK:20n SM:1a10n12c ST:21n SV:4a20n TL:19n TN:20n TR:6n16c UA:6n19c VA:18n",
  "VG:4a16n XK:16n",
);

/** Account structure by country, with one letter for each character. Created on the first lookup. */
let shapes: ReadonlyMap<string, string> | undefined;

function shapeOf(country: string): string | undefined {
  shapes ??= new Map(
    STRUCTURES.map((row) => [
      row.slice(0, 2),
      [...row.matchAll(/(\d+)([nac])/g)].map(([, count, kind = ""]) => kind.repeat(Number(count))).join(""),
    ]),
  );
  return shapes.get(country.toUpperCase());
}

const SEPARATORS_MAX = 3;

/** Returns the IBAN whose country code is at `start`. Spaces, dashes and line ends may separate its characters. */
export function findIban(text: string, start: number): PiiFinding | undefined {
  const shape = shapeOf(text.slice(start, start + 2));
  if (shape === undefined || !beginsWord(text, start)) return undefined;
  const check = runEnd(text, start + 2, DIGIT, start + 4);
  if (check !== start + 4) return undefined;
  let rest = 0;
  let at = check;
  let last = at;
  for (let index = 0; index < shape.length; ) {
    if (isA(text, at, ALPHANUMERIC)) {
      if (!fits(text, at, shape[index] ?? "")) return undefined;
      rest = remainderWith(rest, text.charCodeAt(at));
      index += 1;
      at += 1;
      last = at;
      continue;
    }
    if (at - last >= SEPARATORS_MAX || !isSeparator(text, at)) return undefined;
    at += 1;
  }
  // The country code and the check digits are appended last.
  for (let index = start; index < check; index += 1) rest = remainderWith(rest, text.charCodeAt(index));
  return rest === 1 && !isA(text, last, ALPHANUMERIC)
    ? { rule: "IBAN", start, end: last, confidence: CERTAIN }
    : undefined;
}

function isSeparator(text: string, at: number): boolean {
  return isA(text, at, BLANK | DASH) || isOneOf(text, at, "\n\r.");
}

function fits(text: string, at: number, kind: string): boolean {
  if (kind === "n") return isA(text, at, DIGIT);
  return kind === "c" || isA(text, at, LETTER);
}

const NINE = 0x39;
const ZERO = 0x30;
const LETTER_BITS = 31;

/** Returns the remainder modulo 97 after appending one character; A counts as 10 and Z as 35. */
function remainderWith(rest: number, code: number): number {
  return code > NINE ? (rest * 100 + (code & LETTER_BITS) + 9) % 97 : (rest * 10 + code - ZERO) % 97;
}

/** Returns whether a number without a check digit may be one that somebody was given: not a date, not one digit repeated. */
export function isAssignedNumber(number: string): boolean {
  return !/^\D*(\d)(?:\D*\1)*\D*$/.test(number) && !DATE_DIGITS.test(number);
}

const DATE_DIGITS = /^(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$/;
