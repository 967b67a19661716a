import { z } from "zod";
import { isTable } from "../core/json.ts";
import { compilePolicy } from "../core/output-policy/output-policy.ts";
import { ADDRESS, CODE, HOST, PHONE, WORDS } from "./fingerprint-table.ts";
import type { Fingerprints } from "./fingerprints.ts";
import { type ArgumentOrigins, needlesOf, originsOf } from "./origins.ts";
import { type KnownSources, REQUEST, type Source, type TakeSource } from "./source-index.ts";
import { EARNS_PRIVATE, EARNS_UNTRUSTED, FlaggedPrints, NAMED, PRIVATE, UNTRUSTED } from "./stored-table.ts";
import { DIGIT } from "./units.ts";

/** Most words and characters of an argument that is looked up as one value. */
const VALUE_WORDS_MAX = 16;
const VALUE_CHARACTERS_MAX = 256;
/** Most values, addresses and codes of one call that are looked up. */
const LOOK_UPS_MAX = 4_096;
const DEPTH_MAX = 64;
/** Of this many recognizable runs of words next to each other, at least one is kept (winnowing). */
const WINDOW = 4;

const ONE_VALUE = compilePolicy({ value: "allow" }, z.object({ value: z.string() })).root;

export interface WrittenPrints {
  readonly prints: FlaggedPrints;
  /** Some of the arguments were not looked at. */
  readonly isCut: boolean;
}

/** What a caller has read, when it writes something. */
interface Known {
  readonly sources: KnownSources;
  /** Fingerprints of untrusted text are missing: what has no origin may be from there. */
  readonly isLost: boolean;
  /**
   * The rules spare destinations that trusted fields name, and the caller has read untrusted text: a value of unknown origin may be from
   * there in another form.
   */
  readonly spared?: "known" | "vouched" | undefined;
}

/**
 * Returns the fingerprints of those parts of a call's arguments that were in private or untrusted answers before: texts, by runs of
 * words; addresses and codes; and short arguments as a whole.
 */
export function writtenPrints(fingerprints: Fingerprints, input: unknown, known: Known): WrittenPrints {
  const prints = new FlaggedPrints();
  const texts: Text[] = [];
  let isCut = !collect(input, texts, 0);
  let lookUps = 0;
  const isWary = known.spared !== undefined;
  const originsOfValue = (value: string): ArgumentOrigins | undefined => {
    lookUps += 1;
    if (lookUps > LOOK_UPS_MAX) {
      isCut = true;
      return undefined;
    }
    return originsOf(needlesOf(fingerprints, { value }, ONE_VALUE), known.sources)[0];
  };
  for (const { text, isKey } of texts) {
    const units: Unit[] = [];
    let words = 0;
    let mayBeTold = known.isLost;
    fingerprints.readValue(text, () => {
      words = Math.max(words, fingerprints.words);
      const piece = new Piece(fingerprints, known);
      mayBeTold ||= piece.isTold;
      piece.runs(prints);
      units.push(...piece.units(isWary));
    });
    for (const { low, high, flags, text: written } of units) {
      const origins = originsOfValue(written);
      if (origins?.isRequested === true) continue;
      const own = origins?.isVouched === true ? flags & ~UNTRUSTED : flags;
      const kept = own | (origins === undefined ? 0 : flagsOf(origins, known));
      if (kept !== 0) prints.add(low, high, kept);
    }
    if (isKey || !(mayBeTold || isWary) || words === 0 || words > VALUE_WORDS_MAX || text.length > VALUE_CHARACTERS_MAX)
      continue;
    const origins = originsOfValue(text);
    const flags = origins === undefined ? 0 : flagsOf(origins, known);
    if (flags !== 0)
      fingerprints.readValue(text, () => fingerprints.exact((low, high) => prints.add(low, high, flags)));
  }
  return { prints, isCut };
}

