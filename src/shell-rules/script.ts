import {
  type Command,
  type CommandNode,
  type Function as FunctionNode,
  forEachChild,
  parse,
  type Redirection,
  type SyntaxNode,
} from "unbash";
import { type Call, type CallContext, callOf, names, type ShellDirectories } from "./call.ts";
import { mayBeParent, partsOf } from "./paths.ts";
import { defersCode, hidesText, namesSetBy, type Unclear, unclearNode, wordsSetBy } from "./unclear.ts";
import {
  argumentFields,
  fieldsOf,
  HOME,
  isInput,
  isLiteral,
  printedBy,
  redirectedBy,
  UNKNOWN,
  type VariableLookup,
} from "./words.ts";
import { type Wrapped, type WrappedScript, wrappedBy } from "./wrappers.ts";

/** Maximum length of a script and the scripts inside it, in UTF-16 units. */
const SCRIPT_CHARACTERS_MAX = 16_384;
/** Maximum number of visited nodes of the syntax tree. Nodes of functions and loops count once per visit. */
const NODES_MAX = 8_192;
const CALLS_MAX = 512;
/** Maximum number of words of all calls. Words after a wrapper count again. */
const WORDS_MAX = 12_288;
const DEPTH_MAX = 12;
/** Maximum number of working directories that are followed. With more, the script may be anywhere. */
const LOCATIONS_MAX = 4;
/** Maximum number of directories on the stack of `pushd`. */
const STACK_MAX = 16;
/** Maximum number of different values of variables and parameters. */
const VALUES_MAX = 256;
/** Maximum number of visits of a loop that changes the directory. */
const ROUNDS_MAX = 3;
const DEFINITIONS_MAX = 8;
const PATH_CHARACTERS_MAX = 4_096;

/** The calls of a script, as far as its text shows them. */
export interface ShellScript {
  readonly calls: readonly Call[];
  readonly unclear: ReadonlySet<Unclear>;
  readonly bodies: ReadonlyMap<string, ReadonlySet<Call>>;
}

/**
 * Reads a script and lists the calls in it. Never throws. `known` are the programs that rules are about: a function with such a
 * name makes the script unclear.
 */
export function readScript(text: string, directories: ShellDirectories, known: ReadonlySet<string>): ShellScript {
  const reader = new Reader(directories, known);
  try {
    reader.readAll(text);
  } catch (error) {
    // An error of the parser or an exhausted stack: the rest of the script was not read.
    if (!(error instanceof Error)) throw error;
    reader.unclear.add("syntax");
  }
  return reader;
}

/** A possible working directory. Paths are absolute, or `undefined` when unknown. */
interface Location {
  readonly cwd: string | undefined;
  /** Directory that `cd -` returns to. */
  readonly previous: string | undefined;
  /** Directories that `pushd` kept, the last one first. */
  readonly stack: readonly (string | undefined)[];
}

type Locations = readonly Location[];

const ANYWHERE: Location = { cwd: undefined, previous: undefined, stack: [] };

/** Working directories after a command succeeded or failed. */
interface Outcome {
  readonly ok: Locations;
  readonly failed: Locations;
}

function union(...all: readonly Locations[]): Locations {
  const unique = [...new Map(all.flat().map((location) => [JSON.stringify(location), location])).values()];
  return unique.length > LOCATIONS_MAX ? [...unique.slice(0, 1), ANYWHERE] : unique;
}

function isSame(one: Locations, other: Locations): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** The surroundings of a command. */
interface Scope extends Pick<Call, "fedBy" | "readsInput" | "input" | "inside" | "background" | "pipe"> {
  /** Programs that write to the `>( )` of the same command. */
  readonly feeds: readonly string[];
  readonly depth: number;
  /** True in another shell, which does not know the functions of this one. */
  readonly isChild: boolean;
}

const OUTERMOST: Scope = {
  fedBy: [],
  feeds: [],
  readsInput: false,
  input: [],
  inside: undefined,
  background: false,
  pipe: undefined,
  depth: 0,
  isChild: false,
};

/** Builtins whose text the same shell runs. */
const SAME_SHELL_BUILTINS = names("eval source .");

