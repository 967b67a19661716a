import { type Assertion, type Edge, type PatternNode, UnfitPattern } from "./parse.ts";

/** Returns the code of the character at a position: a code point in Unicode-aware patterns, else a UTF-16 unit. */
export function characterAfter(text: string, position: number, isUnicode: boolean): number | undefined {
  return isUnicode ? text.codePointAt(position) : unit(text, position);
}

/** Returns the code of the character that ends at a position. */
export function characterBefore(text: string, position: number, isUnicode: boolean): number | undefined {
  const last = unit(text, position - 1);
  if (!isUnicode || last === undefined || last < 0xdc00 || last > 0xdfff) return last;
  const pair = text.codePointAt(position - 2);
  return pair !== undefined && pair > 0xffff ? pair : last;
}

/** Returns the UTF-16 units of a character. */
export function lengthOf(code: number): number {
  return code > 0xffff ? 2 : 1;
}

export function isEdge({ kind, everyLine }: Edge, text: string, position: number): boolean {
  if (position === (kind === "start" ? 0 : text.length)) return true;
  return everyLine && /[\n\r\u2028\u2029]/.test(text[kind === "start" ? position - 1 : position] ?? "");
}

/** Returns whether exactly one side of a position is a word character. */
export function isBoundary(text: string, position: number, isWord: (code: number) => boolean): boolean {
  const [left, right] = [unit(text, position - 1), unit(text, position)];
  return (left !== undefined && isWord(left)) !== (right !== undefined && isWord(right));
}

function unit(text: string, position: number): number | undefined {
  return position >= 0 && position < text.length ? text.charCodeAt(position) : undefined;
}

/** Maximum instructions of one pattern; counted repetitions such as `{2,4}` are expanded. */
const INSTRUCTIONS_MAX = 262_144;
/** Maximum different assertions of one pattern: their values are the bits of one number. */
const ASSERTIONS_MAX = 24;

/** Instruction codes. A fork has two next instructions; all others have an index and one next instruction. */
export const OPERATION = { character: 0, fork: 1, assertion: 2, accept: 3 } as const;

/** A pattern as a nondeterministic automaton. */
export interface Automaton {
  readonly operations: readonly number[];
  /** The index of a character or an assertion; for a fork, one of its two branches. */
  readonly first: readonly number[];
  /** The next instruction; for a fork, the other branch. */
  readonly next: readonly number[];
  readonly start: number;
  readonly characters: readonly CharacterTest[];
  readonly assertions: readonly Assertion[];
}

/** Tests one character by its code. */
export type CharacterTest = (code: number) => boolean;

/**
 * Compiles a pattern to an automaton.
 *
 * @param backward for a run from the end of the text to its start
 * @throws {UnfitPattern} when it is too large
 */
export function compile(pattern: PatternNode, { backward }: { readonly backward: boolean }): Automaton {
  const compiler = new Compiler(backward);
  const start = compiler.add(pattern, compiler.emit(OPERATION.accept, 0, 0));
  return { ...compiler, start, characters: compiler.characters, assertions: compiler.assertions };
}

class Compiler {
  readonly operations: number[] = [];
  readonly first: number[] = [];
  readonly next: number[] = [];
  readonly characters: CharacterTest[] = [];
  readonly assertions: Assertion[] = [];
  readonly #characterIndexes = new Map<string, number>();
  readonly #assertionIndexes = new Map<Assertion | string, number>();
  readonly #backward: boolean;

  constructor(backward: boolean) {
    this.#backward = backward;
  }

  emit(operation: number, first: number, next: number): number {
    if (this.operations.length >= INSTRUCTIONS_MAX) {
      throw new UnfitPattern(`is too large: written out it has more than ${INSTRUCTIONS_MAX} parts`);
    }
    this.operations.push(operation);
    this.first.push(first);
    this.next.push(next);
    return this.operations.length - 1;
  }

  /** Adds a node, from its end to its start, and returns its first instruction. `next` follows the node. */
  add(node: PatternNode, next: number): number {
    switch (node.kind) {
      case "character":
        return this.emit(OPERATION.character, this.#character(node.source, node.flags), next);
      case "sequence": {
        const parts = this.#backward ? node.parts : node.parts.toReversed();
        return parts.reduce((after, part) => this.add(part, after), next);
      }
      case "choice":
        return node.options
          .map((option) => this.add(option, next))
          .reduceRight((other, option) => this.emit(OPERATION.fork, option, other));
      case "repeat":
        return this.#repeat(node, next);
      case "group":
        return this.add(node.body, next);
      case "reference":
        throw new UnfitPattern("has a back reference");
      default:
        return this.emit(OPERATION.assertion, this.#assertion(node), next);
    }
  }

  #repeat({ body, min, max }: Extract<PatternNode, { kind: "repeat" }>, next: number): number {
    let start = next;
    if (max === Number.POSITIVE_INFINITY) {
      start = this.emit(OPERATION.fork, next, next);
      this.first[start] = this.add(body, start);
    } else {
      // Repetitions are nested, so that the end of each leads directly to `next`.
      for (let turn = min; turn < max; turn += 1) start = this.emit(OPERATION.fork, this.add(body, start), next);
    }
    for (let turn = 0; turn < min; turn += 1) {
      const before = start;
      start = this.add(body, before);
      // One empty repetition is equivalent to any number of them.
      if (start === before) break;
    }
    return start;
  }

  #character(source: string, flags: string): number {
    const key = `${flags} ${source}`;
    const known = this.#characterIndexes.get(key);
    if (known !== undefined) return known;
    this.#characterIndexes.set(key, this.characters.length);
    return this.characters.push(characterTest(source, flags)) - 1;
  }

  #assertion(node: Assertion): number {
    const key = node.kind === "look" ? node : JSON.stringify(node);
    const known = this.#assertionIndexes.get(key);
    if (known !== undefined) return known;
    if (this.assertions.length >= ASSERTIONS_MAX) {
      throw new UnfitPattern(`has more than ${ASSERTIONS_MAX} different assertions`);
    }
    this.#assertionIndexes.set(key, this.assertions.length);
    return this.assertions.push(node) - 1;
  }
}

/** Number of ASCII characters. */
export const ASCII = 128;
const UNKNOWN = 2;

/** Returns a test of one character. It uses the runtime, so that classes, escapes and flags keep their meaning. */
export function characterTest(source: string, flags: string): CharacterTest {
  const pattern = new RegExp(`^(?:${source})$`, flags.replace("m", ""));
  const known = new Uint8Array(ASCII).fill(UNKNOWN);
  return (code) => {
    if (code >= ASCII) return pattern.test(String.fromCodePoint(code));
    if (known[code] === UNKNOWN) known[code] = pattern.test(String.fromCharCode(code)) ? 1 : 0;
    return known[code] === 1;
  };
}
