import { isTable } from "../core/json.ts";
import { joinPath } from "../core/output-policy/field-path.ts";
import { type CompiledPolicy, edgeOf } from "../core/output-policy/output-policy.ts";
import { type AnswerField, CONTAINED_WORDS_MAX } from "./answer-prints.ts";
import { ADDRESS, HOST, WORDS } from "./fingerprint-table.ts";
import type { Fingerprints } from "./fingerprints.ts";
import { FIELDS, indexOf, type KnownSources, REQUEST, type ReadSource, type Source } from "./source-index.ts";
import { variantsOf } from "./texts.ts";
import type { ValueWords } from "./value-words.ts";
import { TELLING_BITS } from "./word-bits.ts";

/** One answer in which a value of the arguments appeared before. */
export interface ValueOrigin extends Pick<Source, "tool" | "traceId" | "of" | "labels" | "at"> {
  /** Path of the field in that answer. */
  readonly field: string;
  /** Where the system stores the field's values: `shop: public.customers.email`. */
  readonly place?: string | undefined;
  readonly isTrusted: boolean;
  /** The whole value appeared there; otherwise a part of it. */
  readonly isWhole: boolean;
}

/** Returns the approver's answer about exactly this value; undefined when there is none for the calls of this caller. */
export type VouchedBy = (text: string) => ValueOrigin | undefined;

/** An argument and where its value appeared before. */
export interface ArgumentOrigins {
  /** Path of the argument. */
  readonly argument: string;
  readonly isDestination: boolean;
  /** A web or mail address in a longer text. */
  readonly isLink: boolean;
  /** A trusted field has exactly this value, or a trusted answer without untrusted text contains it. */
  readonly isVouched: boolean;
  /** As `isVouched`, by what the user asked for or by a tool whose answers hold no untrusted text: nobody outside chooses what they name. */
  readonly isKnown: boolean;
  /** The value, or a telling part of it, appeared in untrusted text and in no trusted field. */
  readonly isUntrusted: boolean;
  /** An approver has vouched for each of its values that appeared in untrusted text. */
  readonly isApproved: boolean;
  /** Its addresses that appeared in untrusted text, and for which no approver has vouched. */
  readonly questioned: readonly string[];
  /** The value, or a telling part of it, appeared in private data. */
  readonly isPrivate: boolean;
  /** What the user asked for contains this value. */
  readonly isRequested: boolean;
  /** Nothing is known of the value, although it is an address or tells enough to be recognized. */
  readonly isUnknown: boolean;
  /** The host of an address is from untrusted text, and the rest of the address contains private data that is not in that text. */
  readonly carriesPrivate: boolean;
  /** At most `ORIGINS_MAX`, the most telling ones first. */
  readonly origins: readonly ValueOrigin[];
  /** Number of further origins. */
  readonly more: number;
}

/** Most origins of one argument that are named. */
const ORIGINS_MAX = 5;
/** Longest address that an approver can vouch for (UTF-16 units), and most addresses of one argument that are offered. */
const QUESTIONED_CHARACTERS_MAX = 1_024;
const QUESTIONED_MAX = 8;
/** Most values among the arguments that are looked up, and most words of one. */
const VALUES_MAX = 512;
const VALUE_WORDS_MAX = 4_096;
/** Most fingerprints of all arguments that are looked up. */
const NEEDLES_MAX = 16_384;
const VOUCHED_WORDS_MAX = 32;
const DEPTH_MAX = 64;

/** Information that a value needs to be attributed as a whole, and a part of a destination or of another text, in bits. */
const WHOLE_BITS = 7;
const DESTINATION_PART_BITS = 12;
const TEXT_PART_BITS = 28;

type PolicyNode = CompiledPolicy["root"];

interface Value extends ValueWords {
  readonly argument: string;
  /** As it is in the argument. */
  readonly text: string;
  readonly isDestination: boolean;
  readonly isLink: boolean;
  /** Its first word is a scheme, such as `https`, which need not be vouched for. */
  readonly hasScheme: boolean;
  readonly words: number;
  /** Words of addresses and host names, which count only as a whole. */
  readonly inUnit: Uint8Array;
  /** An address with characters that fingerprints do not tell from others, such as `á` from `a`: another address may be alike. */
  readonly isAmbiguous: boolean;
}