class Reader implements ShellScript {
  readonly calls: Call[] = [];
  readonly unclear = new Set<Unclear>();
  readonly bodies = new Map<string, Set<Call>>();
  readonly #home: string | undefined;
  readonly #known: ReadonlySet<string>;
  #locations: Locations;
  readonly #functions = new Map<string, readonly SyntaxNode[]>();
  /** Functions that are certainly defined: by a statement of the outermost script. */
  readonly #certain = new Set<string>();
  readonly #topLevel = new Set<SyntaxNode>();
  readonly #running = new Set<SyntaxNode>();
  readonly #called = new Set<SyntaxNode>();
  /** Working directories at `break`, `continue` and `return`, in which the script may continue. */
  #exits: Locations = [];
  /** Above zero while a body is visited again: its calls in pipelines and in the background count only once. */
  #revisits = 0;
  /** Known variables that the script may change. */
  readonly #changed = new Set<string>();
  /** Texts in the script that a variable or a parameter may have as its value. */
  readonly #values = new Set<string>();
  #traps: { readonly text: string; readonly scope: Scope }[] = [];
  /** Number of changes of the directory that were read. */
  #moves = 0;
  #nodes = 0;
  #words = 0;
  #characters = 0;
  #pipes = 0;

  constructor({ cwd, home }: ShellDirectories, known: ReadonlySet<string>) {
    this.#home = home;
    this.#known = known;
    this.#locations = [{ ...ANYWHERE, cwd }];
  }

  readAll(text: string): void {
    this.#readShell(text, OUTERMOST);
    for (const [name, bodies] of this.#functions) {
      const uncalled = bodies.filter((body) => !this.#called.has(body));
      if (uncalled.length > 0) this.#call(name, uncalled, OUTERMOST);
    }
  }

  /**
   * Reads a script, and then its traps in the directory where the script ends. In a script that changes directories, traps may
   * run anywhere.
   */
  #readShell(text: string, scope: Scope): void {
    const outer = this.#traps;
    const moves = this.#moves;
    this.#traps = [];
    this.#readScript(text, scope);
    if (this.#traps.length > 0 && this.#moves > moves) this.#locations = [...this.#locations, ANYWHERE];
    for (const trap of [...this.#traps]) this.#readScript(trap.text, trap.scope);
    this.#traps = outer;
  }

  #readScript(text: string, scope: Scope): void {
    this.#characters += text.length;
    if (this.#characters > SCRIPT_CHARACTERS_MAX || scope.depth > DEPTH_MAX) {
      this.unclear.add("too large");
      return;
    }
    for (const [, isRead, name = "", isSet] of text.matchAll(KNOWN_VARIABLE)) {
      if (isRead === undefined || isSet !== undefined) this.#changed.add(name);
    }
    if (hidesText(text)) this.unclear.add("control characters");
    const tree = parse(text);
    for (const statement of scope.depth === 0 ? tree.commands : []) {
      if (statement.background !== true) this.#topLevel.add(statement.command);
    }
    if (defersCode(tree)) this.unclear.add("deferred code");
    this.#visit(tree, scope);
  }

  /** Visits a node; afterwards `#locations` are those after success and after failure. */
  #visit(node: SyntaxNode, scope: Scope): Outcome {
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX || this.calls.length > CALLS_MAX) {
      this.unclear.add("too large");
      return this.#stay();
    }
    const reason = unclearNode(node);
    if (reason !== undefined) this.unclear.add(reason);
    const variables = namesSetBy(node).map((name) => `${name}=${UNKNOWN}`);
    if (variables.length > 0) this.#addCalls([""], { ...this.#context(scope), variables });
    this.#addValues(wordsSetBy(node).flatMap((word) => fieldsOf(word, this.#lookup)));
    const outcome = this.#visitByType(node, scope);
    this.#locations = union(outcome.ok, outcome.failed);
    return outcome;
  }

