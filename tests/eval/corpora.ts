import { filler, formatExamples } from "../detection/secret-examples.ts";

/** A generator that gives the same numbers each time. */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

export type Next = () => number;

export function pick<Item>(next: Next, items: readonly Item[]): Item {
  const item = items[Math.floor(next() * items.length)];
  if (item === undefined) throw new Error("nothing to pick from");
  return item;
}

function digits(next: Next, count: number): string {
  let text = "";
  while (text.length < count) text += Math.floor(next() * 10);
  return text;
}

/** Completes a number so that its check digit is right. */
function withLuhn(body: string): string {
  for (let check = 0; check < 10; check += 1) {
    let sum = 0;
    const all = `${body}${check}`;
    for (let at = 0; at < all.length; at += 1) {
      const digit = Number(all[all.length - 1 - at]);
      sum += at % 2 === 0 ? digit : Math.floor((digit * 2) / 10) + ((digit * 2) % 10);
    }
    if (sum % 10 === 0) return all;
  }
  return body;
}

function card(next: Next): string {
  const [prefix, length] = pick(next, [
    ["4", 16],
    ["51", 16],
    ["55", 16],
    ["2221", 16],
    ["37", 15],
    ["6011", 16],
    ["3530", 16],
  ] as const);
  const number = withLuhn(prefix + digits(next, length - 1 - prefix.length));
  if (length !== 16 || next() < 0.4) return number;
  return (number.match(/\d{4}/g) ?? []).join(pick(next, [" ", "-"]));
}

function iban(next: Next): string {
  const [country, account] = pick(next, [
    ["DE", digits(next, 18)],
    ["NL", `ABNA${digits(next, 10)}`],
    ["GB", `WEST${digits(next, 14)}`],
    ["FR", digits(next, 23)],
    ["BE", digits(next, 12)],
  ] as const);
  const numeric = [...`${account}${country}00`].map((one) => Number.parseInt(one, 36)).join("");
  const check = String(98 - Number(BigInt(numeric) % 97n)).padStart(2, "0");
  const whole = `${country}${check}${account}`;
  return next() < 0.5 ? whole : (whole.match(/.{1,4}/g) ?? []).join(" ");
}

function email(next: Next): string {
  const name = pick(next, ["jane", "john.doe", "m.mueller", "a_b", "li-wei", "o'neil", "x+tag"]);
  return `${name}${Math.floor(next() * 99)}@${pick(next, ["example.com", "mail.example.org", "corp.example.co.uk", "posteo.example.de"])}`;
}

function phone(next: Next): string {
  const tail = `${2 + Math.floor(next() * 7)}${digits(next, 2)}`;
  return pick(next, [
    `+1 (415) ${tail}-${digits(next, 4)}`,
    `+1415${tail}${digits(next, 4)}`,
    `+49 30 90${digits(next, 4)}`,
    `(212) ${tail}-${digits(next, 4)}`,
    `+44 20 7946 0${digits(next, 3)}`,
  ]);
}

function ssn(next: Next): string {
  return `${String(100 + Math.floor(next() * 500)).padStart(3, "0")}-${11 + Math.floor(next() * 80)}-${1000 + Math.floor(next() * 8999)}`;
}

function address(next: Next): string {
  if (next() < 0.3)
    return `2001:db8:${Math.floor(next() * 65535).toString(16)}::${Math.floor(next() * 65535).toString(16)}`;
  return `${pick(next, [8, 23, 52, 93, 203])}.${10 + Math.floor(next() * 200)}.${Math.floor(next() * 256)}.${Math.floor(next() * 256)}`;
}

function birth(next: Next): string {
  const [year, month, day] = [1940 + Math.floor(next() * 60), 1 + Math.floor(next() * 12), 1 + Math.floor(next() * 28)];
  const two = (value: number) => String(value).padStart(2, "0");
  return pick(next, [
    `${year}-${two(month)}-${two(day)}`,
    `${two(day)}.${two(month)}.${year}`,
    `${two(month)}/${two(day)}/${year}`,
  ]);
}

/** By kind: how a value is made, and the words it may need beside it. */
export const KINDS: Readonly<
  Record<string, { readonly make: (next: Next) => string; readonly beside: readonly string[] }>
> = {
  EMAIL: {
    make: email,
    beside: ["mail to ~ today", "user=~ logged in", "<~>", '{"contact":"~"}', "reply ~, then wait"],
  },
  CARD: { make: card, beside: ["paid with ~ yesterday", "card=~;", '{"pan":"~"}', "number ~."] },
  IBAN: { make: iban, beside: ["transfer to ~ today", "iban=~;", '{"account":"~"}'] },
  US_SSN: { make: ssn, beside: ["ssn ~ on file", "id=~;", '{"ssn":"~"}'] },
  PHONE: { make: phone, beside: ["call ~ today", "tel: ~;", '{"phone":"~"}', "reach me at ~"] },
  IP: { make: address, beside: ["client ~ connected", '{"remote":"~"}', "from ~ in 3 ms"] },
  DATE_OF_BIRTH: { make: birth, beside: ["born ~ in Rome", "dob=~;", '{"dateOfBirth":"~"}', "Date of birth: ~"] },
  SECRET: { make: (next) => pick(next, formatExamples).secret, beside: ["using ~ now", "x=~;", '{"v":"~"}'] },
};

const FRAMES = [
  "~",
  "2026-11-22T01:43:21Z INFO c.a.Service : ~",
  "+    ~",
  "  - ~",
  "// ~",
  "pod web-7d9f8b6c5-x2k4p: ~",
  "commit 4bf92f3577b34da6a3ce929d0e0e4736a1b2c3d4 ~",
];

export interface Planted {
  readonly kind: string;
  readonly value: string;
  readonly text: string;
  readonly start: number;
}

/** A value of this kind in a sentence of ours. */
export function plant(next: Next, kind: string): Planted {
  const { make, beside } = KINDS[kind] ?? { make: () => filler(8), beside: ["~"] };
  const value = make(next);
  const frame = pick(next, FRAMES).replace("~", () => pick(next, beside));
  return { kind, value, text: frame.replace("~", () => value), start: frame.indexOf("~") };
}
