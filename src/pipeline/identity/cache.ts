/**
 * A bounded map that forgets what was not asked for lately: two generations, and when the young one is full the old
 * one is dropped. An exact LRU would move an entry at every hit; here a hit on the young generation only reads.
 */
export class TokenCache<Entry> {
  readonly #generationMax: number;
  #young = new Map<string, Entry>();
  #old = new Map<string, Entry>();

  /** Holds at most `entriesMax` entries, at least half of them the latest. 0 keeps nothing. */
  constructor(entriesMax: number) {
    this.#generationMax = Math.floor(entriesMax / 2);
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
    if (this.#generationMax === 0) return;
    this.#old.delete(key);
    if (this.#young.size >= this.#generationMax && !this.#young.has(key)) {
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