/** A fingerprint of a value, to be found in the answers. */
interface Needle {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly from: number;
  /** `WHOLE`: the fingerprint of exactly this value; `CONTAINED`: that of this value in a longer text. */
  readonly to: number;
  /** The fingerprint of an address, a host name or a code, which tells enough on its own. */
  readonly isUnit: boolean;
}

/** The fingerprints of the arguments of one call. */
export interface Needles {
  readonly values: readonly Value[];
  readonly all: readonly Needle[];
  /** Whether some arguments were too many or too long to be looked up. */
  readonly isCut: boolean;
}

/** Represent all words: of a value that is nothing else, and of one in a longer text that somebody vouches for. */
const [WHOLE, CONTAINED] = [-1, -2];

/**
 * Web and mail addresses in a text: with a scheme, `//` or `www.` before them, or a host name with a path, a query or a fragment.
 * Browsers take backslashes for slashes, and any number of slashes after `https:`.
 */
const LINK =
  /(?:(?:https?:[\\/]*|(?:[a-z][a-z0-9+.-]{0,32}:)?[\\/]{2})(?=[\p{L}\p{N}_[])|www\.|(?<![\p{L}\p{N}_./-])(?:[\p{L}\p{N}_-]{1,63}\.){1,16}[\p{L}]{2,24}\.?(?::\d{1,5})?[/?#](?=[^\s<>"'()]))[^\s<>"'()]{1,2048}|(?:[\p{L}\p{N}_.+-]{1,64}|"[^"\r\n]{1,64}")@[\p{L}\p{N}_-]{1,64}(?:\.[\p{L}\p{N}_-]{1,64})+/giu;
const LINKS_MAX = 256;
const SCHEME = /^\s*(?:[a-z][a-z0-9]*:\/\/|mailto:)/i;

export function needlesOf(fingerprints: Fingerprints, input: unknown, destinations: PolicyNode): Needles {
  const values: Value[] = [];
  const all: Needle[] = [];
  let isCut = false;

  const add = (needle: Needle): void => {
    all.push(needle);
  };
  const addPiece = (of: Pick<Value, "argument" | "text" | "isDestination" | "isLink" | "hasScheme">): void => {
    const { count, low, high, from, to, sort } = fingerprints;
    const words = Math.min(fingerprints.words, VALUE_WORDS_MAX);
    if (values.length >= VALUES_MAX || all.length + count > NEEDLES_MAX) {
      isCut = true;
      return;
    }
    const facts = fingerprints.valueWords(words);
    const inUnit = new Uint8Array(words);
    const value = values.push({ ...of, words, ...facts, inUnit, isAmbiguous: isAmbiguous(of.text) }) - 1;
    const isAddress = of.isDestination || of.isLink;
    for (let at = 0; at < count; at += 1) {
      const [first, last] = [from[at] as number, to[at] as number];
      if (last >= words) continue;
      const isUnit = sort[at] !== WORDS;
      if (sort[at] === ADDRESS || sort[at] === HOST) inUnit.fill(1, first, last + 1);
      add({ value, low: low[at] as number, high: high[at] as number, from: first, to: last, isUnit });
      // Also where these words are in the host name of an address, unless they are that of another one.
      if (isUnit || !isAddress || facts.isAddressHost[last] === 1) continue;
      fingerprints.inAddress(low[at] as number, high[at] as number, (one, other) =>
        add({ value, low: one, high: other, from: first, to: last, isUnit: false }),
      );
    }
    // Of longer texts, nobody vouches for the whole.
    if (!isAddress && words > VOUCHED_WORDS_MAX) return;
    fingerprints.exact((low, high) => add({ value, low, high, from: 0, to: WHOLE, isUnit: false }));
    fingerprints.contained((low, high, from, to) => {
      if (to - from + 1 === words) add({ value, low, high, from: 0, to: CONTAINED, isUnit: false });
      else if (to > from && to < words) add({ value, low, high, from, to, isUnit: false });
    });
  };
  const visit = (value: unknown, node: PolicyNode, argument: string, depth: number): void => {
    if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") {
      const text = String(value);
      if (text.trim() === "") return;
      const isDestination = node.action === "allow";
      const hasScheme = SCHEME.test(text);
      fingerprints.readValue(text, () => addPiece({ argument, text, isDestination, isLink: false, hasScheme }));
      if (isDestination) return;
      const links = linksIn(text);
      if (links.length > LINKS_MAX) isCut = true;
      for (const link of links.slice(0, LINKS_MAX))
        fingerprints.readValue(link, () =>
          addPiece({ argument, text: link, isDestination, isLink: true, hasScheme: SCHEME.test(link) }),
        );
    } else if (depth >= DEPTH_MAX) {
      isCut = true;
    } else if (Array.isArray(value)) {
      for (const item of value as readonly unknown[])
        visit(item, node.element.node, joinPath(argument, "[]"), depth + 1);
    } else if (isTable(value)) {
      for (const [key, inner] of Object.entries(value)) {
        const { node: below, shown } = edgeOf(node, key);
        // Not the key itself where it is data: the audit names arguments, and input policies hide values.
        const path = joinPath(argument, shown);
        // A key that is data says where to, as its value does.
        if (shown === "*" && below.action === "allow") visit(key, below, path, depth + 1);
        visit(inner, below, path, depth + 1);
      }
    } else if (typeof value === "boolean" && node.action === "allow") {
      // Nothing to be found, but a destination: `isPublic` sends to everybody.
      fingerprints.readValue("", () => {});
      values.push({
        argument,
        text: "",
        isDestination: true,
        isLink: false,
        hasScheme: false,
        words: 0,
        inUnit: new Uint8Array(),
        isAmbiguous: false,
        ...fingerprints.valueWords(0),
      });
    }
  };
  visit(input, destinations, "", 0);
  return { values, all, isCut };
}

const NOT_ASCII = /[^\0-\x7f]/;
const ADDRESS_LIKE = /@|[^\s.]\.[^\s.]{2}/;
/** Accents, invisible characters and symbols, which are left out of words or end them. */
const LEFT_OUT = /[\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]|[^\p{L}\p{N}\0-\x7f]/u;

function isAmbiguous(text: string): boolean {
  return NOT_ASCII.test(text) && ADDRESS_LIKE.test(text) && LEFT_OUT.test(text.normalize("NFKD"));
}

/** Returns the different links of a text, and those that are there only when it is decoded. */
function linksIn(text: string): readonly string[] {
  const inVariants = (one: string): readonly (readonly string[])[] =>
    variantsOf(one).map((variant) => variant.match(LINK) ?? []);
  const [own = [], ...decoded] = inVariants(text);
  if (decoded.length === 0) return [...new Set(own)];
  const known = new Set(own.flatMap(inVariants).flat());
  return [...new Set([...own, ...decoded.flat().filter((link) => !known.has(link))])];
}

/** Words of one value that one field of one answer contains. */
interface Match {
  readonly source: Source;
  /** Sources with a lower number came first. */
  readonly order: number;
  readonly field: AnswerField;
  readonly covered: Uint8Array;
  /** Words that the field contains together with the word after them. */
  readonly linked: Uint8Array;
  /** Words of addresses, host names and codes that the field contains as a whole. Such a one may go on in the field. */
  readonly units: Uint8Array;
  isExact: boolean;
  /** The field is exactly the value. */
  isField: boolean;
}

interface Known {
  readonly approved: VouchedBy;
  /** Whether fingerprints of private data are missing: an argument without a known origin may contain such data. */
  readonly isPrivateLost: boolean;
}

const NOTHING_ELSE: Known = { approved: () => undefined, isPrivateLost: false };

/**
 * Returns where the values of the arguments appeared before. An argument of which nothing is known is left out, unless it may be from
 * private data that is not known any more.
 */
export function originsOf(
  needles: Needles,
  sources: KnownSources | readonly ReadSource[],
  known = NOTHING_ELSE,
): readonly ArgumentOrigins[] {
  const matches = matchesIn(Array.isArray(sources) ? indexOf(sources) : (sources as KnownSources), needles);
  const byArgument = new Map<string, ArgumentOrigins>();
  for (const [index, value] of needles.values.entries()) {
    const found = judged(value, matches[index] ?? [], known);
    if (found === undefined) continue;
    const name = `${value.isLink ? "link" : ""} ${value.argument}`;
    const before = byArgument.get(name);
    byArgument.set(name, before === undefined ? found : joined(before, found));
  }
  return [...byArgument.values()];
}

/** Returns what the sources have of each value, in their order. */
function matchesIn(sources: KnownSources, { values, all }: Needles): readonly (readonly Match[])[] {
  const matches = values.map((): Match[] => []);
  const found = values.map(() => new Map<number, Match>());
  for (const { value, low, high, from, to, isUnit } of all) {
    const of = values[value] as Value;
    sources.find(low, high, (source, number, order) => {
      const field = source.fields[number];
      if (field === undefined) return;
      const name = order * FIELDS + number;
      let match = found[value]?.get(name);
      if (match === undefined) {
        const [covered, linked, units] = [new Uint8Array(of.words), new Uint8Array(of.words), new Uint8Array(of.words)];
        match = { source, order, field, covered, linked, units, isExact: false, isField: false };
        found[value]?.set(name, match);
        matches[value]?.push(match);
      }
      if (to < 0) {
        match.isExact = true;
        match.isField ||= to === WHOLE;
        match.covered.fill(1);
        match.linked.fill(1);
      } else if (isUnit) match.units.fill(1, from, to + 1);
      // A word of a longer value counts alone only if it tells much.
      else if (from !== to || of.words === 1 || of.tellsAlone[from] === 1) {
        match.covered.fill(1, from, to + 1);
        match.linked.fill(1, from, to);
      }
    });
  }
  for (const one of matches) one.sort((a, b) => a.order - b.order);
  return matches;
}

function judged(
  value: Value,
  matches: readonly Match[],
  { approved, isPrivateLost }: Known,
): ArgumentOrigins | undefined {
  const { argument, text, isDestination, isLink, hasScheme, words, bits } = value;
  const total = bits.reduce((sum, one) => sum + one, 0);
  const tellsEnough = total >= WHOLE_BITS && bits.some((one) => one >= TELLING_BITS);
  const needed = isDestination || isLink ? DESTINATION_PART_BITS : TEXT_PART_BITS;
  const all = new Uint8Array(words).fill(1, hasScheme ? 1 : 0);
  const telling = matches.flatMap((match) => {
    if (match.field.isNamed === true) return [];
    const isFound = match.isExact || match.units.includes(1) || (vouches(match) && names(match, all, value));
    if (!isFound && !tellsEnough) return [];
    const found = wholeCodes(match, value);
    const part = longestRun(found, value);
    const isWhole = match.isExact || isCovered(found, value);
    return isFound || isWhole || part >= needed ? [{ ...match, found, isWhole, part: isWhole ? total : part }] : [];
  });
  const tells = tellsEnough || hasUnit(value);
  if (telling.length === 0 && !isDestination && !(isPrivateLost && tells)) return undefined;
  // What a caller has sent itself comes back from where it was sent to: then only the user's request vouches.
  const isStored = telling.some((match) => match.field.isStored === true && isTold(match));
  const isNamed = matches.some((match) => match.field.isNamed === true && (match.isExact || match.units.includes(1)));
  const vouching = telling.filter((match) => vouches(match) && (!isStored || match.source.tool === REQUEST));
  const told = telling.filter(
    (match) => isTold(match) && !vouching.some((one) => names(one, extended(match.found, value), value)),
  );
  const exfiltrates = carriesPrivate(value, told, telling);
  const isAddress = isDestination || isLink;
  const approval = told.length > 0 && isAddress ? approved(text) : undefined;
  const isQuestioned = told.length > 0 && isAddress && approval === undefined && !exfiltrates;
  const found = telling
    .sort((a, b) => b.part - a.part || Number(isTold(b)) - Number(isTold(a)) || b.source.at - a.source.at)
    .map((match) => originOf(match, match.isWhole));
  const origins = trustedEarly(approval === undefined ? found : [approval, ...found]);
  return {
    argument,
    isDestination,
    isLink,
    isUntrusted: told.length > 0,
    isApproved: told.length === 0 || approval !== undefined,
    questioned: isQuestioned && text.length <= QUESTIONED_CHARACTERS_MAX ? [text] : [],
    isUnknown: tells && (isDestination ? telling.length === 0 : telling.every(({ isWhole }) => !isWhole)),
    carriesPrivate: exfiltrates,
    isVouched: vouching.some((one) => names(one, all, value)),
    isKnown: vouching.some(
      (one) => names(one, all, value) && (one.source.tool === REQUEST || (!isNamed && isOwnParty(one, value))),
    ),
    isRequested: vouching.some((one) => one.source.tool === REQUEST && names(one, all, value)),
    isPrivate: telling.some(({ source }) => source.labels.includes("private")),
    origins: origins.slice(0, ORIGINS_MAX),
    more: Math.max(0, origins.length - ORIGINS_MAX),
  };
}

/**
 * Moves the first trusted field with the whole value to the second place: where not all origins are named, an approver still learns
 * that a trusted field has the value, too.
 */
function trustedEarly(origins: readonly ValueOrigin[]): readonly ValueOrigin[] {
  const at = origins.findIndex(({ isTrusted, isWhole }) => isTrusted && isWhole);
  const trusted = origins[at];
  if (at < 2 || trusted === undefined) return origins;
  return [...origins.slice(0, 1), trusted, ...origins.slice(1, at), ...origins.slice(at + 1)];
}

/** Returns whether a value has an address or a code, which tells enough whatever words it is made of. */
function hasUnit({ isHost, isAddressHost, codes }: Value): boolean {
  return codes.length > 0 || isHost.includes(1) || isAddressHost.includes(1);
}

type FoundWords = Match & { readonly found: Uint8Array };

/** Returns the words that a field contains: those of a code in groups only when it contains all of them. */
function wholeCodes({ covered, units }: Match, { codes }: Value): Uint8Array {
  const found = covered.slice();
  for (let word = 0; word < found.length; word += 1) if (units[word] === 1) found[word] = 1;
  for (const { from, to } of codes) {
    const isWhole = found.subarray(from, to + 1).every((one) => one === 1);
    if (!isWhole) found.set(units.subarray(from, to + 1), from);
  }
  return found;
}

/** Returns whether private data follows a host name that untrusted text wrote, and is not from that text. */
function carriesPrivate({ isHost, bits }: Value, told: readonly FoundWords[], telling: readonly FoundWords[]): boolean {
  const writers = told.filter(({ found }) => found.some((one, word) => one === 1 && isHost[word] === 1));
  if (writers.length === 0) return false;
  const isOwn = (word: number): boolean => isHost[word] === 1 || writers.some(({ found }) => found[word] === 1);
  return telling.some(
    ({ source, found }) =>
      source.labels.includes("private") &&
      found.some((one, word) => one === 1 && !isOwn(word) && (bits[word] as number) >= TELLING_BITS),
  );
}

/**
 * Returns whether the manifest vouches for the value. A trusted field next to untrusted text vouches for its whole value only: others
 * choose the name of a channel, but not which channels there are.
 */
function vouches({ source, field, isExact }: Match): boolean {
  return field.isTrusted && (isExact || !source.labels.includes("untrusted"));
}

function isTold(match: Match): boolean {
  return match.source.labels.includes("untrusted") && !vouches(match);
}

function originOf(match: Match, isWhole: boolean): ValueOrigin {
  const { tool, traceId, of, labels, at } = match.source;
  const { path: field, place } = match.field;
  const known = place !== undefined && { place };
  return { tool, traceId, of, labels, at, field, ...known, isTrusted: vouches(match), isWhole };
}

/**
 * Returns whether a field contains all of these words of a value, and those that are next to each other as they are in the value:
 * `jane.doe@example.org` does not match `john.doe@example.org`.
 */
function contains({ isExact, covered, linked }: Match, words: Uint8Array): boolean {
  return (
    isExact ||
    words.every((is, word) => is === 0 || (covered[word] === 1 && (words[word + 1] !== 1 || linked[word] === 1)))
  );
}

/**
 * Returns whether a field that vouches names these words of a value. Addresses and host names count as a whole: between two of them,
 * there is a third one. So do long values, because shorter ones are compared with what callers have stored.
 */
function names(match: Match, words: Uint8Array, { inUnit, isAmbiguous: isOther }: Value): boolean {
  const { source, isExact, units } = match;
  if (isOther || !contains(match, words)) return false;
  if (words.some((is, word) => is === 1 && inUnit[word] === 1 && units[word] === 0)) return false;
  return isExact || source.tool === REQUEST || words.length <= CONTAINED_WORDS_MAX || inUnit.includes(1);
}

/** Returns whether a tool whose answers hold no untrusted text has the value as a field, or its address in a longer text. */
function isOwnParty({ source, isField }: Match, { inUnit }: Value): boolean {
  return !source.labels.includes("untrusted") && (isField || inUnit.includes(1));
}

/** Returns covered words, and the frequent words next to them: `com` belongs to what was found of `john.doe@example.org`. */
function extended(covered: Uint8Array, { bits, hasScheme }: Value): Uint8Array {
  const all = covered.slice();
  const isFrequent = (word: number): boolean => (bits[word] as number) < TELLING_BITS;
  for (let word = 1; word < all.length; word += 1) if (all[word - 1] === 1 && isFrequent(word)) all[word] = 1;
  for (let word = all.length - 2; word >= 0; word -= 1) if (all[word + 1] === 1 && isFrequent(word)) all[word] = 1;
  if (hasScheme) all[0] = 0;
  return all;
}

/** Returns whether all telling words and all codes are covered; frequent words around them may be missing. */
function isCovered(covered: Uint8Array, { bits, codes }: Value): boolean {
  const isNeeded = (word: number): boolean =>
    (bits[word] as number) >= TELLING_BITS || codes.some(({ from, to }) => from <= word && word <= to);
  let needed = 0;
  return (
    covered.every((one, word) => {
      if (!isNeeded(word)) return true;
      needed += 1;
      return one === 1;
    }) && needed > 0
  );
}

/** Returns the information of the most telling words in a row that are covered, in bits. One of them alone may say nothing. */
function longestRun(covered: Uint8Array, { words, bits, tellsAlone }: Value): number {
  let longest = 0;
  let run = 0;
  let telling = 0;
  for (let word = 0; word < words; word += 1) {
    if (covered[word] !== 1) {
      run = 0;
      telling = 0;
      continue;
    }
    run += bits[word] as number;
    if (tellsAlone[word] === 1) telling += 2;
    else if ((bits[word] as number) >= TELLING_BITS) telling += 1;
    if (run > longest && (telling > 1 || words === 1)) longest = run;
  }
  return longest;
}

/** Joins the findings about several values of one argument: the elements of a list, or the pieces of a text. */
function joined(one: ArgumentOrigins, other: ArgumentOrigins): ArgumentOrigins {
  const known = new Set<string>();
  const all = trustedEarly(
    [...one.origins, ...other.origins].filter(({ traceId, field }) => {
      const isNew = !known.has(`${traceId} ${field}`);
      known.add(`${traceId} ${field}`);
      return isNew;
    }),
  );
  return {
    argument: one.argument,
    isDestination: one.isDestination,
    isLink: one.isLink,
    isVouched: one.isVouched && other.isVouched,
    isKnown: one.isKnown && other.isKnown,
    isRequested: one.isRequested && other.isRequested,
    isPrivate: one.isPrivate || other.isPrivate,
    isUntrusted: one.isUntrusted || other.isUntrusted,
    isApproved: one.isApproved && other.isApproved,
    questioned: [...new Set([...one.questioned, ...other.questioned])].slice(0, QUESTIONED_MAX),
    isUnknown: one.isUnknown || other.isUnknown,
    carriesPrivate: one.carriesPrivate || other.carriesPrivate,
    origins: all.slice(0, ORIGINS_MAX),
    more: one.more + other.more + Math.max(0, all.length - ORIGINS_MAX),
  };
}
