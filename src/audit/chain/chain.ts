import { createHash, type Hash } from "node:crypto";
import { SHA256_BYTES, sha256, sha256Hex } from "../../core/digest.ts";
import { leafHash, type MerkleTree } from "./merkle-tree.ts";

export const STREAMS = ["calls", "journal"] as const;
export type StreamName = (typeof STREAMS)[number];

/**
 * Every line ends with `,"seq":N,"prev":"…","hash":"…"}`. `hash` is the hex SHA-256 of the line's bytes before
 * `,"hash"`, and `prev` is the `hash` of the previous line. A line can therefore be checked without parsing or
 * serializing JSON.
 */
const SEQ = ',"seq":';
const PREV = ',"prev":"';
const HASH = '","hash":"';
const END = '"}';
const HEX = 64;

/** Positions of the members, counted from the end of the line. */
const HASH_AT = HEX + END.length;
const HASH_LABEL_AT = HASH_AT + HASH.length;
const PREV_AT = HASH_LABEL_AT + HEX;
const PREV_LABEL_AT = PREV_AT + PREV.length;
/** The closing quote of `prev` is part of the hashed bytes. */
const HASHED_TO = HASH_LABEL_AT - 1;
const SEQ_DIGITS_MAX = 16;
const INTENT_SEQ = ',"intentSeq":';

/** Maximum bytes that the chain adds to a line: three members. */
export const CHAIN_BYTES_MAX = SEQ.length + SEQ_DIGITS_MAX + PREV_LABEL_AT;

const LOG_ID_CHARACTERS = 32;
const ZERO = 0x30;
const NINE = 0x39;
const LINE_END = 0x0a;

/**
 * Returns the hash that yields `prev` of a stream's first line, once the bytes of all lines written before the chain
 * existed have been added.
 */
export function genesisOf(stream: StreamName): Hash {
  return createHash("sha256").update(`stc-audit/1\n${stream}\n`);
}

/** Returns the permanent id of a log, derived from the hash of its first line. */
export function logIdOf(firstHash: string): string {
  return firstHash.slice(0, LOG_ID_CHARACTERS);
}

export function chainBytes(seq: number): number {
  let digits = 1;
  for (let rest = seq; rest >= 10; rest /= 10) digits += 1;
  return SEQ.length + digits + PREV_LABEL_AT - 1;
}

export interface ChainLink {
  readonly seq: number;
  readonly prev: string;
  readonly hash: string;
}

/**
 * Returns the link at the end of the line `bytes[from, to)`; `undefined` when it has none. Does not check `hash`;
 * `ownHash` does.
 */
export function readLink(bytes: Buffer, from: number, to: number): ChainLink | undefined {
  if (
    to - from <= PREV_LABEL_AT ||
    bytes.toString("latin1", to - END.length, to) !== END ||
    bytes.toString("latin1", to - HASH_LABEL_AT, to - HASH_AT) !== HASH ||
    bytes.toString("latin1", to - PREV_LABEL_AT, to - PREV_AT) !== PREV
  ) {
    return undefined;
  }
  const seq = numberBefore(bytes, { from, to: to - PREV_LABEL_AT, label: SEQ });
  if (seq === undefined) return undefined;
  const prev = bytes.toString("latin1", to - PREV_AT, to - HASH_LABEL_AT);
  return { seq, prev, hash: bytes.toString("latin1", to - HASH_AT, to - END.length) };
}

/**
 * Returns the `hash` of the line `bytes[from, to)` when it is line `seq`, its predecessor's hash is `prev` and its own
 * hash is correct; otherwise `undefined`.
 */
export function followingHash(
  bytes: Buffer,
  { from, to, seq, prev }: { readonly from: number; readonly to: number; readonly seq: number; readonly prev: string },
): string | undefined {
  const link = `${SEQ}${seq}${PREV}${prev}${HASH}`;
  const linkAt = to - HASH_AT - link.length;
  if (linkAt <= from || bytes.toString("latin1", linkAt, to - HASH_AT) !== link) return undefined;
  const own = ownHash(bytes, from, to);
  return bytes.toString("latin1", to - HASH_AT, to) === own + END ? own : undefined;
}

