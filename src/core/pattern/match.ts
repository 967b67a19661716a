import { backtrackingTest, hasReference } from "./backtrack.ts";
import { type Assertion, type PatternNode, parsePattern } from "./parse.ts";
import {
  ASCII,
  type Automaton,
  characterAfter,
  characterBefore,
  characterTest,
  compile,
  isBoundary,
  isEdge,
  lengthOf,
  OPERATION,
} from "./program.ts";

/** Maximum uncached instructions visited for one text. An ordinary pattern visits a few hundred altogether. */
const STEPS_MAX = 5_000_000;
/** Maximum cached instructions of one pattern. */
const CACHED_MAX = 100_000;

/** Returns whether a text contains a match. @throws {RangeError} for a text that needs too many steps */
type LinearTest = (text: string) => boolean;

/**
 * Returns a test with the result of `pattern.test` whose time is linear in the length of the text: it follows all
 * alternatives at once, one character at a time, and caches the reached sets of alternatives. A pattern with a back
 * reference has a step limit instead. The flags g and y keep no state between calls.
 *
 * @throws {UnfitPattern} for a pattern that cannot be matched in this way
 */
export function linearTest(pattern: RegExp): LinearTest {
  const tree = parsePattern(pattern);
  if (isPlainlyLinear(tree)) {
    const plain = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ""));
    return (text) => plain.test(text);
  }
  const isUnicode = /[uv]/.test(pattern.flags);
  const anywhere = !pattern.flags.includes("y") && !isAnchored(tree);
  if (hasReference(tree)) return backtrackingTest(tree, { isUnicode, anywhere });
  const matcher = new Matcher(tree, { isUnicode, backward: false, anywhere });
  return (text) => matcher.run(text, { steps: STEPS_MAX }) !== undefined;
}

/** Returns whether a match can only begin at the first character. */
function isAnchored(node: PatternNode | undefined): boolean {
  if (node?.kind === "start") return !node.everyLine;
  if (node?.kind === "sequence") return isAnchored(node.parts[0]);
  if (node?.kind === "group") return isAnchored(node.body);
  return node?.kind === "choice" && node.options.every(isAnchored);
}

interface MatcherOptions {
  readonly isUnicode: boolean;
  readonly backward: boolean;
  /** True when a match may begin at every position; false: only at the first. */
  readonly anywhere: boolean;
}

interface Budget {
  steps: number;
}

/** A set of instructions that are reached together. */
interface State {
  readonly instructions: readonly number[];
  /** The assertions that decide what is reached, as bits. */
  readonly asked: number;
  /** By the values of these assertions, as bits. */
  readonly reached: Map<number, Reached>;
  /** The values that were looked up last, and their entry. */
  values: number;
  last: Reached | undefined;
}

/** The state at a position, where the values of the assertions are known. */
interface Reached {
  readonly accepts: boolean;
  /** The instructions that wait for a character. */
  readonly waiting: readonly number[];
  /** By the class of an ASCII character. */
  readonly after: (State | undefined)[];
  /** By the code of any other character. */
  readonly afterOthers: Map<number, State>;
}

/** Returns whether an assertion holds at a position of one text. */
type Holds = (position: number) => boolean;

class Matcher {
  readonly #program: Automaton;
  readonly #options: MatcherOptions;
  readonly #assertions: readonly ((text: string, budget: Budget) => Holds)[];
  readonly #states = new Map<string, State>();
  /** Classes of ASCII characters, by code; 0: not known yet. No part of the pattern distinguishes characters of one class. */
  readonly #classes = new Uint8Array(ASCII);
  readonly #classNames = new Map<string, number>();
  #first: State | undefined;
  #cached = 0;

  constructor(tree: PatternNode, options: MatcherOptions) {
    this.#program = compile(tree, options);
    this.#options = options;
    this.#assertions = this.#program.assertions.map((node) => assertionTest(node, options));
  }

