import { sha256Base64 } from "../../core/digest.ts";

/**
 * A bounded map that drops entries that were not used recently. It keeps two maps; when the young one is full, the old one is
 * dropped. An exact LRU would move an entry at every hit; here a hit in the young map only reads.
 */
export class TokenCache<Entry> {
  readonly #halfMax: number;
  #young = new Map<string, Entry>();
  #old = new Map<string, Entry>();

  /** Holds at most `entriesMax` entries, at least half of them the latest. 0 stores nothing. */
  constructor(entriesMax: number) {
    this.#halfMax = Math.floor(entriesMax / 2);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: string): Entry | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old === undefined) return undefined;
    this.#old.delete(key);
    this.set(key, old);
    return old;
  }

  set(key: string, entry: Entry): void {
    if (this.#halfMax === 0) return;
    this.#old.delete(key);
    if (this.#young.size >= this.#halfMax && !this.#young.has(key)) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, entry);
  }

  delete(key: string): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  clear(): void {
    this.#young = new Map();
    this.#old = new Map();
  }
}

/** Orders of the curves (SEC 2): from a signature (r, s), anybody can make (r, n - s), which is also valid. */
const ORDERS: ReadonlyMap<string, bigint> = new Map([
  ["ES256", 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n],
  ["ES384", 0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973n],
  [
    "ES512",
    0x01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409n,
  ],
]);

/** Returns the SHA-256 of a whole token, base64. */
export function digestOf(token: string): string {
  return sha256Base64(token);
}

/** Returns the digest of each spelling of a verified token: revoking one spelling must revoke the other too. */
export function digestsOf(token: string, alg: string): readonly string[] {
  return [token, ...otherSpelling(token, alg)].map(digestOf);
}

function otherSpelling(token: string, alg: string): readonly string[] {
  const order = ORDERS.get(alg);
  if (order === undefined) return [];
  const at = token.lastIndexOf(".") + 1;
  const signature = Buffer.from(token.slice(at), "base64url").toString("hex");
  const half = signature.length / 2;
  const other = order - BigInt(`0x${signature.slice(half)}`);
  const twin = signature.slice(0, half) + other.toString(16).padStart(half, "0");
  return [token.slice(0, at) + Buffer.from(twin, "hex").toString("base64url")];
}
