import { expect, test } from "bun:test";
import { type CountryCode, getCountryCallingCode, parsePhoneNumberFromString } from "libphonenumber-js/max";
import { internationalValidity, isNationalNumber } from "../../../src/detection/pii/phone.ts";
import { type Next, numbers, pick } from "../../eval/corpora.ts";

const REGIONS: readonly CountryCode[] = [
  "US",
  "GB",
  "DE",
  "FR",
  "IT",
  "BR",
  "IN",
  "AU",
  "ZA",
  "CH",
  "PL",
  "RU",
  "CN",
  "AE",
];
const TRIALS = 20_000;
const AGREED_MIN = 0.99;

function digits(next: Next, count: number): string {
  let text = "";
  while (text.length < count) text += Math.floor(next() * 10);
  return text;
}

function agreement(seed: number, agrees: (next: Next) => boolean): number {
  const next = numbers(seed);
  let agreed = 0;
  for (let trial = 0; trial < TRIALS; trial += 1) if (agrees(next)) agreed += 1;
  return agreed / TRIALS;
}

test("with a calling code: what the library calls valid", () => {
  const share = agreement(5, (next) => {
    const number = getCountryCallingCode(pick(next, REGIONS)) + digits(next, 6 + Math.floor(next() * 6));
    return (
      (parsePhoneNumberFromString(`+${number}`)?.isValid() === true) === (internationalValidity(number) === "valid")
    );
  });
  expect(share).toBeGreaterThanOrEqual(AGREED_MIN);
});

test("inside a country: what the library calls valid", () => {
  const share = agreement(6, (next) => {
    const region = pick(next, REGIONS);
    // Two zeros would be dialled to leave the country.
    const number =
      pick(next, ["", "01", "03", "07"]) +
      String(1 + Math.floor(next() * 9)) +
      digits(next, 6 + Math.floor(next() * 4));
    return (parsePhoneNumberFromString(number, region)?.isValid() === true) === isNationalNumber(number, region);
  });
  expect(share).toBeGreaterThanOrEqual(AGREED_MIN);
});

test.each([
  ["14155552671", "valid"],
  ["442079460123", "valid"],
  ["4402079460123", "valid"],
  ["80012345678", "valid"],
  ["15551234567", "possible"],
  ["999123456789", "none"],
  ["0", "none"],
] as const)("%s: %s", (number, want) => {
  expect(internationalValidity(number)).toBe(want);
});