export function ownHash(bytes: Buffer, from: number, to: number): string {
  return sha256Hex(bytes.subarray(from, to - HASHED_TO));
}

/** Returns the `intentSeq` of a call's line, which is the member before the link. */
export function readIntentSeq(bytes: Buffer, from: number, to: number): number | undefined {
  let end = to - PREV_LABEL_AT;
  while (end > from && isDigit(bytes[end - 1])) end -= 1;
  return numberBefore(bytes, { from, to: end - SEQ.length, label: INTENT_SEQ });
}

interface Member {
  readonly from: number;
  readonly to: number;
  readonly label: string;
}

function numberBefore(bytes: Buffer, { from, to, label }: Member): number | undefined {
  let at = to;
  while (at > from && to - at < SEQ_DIGITS_MAX && isDigit(bytes[at - 1])) at -= 1;
  const isNumber = at < to && (bytes[at] !== ZERO || to - at === 1);
  if (!isNumber || at - label.length <= from || bytes.toString("latin1", at - label.length, at) !== label) {
    return undefined;
  }
  const value = Number(bytes.toString("latin1", at, to));
  return Number.isSafeInteger(value) ? value : undefined;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

export interface ChainHead {
  /** `seq` of the next line, and the number of lines so far. */
  readonly seq: number;
  readonly prev: string;
  /** Merkle tree over the lines' exact bytes. */
  readonly tree: MerkleTree;
  /** `undefined` before the first line. */
  readonly logId: string | undefined;
}

const HEX_DIGITS = Buffer.from("0123456789abcdef");

/** Seals one line after the other. Creates no strings: a string per hash would cost more than writing its digits. */
export class LineChain {
  #seq = 0;
  /** Hash of the previous line, in hex digits. */
  readonly #prev = Buffer.alloc(HEX);
  #tree: MerkleTree;
  #logId: string | undefined;
  readonly #digest = Buffer.alloc(SHA256_BYTES);

  constructor(head: ChainHead) {
    this.#tree = head.tree;
    this.rewind(head);
  }

  /** Returns a copy, which later lines do not change. */
  head(): ChainHead {
    const prev = this.#prev.toString("latin1");
    return { seq: this.#seq, prev, tree: this.#tree.copy(), logId: this.#logId };
  }

  /** Returns to an earlier head because the lines after it were not written. */
  rewind({ seq, prev, tree, logId }: ChainHead): void {
    this.#seq = seq;
    this.#prev.write(prev, "latin1");
    this.#tree = tree.copy();
    this.#logId = logId;
  }

  /**
   * Writes `body`, the line as JSON, with its link and line end into `bytes` at `from`. The byte before `from` must be
   * free. Returns the position of the next line. `bytes` must have room for `Buffer.byteLength(body) + chainBytes(seq)
   * + 1` bytes.
   */
  seal(body: string, bytes: Buffer, from: number): number {
    let to = from + bytes.write(body, from, "utf8") - 1;
    to += bytes.write(`${SEQ}${this.#seq}${PREV}`, to, "latin1");
    to += this.#prev.copy(bytes, to);
    const quoteAt = to;
    to += bytes.write(HASH, to, "latin1");
    writeHex(sha256(bytes.subarray(from, quoteAt + 1), this.#digest), this.#prev);
    to += this.#prev.copy(bytes, to);
    to += bytes.write(END, to, "latin1");
    this.#tree.append(leafHash(bytes, from, to, this.#digest));
    bytes[to] = LINE_END;
    this.#seq += 1;
    this.#logId ??= logIdOf(this.#prev.toString("latin1"));
    return to + 1;
  }
}

function writeHex(digest: Buffer, into: Buffer): void {
  for (let index = 0; index < SHA256_BYTES; index += 1) {
    const byte = digest[index] ?? 0;
    into[2 * index] = HEX_DIGITS[byte >> 4] ?? 0;
    into[2 * index + 1] = HEX_DIGITS[byte & 0xf] ?? 0;
  }
}