/** Returns what is kept of a whole value. */
function flagsOf(origins: ArgumentOrigins, { isLost, spared }: Known): number {
  const { isRequested, isVouched, isKnown, isUnknown, origins: found } = origins;
  if (isRequested) return 0;
  if (isTold(origins, isLost)) return UNTRUSTED;
  if (spared === undefined || (found.length === 0 && !isUnknown)) return 0;
  const isOwn = found.some(({ isWhole, labels }) => isWhole && labels.length === 1 && labels[0] === "private");
  if (!isVouched && !isOwn) return UNTRUSTED;
  return spared === "known" && !isKnown ? NAMED : 0;
}

/** Returns whether a whole value is from untrusted text, and nobody vouches for it. */
function isTold(
  { isVouched, isRequested, isUntrusted, isUnknown, origins }: ArgumentOrigins,
  isLost: boolean,
): boolean {
  if (isVouched || isRequested) return false;
  if (isUnknown && isLost) return true;
  return (
    isUntrusted &&
    origins.some(({ isWhole, isTrusted, labels }) => isWhole && !isTrusted && labels.includes("untrusted"))
  );
}

interface Text {
  readonly text: string;
  readonly isKey: boolean;
}

/** Collects texts, numbers and keys. Returns whether these are all. */
function collect(value: unknown, texts: Text[], depth: number): boolean {
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") {
    texts.push({ text: String(value), isKey: false });
    return true;
  }
  if (typeof value !== "object" || value === null) return true;
  if (depth >= DEPTH_MAX) return false;
  if (Array.isArray(value)) return value.map((item) => collect(item, texts, depth + 1)).every(Boolean);
  if (!isTable(value)) return true;
  return Object.entries(value)
    .map(([text, item]) => {
      texts.push({ text, isKey: true });
      return collect(item, texts, depth + 1);
    })
    .every(Boolean);
}

/** An address or a code, with what is known of it. */
interface Unit {
  readonly low: number;
  readonly high: number;
  readonly flags: number;
  readonly text: string;
}

/** For one answer: whether it has each two words in a row, in any field and in one that is not trusted. */
interface FoundPairs {
  readonly labels: number;
  readonly isRequest: boolean;
  readonly any: Uint8Array;
  readonly told: Uint8Array;
}

function labelsOf({ labels }: Source): number {
  return (labels.includes("private") ? PRIVATE : 0) | (labels.includes("untrusted") ? UNTRUSTED : 0);
}

/** The text that was read last, compared with what the caller has read. */
class Piece {
  readonly #fingerprints: Fingerprints;
  readonly #isLost: boolean;
  /** Labels of the answers that have each fingerprint. */
  readonly #labels: Uint8Array;
  #found: readonly FoundPairs[] = [];
  /** Words that have a fingerprint together with the next one. */
  readonly #isPair: Uint8Array;
  readonly #isAddressHost: Uint8Array;
  readonly #tellsAlone: Uint8Array;

  constructor(fingerprints: Fingerprints, { sources, isLost }: Known) {
    this.#fingerprints = fingerprints;
    this.#isLost = isLost;
    const { words, count, from, to, sort } = fingerprints;
    const facts = fingerprints.valueWords(words);
    this.#isAddressHost = facts.isAddressHost;
    this.#tellsAlone = facts.tellsAlone;
    this.#labels = new Uint8Array(count);
    this.#isPair = new Uint8Array(words);
    for (let at = 0; at < count; at += 1)
      if (sort[at] === WORDS && to[at] === (from[at] as number) + 1) this.#isPair[from[at] as number] = 1;
    this.#compare(sources);
  }

