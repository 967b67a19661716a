import { backtrackingTest, hasReference } from "./backtrack.ts";
import { type Assertion, type PatternNode, parsePattern } from "./parse.ts";
import {
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
  const anywhere = !pattern.flags.includes("y");
  if (hasReference(tree)) return backtrackingTest(tree, { isUnicode, anywhere });
  const matcher = new Matcher(tree, { isUnicode, backward: false, anywhere });
  return (text) => matcher.run(text, { steps: STEPS_MAX }) !== undefined;
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
  /** By the values of the assertions, as bits. */
  readonly reached: Map<number, Reached>;
}

/** The state at a position, where the values of the assertions are known. */
interface Reached {
  readonly accepts: boolean;
  /** The instructions that wait for a character. */
  readonly waiting: readonly number[];
  readonly after: Map<number, State>;
}

/** Returns whether an assertion holds at a position of one text. */
type Holds = (position: number) => boolean;

class Matcher {
  readonly #program: Automaton;
  readonly #options: MatcherOptions;
  readonly #assertions: readonly ((text: string, budget: Budget) => Holds)[];
  readonly #states = new Map<string, State>();
  #cached = 0;

  constructor(tree: PatternNode, options: MatcherOptions) {
    this.#program = compile(tree, options);
    this.#options = options;
    this.#assertions = this.#program.assertions.map((node) => assertionTest(node, options));
  }

  /** Returns the first position at which a match ends. With `everyEnd`, reports every end instead and continues. */
  run(text: string, budget: Budget, everyEnd?: (position: number) => void): number | undefined {
    const { backward, isUnicode } = this.#options;
    const assertions = this.#assertions.map((test) => test(text, budget));
    let state = this.#state([this.#program.start], budget);
    let position = backward ? text.length : 0;
    for (;;) {
      let values = 0;
      for (let index = 0; index < assertions.length; index += 1) {
        if (assertions[index]?.(position) === true) values |= 1 << index;
      }
      const reached = state.reached.get(values) ?? this.#reach(state, values, budget);
      if (reached.accepts) {
        if (everyEnd === undefined) return position;
        everyEnd(position);
      }
      const code = (backward ? characterBefore : characterAfter)(text, position, isUnicode);
      if (code === undefined || (reached.waiting.length === 0 && !this.#options.anywhere)) return undefined;
      position += backward ? -lengthOf(code) : lengthOf(code);
      state = reached.after.get(code) ?? this.#step(reached, code, budget);
    }
  }

  #state(instructions: readonly number[], budget: Budget): State {
    const key = instructions.join();
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    this.#countSteps(instructions.length, budget);
    const state = { instructions, reached: new Map() };
    this.#states.set(key, state);
    return state;
  }

  /** Clears the cache when it is too large; states that a run in progress holds stay valid. */
  #countSteps(size: number, budget: Budget): void {
    budget.steps -= size + 1;
    if (budget.steps < 0) throw new RangeError("the pattern takes too many steps for this text");
    this.#cached += size + 1;
    if (this.#cached <= CACHED_MAX) return;
    for (const { reached } of this.#states.values()) reached.clear();
    this.#states.clear();
    this.#cached = 0;
  }

  #reach(state: State, values: number, budget: Budget): Reached {
    const { operations, first, next } = this.#program;
    const waiting: number[] = [];
    const visited = new Set<number>();
    const todo = state.instructions.toReversed();
    let accepts = false;
    for (let instruction = todo.pop(); instruction !== undefined; instruction = todo.pop()) {
      if (visited.has(instruction)) continue;
      visited.add(instruction);
      const operation = operations[instruction];
      if (operation === OPERATION.accept) accepts = true;
      else if (operation === OPERATION.character) waiting.push(instruction);
      else if (operation === OPERATION.fork) todo.push(next[instruction] ?? 0, first[instruction] ?? 0);
      else if ((values >> (first[instruction] ?? 0)) & 1) todo.push(next[instruction] ?? 0);
    }
    this.#countSteps(visited.size, budget);
    const reached = { accepts, waiting, after: new Map() };
    state.reached.set(values, reached);
    return reached;
  }

  #step({ waiting, after }: Reached, code: number, budget: Budget): State {
    const { characters, first, next, start } = this.#program;
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
    after.set(code, state);
    return state;
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