  /** Returns the first position at which a match ends. With `everyEnd`, reports every end instead and continues. */
  run(text: string, budget: Budget, everyEnd?: (position: number) => void): number | undefined {
    const { backward, isUnicode, anywhere } = this.#options;
    const prepared: Holds[] = [];
    let state = this.#first ?? this.#firstState(budget);
    let position = backward ? text.length : 0;
    for (;;) {
      let values = 0;
      for (let asked = state.asked; asked !== 0; asked &= asked - 1) {
        const index = 31 - Math.clz32(asked & -asked);
        const holds = prepared[index] ?? this.#prepare(index, text, budget);
        prepared[index] = holds;
        if (holds(position)) values |= 1 << index;
      }
      const reached = (state.values === values ? state.last : undefined) ?? this.#reached(state, values, budget);
      if (reached.accepts) {
        if (everyEnd === undefined) return position;
        everyEnd(position);
      }
      const code = backward ? characterBefore(text, position, isUnicode) : characterAfter(text, position, isUnicode);
      if (code === undefined || (reached.waiting.length === 0 && !anywhere)) return undefined;
      position += backward ? -lengthOf(code) : lengthOf(code);
      const next = code < ASCII ? reached.after[this.#classes[code] ?? 0] : reached.afterOthers.get(code);
      state = next ?? this.#step(reached, code, budget);
    }
  }

  #prepare(index: number, text: string, budget: Budget): Holds {
    return this.#assertions[index]?.(text, budget) ?? (() => false);
  }

  #firstState(budget: Budget): State {
    this.#first = this.#state([this.#program.start], budget);
    return this.#first;
  }

  #state(instructions: readonly number[], budget: Budget): State {
    const key = instructions.join();
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    this.#countSteps(instructions.length, budget);
    const asked = this.#asked(instructions);
    const state: State = { instructions, asked, reached: new Map(), values: 0, last: undefined };
    this.#states.set(key, state);
    return state;
  }

  /** Returns the assertions that can be reached before the next character, as bits. */
  #asked(instructions: readonly number[]): number {
    let asked = 0;
    this.#visit(instructions, (assertion) => {
      asked |= 1 << assertion;
      return true;
    });
    return asked;
  }

  /** Clears the cache when it is too large; states that a run in progress holds stay valid. */
  #countSteps(size: number, budget: Budget): void {
    budget.steps -= size + 1;
    if (budget.steps < 0) throw new RangeError("the pattern takes too many steps for this text");
    this.#cached += size + 1;
    if (this.#cached <= CACHED_MAX) return;
    for (const state of this.#states.values()) {
      state.reached.clear();
      state.last = undefined;
    }
    this.#states.clear();
    this.#first = undefined;
    this.#cached = 0;
  }

  #reached(state: State, values: number, budget: Budget): Reached {
    const reached = state.reached.get(values) ?? this.#reach(state, values, budget);
    state.values = values;
    state.last = reached;
    return reached;
  }

  #reach(state: State, values: number, budget: Budget): Reached {
    const { operations } = this.#program;
    const visited = this.#visit(state.instructions, (assertion) => ((values >> assertion) & 1) === 1);
    const waiting: number[] = [];
    let accepts = false;
    for (const instruction of visited) {
      if (operations[instruction] === OPERATION.accept) accepts = true;
      else if (operations[instruction] === OPERATION.character) waiting.push(instruction);
    }
    this.#countSteps(visited.size, budget);
    const reached: Reached = { accepts, waiting, after: [], afterOthers: new Map() };
    state.reached.set(values, reached);
    return reached;
  }

  /** Returns the instructions that are reached without a character, through the assertions that hold. */
  #visit(instructions: readonly number[], holds: (assertion: number) => boolean): ReadonlySet<number> {
    const { operations, first, next } = this.#program;
    const visited = new Set<number>();
    const todo = instructions.toReversed();
    for (let instruction = todo.pop(); instruction !== undefined; instruction = todo.pop()) {
      if (visited.has(instruction)) continue;
      visited.add(instruction);
      const operation = operations[instruction];
      if (operation === OPERATION.fork) todo.push(next[instruction] ?? 0, first[instruction] ?? 0);
      else if (operation === OPERATION.assertion && holds(first[instruction] ?? 0)) todo.push(next[instruction] ?? 0);
    }
    return visited;
  }

  #step(reached: Reached, code: number, budget: Budget): State {
    const { characters, first, next, start } = this.#program;
    const { waiting, after, afterOthers } = reached;
    const ofClass = code < ASCII ? this.#classOf(code, budget) : 0;
    const known = after[ofClass];
    if (known !== undefined) return known;
    const tested = new Map<number, boolean>();
    const followers = new Set<number>();
    for (const instruction of waiting) {
      const index = first[instruction] ?? 0;
      const matches = tested.get(index) ?? characters[index]?.(code) === true;
      tested.set(index, matches);
      if (matches) followers.add(next[instruction] ?? 0);
    }
    if (this.#options.anywhere) followers.add(start);
    this.#countSteps(waiting.length, budget);
    const state = this.#state(
      [...followers].sort((a, b) => a - b),
      budget,
    );
    if (code < ASCII) after[ofClass] = state;
    else afterOthers.set(code, state);
    return state;
  }

  #classOf(code: number, budget: Budget): number {
    const known = this.#classes[code];
    if (known !== undefined && known > 0) return known;
    const { characters } = this.#program;
    this.#countSteps(characters.length, budget);
    const name = characters.map((test) => Number(test(code))).join("");
    const ofClass = this.#classNames.get(name) ?? this.#classNames.size + 1;
    this.#classNames.set(name, ofClass);
    this.#classes[code] = ofClass;
    return ofClass;
  }
}

