/** A regular expression as a tree. Characters and classes stay in the runtime's syntax, to keep their exact meaning. */
export type PatternNode =
  | { readonly kind: "character"; readonly source: string; readonly flags: string }
  | { readonly kind: "sequence"; readonly parts: readonly PatternNode[] }
  | { readonly kind: "choice"; readonly options: readonly PatternNode[] }
  | {
      readonly kind: "repeat";
      readonly body: PatternNode;
      readonly min: number;
      readonly max: number;
      readonly lazy: boolean;
    }
  | { readonly kind: "group"; readonly index: number; readonly body: PatternNode }
  | { readonly kind: "reference"; readonly groups: readonly number[]; readonly flags: string }
  | Assertion;

/** Matches no character, but tests the position. */
export type Assertion =
  | Edge
  | { readonly kind: "boundary"; readonly negated: boolean; readonly flags: string }
  | { readonly kind: "look"; readonly behind: boolean; readonly negated: boolean; readonly body: PatternNode };

export interface Edge {
  readonly kind: "start" | "end";
  readonly everyLine: boolean;
}

/** The pattern is too large, or contains a construct whose matching time cannot be limited. */
export class UnfitPattern extends Error {}

export function childrenOf(node: PatternNode): readonly PatternNode[] {
  if (node.kind === "sequence") return node.parts;
  if (node.kind === "choice") return node.options;
  return "body" in node ? [node.body] : [];
}

/**
 * Returns whether a pattern has a character among those that it accepts, as itself: `/` in `[a-z/]`, `?` in `a\?`. Neither `.`
 * nor `[^a]` names what it accepts, and a lookaround accepts nothing.
 */
export function namesCharacter(pattern: RegExp, character: string): boolean {
  const names = (node: PatternNode): boolean => {
    if (node.kind === "look") return false;
    return node.kind === "character" ? literalsOf(node).has(character) : childrenOf(node).some(names);
  };
  try {
    return names(parsePattern(pattern));
  } catch {
    return false;
  }
}

