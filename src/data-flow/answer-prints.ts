import { joinPath } from "../core/output-policy/field-path.ts";
import { type CompiledPolicy, edgeOf } from "../core/output-policy/output-policy.ts";
import type { Json } from "../core/types.ts";
import type { Fingerprints } from "./fingerprints.ts";
import { PIECE_CHARACTERS, piecesOf, variantsOf } from "./texts.ts";

/** Most fingerprints of one answer. An answer with more of them is known in part only. */
export const ANSWER_PRINTS_MAX = 131_072;
/** Bytes of one fingerprint in a row: two halves, and the number of its field. */
const PRINT_BYTES = 9;
const FIELDS_MAX = 255;
const FIELD_CHARACTERS_MAX = 120;
const DEPTH_MAX = 64;
/** Longest value of a trusted field that it vouches for as a whole (UTF-16 units). */
const VOUCHED_CHARACTERS_MAX = 1_024;
/** Longest value, in words, that a trusted answer vouches for in a longer text: so many words in a row are compared with stored values. */
export const CONTAINED_WORDS_MAX = 6;
/** Slots of the table that leaves out what was added just before, in the same field. */
const RECENT_SLOTS = 4_096;

type PolicyNode = CompiledPolicy["root"];

/** What a field of an approver's answer vouches for. Both are keyed hashes. */
export interface Vouched {
  readonly caller: string;
  readonly value: string;
}

/** A field of a tool's answers. */
export interface AnswerField {
  /** Path in the notation of output policies; keys that are data are `*`. */
  readonly path: string;
  /** Where the system stores the values of the field, if known. */
  readonly place?: string | undefined;
  /** Whether the manifest vouches for its values. */
  readonly isTrusted: boolean;
  /** A caller sent it before, when its origin was private or untrusted: no answer vouches for it. */
  readonly isStored?: true | undefined;
  /** A caller with untrusted text wrote it before, and neither the user nor an answer without such text had named it: it is not known. */
  readonly isNamed?: true | undefined;
  /** Set for an approver's answer: the value that it is about, and whose calls. */
  readonly vouched?: Vouched | undefined;
}

interface FieldNode extends AnswerField {
  readonly number: number;
  /** Whether the keys that lead here are data: then they are read like values. */
  readonly hasDataKeys: boolean;
  readonly policy: PolicyNode;
  readonly keys: Map<string, FieldNode>;
  element: FieldNode | undefined;
}

/** The fields that answers of one tool have had, each with its number. */
export class AnswerFields {
  #count = 0;
  readonly #rest: FieldNode;
  readonly top: FieldNode;
  /** Whether the answers hold untrusted text, also next to what is trusted. */
  readonly isMixed: boolean;

  constructor(trusted: PolicyNode, isMixed: boolean) {
    this.isMixed = isMixed;
    this.top = this.#add("", trusted);
    // Paths beyond the limit share a field, which is not trusted.
    this.#rest = {
      path: "…",
      isTrusted: false,
      number: FIELDS_MAX,
      hasDataKeys: true,
      policy: trusted,
      keys: new Map(),
      element: undefined,
    };
  }

  key(node: FieldNode, key: string): FieldNode {
    const known = node.keys.get(key);
    if (known !== undefined) return known;
    if (node === this.#rest) return node;
    const { shown, node: policy } = edgeOf(node.policy, key);
    if (shown === "*") {
      // Any number of keys may be data: they share one node, which is found by its policy.
      const other = [...node.keys.values()].find((one) => one.policy === policy && one.path.endsWith("*"));
      if (other !== undefined) return other;
    }
    const added = this.#below(node, shown, policy);
    node.keys.set(shown === "*" ? `* ${added.number}` : key, added);
    return added;
  }

  element(node: FieldNode): FieldNode {
    if (node === this.#rest) return node;
    node.element ??= this.#below(node, "[]", node.policy.element.node);
    return node.element;
  }

  #below(node: FieldNode, shown: string, policy: PolicyNode): FieldNode {
    if (this.#count >= FIELDS_MAX) return this.#rest;
    return this.#add(joinPath(node.path, shown), policy, shown === "*");
  }

  #add(path: string, policy: PolicyNode, hasDataKeys = false): FieldNode {
    const number = this.#count;
    this.#count += 1;
    const isTrusted = policy.action === "allow";
    return { path, isTrusted, number, hasDataKeys, policy, keys: new Map(), element: undefined };
  }
}