  #visitByType(node: SyntaxNode, scope: Scope): Outcome {
    switch (node.type) {
      case "Script":
      case "CompoundList": {
        let outcome = this.#stay();
        for (const statement of node.commands) outcome = this.#visit(statement, scope);
        return outcome;
      }
      case "Statement":
        if (node.background !== true) return this.#visit(node.command, scope);
        return this.#inSubshell(() => this.#visit(node.command, { ...scope, background: true }));
      case "AndOr": {
        const [first, ...rest] = node.commands;
        let outcome = first === undefined ? this.#stay() : this.#visit(first, scope);
        for (const [index, command] of rest.entries()) {
          const isAnd = node.operators[index] === "&&";
          const { ok, failed } = this.#visitFrom(isAnd ? outcome.ok : outcome.failed, command, scope);
          outcome = isAnd ? { ok, failed: union(outcome.failed, failed) } : { ok: union(outcome.ok, ok), failed };
        }
        return outcome;
      }
      case "Pipeline": {
        const [only] = node.commands;
        if (node.commands.length > 1 || only === undefined) return this.#pipeline(node.commands, scope);
        const { ok, failed } = this.#visit(only, scope);
        const negations = node.prefixes.filter(({ type }) => type === "Negation").length;
        return negations % 2 === 0 ? { ok, failed } : { ok: failed, failed: ok };
      }
      case "Command":
        return this.#command(node, scope);
      case "If": {
        const branches = [node, ...node.elif];
        const done: Locations[] = [];
        let rest = this.#locations;
        for (const { clause, then } of branches) {
          const { ok, failed } = this.#visitFrom(rest, clause, scope);
          done.push(this.#visitBoth(ok, then, scope));
          rest = failed;
        }
        return bothEnds(union(...done, node.else === undefined ? rest : this.#visitBoth(rest, node.else, scope)));
      }
      case "While":
        return this.#loop(() => {
          const { ok, failed } = this.#visit(node.clause, scope);
          this.#visitBoth(node.kind === "while" ? ok : failed, node.body, scope);
        });
      case "For":
        for (const word of node.wordlist ?? []) this.#visit(word, scope);
        return this.#loop(() => this.#visit(node.body, scope));
      case "Select":
      case "ArithmeticFor":
        return this.#loop(() => this.#visitChildren(node, scope));
      case "Case": {
        this.#visit(node.word, scope);
        let done = this.#locations;
        for (const { pattern, body } of node.items) {
          for (const part of pattern) this.#visit(part, scope);
          // After `;&` the next body runs too.
          done = union(done, this.#visitBoth(done, body, scope));
        }
        return bothEnds(done);
      }
      case "Function":
        this.#define(node.name.value, node);
        return this.#stay();
      case "Redirected":
        return this.#redirected(node.redirects, node.command, scope);
      case "Subshell":
        return this.#inSubshell(() => this.#visitChildren(node, scope));
      case "Coproc":
        return this.#inSubshell(() => this.#visitChildren(node, { ...scope, background: true }));
      case "CommandExpansion":
      case "ProcessSubstitution":
      case "ArithmeticCommandExpansion": {
        const isFed = node.type === "ProcessSubstitution" && node.operator === ">";
        const fed = isFed ? { fedBy: [...scope.fedBy, ...scope.feeds], readsInput: true } : {};
        return this.#inSubshell(() =>
          this.#visitChildren(node, { ...scope, background: false, pipe: undefined, ...fed, feeds: [] }),
        );
      }
      default:
        this.#visitChildren(node, scope);
        return this.#stay();
    }
  }

  #stay(): Outcome {
    return bothEnds(this.#locations);
  }

  #visitChildren(node: SyntaxNode, scope: Scope): void {
    forEachChild(node, (child) => this.#visit(child, scope));
  }

