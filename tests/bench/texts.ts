import { FREQUENT_WORDS } from "../../src/data-flow/frequent-words.ts";

/** Texts that data flow reads, the same in every run. */

let state = 1;
/** Returns 32 bits. */
export function next(): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
  return state;
}

const FREQUENT = [...FREQUENT_WORDS];

function digits(count: number): string {
  return Array.from({ length: count }, () => (next() >>> 8) % 10).join("");
}

function rareWord(): string {
  return (next() >>> 8).toString(26).replaceAll(/\d/g, (digit) => "qrstuvwxyz"[Number(digit)] ?? "");
}

/** Half of the words are frequent, the others rare. */
function word(): string {
  const one = next() >>> 8;
  return one % 2 === 0 ? (FREQUENT[(one >>> 1) % FREQUENT.length] ?? "") : rareWord();
}

const hex = (count: number): string => Array.from({ length: count }, () => ((next() >>> 8) % 16).toString(16)).join("");
const letters = (count: number): string => rareWord().padEnd(count, "x").slice(0, count).toUpperCase();

/** Order numbers, numbers in groups, UUIDs, telephone numbers and amounts. */
const CODES: readonly (() => string)[] = [
  () => `${letters(4)}-${digits(4)}-${letters(2)}${digits(2)}`,
  () => `${digits(4)} ${digits(4)} ${digits(4)} ${digits(4)}`,
  () => [8, 4, 4, 4, 12].map(hex).join("-"),
  () => `+49 ${digits(3)} ${digits(7)}`,
  () => `${digits(2)},${digits(3)}.${digits(2)}`,
  () => `${letters(3)}${digits(9)}`,
];

const PIECES = {
  words: () => `${word()} `,
  /** Sentences, with an amount and a date now and then. */
  prose: () => {
    const sentence = Array.from({ length: 12 }, word).join(" ");
    const amount = next() % 4 === 0 ? ` ${digits(2)},500 EUR until 1${digits(1)} March 2026` : "";
    return `${sentence}${amount}. `;
  },
  addresses: () => `${rareWord()}.${rareWord()}@${rareWord()}.example, `,
  codes: () => `${CODES[(next() >>> 8) % CODES.length]?.()}; `,
} as const;

export function textOf(kind: keyof typeof PIECES, characters: number): string {
  let text = "";
  while (text.length < characters) text += PIECES[kind]();
  return text.slice(0, characters);
}
