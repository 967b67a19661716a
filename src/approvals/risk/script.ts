import {
  type Command,
  type CommandNode,
  type For,
  type Function as FunctionNode,
  forEachChild,
  parse,
  type Redirection,
  type SyntaxNode,
} from "unbash";
import { type Call, type CallContext, callOf, names, type ShellDirectories } from "./call.ts";
import { mayClimb, partsOf } from "./paths.ts";
import { defersCode, hidesText, namesSetBy, type Unclear, unclearNode } from "./unclear.ts";
import {
  argumentFields,
  fieldsOf,
  HOME,
  isInput,
  isLiteral,
  printedBy,
  redirectedBy,
  textOf,
  UNKNOWN,
  type VariableLookup,
} from "./words.ts";
import { type Wrapped, type WrappedScript, wrappedBy } from "./wrappers.ts";

/** UTF-16 units of a script and the scripts inside it. */
const SCRIPT_CHARACTERS_MAX = 16_384;
/** Visited nodes of the syntax tree; those of functions and loops count once per visit. */
const NODES_MAX = 8_192;
const CALLS_MAX = 512;
/** Words of all calls; those after a wrapper count again. */
const WORDS_MAX = 12_288;
const DEPTH_MAX = 12;
/** Working directories that are followed; more count as anywhere. */
const LOCATIONS_MAX = 4;
/** Directories that `pushd` keeps. */
const STACK_MAX = 16;
/** Constants that refer to other constants. */
const CONSTANTS_DEPTH_MAX = 4;
/** Rounds of a loop that changes the directory. */
const ROUNDS_MAX = 3;
const LOOP_WORDS_MAX = 8;
const DEFINITIONS_MAX = 8;
const PATH_CHARACTERS_MAX = 4_096;

/** The calls of a script, as far as its text tells. */
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
  /** Returns constants and unset variables as the shell would; the plain reading takes every variable for unknown. */
  readonly lookup: VariableLookup;
  /** Programs that write to the `>( )` of the same command. */
  readonly feeds: readonly string[];
  readonly depth: number;
  /** `$0`, `$1` and so on; `undefined` when unknown. */
  readonly parameters: readonly string[] | undefined;
  /** True in another shell, which does not know the functions of this one. */
  readonly isChild: boolean;
}

const OUTERMOST: Scope = {
  lookup: () => UNKNOWN,
  fedBy: [],
  feeds: [],
  readsInput: false,
  input: [],
  inside: undefined,
  background: false,
  pipe: undefined,
  depth: 0,
  parameters: ["bash"],
  isChild: false,
};

interface Definition {
  readonly body: SyntaxNode;
  readonly lookup: VariableLookup;
}

/** Builtins whose text the same shell runs. */
const SAME_SHELL_BUILTINS = names("eval source .");

class Reader implements ShellScript {
  readonly calls: Call[] = [];
  readonly unclear = new Set<Unclear>();
  readonly bodies = new Map<string, Set<Call>>();
  readonly #home: string | undefined;
  readonly #known: ReadonlySet<string>;
  #locations: Locations;
  readonly #functions = new Map<string, readonly Definition[]>();
  /** Functions that are surely defined: by a statement of the outermost script. */
  readonly #certain = new Set<string>();
  readonly #topLevel = new Set<SyntaxNode>();
  readonly #running = new Set<SyntaxNode>();
  readonly #called = new Set<SyntaxNode>();
  /** Locations at `break`, `continue` and `return`: the script may continue from them. */
  #exits: Locations = [];
  /** Above zero while a body is visited again: its calls are counted once as parts of pipelines. */
  #revisits = 0;
  #changesParameters = false;
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
    for (const [name, definitions] of this.#functions) {
      const uncalled = definitions.filter(({ body }) => !this.#called.has(body));
      if (uncalled.length > 0) this.#call(name, uncalled, { ...OUTERMOST, parameters: undefined });
    }
  }