  #visitFrom(locations: Locations, node: SyntaxNode, scope: Scope): Outcome {
    this.#locations = locations;
    return this.#visit(node, scope);
  }

  #visitBoth(locations: Locations, node: SyntaxNode, scope: Scope): Locations {
    const { ok, failed } = this.#visitFrom(locations, node, scope);
    return union(ok, failed);
  }

  /** Visits what runs in a process of its own: its changes of the directory end with it. */
  #inSubshell(visit: () => void): Outcome {
    const locations = this.#locations;
    visit();
    this.#locations = locations;
    return bothEnds(locations);
  }

  /** Visits the body of a loop again while it changes the directory: later rounds start where earlier ones ended. */
  #loop(visit: () => void): Outcome {
    const outer = this.#revisits;
    let from = this.#locations;
    for (let round = 1; round <= ROUNDS_MAX; round += 1) {
      this.#locations = from;
      visit();
      this.#revisits += 1;
      const next = union(from, this.#locations, this.#exits);
      if (isSame(next, from)) break;
      from = round + 1 < ROUNDS_MAX ? next : union(next.slice(0, 1), [ANYWHERE]);
    }
    this.#revisits = outer;
    return bothEnds(union(from, this.#locations, this.#exits));
  }

  #pipeline(commands: readonly CommandNode[], scope: Scope): Outcome {
    this.#pipes += 1;
    const pipe = this.#pipes;
    let { fedBy, input } = scope;
    for (const [index, command] of commands.entries()) {
      const inner = { ...scope, fedBy, readsInput: index > 0 || scope.readsInput, pipe, input };
      const found = this.#programsIn(() => this.#inSubshell(() => this.#visit(command, inner)));
      fedBy = [...new Set([...fedBy, ...found])];
      input = command.type === "Command" ? printedBy(command, this.#lookup) : [];
    }
    return this.#stay();
  }

  /** Visits inputs before the command, and outputs after it: they get what its programs print. */
  #redirected(redirects: readonly Redirection[], command: SyntaxNode, scope: Scope): Outcome {
    const visit = (some: readonly Redirection[], around: Scope) =>
      this.#programsIn(() => {
        for (const redirect of some) this.#visit(redirect, around);
      });
    const fedBy = [...scope.fedBy, ...visit(redirects.filter(isInput), scope)];
    const { opened, input } = this.#opened(redirects);
    const readsInput = scope.readsInput || redirects.some(isInput);
    const before = this.#locations;
    let outcome = this.#stay();
    const feeds = this.#programsIn(() => {
      outcome = this.#visit(command, { ...scope, fedBy, readsInput, input: [...scope.input, ...input] });
    });
    visit(
      redirects.filter((redirect) => !isInput(redirect)),
      { ...scope, readsInput, feeds },
    );
    this.#addCalls([""], { ...this.#context(scope), opened, fedBy: [...fedBy, ...feeds] }, before);
    return outcome;
  }

  #opened(redirects: readonly Redirection[]) {
    const { opened, input, isComplete } = redirectedBy(redirects, this.#lookup);
    if (!isComplete) this.unclear.add("syntax");
    return { opened, input };
  }

  #define(name: string, node: FunctionNode): void {
    if (this.#known.has(name)) this.unclear.add("redefined program");
    const before = this.#functions.get(name) ?? [];
    if (before.length === DEFINITIONS_MAX) this.unclear.add("too large");
    else this.#functions.set(name, [...before, node.body]);
    this.bodies.set(name, this.bodies.get(name) ?? new Set());
    if (this.#topLevel.has(node)) this.#certain.add(name);
  }

  #command(node: Command, scope: Scope): Outcome {
    const program = node.name?.value ?? "";
    const fed = this.#programsIn(() => this.#visitChildren(node, { ...scope, feeds: program === "" ? [] : [program] }));
    if (node.name !== undefined && !isLiteral(node.name)) this.unclear.add("program not literal");
    const { opened, input } = this.#opened(node.redirects);
    const inner: Scope = {
      ...scope,
      fedBy: [...new Set([...scope.fedBy, ...fed])],
      readsInput: scope.readsInput || node.redirects.some(isInput),
      input: [...scope.input, ...input],
    };
    const { argv, variables } = readingOf(node, this.#lookup);
    const before = this.#locations;
    const bodies = this.#functions.get(program);
    const isFunction = bodies !== undefined && !scope.isChild && this.#certain.has(program);
    this.#start(argv, { ...this.#context(inner), variables, opened, isFunction }, inner);
    if (argv[0] === "unset") this.#certain.clear();
    if (/^(?:break|continue|return)$/.test(program)) this.#exits = union(this.#exits, this.#locations);
    // With more than one argument, `exit` fails and the script continues.
    if (program === "exit" && argv.length < 3) return bothEnds([]);
    if (program === "set" || bodies !== undefined) this.#addValues(argv);
    if (bodies === undefined) return this.#move(argv);
    const called = this.#call(program, bodies, inner);
    return isFunction ? called : { ok: union(called.ok, before), failed: union(called.failed, before) };
  }

  #call(name: string, bodies: readonly SyntaxNode[], scope: Scope): Outcome {
    const before = this.#locations;
    if (scope.depth > DEPTH_MAX) {
      this.unclear.add("too large");
      return bothEnds(before);
    }
    const inner = { ...scope, background: false, pipe: undefined, feeds: [], depth: scope.depth + 1, inside: name };
    const done = bodies.map((body) => {
      // A recursive call may change to any directory.
      if (this.#running.has(body)) return union(before, [ANYWHERE]);
      this.#called.add(body);
      this.#running.add(body);
      const locations = this.#visitBoth(before, body, inner);
      this.#running.delete(body);
      return locations;
    });
    return bothEnds(union(...done, this.#exits));
  }

  /** Returns the values that the shell or the service sets, unless the script may change them. Other variables are unknown. */
  readonly #lookup: VariableLookup = (name) => {
    if (this.#changed.has(name)) return UNKNOWN;
    switch (name) {
      case "HOME":
        return HOME;
      case "PWD":
        return this.#locations[0]?.cwd ?? UNKNOWN;
      case "IFS":
        return " ";
      default:
        return UNKNOWN;
    }
  };

  #addValues(texts: readonly string[]): void {
    for (const text of texts) for (const word of text.split(/\s+/)) if (!word.includes(UNKNOWN)) this.#values.add(word);
    if (this.#values.size > VALUES_MAX) this.unclear.add("too large");
  }

  #move(argv: readonly string[]): Outcome {
    const moves = this.#locations.map((from) => ({ from, move: moveOf(argv, from, this.#home) }));
    if (moves.every(({ move }) => move === undefined)) return this.#stay();
    this.#moves += 1;
    return {
      ok: union(moves.map(({ from, move }) => move?.to ?? from)),
      failed: union(moves.flatMap(({ from, move }) => (move?.isSure === true ? [] : [from]))),
    };
  }

  #context({ fedBy, readsInput, input, inside, background, pipe }: Scope): CallContext {
    const own = { fedBy, readsInput, input, inside, background, pipe };
    const directories = { cwd: undefined, home: this.#home };
    return { directories, variables: [], values: this.#values, opened: [], isFunction: false, ...own };
  }

  #addCalls(argv: readonly string[], context: CallContext, locations = this.#locations): Call {
    const at = (cwd: string | undefined) => ({ ...context, directories: { cwd, home: this.#home } });
    const again = { background: false, pipe: undefined };
    const [first, ...others] = locations;
    const made = callOf(argv, { ...at(first?.cwd), ...(this.#revisits > 0 ? again : {}) });
    const all = [made, ...others.map(({ cwd }) => callOf(argv, { ...at(cwd), ...again }))];
    this.calls.push(...all);
    for (const call of context.inside === undefined ? [] : all) this.bodies.get(context.inside ?? "")?.add(call);
    return made;
  }

  #programsIn(visit: () => void): readonly string[] {
    const from = this.calls.length;
    visit();
    return [...new Set(this.calls.slice(from).map(({ family }) => family))];
  }

  #start(argv: readonly string[], context: CallContext, scope: Scope): void {
    this.#words += argv.length * this.#locations.length;
    if (scope.depth > DEPTH_MAX || this.calls.length > CALLS_MAX || this.#words > WORDS_MAX) {
      this.unclear.add("too large");
      return;
    }
    const call = this.#addCalls(argv, context);
    const inner = { ...scope, depth: scope.depth + 1 };
    for (const wrapped of wrappedBy(call)) this.#startWrapped(wrapped, call, { context, scope: inner });
  }

  #startWrapped(wrapped: Wrapped, call: Call, { context, scope }: { context: CallContext; scope: Scope }): void {
    if ("hidden" in wrapped) this.unclear.add("hidden script");
    else if ("argv" in wrapped) {
      const [program = ""] = wrapped.argv;
      // A glob may match any program; `[` is a program.
      if (/[\0*?[]/.test(program) && !/^\[\[?$/.test(program)) this.unclear.add("program not literal");
      const { at } = wrapped;
      const visit = () => this.#start(wrapped.argv, { ...context, opened: [], isFunction: false }, scope);
      if (at === undefined) visit();
      else
        this.#inSubshell(() => {
          this.#locations = this.#move(["cd", at]).ok;
          visit();
        });
    } else this.#runNested(wrapped, call, scope);
  }

  #runNested({ script, dialect }: WrappedScript, call: Call, scope: Scope): void {
    if (dialect === "other" || script.includes(UNKNOWN)) this.unclear.add("hidden script");
    // `${_}` is a variable, whose value is unknown.
    const text = script.replaceAll(UNKNOWN, "$" + "{_}").replaceAll(HOME, "~");
    if (SAME_SHELL_BUILTINS.has(call.program)) this.#readScript(text, scope);
    else if (call.program === "trap") this.#trap(text, call, scope);
    else
      this.#inSubshell(() => {
        this.#addValues(call.args);
        this.#readShell(text, { ...scope, inside: undefined, isChild: true });
      });
  }

  /** Reads a trap. A trap for a signal other than EXIT may change the directory between any two commands. */
  #trap(text: string, { args }: Call, scope: Scope): void {
    const before = this.#locations;
    this.#traps.push({ text, scope });
    this.#readScript(text, scope);
    const isAtEnd = args.slice(1).every((signal) => /^(?:EXIT|0)$/.test(signal));
    if (!isAtEnd && !isSame(before, this.#locations)) this.unclear.add("deferred code");
    this.#locations = isAtEnd ? before : union(before, this.#locations);
  }
}

function bothEnds(locations: Locations): Outcome {
  return { ok: locations, failed: locations };
}

function readingOf({ name, prefix, suffix }: Command, lookup: VariableLookup) {
  const parts = suffix.filter((part) => part.type === "Word" || part.type === "Assignment");
  return {
    argv: [...(name === undefined ? [] : [name]), ...parts].flatMap((part) => argumentFields(part, lookup)),
    variables: prefix.flatMap((part) => (part.type === "Assignment" ? argumentFields(part, lookup) : [])),
  };
}

/** Matches a variable whose value the shell or the service sets, and whether the text reads or sets it. */
const KNOWN_VARIABLE = /(\$\{?[#!]?)?\b(HOME|PWD|IFS)\b(:?=)?/g;

interface Move {
  readonly to: Location;
  /** True when the command cannot fail. */
  readonly isSure: boolean;
}

/** Returns how a command changes the directory; `undefined` when it does not. */
function moveOf([program, ...args]: readonly string[], from: Location, home: string | undefined): Move | undefined {
  switch (program) {
    case "command":
    case "builtin":
      return /^-[vV]/.test(args[0] ?? "") ? undefined : moveOf(afterOptions(args), from, home);
    case "cd":
      return changed(afterOptions(args)[0] ?? HOME, from, home);
    case "pushd": {
      const [target, ...more] = args[0] === "--" ? args.slice(1) : args;
      if (target === undefined || more.length > 0 || /^[-+]/.test(target) || from.stack.length === STACK_MAX)
        return { to: ANYWHERE, isSure: false };
      return { to: { ...changed(target, from, home).to, stack: [from.cwd, ...from.stack] }, isSure: false };
    }
    case "popd": {
      const [top, ...stack] = from.stack;
      if (args.length > 0) return { to: ANYWHERE, isSure: false };
      if (from.stack.length === 0) return { to: from, isSure: false };
      return { to: { cwd: top, previous: from.cwd, stack }, isSure: true };
    }
    default:
      return undefined;
  }
}

function afterOptions(args: readonly string[]): readonly string[] {
  const at = args.findIndex((arg) => !/^-[A-Za-z@]+$/.test(arg));
  if (at === -1) return [];
  return args[at] === "--" ? args.slice(at + 1) : args.slice(at);
}

/** Matches directories that always exist: the root, the home, and parents. */
const ALWAYS_THERE = /^(?:\/|\u0001\/?|(?:\.{1,2}\/{0,4}){1,64})$/;

function changed(target: string, from: Location, home: string | undefined): Move {
  const cwd = target === "-" ? from.previous : pathOf(target, from.cwd, home);
  return { to: { cwd, previous: from.cwd, stack: from.stack }, isSure: ALWAYS_THERE.test(target) };
}

function pathOf(target: string, cwd: string | undefined, home: string | undefined): string | undefined {
  // A tilde with a name is the home of a user or another directory, which is unknown here.
  if (target.includes(UNKNOWN) || target.startsWith("~") || target.split("/").some(mayBeParent)) return undefined;
  const parts = target.length > PATH_CHARACTERS_MAX ? undefined : partsOf(target, { cwd, home });
  const path = parts === undefined ? undefined : `/${parts.join("/")}`;
  return path === undefined || path.length > PATH_CHARACTERS_MAX ? undefined : path;
}