  #compare(sources: KnownSources): void {
    const { count, low, high, from, to, sort, words } = this.#fingerprints;
    const found = new Map<Source, FoundPairs>();
    for (let at = 0; at < count; at += 1) {
      const word = from[at] as number;
      const isPair = sort[at] === WORDS && to[at] === word + 1;
      const take: TakeSource = (source, field) => {
        const own = labelsOf(source);
        const isRequest = source.tool === REQUEST;
        if (own === 0 && !isRequest) return;
        const isTrusted = source.fields[field]?.isTrusted === true;
        this.#labels[at] = (this.#labels[at] as number) | (isTrusted ? own & ~UNTRUSTED : own);
        if (!isPair) return;
        let pairs = found.get(source);
        if (pairs === undefined) {
          pairs = { labels: own, isRequest, any: new Uint8Array(words), told: new Uint8Array(words) };
          found.set(source, pairs);
        }
        pairs.any[word] = 1;
        if (!isTrusted) pairs.told[word] = 1;
      };
      sources.find(low[at] as number, high[at] as number, take);
      if (isPair && this.#isAddressHost[word + 1] === 1)
        this.#fingerprints.inAddress(low[at] as number, high[at] as number, (one, other) =>
          sources.find(one, other, take),
        );
    }
    this.#found = [...found.values()];
  }

  /** Whether anything of the text is from untrusted text. */
  get isTold(): boolean {
    return this.#labels.some((labels) => (labels & UNTRUSTED) !== 0);
  }

  /** Adds runs of words that one answer has. Of those next to each other, some are left out. */
  runs(prints: FlaggedPrints): void {
    let inRow: { readonly low: number; readonly high: number; readonly flags: number }[] = [];
    let last = -1;
    const end = (): void => {
      for (const { low, high, flags } of winnowed(inRow)) prints.add(low, high, flags);
      inRow = [];
    };
    this.#fingerprints.runs((low, high, from, to) => {
      const labels = this.#labelsOf(from, to);
      if (from !== last + 1 || labels === 0) end();
      last = from;
      if (labels === 0) return;
      const earns = ((labels & PRIVATE) === 0 ? 0 : EARNS_PRIVATE) | ((labels & UNTRUSTED) === 0 ? 0 : EARNS_UNTRUSTED);
      inRow.push({ low, high, flags: labels | earns });
    });
    end();
  }

  #labelsOf(from: number, to: number): number {
    const has = (pairs: Uint8Array): boolean => {
      for (let word = from; word < to; word += 1) if (this.#isPair[word] === 1 && pairs[word] === 0) return false;
      return true;
    };
    let labels = this.#isLost ? UNTRUSTED : 0;
    for (const { labels: own, isRequest, any, told } of this.#found) {
      if (isRequest && has(any)) return 0;
      if ((own & PRIVATE) !== 0 && has(any)) labels |= PRIVATE;
      if ((own & UNTRUSTED) !== 0 && has(told)) labels |= UNTRUSTED;
    }
    return labels;
  }

  /** Returns addresses, codes and numbers that were read before, or all. Only codes and numbers are private data on their own. */
  units(isAll: boolean): readonly Unit[] {
    const { count, low, high, from, to, sort } = this.#fingerprints;
    const units: Unit[] = [];
    for (let at = 0; at < count; at += 1) {
      const span = { from: from[at] as number, to: to[at] as number };
      const isCode = this.#isCode(sort[at] as number, span);
      const isAddress =
        sort[at] === ADDRESS || sort[at] === PHONE || (sort[at] === HOST && this.#isAddressHost[span.to] !== 1);
      if (!isCode && !isAddress) continue;
      const labels = (this.#labels[at] as number) | (this.#isLost ? UNTRUSTED : 0);
      if (labels === 0 && !isAll) continue;
      const flags = labels | (isCode && (labels & PRIVATE) !== 0 ? EARNS_PRIVATE : 0);
      units.push({ low: low[at] as number, high: high[at] as number, flags, text: this.#fingerprints.textOf(span) });
    }
    return units;
  }

  #isCode(sort: number, { from, to }: { readonly from: number; readonly to: number }): boolean {
    if (sort === CODE) return true;
    return (
      sort === WORDS &&
      from === to &&
      this.#tellsAlone[from] === 1 &&
      ((this.#fingerprints.kind[from] as number) & DIGIT) !== 0
    );
  }
}

/** Returns the run with the lowest hash of each window: whoever copies a few more words than a window has copies one of them. */
function winnowed<T extends { readonly low: number }>(runs: readonly T[]): ReadonlySet<T> {
  const kept = new Set<T>();
  for (let at = 0; at === 0 || at + WINDOW <= runs.length; at += 1) {
    const window = runs.slice(at, at + WINDOW);
    if (window.length > 0) kept.add(window.reduce((least, one) => (one.low < least.low ? one : least)));
  }
  return kept;
}
