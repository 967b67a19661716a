/** Longest text of a request or an answer, in bytes. An approval request holds a whole plan. */
export const HUB_BYTES_MAX = 8 * 1024 * 1024;
/** Nesting depth of arrays and objects. */
const DEPTH_MAX = 128;

/**
 * Most values of a text, with those within values: more than a view may have. Each takes far longer to read than its bytes, and a
 * hub reads nothing else meanwhile.
 */
const VALUES_MAX = 300_000;

const BYTES = "$bytes";
/** Keys that could be taken for the mark of bytes: one more `$` is written in front of them. */
const ESCAPED = /^\$+bytes$/;

/** A value that cannot be sent, or a text that no hub or member writes. Never quotes it. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/**
 * Writes plain data as JSON: what `JSON.stringify` keeps, and bytes as `{ "$bytes": <base64> }`. Members that are undefined are left
 * out.
 *
 * @throws {WireError} for what would be another value at the other end: a Map, a date, a number that is not finite
 */
export function encodeWire(value: unknown, bytesMax = HUB_BYTES_MAX): string {
  const text = JSON.stringify(plain(value, DEPTH_MAX));
  if (text.length > bytesMax || Buffer.byteLength(text) > bytesMax) throw new WireError(`over ${bytesMax} bytes`);
  return text;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads what `encodeWire` wrote. No member of the value is taken for its prototype.
 *
 * @throws {WireError} and nothing else
 */
export function decodeWire(text: Uint8Array | string, bytesMax = HUB_BYTES_MAX): unknown {
  if (text.length > bytesMax) throw new WireError(`over ${bytesMax} bytes`);
  assertReadable(text);
  let value: unknown;
  try {
    value = JSON.parse(typeof text === "string" ? text : utf8.decode(text));
  } catch {
    throw new WireError("not JSON in UTF-8");
  }
  return restored(value, DEPTH_MAX);
}

const [QUOTE, BACKSLASH, COMMA, BRACKET, BRACE] = [0x22, 0x5c, 0x2c, 0x5b, 0x7b];

/** Counts values before any is created: those of an array or object follow its start or a comma. */
function assertReadable(text: Uint8Array | string): void {
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  let values = 1;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) at = endOfText(bytes, at);
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) values += 1;
  }
  if (values > VALUES_MAX) throw new WireError(`more than ${VALUES_MAX} values`);
}

/** Returns the offset of the quote that ends the string. */
function endOfText(bytes: Uint8Array, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end !== -1; end = bytes.indexOf(QUOTE, end + 1)) {
    let escapes = 0;
    while (bytes[end - 1 - escapes] === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return bytes.length;
}

function plain(value: unknown, depth: number): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) throw new WireError("a number that is not finite");
  if (typeof value === "bigint" || typeof value === "function" || typeof value === "symbol") {
    throw new WireError(`a ${typeof value}`);
  }
  if (typeof value !== "object" || value === null) return value ?? null;
  if (depth === 0) throw new WireError(`deeper than ${DEPTH_MAX} levels`);
  if (value instanceof Uint8Array) return { [BYTES]: Buffer.from(value).toString("base64") };
  if (Array.isArray(value)) return value.map((item) => plain(item, depth - 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new WireError("an object that is not plain data");
  const members: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    assertKey(key);
    if (member !== undefined) members[ESCAPED.test(key) ? `$${key}` : key] = plain(member, depth - 1);
  }
  return members;
}

function restored(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth === 0) throw new WireError(`deeper than ${DEPTH_MAX} levels`);
  if (Array.isArray(value)) return value.map((item) => restored(item, depth - 1));
  const entries = Object.entries(value);
  const members: Record<string, unknown> = {};
  for (const [key, member] of entries) {
    assertKey(key);
    if (key === BYTES) {
      if (entries.length > 1) throw new WireError("bytes with other members");
      return bytesIn(member);
    }
    members[ESCAPED.test(key) ? key.slice(1) : key] = restored(member, depth - 1);
  }
  return members;
}

function assertKey(key: string): void {
  // An assignment would set the prototype.
  if (key === "__proto__") throw new WireError("the key __proto__");
}

function bytesIn(text: unknown): Uint8Array {
  const read = typeof text === "string" ? Buffer.from(text, "base64") : undefined;
  // Node reads other spellings, too.
  if (read === undefined || read.toString("base64") !== text) throw new WireError("bytes that are not base64");
  return new Uint8Array(read);
}