/** Returns the characters that a character or a class names. A class that subtracts or intersects others names none. */
function literalsOf({ source, flags }: Extract<PatternNode, { readonly kind: "character" }>): ReadonlySet<string> {
  const isComputed = flags.includes("v") && /^\[.*(?:--|&&|\[\^)/s.test(source);
  if (isComputed || source.startsWith("[^")) return new Set();
  const parts = source.match(/\\[^A-Za-z0-9]|[^\\]/gsu) ?? [];
  return new Set(parts.map((part) => part.replace("\\", "")));
}

const STRINGS_IN_CLASS = /\\q\{|\\[pP]\{(?:Basic_Emoji|Emoji_Keycap_Sequence|RGI_)/;

/**
 * Parses a pattern.
 *
 * @throws {UnfitPattern} for `\q{…}` and properties of strings, which are more than one character
 */
export function parsePattern({ source, flags }: RegExp): PatternNode {
  return new Parser(source, flags).parse();
}

class Parser {
  readonly #source: string;
  readonly #isUnicode: boolean;
  readonly #hasNestedClasses: boolean;
  /** Names of all groups, by number. They are read first, because a reference may come before its group. */
  readonly #names: readonly (string | undefined)[];
  #at = 0;
  #groups = 0;
  #flags: string;

  constructor(source: string, flags: string) {
    this.#source = source;
    this.#isUnicode = /[uv]/.test(flags);
    this.#hasNestedClasses = flags.includes("v");
    this.#flags = flags.replace(/[^imsuv]/g, "");
    this.#names = groupNames(source, this.#hasNestedClasses);
  }

  parse(): PatternNode {
    return this.#choice();
  }

  #choice(): PatternNode {
    const options = [this.#sequence()];
    while (this.#source[this.#at] === "|") {
      this.#at += 1;
      options.push(this.#sequence());
    }
    const [only] = options;
    return options.length === 1 && only !== undefined ? only : { kind: "choice", options };
  }

  #sequence(): PatternNode {
    const parts: PatternNode[] = [];
    while (this.#at < this.#source.length && !"|)".includes(this.#source[this.#at] ?? "")) {
      parts.push(this.#repeated(this.#element()));
    }
    const [only] = parts;
    return parts.length === 1 && only !== undefined ? only : { kind: "sequence", parts };
  }

  #repeated(body: PatternNode): PatternNode {
    const found = /^(?:([*+?])|\{(\d+)(,?)(\d*)\})(\??)/.exec(this.#rest());
    if (found === null) return body;
    this.#at += found[0].length;
    const [, char, least, comma, most, question] = found;
    const lazy = question === "?";
    if (char !== undefined) {
      return {
        kind: "repeat",
        body,
        lazy,
        min: char === "+" ? 1 : 0,
        max: char === "?" ? 1 : Number.POSITIVE_INFINITY,
      };
    }
    const unbounded = comma === "," ? Number.POSITIVE_INFINITY : Number(least);
    return { kind: "repeat", body, lazy, min: Number(least), max: most === "" ? unbounded : Number(most) };
  }

  #element(): PatternNode {
    const char = this.#source[this.#at] ?? "";
    const everyLine = this.#flags.includes("m");
    if (char === "(") return this.#group();
    if (char === "[") return this.#character(classLength(this.#rest(), this.#hasNestedClasses));
    if (char === "\\") return this.#escape();
    if (char === "^" || char === "$") {
      this.#at += 1;
      return { kind: char === "^" ? "start" : "end", everyLine };
    }
    return this.#character(this.#isUnicode && (this.#source.codePointAt(this.#at) ?? 0) > 0xffff ? 2 : 1);
  }

  #group(): PatternNode {
    const head = /^\((?:\?(?:(:)|(<?)([=!])|<([^>]*)>|([ims]*)(?:-([ims]*))?:))?/.exec(this.#rest()) ?? [];
    const [opening = "(", plain, behind, look, , on, off] = head;
    this.#at += opening.length;
    if (look !== undefined) return { kind: "look", behind: behind === "<", negated: look === "!", body: this.#inner() };
    if (plain !== undefined) return this.#inner();
    if (on === undefined) {
      this.#groups += 1;
      return { kind: "group", index: this.#groups, body: this.#inner() };
    }
    const outer = this.#flags;
    this.#flags = [...new Set(outer + on)].filter((flag) => off?.includes(flag) !== true).join("");
    const body = this.#inner();
    this.#flags = outer;
    return body;
  }

  #inner(): PatternNode {
    const body = this.#choice();
    this.#at += 1;
    return body;
  }

  #escape(): PatternNode {
    const rest = this.#rest();
    const char = rest[1] ?? "";
    if (char === "b" || char === "B") {
      this.#at += 2;
      return { kind: "boundary", negated: char === "B", flags: this.#flags };
    }
    return this.#reference(rest) ?? this.#character(this.#escapeLength(rest));
  }

  #reference(rest: string): PatternNode | undefined {
    const count = this.#names.length - 1;
    const number = /^\\([1-9]\d*)/.exec(rest);
    const name = /^\\k<([^>]*)>/.exec(rest);
    const isNumber = number !== null && (this.#isUnicode || Number(number[1]) <= count);
    const isName = name !== null && (this.#isUnicode || this.#names.some((known) => known !== undefined));
    if (!isNumber && !isName) return undefined;
    this.#at += (isNumber ? number : name)?.[0].length ?? 0;
    const named = this.#names.flatMap((known, index) => (known !== undefined && known === name?.[1] ? [index] : []));
    return { kind: "reference", groups: isNumber ? [Number(number[1])] : named, flags: this.#flags };
  }

  #escapeLength(rest: string): number {
    const unicode = /^\\(?:u\{[^}]*\}|[pP]\{[^}]*\}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2})/.exec(rest);
    if (this.#isUnicode && unicode !== null) return unicode[0].length;
    const long = /^\\(?:x[\da-fA-F]{2}|u[\da-fA-F]{4}|c[A-Za-z]|[0-3][0-7]{0,2}|[4-7][0-7]?)/.exec(rest);
    if (long !== null) return long[0].length;
    // A backslash before a `c` that does not form a control character is a literal backslash.
    return rest.startsWith("\\c") ? 1 : 2;
  }

  #character(length: number): PatternNode {
    const text = this.#source.slice(this.#at, this.#at + length);
    this.#at += length;
    if (this.#hasNestedClasses && STRINGS_IN_CLASS.test(text)) {
      throw new UnfitPattern("holds a class of strings, not of characters (\\q{…} or an emoji property)");
    }
    return { kind: "character", source: plain(text), flags: this.#flags };
  }

  #rest(): string {
    return this.#source.slice(this.#at);
  }
}

/** Returns the source of one element in a form that has the same meaning on its own. */
function plain(text: string): string {
  if (text === "\\") return "\\\\";
  if (text.length === 1 && "{}]/".includes(text)) return `\\${text}`;
  return text.length === 1 && !text.isWellFormed() ? `\\u${text.charCodeAt(0).toString(16)}` : text;
}

/** Returns the length of the character class at the front of `source`. */
function classLength(source: string, nestedClasses: boolean): number {
  let depth = 0;
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at];
    if (char === "\\") at += 1;
    else if (char === "[" && (depth === 0 || nestedClasses)) depth += 1;
    else if (char === "]") depth -= 1;
    if (depth === 0) return at + 1;
  }
  return source.length;
}

/** Returns the names of the groups by number; the first entry is the whole pattern. */
function groupNames(source: string, hasNestedClasses: boolean): readonly (string | undefined)[] {
  const names: (string | undefined)[] = [undefined];
  for (let at = 0; at < source.length; at += 1) {
    if (source[at] === "\\") at += 1;
    else if (source[at] === "[") at += classLength(source.slice(at), hasNestedClasses) - 1;
    else if (source[at] === "(") {
      const name = /^\(\?<([^=!][^>]*)>/.exec(source.slice(at))?.[1];
      if (name !== undefined || source[at + 1] !== "?") names.push(name);
    }
  }
  return names;
}
