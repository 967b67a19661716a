import type { Json } from "./types.ts";

export interface StrictJsonLimits {
  /** Nesting depth of arrays and objects; the outermost counts as 1. At most `DEPTH_CEILING`. */
  readonly depthMax: number;
  readonly keysMax: number;
  readonly elementsMax: number;
}

/** The parser recurses once per level; deeper input could exhaust the stack. */
const DEPTH_CEILING = 512;
const PATH_CHARACTERS_MAX = 120;

/** Error for a body that is not acceptable JSON. Names the position and the problem, never a value. */
export class StrictJsonError extends Error {
  override readonly name = "StrictJsonError";
  readonly reason: string;
  /** UTF-16 offset in the body; undefined when the bytes are not valid text. */
  readonly position: number | undefined;
  /** Key path of the innermost value that was being read, `""` at the top; escaped to printable ASCII. */
  readonly path: string;

  constructor(reason: string, position?: number, path = "") {
    const where = position === undefined ? "" : ` at position ${position}`;
    super(`the body is not acceptable JSON: ${reason}${where}${path === "" ? "" : ` (in ${path})`}`);
    this.reason = reason;
    this.position = position;
    this.path = path;
  }
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
export function parseStrictJson(bytes: Uint8Array, limits: StrictJsonLimits): Json {
  return new Reader(decode(bytes), limits).document();
}

function decode(bytes: Uint8Array): string {
  if (bytes.length === 0) throw new StrictJsonError("it is empty");
  try {
    return utf8.decode(bytes);
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

class Reader {
  readonly #text: string;
  readonly #depthMax: number;
  readonly #path: (string | number)[] = [];
  #at = 0;
  #depth = 0;
  #keysLeft: number;
  #elementsLeft: number;

  constructor(text: string, limits: StrictJsonLimits) {
    this.#text = text;
    this.#depthMax = Math.min(limits.depthMax, DEPTH_CEILING);
    this.#keysLeft = limits.keysMax;
    this.#elementsLeft = limits.elementsMax;
  }

  document(): Json {
    if (this.#text.charCodeAt(0) === BYTE_ORDER_MARK) throw this.#error("it begins with a byte order mark");
    const value = this.#value(this.#next());
    if (!Number.isNaN(this.#next())) throw this.#error("unexpected text after the value");
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
      const value = this.#value(this.#next());
      if (key === "constructor" && holdsPrototype(value)) throw this.#error("a constructor with a prototype");
      members[key] = value;
      code = this.#next();
      if (code === CLOSE_BRACE) return this.#leave(members);
      if (code !== COMMA) throw this.#unexpected();
      this.#at += 1;
      code = this.#next();
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
    if (key === "__proto__") throw this.#error("the key __proto__", start);
    if (Object.hasOwn(members, key)) throw this.#error("duplicate key", start);
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
        throw this.#error(Number.isNaN(code) ? "unexpected end" : "a raw control character in a string");
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
      throw this.#error("a wrong escape in a string", start);
    }
    // Raw text is well-formed because it is decoded UTF-8; only an escape can introduce a lone surrogate.
    if (typeof value !== "string" || !value.isWellFormed()) throw this.#error("a lone surrogate", start);
    return value;
  }

  #number(): number {
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
    const value = Number(this.#text.slice(start, this.#at));
    if (!Number.isFinite(value)) throw this.#error("a number beyond the range of a double", start);
    // Checks the value, not the spelling: 9007199254740993.0 and 9.007199254740993e15 lose their last digit, too.
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw this.#error("an integer beyond 2^53-1", start);
    return value;
  }

  #digits(): void {
    const start = this.#at;
    while (isDigit(this.#text.charCodeAt(this.#at))) this.#at += 1;
    if (this.#at === start) throw this.#unexpected();
  }

  #unexpected(): StrictJsonError {
    return this.#error(this.#at >= this.#text.length ? "unexpected end" : "unexpected character");
  }

  #error(reason: string, position = this.#at): StrictJsonError {
    return new StrictJsonError(reason, position, renderPath(this.#path));
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
