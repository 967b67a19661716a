import { AmbiguousValue } from "./ambiguous-value.ts";
import type { Json } from "./types.ts";

export interface StrictJsonLimits {
  /** Nesting depth of arrays and objects; the outermost counts as 1. At most `DEPTH_CEILING`. */
  readonly depthMax: number;
  readonly keysMax: number;
  readonly elementsMax: number;
}

/** Limits for a text whose size was bounded before. */
export const BOUNDED_TEXT_LIMITS: StrictJsonLimits = Object.freeze({
  depthMax: 128,
  keysMax: 1_000_000,
  elementsMax: 1_000_000,
});

/** The parser recurses once per level; deeper input could exhaust the stack. */
const DEPTH_CEILING = 512;
const PATH_CHARACTERS_MAX = 120;

/** Where and how reading failed, with the members of `StrictJsonError`. */
type Where = Pick<StrictJsonError, "position" | "path" | "isSyntax">;

/** Error for a body that is not acceptable JSON. Names the position and the problem, never a value. */
export class StrictJsonError extends Error {
  override readonly name = "StrictJsonError";
  readonly reason: string;
  /** True for a text that is not JSON, false for JSON that is refused. */
  readonly isSyntax: boolean;
  /** UTF-16 offset in the body; undefined when the bytes are not valid text. */
  readonly position: number | undefined;
  /** Key path of the innermost value that was being read, `""` at the top; escaped to printable ASCII. */
  readonly path: string;

  constructor(reason: string, { position, path = "", isSyntax = false }: Partial<Where> = {}) {
    const where = position === undefined ? "" : ` at position ${position}`;
    super(`the body is not acceptable JSON: ${reason}${where}${path === "" ? "" : ` (in ${path})`}`);
    this.reason = reason;
    this.isSyntax = isSyntax;
    this.position = position;
    this.path = path;
  }
}

/** Returns why a text could not be read, and where, for the person who wrote it. @throws the error when it is another one */
export function whyUnusable(error: unknown): string {
  if (!(error instanceof StrictJsonError)) throw error;
  return `${error.reason}${error.path === "" ? "" : ` (in ${error.path})`}`;
}

// ignoreBOM keeps a byte order mark in the text, so that it is detected and refused; otherwise it would be dropped silently.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Parses one JSON text. Accepts what JSON.parse accepts and returns equal values, but refuses input that two parsers may read
 * differently or that touches a prototype: duplicate keys, a key `__proto__`, a `constructor` that contains a `prototype`,
 * numbers that are not finite or whose integer value is beyond ±(2^53−1) in any spelling, lone surrogates, a byte order mark,
 * invalid UTF-8.
 *
 * @throws {StrictJsonError} and nothing else
 */
export function parseStrictJson(source: Uint8Array | string, limits: StrictJsonLimits): Json {
  return new Reader(decodedText(source), limits).document();
}

/**
 * Parses a document that describes an API, as `parseStrictJson` does, but keeps lone surrogates and rounds numbers: bounds of 64
 * bits are common in schemas, and nothing is sent of them.
 *
 * @throws {StrictJsonError} and nothing else
 */
export function parseDocumentJson(source: Uint8Array | string, limits: StrictJsonLimits): Json {
  return new Reader(decodedText(source), limits, "document").document();
}

/**
 * Parses the JSON of a target's answer. What `parseStrictJson` refuses does not make the whole answer unreadable: a number that
 * JavaScript cannot keep, a duplicate key and a `constructor` that contains a `prototype` become an `AmbiguousValue` in their
 * position, which `pipeline/answer-json.ts` drops or refuses. A key `__proto__` is an own key, and lone surrogates stay: neither
 * leaves the pipeline.
 *
 * @throws {StrictJsonError} and nothing else
 */
export function parseAnswerJson(source: Uint8Array | string, limits: StrictJsonLimits): unknown {
  const text = decodedText(source);
  return faithful(text, limits)?.value ?? new Reader(text, limits, "answer").document();
}

/** Numbers that JavaScript may round although it writes them as they were, and keys that are looked at more closely. */
const NEEDS_READER = /(?<![.\d])\d{16}|\de\+|"constructor"/;

/**
 * Returns the value of a text that loses nothing in the engine's own parser, which takes a tenth of the time: written again, it is
 * the same text. Undefined for all other texts: those with spaces, for example, or with duplicate keys.
 */