/** Fingerprints with the fields that have them, as one row keeps them. */
export interface FieldPrints {
  readonly fields: readonly AnswerField[];
  readonly prints: Uint8Array;
}

/** What was stored before, as answers are compared with it. */
export interface StoredSearch {
  /** Returns flags of `stored-table.ts`; 0: nothing has this fingerprint. */
  find(low: number, high: number): number;
}

/** The fingerprints of an answer, as one row keeps them. */
export interface AnswerPrints extends FieldPrints {
  /** Whether the answer has more fingerprints than are kept. */
  readonly isCut: boolean;
}

/** Collects the fingerprints of answers, one answer at a time. */
export class PrintCollector {
  readonly #fingerprints: Fingerprints;
  #low = new Int32Array(4_096);
  #high = new Int32Array(4_096);
  #field = new Uint8Array(4_096);
  #count = 0;
  #isCut = false;
  readonly #recent = new Int32Array(RECENT_SLOTS);
  /** Texts that wait to be read together, and their fields. */
  #texts: string[] = [];
  #fields: number[] = [];
  #waiting = 0;
  /** The fields of this answer, and the number of each by its number among all fields of the tool. */
  #named: AnswerField[] = [];
  readonly #numbers = new Int16Array(FIELDS_MAX + 1);
  #stored: StoredSearch | undefined;
  #found: StoredParts | undefined;

  constructor(fingerprints: Fingerprints) {
    this.#fingerprints = fingerprints;
  }

  /** `stored`: what the answer is compared with; left out: nothing. */
  read(
    result: Json,
    fields: AnswerFields,
    stored?: StoredSearch,
  ): AnswerPrints & { readonly stored: StoredParts | undefined } {
    this.#stored = stored;
    this.#found = undefined;
    this.#count = 0;
    this.#isCut = false;
    this.#recent.fill(-1);
    this.#numbers.fill(-1);
    this.#named = [];
    this.#visit(result, fields, fields.top, 0);
    this.#take();
    return { ...this.#packed(), stored: this.#found };
  }

  #visit(value: Json, fields: AnswerFields, node: FieldNode, depth: number): void {
    if (typeof value === "string") {
      if (value !== "") for (const variant of variantsOf(value)) this.#add(variant, this.#numberOf(node));
      if (node.isTrusted) this.#vouch(value, fields, this.#numberOf(node));
    } else if (typeof value === "number") {
      this.#add(String(value), this.#numberOf(node));
      if (node.isTrusted) this.#vouch(String(value), fields, this.#numberOf(node));
    } else if (typeof value !== "object" || value === null) {
      return;
    } else if (depth >= DEPTH_MAX) {
      this.#isCut = true;
    } else if (Array.isArray(value)) {
      const element = fields.element(node);
      for (const item of value as readonly Json[]) this.#visit(item, fields, element, depth + 1);
    } else {
      const table = value as { readonly [key: string]: Json };
      for (const key in table) {
        const field = fields.key(node, key);
        if (field.hasDataKeys) this.#visit(key, fields, field, depth + 1);
        this.#visit(table[key] as Json, fields, field, depth + 1);
      }
    }
  }