  /** Reads a script and then its traps, which run in the directory in which the script ends: anywhere, if it changes directories. */
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
    this.#changesParameters ||= /\b(?:shift|getopts)\b|\bset\s+(?:--|-$|[^-+\s])/.test(text);
    if (hidesText(text)) this.unclear.add("control characters");
    const tree = parse(text);
    for (const statement of scope.depth === 0 ? tree.commands : []) {
      if (statement.background !== true) this.#topLevel.add(statement.command);
    }
    if (defersCode(tree)) this.unclear.add("deferred code");
    this.#visit(tree, { ...scope, lookup: constantsOf(tree, text, scope.lookup) });
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
        return this.#for(node, scope);
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
        this.#define(node.name.value, node, scope);
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

  #for(node: For, scope: Scope): Outcome {
    for (const word of node.wordlist ?? []) this.#visit(word, scope);
    const fields = (node.wordlist ?? []).flatMap((word) => fieldsOf(word, this.#resolved(scope)));
    // The body contains only the variable: absolute paths in the list count as read.
    const paths = fields.filter((field) => /^[/\u0001]/.test(field));
    this.#addCalls([""], { ...this.#context(scope), opened: paths.map((path) => ({ path, writes: false })) });
    const values = fields.length === 0 || fields.length > LOOP_WORDS_MAX ? [UNKNOWN] : fields;
    return this.#loop(() => {
      for (const value of values) {
        const lookup: VariableLookup = (name) => (name === node.name.value ? value : scope.lookup(name));
        const isConstant = scope.lookup(node.name.value) === LOOPED;
        this.#visit(node.body, isConstant ? { ...scope, lookup } : scope);
        if (!isConstant) break;
        this.#revisits += 1;
      }
    });
  }

  #pipeline(commands: readonly CommandNode[], scope: Scope): Outcome {
    this.#pipes += 1;
    const pipe = this.#pipes;
    let { fedBy, input } = scope;
    for (const [index, command] of commands.entries()) {
      const inner = { ...scope, fedBy, readsInput: index > 0 || scope.readsInput, pipe, input };
      const found = this.#programsIn(() => this.#inSubshell(() => this.#visit(command, inner)));
      fedBy = [...new Set([...fedBy, ...found])];
      input = command.type === "Command" ? printedBy(command, this.#resolved(scope)) : [];
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
    const { opened, input } = this.#opened(redirects, scope);
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

  #opened(redirects: readonly Redirection[], scope: Scope) {
    const read = redirectedBy(redirects, this.#resolved(scope));
    if (!read.isComplete) this.unclear.add("syntax");
    const plain = redirectedBy(redirects, this.#plain(scope));
    return { opened: [...read.opened, ...plain.opened], input: read.input };
  }

  #define(name: string, node: FunctionNode, { lookup }: Scope): void {
    if (this.#known.has(name)) this.unclear.add("redefined program");
    const before = this.#functions.get(name) ?? [];
    if (before.length === DEFINITIONS_MAX) this.unclear.add("too large");
    else this.#functions.set(name, [...before, { body: node.body, lookup }]);
    this.bodies.set(name, this.bodies.get(name) ?? new Set());
    if (this.#topLevel.has(node)) this.#certain.add(name);
  }

  #command(node: Command, scope: Scope): Outcome {
    const program = node.name?.value ?? "";
    const fed = this.#programsIn(() => this.#visitChildren(node, { ...scope, feeds: program === "" ? [] : [program] }));
    if (node.name !== undefined && !isLiteral(node.name)) this.unclear.add("program not literal");
    const { opened, input } = this.#opened(node.redirects, scope);
    const inner: Scope = {
      ...scope,
      fedBy: [...new Set([...scope.fedBy, ...fed])],
      readsInput: scope.readsInput || node.redirects.some(isInput),
      input: [...scope.input, ...input],
    };
    const [resolved, plain] = [this.#resolved(scope), this.#plain(scope)].map((lookup) => readingOf(node, lookup));
    if (resolved === undefined || plain === undefined) return this.#stay();
    const isOne = JSON.stringify(resolved) === JSON.stringify(plain);
    const before = this.#locations;
    const isFunction = this.#functions.has(program) && !scope.isChild && this.#certain.has(program);
    const done = (isOne ? [plain] : [resolved, plain]).map(({ argv, variables }, index) => {
      this.#locations = before;
      const alone = index === 0 ? {} : { background: false, pipe: undefined };
      this.#start(argv, { ...this.#context(inner), variables, opened, isFunction, ...alone }, inner);
      return this.#locations;
    });
    this.#locations = union(...done);
    if (plain.argv[0] === "unset") this.#certain.clear();
    const definitions = this.#functions.get(program);
    if (/^(?:break|continue|return)$/.test(program)) this.#exits = union(this.#exits, this.#locations);
    // With more than one argument `exit` fails.
    if (program === "exit" && plain.argv.length < 3) return bothEnds([]);
    if (definitions === undefined) return this.#move([resolved.argv, plain.argv]);
    const called = this.#call(program, definitions, { ...inner, parameters: resolved.argv });
    return isFunction ? called : { ok: union(called.ok, before), failed: union(called.failed, before) };
  }

  #call(name: string, definitions: readonly Definition[], scope: Scope): Outcome {
    const before = this.#locations;
    if (scope.depth > DEPTH_MAX) {
      this.unclear.add("too large");
      return bothEnds(before);
    }
    const inner = { ...scope, background: false, pipe: undefined, feeds: [], depth: scope.depth + 1, inside: name };
    const done = definitions.map(({ body, lookup }) => {
      // A recursive call may change to any directory.
      if (this.#running.has(body)) return union(before, [ANYWHERE]);
      this.#called.add(body);
      this.#running.add(body);
      const locations = this.#visitBoth(before, body, { ...inner, lookup });
      this.#running.delete(body);
      return locations;
    });
    return bothEnds(union(...done, this.#exits));
  }

  #resolved({ lookup, parameters }: Scope): VariableLookup {
    return (name) => {
      if (/^[0-9]{1,2}$/.test(name)) {
        const isKnown =
          parameters !== undefined && !this.#changesParameters && !parameters.some((word) => word.includes(UNKNOWN));
        return isKnown ? (parameters[Number(name)] ?? "") : UNKNOWN;
      }
      const value = lookup(name);
      if (value === HERE) return this.#locations[0]?.cwd ?? UNKNOWN;
      return value === LOOPED ? UNKNOWN : value;
    };
  }

  /** Takes every variable for unknown, except the working directory and a home that nothing changes. */
  #plain(scope: Scope): VariableLookup {
    const resolved = this.#resolved(scope);
    return (name) => (name === "PWD" || name === "HOME" ? resolved(name) : UNKNOWN);
  }

  #move(argvs: readonly (readonly string[])[]): Outcome {
    const moves = argvs.flatMap((argv) =>
      this.#locations.map((from) => ({ from, move: moveOf(argv, from, this.#home) })),
    );
    if (moves.every(({ move }) => move === undefined)) return this.#stay();
    this.#moves += 1;
    return {
      ok: union(moves.map(({ from, move }) => move?.to ?? from)),
      failed: union(moves.flatMap(({ from, move }) => (move?.isSure === true ? [] : [from]))),
    };
  }

  #context({ fedBy, readsInput, input, inside, background, pipe }: Scope): CallContext {
    const own = { fedBy, readsInput, input, inside, background, pipe };
    return { directories: { cwd: undefined, home: this.#home }, variables: [], opened: [], isFunction: false, ...own };
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
      // A glob may be any program; `[` is one.
      if (/[\0*?[]/.test(program) && !/^\[\[?$/.test(program)) this.unclear.add("program not literal");
      const { at } = wrapped;
      const visit = () => this.#start(wrapped.argv, { ...context, opened: [], isFunction: false }, scope);
      if (at === undefined) visit();
      else
        this.#inSubshell(() => {
          this.#locations = this.#move([["cd", at]]).ok;
          visit();
        });
    } else this.#runNested(wrapped, call, scope);
  }

  #runNested({ script, dialect, words = [] }: WrappedScript, call: Call, scope: Scope): void {
    if (dialect === "other" || script.includes(UNKNOWN)) this.unclear.add("hidden script");
    // `${_}` is a value that nobody knows.
    const text = script.replaceAll(UNKNOWN, "$" + "{_}").replaceAll(HOME, "~");
    if (SAME_SHELL_BUILTINS.has(call.program)) this.#readScript(text, scope);
    else if (call.program === "trap") this.#trap(text, call, scope);
    else
      this.#inSubshell(() => this.#readShell(text, { ...scope, inside: undefined, parameters: words, isChild: true }));
  }

  /** A trap for anything but the end may change the directory between any two commands. */
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

/** Marks of values that depend on the position at which a variable is read. */
const HERE = "\0here";
const LOOPED = "\0looped";

/** Variables that the shell or the service sets. */
const SET_ELSEWHERE =
  /^(?:PATH|LANG|LC_[A-Z]+|TZ|TERM|OLDPWD|SHLVL|SHELL|SHELLOPTS|UID|EUID|PPID|GROUPS|HOST(?:NAME|TYPE)|OSTYPE|MACHTYPE|S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|REPLY|OPT(?:ARG|IND)|COLUMNS|LINES|DIRSTACK|FUNCNAME|PIPESTATUS|MAPFILE|COPROC|BASH.*|COMP_.*|STC_.*|[^A-Za-z].*|_)$/;

/**
 * Returns the values of variables that the text sets once, in one plain assignment or loop, and mentions nowhere else except to
 * read them. Variables that it never sets are empty. The plain reading does not use them.
 */
function constantsOf(tree: SyntaxNode, text: string, outer: VariableLookup): VariableLookup {
  const mentions = new Map<string, number>();
  for (const [, isRead, name = "", sets] of text.matchAll(/(\$\{?[#!]?)?([A-Za-z_]\w*)(:?=)?/g)) {
    if (isRead === undefined || sets !== undefined) mentions.set(name, (mentions.get(name) ?? 0) + 1);
  }
  const values = new Map<string, (lookup: VariableLookup) => string>();
  const collect = (node: SyntaxNode): void => {
    if (node.type === "Assignment" && node.append !== true && node.index === undefined && node.value.type === "Word") {
      const { value } = node;
      values.set(node.name, (lookup) => textOf(value, lookup));
    }
    if (node.type === "For") values.set(node.name.value, () => LOOPED);
    forEachChild(node, collect);
  };
  collect(tree);
  let depth = 0;
  const read: VariableLookup = (name) => {
    const times = mentions.get(name) ?? 0;
    const value = values.get(name);
    if (times > 1 || (times === 1 && value === undefined) || depth > CONSTANTS_DEPTH_MAX) return UNKNOWN;
    if (value !== undefined) {
      depth += 1;
      const found = value(read);
      depth -= 1;
      return found;
    }
    if (name === "HOME") return HOME;
    if (name === "PWD") return HERE;
    const inherited = outer(name);
    if (inherited !== UNKNOWN && inherited !== "") return inherited;
    if (name === "IFS") return " ";
    return SET_ELSEWHERE.test(name) ? UNKNOWN : "";
  };
  return read;
}

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
  // A tilde with a name is somebody's home or another directory: unknown here.
  if (target.includes(UNKNOWN) || target.startsWith("~") || target.split("/").some(mayClimb)) return undefined;
  const parts = target.length > PATH_CHARACTERS_MAX ? undefined : partsOf(target, { cwd, home });
  const path = parts === undefined ? undefined : `/${parts.join("/")}`;
  return path === undefined || path.length > PATH_CHARACTERS_MAX ? undefined : path;
}
