/** Longest name, and number of names, that are kept. */
const LENGTH_MAX = 64;
const NAMES_MAX = 128;

interface KnownName {
  readonly bytes: Uint8Array;
  readonly name: string;
  readonly lowerCase: string;
}

/**
 * Names of headers that were read before, by length, first and last byte. The same few names come with every message: a name that
 * is known is neither copied nor hashed again.
 */
export class HeaderNames {
  readonly #known = new Map<number, KnownName[]>();
  readonly #lowerCases = new Map<string, string>();
  #count = 0;

  /** Returns the name at the position, spelled as sent. */
  read(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    if (length === 0 || length > LENGTH_MAX) return latin1(bytes, start, end);
    const key = (length << 16) | ((bytes[start] ?? 0) << 8) | (bytes[end - 1] ?? 0);
    const candidates = this.#known.get(key);
    const found = candidates?.find((candidate) => isAt(candidate.bytes, bytes, start));
    if (found !== undefined) return found.name;
    const name = latin1(bytes, start, end);
    if (this.#count >= NAMES_MAX) return name;
    this.#count += 1;
    const added = { bytes: Uint8Array.prototype.slice.call(bytes, start, end), name, lowerCase: name.toLowerCase() };
    if (candidates === undefined) this.#known.set(key, [added]);
    else candidates.push(added);
    this.#lowerCases.set(name, added.lowerCase);
    return name;
  }

  readonly lowerCaseOf = (name: string): string => this.#lowerCases.get(name) ?? name.toLowerCase();
}

function isAt(name: Uint8Array, bytes: Buffer, start: number): boolean {
  for (let at = 0; at < name.length; at += 1) if (name[at] !== bytes[start + at]) return false;
  return true;
}

export function latin1(bytes: Buffer, start: number, end: number): string {
  return start === end ? "" : bytes.toString("latin1", start, end);
}