function faithful(text: string, { depthMax }: StrictJsonLimits): { readonly value: unknown } | undefined {
  if (NEEDS_READER.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    // The engine takes seconds to write a value of many thousand levels.
    if (isDeeper(value, depthMax)) return undefined;
    return JSON.stringify(value) === text.trimEnd() ? { value } : undefined;
  } catch {
    return undefined;
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels <= 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

function decodedText(source: Uint8Array | string): string {
  if (source.length === 0) throw new StrictJsonError("it is empty");
  if (typeof source === "string") {
    if (!source.isWellFormed()) throw new StrictJsonError("it contains a lone surrogate");
    return source;
  }
  try {
    return utf8.decode(source);
  } catch {
    throw new StrictJsonError("it is not valid UTF-8");
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const BYTE_ORDER_MARK = 0xfeff;
const FIRST_PRINTABLE = 0x20;

type Source = "input" | "document" | "answer";

class Reader {
  readonly #text: string;
  readonly #depthMax: number;
  readonly #source: Source;
  readonly #isStrict: boolean;
  readonly #path: (string | number)[] = [];
  #at = 0;
  #depth = 0;
  #keysLeft: number;
  #elementsLeft: number;

  constructor(text: string, limits: StrictJsonLimits, source: Source = "input") {
    this.#text = text;
    this.#source = source;
    this.#isStrict = source !== "answer";
    this.#depthMax = Math.min(limits.depthMax, DEPTH_CEILING);
    this.#keysLeft = limits.keysMax;
    this.#elementsLeft = limits.elementsMax;
  }

  document(): Json {
    if (this.#text.charCodeAt(0) === BYTE_ORDER_MARK) throw this.#error("it begins with a byte order mark");
    const value = this.#value(this.#next());
    if (!Number.isNaN(this.#next())) throw this.#syntaxError("unexpected text after the value");
    return value;
  }

  #next(): number {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return code;
      this.#at += 1;
    }
  }

  #value(first: number): Json {
    if (first === QUOTE) return this.#string();
    if (first === OPEN_BRACE) return this.#object();
    if (first === OPEN_BRACKET) return this.#array();
    if (first === MINUS || isDigit(first)) return this.#number();
    if (this.#text.startsWith("true", this.#at)) return this.#literal(4, true);
    if (this.#text.startsWith("false", this.#at)) return this.#literal(5, false);
    if (this.#text.startsWith("null", this.#at)) return this.#literal(4, null);
    throw this.#unexpected();
  }

  #literal(length: number, value: Json): Json {
    this.#at += length;
    return value;
  }

  #enter(): void {
    if (this.#depth >= this.#depthMax) throw this.#error(`deeper than ${this.#depthMax} levels`);
    this.#depth += 1;
    this.#at += 1;
  }

  #leave<Value extends Json>(value: Value): Value {
    this.#depth -= 1;
    this.#path.length = this.#depth;
    this.#at += 1;
    return value;
  }

  #array(): Json {
    const items: Json[] = [];
    this.#enter();
    let code = this.#next();
    if (code === CLOSE_BRACKET) return this.#leave(items);
    for (;;) {
      this.#elementsLeft -= 1;
      if (this.#elementsLeft < 0) throw this.#error("too many array elements");
      this.#path[this.#depth - 1] = items.length;
      items.push(this.#value(code));
      code = this.#next();
      if (code === CLOSE_BRACKET) return this.#leave(items);
      if (code !== COMMA) throw this.#unexpected();
      this.#at += 1;
      code = this.#next();
    }
  }

  #object(): Json {
    const members: Record<string, Json> = {};
    this.#enter();
    let code = this.#next();
    if (code === CLOSE_BRACE) return this.#leave(members);
    for (;;) {
      const key = this.#key(code, members);
      this.#at += 1;
      this.#set(members, key, this.#value(this.#next()));
      code = this.#next();
      if (code === CLOSE_BRACE) return this.#leave(members);
      if (code !== COMMA) throw this.#unexpected();
      this.#at += 1;
      code = this.#next();
    }
  }

  #set(members: Record<string, Json>, key: string, value: Json): void {
    if (key === "constructor" && holdsPrototype(value)) {
      members[key] = this.#ambiguous("a constructor with a prototype", { reading: value });
    } else if (!this.#isStrict && key === "__proto__") {
      Object.defineProperty(members, key, { value, writable: true, enumerable: true, configurable: true });
    } else if (!this.#isStrict && Object.hasOwn(members, key)) {
      members[key] = this.#ambiguous("duplicate key", { reading: value });
    } else {
      members[key] = value;
    }
  }

  /** Reads a key and leaves the cursor at its colon. Refuses `__proto__` before any assignment. */
  #key(first: number, members: Record<string, Json>): string {
    this.#path.length = this.#depth - 1;
    if (first !== QUOTE) throw this.#unexpected();
    this.#keysLeft -= 1;
    if (this.#keysLeft < 0) throw this.#error("too many keys");
    const start = this.#at;
    const key = this.#string();
    this.#path[this.#depth - 1] = key;
    if (this.#isStrict && key === "__proto__") throw this.#error("the key __proto__", start);
    if (this.#isStrict && Object.hasOwn(members, key)) throw this.#error("duplicate key", start);
    if (this.#next() !== COLON) throw this.#unexpected();
    return key;
  }

  #string(): string {
    const start = this.#at;
    let escaped = false;
    let at = start + 1;
    for (;;) {
      const code = this.#text.charCodeAt(at);
      if (code === QUOTE) break;
      if (code === BACKSLASH) {
        escaped = true;
        at += 1;
      } else if (!(code >= FIRST_PRINTABLE)) {
        this.#at = Math.min(at, this.#text.length);
        throw this.#syntaxError(Number.isNaN(code) ? "unexpected end" : "a raw control character in a string");
      }
      at += 1;
    }
    this.#at = at + 1;
    return escaped ? this.#unescape(start) : this.#text.slice(start + 1, at);
  }

  #unescape(start: number): string {
    let value: unknown;
    try {
      value = JSON.parse(this.#text.slice(start, this.#at));
    } catch {
      throw this.#syntaxError("a wrong escape in a string", start);
    }
    // Raw text is well-formed because it is decoded UTF-8; only an escape can introduce a lone surrogate.
    if (typeof value !== "string" || (this.#source === "input" && !value.isWellFormed()))
      throw this.#error("a lone surrogate", start);
    return value;
  }

  #number(): Json {
    const start = this.#at;
    if (this.#text.charCodeAt(start) === MINUS) this.#at += 1;
    if (this.#text.charCodeAt(this.#at) === ZERO) this.#at += 1;
    else this.#digits();
    if (this.#text.charCodeAt(this.#at) === DOT) {
      this.#at += 1;
      this.#digits();
    }
    if (isExponentMark(this.#text.charCodeAt(this.#at))) {
      this.#at += 1;
      if (isSign(this.#text.charCodeAt(this.#at))) this.#at += 1;
      this.#digits();
    }
    const digits = this.#text.slice(start, this.#at);
    const value = Number(digits);
    if (this.#source === "document") return value;
    const facts = { reading: value, digits, position: start };
    if (!Number.isFinite(value)) return this.#ambiguous("a number beyond the range of a double", facts);
    // Checks the value, not the spelling: 9007199254740993.0 and 9.007199254740993e15 lose their last digit, too.
    const isKept = !Number.isInteger(value) || Number.isSafeInteger(value);
    return isKept ? value : this.#ambiguous("an integer beyond 2^53-1", facts);
  }

  /** @throws {StrictJsonError} for JSON that is not the answer of a target */
  #ambiguous(
    problem: string,
    { position, ...facts }: { readonly reading: Json; readonly digits?: string; readonly position?: number },
  ): Json {
    if (this.#isStrict) throw this.#error(problem, position);
    // Only `parseAnswerJson` returns such a value, and says so in its type.
    return new AmbiguousValue(problem, facts) as unknown as Json;
  }

  #digits(): void {
    const start = this.#at;
    while (isDigit(this.#text.charCodeAt(this.#at))) this.#at += 1;
    if (this.#at === start) throw this.#unexpected();
  }

  #unexpected(): StrictJsonError {
    return this.#syntaxError(this.#at >= this.#text.length ? "unexpected end" : "unexpected character");
  }

  #syntaxError(reason: string, position = this.#at): StrictJsonError {
    return new StrictJsonError(reason, { position, path: renderPath(this.#path), isSyntax: true });
  }

  #error(reason: string, position = this.#at): StrictJsonError {
    return new StrictJsonError(reason, { position, path: renderPath(this.#path) });
  }
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function isExponentMark(code: number): boolean {
  return code === 0x65 || code === 0x45;
}

function isSign(code: number): boolean {
  return code === 0x2b || code === MINUS;
}

function holdsPrototype(value: Json): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, "prototype");
}

/** Renders `args.items[3]["odd key"]`, escaped and truncated, because the keys are the sender's text. */
function renderPath(path: readonly (string | number)[]): string {
  let text = "";
  for (const step of path) {
    if (text.length > PATH_CHARACTERS_MAX) break;
    if (typeof step === "number") text += `[${step}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(step)) text += text === "" ? step : `.${step}`;
    else text += `[${toAscii(JSON.stringify(step.slice(0, PATH_CHARACTERS_MAX)))}]`;
  }
  return text.length > PATH_CHARACTERS_MAX ? `${text.slice(0, PATH_CHARACTERS_MAX)}...` : text;
}

function toAscii(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