/** Returns a function that prepares the test of an assertion for one text. */
function assertionTest(node: Assertion, { isUnicode }: MatcherOptions): (text: string, budget: Budget) => Holds {
  if (node.kind === "look") {
    // One run over the text in the opposite direction finds all positions where a lookaround holds.
    const matcher = new Matcher(node.body, { isUnicode, backward: !node.behind, anywhere: true });
    return (text, budget) => {
      const ends = new Uint8Array(text.length + 1);
      matcher.run(text, budget, (position) => {
        ends[position] = 1;
      });
      return (position) => (ends[position] === 1) !== node.negated;
    };
  }
  if (node.kind !== "boundary") return (text) => (position) => isEdge(node, text, position);
  const isWord = characterTest("\\w", node.flags);
  return (text) => (position) => isBoundary(text, position, isWord) !== node.negated;
}

/** Maximum alternatives of a pattern for the runtime's own matcher. Each costs at most the expanded length. */
const WAYS_MAX = 512;
/** The same for patterns whose alternatives may each cost the length of the text. */
const LONG_WAYS_MAX = 8;

/**
 * Returns whether the runtime's backtracking matcher is fast for this pattern: the match begins at the text's first
 * character, and the only unbounded repetition is one of a single character right before the text's end. Most patterns
 * for names and numbers are of this kind.
 */
function isPlainlyLinear(pattern: PatternNode): boolean {
  const options = pattern.kind === "choice" ? pattern.options : [pattern];
  const all = options.map(linearWays);
  const isLong = all.some(({ isLong }) => isLong);
  return all.reduce((sum, { ways }) => sum + ways, 0) <= (isLong ? LONG_WAYS_MAX : WAYS_MAX);
}

interface Ways {
  readonly ways: number;
  readonly isLong: boolean;
}

function linearWays(pattern: PatternNode): Ways {
  const parts = pattern.kind === "sequence" ? pattern.parts : [pattern];
  const [first, ...others] = parts;
  if (first?.kind !== "start" || first.everyLine) return { ways: Number.POSITIVE_INFINITY, isLong: true };
  const isLong = isEndlessCharacter(others.at(-2)) && isEnd(others.at(-1));
  const bounded = isLong ? others.slice(0, -2) : others;
  return { ways: bounded.reduce((product, part) => product * ways(part), 1), isLong };
}

function isEndlessCharacter(node: PatternNode | undefined): boolean {
  return (
    node?.kind === "repeat" && node.max === Number.POSITIVE_INFINITY && node.body.kind === "character" && node.min <= 1
  );
}

function isEnd(node: PatternNode | undefined): boolean {
  return node?.kind === "end" && !node.everyLine;
}

function ways(node: PatternNode): number {
  switch (node.kind) {
    case "sequence":
      return node.parts.reduce((product, part) => product * ways(part), 1);
    case "choice":
      return node.options.reduce((sum, option) => sum + ways(option), 0);
    case "repeat":
      return repeated(ways(node.body), node.min, node.max);
    case "group":
      return ways(node.body);
    case "look":
    case "reference":
      return Number.POSITIVE_INFINITY;
    default:
      return 1;
  }
}

/** Returns the number of alternatives for all counts of repetitions from `min` to `max`. */
function repeated(body: number, min: number, max: number): number {
  if (max > WAYS_MAX) return Number.POSITIVE_INFINITY;
  let sum = 0;
  for (let turns = min; turns <= max; turns += 1) sum += body ** turns;
  return sum;
}