  #numberOf({ number, path, isTrusted }: FieldNode): number {
    const known = this.#numbers[number] as number;
    if (known !== -1) return known;
    const added = this.#named.push({ path: path.slice(0, FIELD_CHARACTERS_MAX), isTrusted }) - 1;
    this.#numbers[number] = added;
    return added;
  }

  #add(text: string, field: number): void {
    if (text.length > PIECE_CHARACTERS) {
      for (const piece of piecesOf(text)) this.#add(piece, field);
      return;
    }
    // One more character each, between the texts.
    if (this.#waiting + text.length + 1 > PIECE_CHARACTERS) this.#take();
    this.#texts.push(text);
    this.#fields.push(field);
    this.#waiting += text.length + 1;
  }

  /**
   * Adds what a trusted field vouches for: exactly its value and, where the answers hold no untrusted text, each word and each two in
   * a row.
   */
  #vouch(value: string, { isMixed }: AnswerFields, field: number): void {
    if (isMixed && value.length > VOUCHED_CHARACTERS_MAX) return;
    this.#take();
    const found = (low: number, high: number): void => {
      const flags = this.#stored?.find(low, high) ?? 0;
      if (flags !== 0) this.#foundStored({ low, high, field, flags, isStored: true });
    };
    const take = (low: number, high: number): void => {
      if (this.#count >= ANSWER_PRINTS_MAX) return;
      this.#reserve(1);
      this.#low[this.#count] = low;
      this.#high[this.#count] = high;
      this.#field[this.#count] = field;
      this.#count += 1;
    };
    const [own = ""] = variantsOf(value);
    for (const piece of piecesOf(own)) {
      this.#fingerprints.read([piece]);
      this.#fingerprints.exact(take);
      if (this.#stored !== undefined) {
        this.#fingerprints.exact(found);
        if (!isMixed) this.#fingerprints.exactRuns(CONTAINED_WORDS_MAX, found);
      }
      if (isMixed) continue;
      this.#fingerprints.contained(take);
    }
  }

  /** Reads the texts that wait. What was added just before, in the same field, is left out. */
  #take(): void {
    if (this.#texts.length === 0) return;
    this.#fingerprints.read(this.#texts);
    const { count, low, high, text } = this.#fingerprints;
    if (this.#stored !== undefined) this.#compare(this.#stored);
    if (this.#count + count > ANSWER_PRINTS_MAX) this.#isCut = true;
    else {
      this.#reserve(count);
      const [lows, highs, numbers, recent, fields] = [this.#low, this.#high, this.#field, this.#recent, this.#fields];
      let at = this.#count;
      for (let index = 0; index < count; index += 1) {
        const one = low[index] as number;
        const other = high[index] as number;
        const field = fields[text[index] as number] as number;
        const slot = one & (RECENT_SLOTS - 1);
        const before = recent[slot] as number;
        if (before !== -1 && highs[before] === other && lows[before] === one && numbers[before] === field) continue;
        recent[slot] = at;
        lows[at] = one;
        highs[at] = other;
        numbers[at] = field;
        at += 1;
      }
      this.#count = at;
    }
    this.#texts = [];
    this.#fields = [];
    this.#waiting = 0;
  }

  /** Compares what was read last with what was stored. */
  #compare(stored: StoredSearch): void {
    const { count, low, high, from, to, text, words } = this.#fingerprints;
    for (let at = 0; at < count; at += 1) {
      const flags = stored.find(low[at] as number, high[at] as number);
      if (flags === 0) continue;
      const field = this.#fields[text[at] as number] as number;
      this.#foundStored({ low: low[at] as number, high: high[at] as number, field, flags, isStored: true });
    }
    let flagsOf: Uint8Array | undefined;
    this.#fingerprints.runs((one, other, first, last) => {
      const flags = stored.find(one, other);
      if (flags === 0) return;
      flagsOf ??= new Uint8Array(words);
      for (let word = first; word <= last; word += 1) flagsOf[word] = (flagsOf[word] as number) | flags;
    });
    if (flagsOf === undefined) return;
    for (let at = 0; at < count; at += 1) {
      let flags = flagsOf[from[at] as number] as number;
      for (let word = (from[at] as number) + 1; word <= (to[at] as number); word += 1) flags &= flagsOf[word] as number;
      if (flags === 0) continue;
      const field = this.#fields[text[at] as number] as number;
      // Addresses and codes within the text were compared on their own: somebody may vouch for them.
      this.#foundStored({ low: low[at] as number, high: high[at] as number, field, flags, isStored: false });
    }
  }

  #foundStored(print: StoredPrint): void {
    this.#found ??= new StoredParts();
    this.#found.add(this.#named[print.field] as AnswerField, print);
  }

  #reserve(more: number): void {
    const wanted = this.#count + more;
    if (wanted <= this.#low.length) return;
    const size = Math.max(wanted, this.#low.length * 2);
    const grown = <T extends Int32Array | Uint8Array>(old: T, fresh: T): T => {
      fresh.set(old);
      return fresh;
    };
    this.#low = grown(this.#low, new Int32Array(size));
    this.#high = grown(this.#high, new Int32Array(size));
    this.#field = grown(this.#field, new Uint8Array(size));
  }

  #packed(): AnswerPrints {
    const count = this.#count;
    const { prints, low, high, field } = packedPrints(count);
    low.set(this.#low.subarray(0, count));
    high.set(this.#high.subarray(0, count));
    field.set(this.#field.subarray(0, count));
    return { fields: this.#named, prints, isCut: this.#isCut };
  }
}

interface StoredPrint {
  readonly low: number;
  readonly high: number;
  readonly field: number;
  readonly flags: number;
  readonly isStored: boolean;
}

/** The fingerprints of an answer that were stored before. */
export class StoredParts {
  readonly #prints: StoredPrint[] = [];
  readonly #fields = new Map<number, AnswerField>();

  add(field: AnswerField, print: StoredPrint): void {
    if (this.#prints.length >= ANSWER_PRINTS_MAX) return;
    this.#fields.set(print.field, field);
    this.#prints.push(print);
  }

  /** Returns those with one of the flags; undefined when there are none. `isNamed`: whole values only, whose fields say so. */
  withFlag(flag: number, isNamed = false): FieldPrints | undefined {
    const prints = this.#prints.filter(({ flags, isStored }) => (flags & flag) !== 0 && (isStored || !isNamed));
    if (prints.length === 0) return undefined;
    const fields: AnswerField[] = [];
    const numbers = new Map<string, number>();
    const numberOf = ({ field, isStored }: StoredPrint): number => {
      const name = `${field} ${isStored}`;
      const known = numbers.get(name);
      if (known !== undefined) return known;
      const path = this.#fields.get(field)?.path ?? "";
      const mark = isNamed ? { isNamed: true as const } : isStored && { isStored: true as const };
      const added = fields.push({ path, isTrusted: false, ...mark }) - 1;
      numbers.set(name, added);
      return added;
    };
    const packed = packedPrints(prints.length);
    for (const [at, print] of prints.entries()) {
      packed.low[at] = print.low;
      packed.high[at] = print.high;
      // The last field stands for all beyond the limit.
      packed.field[at] = Math.min(numberOf(print), FIELDS_MAX);
    }
    return { fields: fields.slice(0, FIELDS_MAX + 1), prints: packed.prints };
  }
}

function packedPrints(count: number) {
  const prints = new Uint8Array(count * PRINT_BYTES);
  return {
    prints,
    low: new Int32Array(prints.buffer, 0, count),
    high: new Int32Array(prints.buffer, count * 4, count),
    field: prints.subarray(count * 8),
  };
}

/** Fingerprints read from a row. */
export interface PrintColumns {
  readonly low: Int32Array;
  readonly high: Int32Array;
  readonly field: Uint8Array;
}

/** Returns the columns of `AnswerPrints.prints`; undefined when the bytes are not a whole number of fingerprints. */
export function columnsOf(stored: Uint8Array): PrintColumns | undefined {
  const count = stored.byteLength / PRINT_BYTES;
  if (!Number.isInteger(count)) return undefined;
  // A copy, because the bytes of a row need not begin at a multiple of four.
  const bytes = new Uint8Array(stored);
  return {
    low: new Int32Array(bytes.buffer, 0, count),
    high: new Int32Array(bytes.buffer, count * 4, count),
    field: new Uint8Array(bytes.buffer, count * 8, count),
  };
}
