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
/** Nested scripts, wrappers and function calls. */
const DEPTH_MAX = 12;
/** Working directories that are told apart. */
const PLACES_MAX = 4;
/** Directories that `pushd` keeps. */
const STACK_MAX = 16;
/** Constants that refer to other constants. */
const CONSTANTS_DEPTH_MAX = 4;
/** Rounds of a loop that moves. */
const ROUNDS_MAX = 3;
const LOOP_WORDS_MAX = 8;
const DEFINITIONS_MAX = 8;
const PATH_CHARACTERS_MAX = 4_096;

/** Everything that a script starts, as far as its text tells. */
export interface ShellScript {
  readonly calls: readonly Call[];
  readonly unclear: ReadonlySet<Unclear>;
  /** Calls by the function whose body contains them. */
  readonly bodies: ReadonlyMap<string, ReadonlySet<Call>>;
}

/**
 * Reads a script and lists the calls in it. Never throws. `known` are the programs that rules are about: a function with such a
 * name makes the script unclear.
 */
export function readScript(text: string, directories: ShellDirectories, known: ReadonlySet<string>): ShellScript {
  const reader = new Reader(directories, known);
  try {
    reader.whole(text);
  } catch (error) {
    // An error of the parser or an exhausted stack: the rest of the script was not read.
    if (!(error instanceof Error)) throw error;
    reader.unclear.add("syntax");
  }
  return reader;
}

/** A possible working directory. Paths are absolute, or `undefined` when unknown. */
interface Place {
  readonly at: string | undefined;
  /** The one before: `cd -`. */
  readonly before: string | undefined;
  /** What `pushd` kept, the last one first. */
  readonly stack: readonly (string | undefined)[];
}

type Places = readonly Place[];

const NOWHERE: Place = { at: undefined, before: undefined, stack: [] };

/** Working directories after a command succeeded or failed. */
interface Ends {
  readonly ok: Places;
  readonly failed: Places;
}

function union(...all: readonly Places[]): Places {
  const unique = [...new Map(all.flat().map((place) => [JSON.stringify(place), place])).values()];
  return unique.length > PLACES_MAX ? [...unique.slice(0, 1), NOWHERE] : unique;
}

function isSame(one: Places, other: Places): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** What surrounds a command. */
interface Scope {
  /** Reads constants and unset variables as the shell would; the plain reading beside it takes them for anything. */
  readonly lookup: VariableLookup;
  readonly fedBy: readonly string[];
  /** Programs that write to the `>( )` of the same command. */
  readonly feeds: readonly string[];
  readonly readsInput: boolean;
  readonly input: readonly string[];
  readonly inside: string | undefined;
  readonly background: boolean;
  readonly pipe: number | undefined;
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
const SAME_SHELL = names("eval source .");

/** Visits every command of a script, whatever decides whether it runs. */
class Reader implements ShellScript {
  readonly calls: Call[] = [];
  readonly unclear = new Set<Unclear>();
  readonly bodies = new Map<string, Set<Call>>();
  readonly #home: string | undefined;
  readonly #known: ReadonlySet<string>;
  #places: Places;
  readonly #functions = new Map<string, readonly Definition[]>();
  /** Functions that are surely defined: by a statement of the outermost script. */
  readonly #certain = new Set<string>();
  readonly #topLevel = new Set<SyntaxNode>();
  readonly #running = new Set<SyntaxNode>();
  readonly #called = new Set<SyntaxNode>();
  /** Where `break`, `continue` and `return` were reached: the script may continue from there. */
  #left: Places = [];
  /** Above zero while a body is visited again: its calls are counted once as parts of pipelines. */
  #again = 0;
  /** True when the text may change the parameters. */
  #shifts = false;
  #traps: { readonly text: string; readonly scope: Scope }[] = [];
  #nodes = 0;
  #words = 0;
  #characters = 0;
  #pipes = 0;

  constructor({ cwd, home }: ShellDirectories, known: ReadonlySet<string>) {
    this.#home = home;
    this.#known = known;
    this.#places = [{ ...NOWHERE, at: cwd }];
  }

  whole(text: string): void {
    this.#shell(text, OUTERMOST);
    for (const [name, definitions] of this.#functions) {
      const uncalled = definitions.filter(({ body }) => !this.#called.has(body));
      if (uncalled.length > 0) this.#call(name, uncalled, { ...OUTERMOST, parameters: undefined });
    }
  }

  /** Reads a script and then its traps, which run in the last working directory. */
  #shell(text: string, scope: Scope): void {
    const outer = this.#traps;
    this.#traps = [];
    this.#script(text, scope);
    for (const trap of [...this.#traps]) this.#script(trap.text, trap.scope);
    this.#traps = outer;
  }

  #script(text: string, scope: Scope): void {
    this.#characters += text.length;
    if (this.#characters > SCRIPT_CHARACTERS_MAX || scope.depth > DEPTH_MAX) {
      this.unclear.add("too large");
      return;
    }
    this.#shifts ||= /\b(?:shift|getopts)\b|\bset\s+(?:--|-$|[^-+\s])/.test(text);
    if (hidesText(text)) this.unclear.add("control characters");
    const tree = parse(text);
    for (const statement of scope.depth === 0 ? tree.commands : []) {
      if (statement.background !== true) this.#topLevel.add(statement.command);
    }
    if (defersCode(tree)) this.unclear.add("deferred code");
    this.#visit(tree, { ...scope, lookup: constantsOf(tree, text, scope.lookup) });
  }

  /** Visits a node; afterwards `#places` are those of both ends. */
  #visit(node: SyntaxNode, scope: Scope): Ends {
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX || this.calls.length > CALLS_MAX) {
      this.unclear.add("too large");
      return this.#here();
    }
    const reason = unclearNode(node);
    if (reason !== undefined) this.unclear.add(reason);
    const variables = namesSetBy(node).map((name) => `${name}=${UNKNOWN}`);
    if (variables.length > 0) this.#add([""], { ...this.#context(scope), variables });
    const ends = this.#follow(node, scope);
    this.#places = union(ends.ok, ends.failed);
    return ends;
  }

  #follow(node: SyntaxNode, scope: Scope): Ends {
    switch (node.type) {
      case "Script":
      case "CompoundList": {
        let ends = this.#here();
        for (const statement of node.commands) ends = this.#visit(statement, scope);
        return ends;
      }
      case "Statement":
        if (node.background !== true) return this.#visit(node.command, scope);
        return this.#apart(() => this.#visit(node.command, { ...scope, background: true }));
      case "AndOr": {
        const [first, ...rest] = node.commands;
        let ends = first === undefined ? this.#here() : this.#visit(first, scope);
        for (const [index, command] of rest.entries()) {
          const isAnd = node.operators[index] === "&&";
          const { ok, failed } = this.#from(isAnd ? ends.ok : ends.failed, () => this.#visit(command, scope));
          ends = isAnd ? { ok, failed: union(ends.failed, failed) } : { ok: union(ends.ok, ok), failed };
        }
        return ends;
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
        const done: Places[] = [];
        let rest = this.#places;
        for (const { clause, then } of branches) {
          const { ok, failed } = this.#from(rest, () => this.#visit(clause, scope));
          done.push(this.#both(ok, then, scope));
          rest = failed;
        }
        return alike(union(...done, node.else === undefined ? rest : this.#both(rest, node.else, scope)));
      }
      case "While":
        return this.#loop(() => {
          const { ok, failed } = this.#visit(node.clause, scope);
          this.#both(node.kind === "while" ? ok : failed, node.body, scope);
        });
      case "For":
        return this.#for(node, scope);
      case "Select":
      case "ArithmeticFor":
        return this.#loop(() => this.#each(node, scope));
      case "Case": {
        this.#visit(node.word, scope);
        let done = this.#places;
        for (const { pattern, body } of node.items) {
          for (const part of pattern) this.#visit(part, scope);
          // After `;&` the next body runs too.
          done = union(done, this.#both(done, body, scope));
        }
        return alike(done);
      }
      case "Function":
        this.#define(node.name.value, node, scope);
        return this.#here();
      case "Redirected":
        return this.#redirected(node.redirects, node.command, scope);
      case "Subshell":
        return this.#apart(() => this.#each(node, scope));
      case "Coproc":
        return this.#apart(() => this.#each(node, { ...scope, background: true }));
      case "CommandExpansion":
      case "ProcessSubstitution":
      case "ArithmeticCommandExpansion": {
        const isFed = node.type === "ProcessSubstitution" && node.operator === ">";
        const fed = isFed ? { fedBy: [...scope.fedBy, ...scope.feeds], readsInput: true } : {};
        return this.#apart(() => this.#each(node, { ...scope, background: false, pipe: undefined, ...fed, feeds: [] }));
      }
      default:
        this.#each(node, scope);
        return this.#here();
    }
  }

  #here(): Ends {
    return alike(this.#places);
  }

  #each(node: SyntaxNode, scope: Scope): void {
    forEachChild(node, (child) => this.#visit(child, scope));
  }

  #from(places: Places, look: () => Ends): Ends {
    this.#places = places;
    return look();
  }

  #both(places: Places, node: SyntaxNode, scope: Scope): Places {
    const { ok, failed } = this.#from(places, () => this.#visit(node, scope));
    return union(ok, failed);
  }

  /** Visits what runs in a process of its own, which moves nothing else. */
  #apart(look: () => void): Ends {
    const places = this.#places;
    look();
    this.#places = places;
    return alike(places);
  }

  /** Visits the body of a loop again while it moves: later rounds start where earlier ones ended. */
  #loop(look: () => void): Ends {
    const outer = this.#again;
    let from = this.#places;
    for (let round = 1; round <= ROUNDS_MAX; round += 1) {
      this.#places = from;
      look();
      this.#again += 1;
      const next = union(from, this.#places, this.#left);
      if (isSame(next, from)) break;
      from = round + 1 < ROUNDS_MAX ? next : union(next.slice(0, 1), [NOWHERE]);
    }
    this.#again = outer;
    return alike(union(from, this.#places, this.#left));
  }

  #for(node: For, scope: Scope): Ends {
    for (const word of node.wordlist ?? []) this.#visit(word, scope);
    const fields = (node.wordlist ?? []).flatMap((word) => fieldsOf(word, this.#resolved(scope)));
    // The body contains only the variable: absolute paths in the list count as read.
    const paths = fields.filter((field) => /^[/\u0001]/.test(field));
    this.#add([""], { ...this.#context(scope), opened: paths.map((path) => ({ path, writes: false })) });
    const values = fields.length === 0 || fields.length > LOOP_WORDS_MAX ? [UNKNOWN] : fields;
    return this.#loop(() => {
      for (const value of values) {
        const lookup: VariableLookup = (name) => (name === node.name.value ? value : scope.lookup(name));
        const isConstant = scope.lookup(node.name.value) === LOOPED;
        this.#visit(node.body, isConstant ? { ...scope, lookup } : scope);
        if (!isConstant) break;
        this.#again += 1;
      }
    });
  }

  #pipeline(commands: readonly CommandNode[], scope: Scope): Ends {
    this.#pipes += 1;
    const pipe = this.#pipes;
    let { fedBy, input } = scope;
    for (const [index, command] of commands.entries()) {
      const inner = { ...scope, fedBy, readsInput: index > 0 || scope.readsInput, pipe, input };
      const found = this.#programs(() => this.#apart(() => this.#visit(command, inner)));
      fedBy = [...new Set([...fedBy, ...found])];
      input = command.type === "Command" ? printedBy(command, this.#resolved(scope)) : [];
    }
    return this.#here();
  }

  /** Visits inputs before the command, and outputs after it: they get what its programs print. */
  #redirected(redirects: readonly Redirection[], command: SyntaxNode, scope: Scope): Ends {
    const look = (some: readonly Redirection[], around: Scope) =>
      this.#programs(() => {
        for (const redirect of some) this.#visit(redirect, around);
      });
    const fedBy = [...scope.fedBy, ...look(redirects.filter(isInput), scope)];
    const { opened, input } = this.#opened(redirects, scope);
    const readsInput = scope.readsInput || redirects.some(isInput);
    const before = this.#places;
    let ends = this.#here();
    const feeds = this.#programs(() => {
      ends = this.#visit(command, { ...scope, fedBy, readsInput, input: [...scope.input, ...input] });
    });
    look(
      redirects.filter((redirect) => !isInput(redirect)),
      { ...scope, readsInput, feeds },
    );
    this.#add([""], { ...this.#context(scope), opened, fedBy: [...fedBy, ...feeds] }, before);
    return ends;
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

  #command(node: Command, scope: Scope): Ends {
    const program = node.name?.value ?? "";
    const fed = this.#programs(() => this.#each(node, { ...scope, feeds: program === "" ? [] : [program] }));
    if (node.name !== undefined && !isLiteral(node.name)) this.unclear.add("program not literal");
    const { opened, input } = this.#opened(node.redirects, scope);
    const inner: Scope = {
      ...scope,
      fedBy: [...new Set([...scope.fedBy, ...fed])],
      readsInput: scope.readsInput || node.redirects.some(isInput),
      input: [...scope.input, ...input],
    };
    const [resolved, plain] = [this.#resolved(scope), this.#plain(scope)].map((lookup) => readingOf(node, lookup));
    if (resolved === undefined || plain === undefined) return this.#here();
    const isOne = JSON.stringify(resolved) === JSON.stringify(plain);
    const before = this.#places;
    const isFunction = this.#functions.has(program) && !scope.isChild && this.#certain.has(program);
    const done = (isOne ? [plain] : [resolved, plain]).map(({ argv, variables }, index) => {
      this.#places = before;
      const alone = index === 0 ? {} : { background: false, pipe: undefined };
      this.#run(argv, { ...this.#context(inner), variables, opened, isFunction, ...alone }, inner);
      return this.#places;
    });
    this.#places = union(...done);
    if (plain.argv[0] === "unset") this.#certain.clear();
    const definitions = this.#functions.get(program);
    if (/^(?:break|continue|return)$/.test(program)) this.#left = union(this.#left, this.#places);
    // With more than one argument `exit` fails.
    if (program === "exit" && plain.argv.length < 3) return alike([]);
    if (definitions === undefined) return this.#moved([resolved.argv, plain.argv]);
    const called = this.#call(program, definitions, { ...inner, parameters: resolved.argv });
    return isFunction ? called : { ok: union(called.ok, before), failed: union(called.failed, before) };
  }

  #call(name: string, definitions: readonly Definition[], scope: Scope): Ends {
    const before = this.#places;
    if (scope.depth > DEPTH_MAX) {
      this.unclear.add("too large");
      return alike(before);
    }
    const inner = { ...scope, background: false, pipe: undefined, feeds: [], depth: scope.depth + 1, inside: name };
    const done = definitions.map(({ body, lookup }) => {
      // A call inside its own body may move anywhere.
      if (this.#running.has(body)) return union(before, [NOWHERE]);
      this.#called.add(body);
      this.#running.add(body);
      const places = this.#both(before, body, { ...inner, lookup });
      this.#running.delete(body);
      return places;
    });
    return alike(union(...done, this.#left));
  }

  #resolved({ lookup, parameters }: Scope): VariableLookup {
    return (name) => {
      if (/^[0-9]{1,2}$/.test(name)) {
        const isKnown = parameters !== undefined && !this.#shifts && !parameters.some((word) => word.includes(UNKNOWN));
        return isKnown ? (parameters[Number(name)] ?? "") : UNKNOWN;
      }
      const value = lookup(name);
      if (value === HERE) return this.#places[0]?.at ?? UNKNOWN;
      return value === LOOPED ? UNKNOWN : value;
    };
  }

  /** Takes all variables for anything, except the working directory and the home that nothing changes. */
  #plain(scope: Scope): VariableLookup {
    const resolved = this.#resolved(scope);
    return (name) => (name === "PWD" || name === "HOME" ? resolved(name) : UNKNOWN);
  }

  #moved(argvs: readonly (readonly string[])[]): Ends {
    const moves = argvs.flatMap((argv) => this.#places.map((from) => ({ from, move: moveOf(argv, from, this.#home) })));
    if (moves.every(({ move }) => move === undefined)) return this.#here();
    return {
      ok: union(moves.map(({ from, move }) => move?.to ?? from)),
      failed: union(moves.flatMap(({ from, move }) => (move?.isSure === true ? [] : [from]))),
    };
  }

  #context({ fedBy, readsInput, input, inside, background, pipe }: Scope): CallContext {
    const directories = { cwd: undefined, home: this.#home };
    return {
      directories,
      variables: [],
      opened: [],
      isFunction: false,
      fedBy,
      readsInput,
      input,
      inside,
      background,
      pipe,
    };
  }

  /** Adds a call for each possible working directory. */
  #add(argv: readonly string[], context: CallContext, places = this.#places): Call {
    const at = (cwd: string | undefined) => ({ ...context, directories: { cwd, home: this.#home } });
    const again = { background: false, pipe: undefined };
    const [first, ...others] = places;
    const made = callOf(argv, { ...at(first?.at), ...(this.#again > 0 ? again : {}) });
    const all = [made, ...others.map((place) => callOf(argv, { ...at(place.at), ...again }))];
    this.calls.push(...all);
    for (const call of context.inside === undefined ? [] : all) this.bodies.get(context.inside ?? "")?.add(call);
    return made;
  }

  /** Returns the names of the programs that were found while looking. */
  #programs(look: () => void): readonly string[] {
    const from = this.calls.length;
    look();
    return [...new Set(this.calls.slice(from).map(({ family }) => family))];
  }

  /** Adds a call and the calls that it wraps. */
  #run(argv: readonly string[], context: CallContext, scope: Scope): void {
    this.#words += argv.length * this.#places.length;
    if (scope.depth > DEPTH_MAX || this.calls.length > CALLS_MAX || this.#words > WORDS_MAX) {
      this.unclear.add("too large");
      return;
    }
    const call = this.#add(argv, context);
    const inner = { ...scope, depth: scope.depth + 1 };
    for (const wrapped of wrappedBy(call)) this.#wrapped(wrapped, call, { context, scope: inner });
  }

  #wrapped(wrapped: Wrapped, call: Call, { context, scope }: { context: CallContext; scope: Scope }): void {
    if ("hidden" in wrapped) this.unclear.add("hidden script");
    else if ("argv" in wrapped) {
      const [program = ""] = wrapped.argv;
      // A glob may be any program; `[` is one.
      if (/[\0*?[]/.test(program) && !/^\[\[?$/.test(program)) this.unclear.add("program not literal");
      const { at } = wrapped;
      const look = () => this.#run(wrapped.argv, { ...context, opened: [], isFunction: false }, scope);
      if (at === undefined) look();
      else
        this.#apart(() => {
          this.#places = this.#moved([["cd", at]]).ok;
          look();
        });
    } else this.#nested(wrapped, call, scope);
  }

  #nested({ script, dialect, words = [] }: WrappedScript, call: Call, scope: Scope): void {
    if (dialect === "other" || script.includes(UNKNOWN)) this.unclear.add("hidden script");
    // `${_}` is a value that nobody knows.
    const text = script.replaceAll(UNKNOWN, "$" + "{_}").replaceAll(HOME, "~");
    if (SAME_SHELL.has(call.program)) this.#script(text, scope);
    else if (call.program === "trap") this.#trap(text, call, scope);
    else this.#apart(() => this.#shell(text, { ...scope, inside: undefined, parameters: words, isChild: true }));
  }

  /** A trap for anything but the end may move the script between any two commands. */
  #trap(text: string, { args }: Call, scope: Scope): void {
    const before = this.#places;
    this.#traps.push({ text, scope });
    this.#script(text, scope);
    const isAtEnd = args.slice(1).every((signal) => /^(?:EXIT|0)$/.test(signal));
    if (!isAtEnd && !isSame(before, this.#places)) this.unclear.add("deferred code");
    this.#places = isAtEnd ? before : union(before, this.#places);
  }
}

function alike(places: Places): Ends {
  return { ok: places, failed: places };
}

interface Reading {
  readonly argv: readonly string[];
  readonly variables: readonly string[];
}

function readingOf({ name, prefix, suffix }: Command, lookup: VariableLookup): Reading {
  const parts = suffix.filter((part) => part.type === "Word" || part.type === "Assignment");
  return {
    argv: [...(name === undefined ? [] : [name]), ...parts].flatMap((part) => argumentFields(part, lookup)),
    variables: prefix.flatMap((part) => (part.type === "Assignment" ? argumentFields(part, lookup) : [])),
  };
}

/** Stand for values that depend on where a variable is read. */
const HERE = "\0here";
const LOOPED = "\0looped";

/** Variables that the shell or the service sets. */
const SET_ELSEWHERE =
  /^(?:PATH|LANG|LC_[A-Z]+|TZ|TERM|OLDPWD|SHLVL|SHELL|SHELLOPTS|UID|EUID|PPID|GROUPS|HOST(?:NAME|TYPE)|OSTYPE|MACHTYPE|S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|REPLY|OPT(?:ARG|IND)|COLUMNS|LINES|DIRSTACK|FUNCNAME|PIPESTATUS|MAPFILE|COPROC|BASH.*|COMP_.*|STC_.*|[^A-Za-z].*|_)$/;

/**
 * Returns the values of variables that the text sets once, in one plain assignment or loop, and mentions nowhere else except to
 * read them. Variables that it never sets are empty. The plain reading beside this one trusts none of it.
 */
function constantsOf(tree: SyntaxNode, text: string, outer: VariableLookup): VariableLookup {
  const mentions = new Map<string, number>();
  for (const [, isRead, name = "", sets] of text.matchAll(/(\$\{?[#!]?)?([A-Za-z_]\w*)(:?=)?/g)) {
    if (isRead === undefined || sets !== undefined) mentions.set(name, (mentions.get(name) ?? 0) + 1);
  }
  const values = new Map<string, (lookup: VariableLookup) => string>();
  const note = (node: SyntaxNode): void => {
    if (node.type === "Assignment" && node.append !== true && node.index === undefined && node.value.type === "Word") {
      const { value } = node;
      values.set(node.name, (lookup) => textOf(value, lookup));
    }
    if (node.type === "For") values.set(node.name.value, () => LOOPED);
    forEachChild(node, note);
  };
  note(tree);
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
  readonly to: Place;
  /** True when the move cannot fail. */
  readonly isSure: boolean;
}

/** Returns where a command moves the script; `undefined` when it does not move it. */
function moveOf([program, ...args]: readonly string[], from: Place, home: string | undefined): Move | undefined {
  switch (program) {
    case "command":
    case "builtin":
      return /^-[vV]/.test(args[0] ?? "") ? undefined : moveOf(afterOptions(args), from, home);
    case "cd":
      return changed(afterOptions(args)[0] ?? HOME, from, home);
    case "pushd": {
      const [target, ...more] = args[0] === "--" ? args.slice(1) : args;
      if (target === undefined || more.length > 0 || /^[-+]/.test(target) || from.stack.length === STACK_MAX)
        return { to: NOWHERE, isSure: false };
      return { to: { ...changed(target, from, home).to, stack: [from.at, ...from.stack] }, isSure: false };
    }
    case "popd": {
      const [top, ...stack] = from.stack;
      if (args.length > 0) return { to: NOWHERE, isSure: false };
      if (from.stack.length === 0) return { to: from, isSure: false };
      return { to: { at: top, before: from.at, stack }, isSure: true };
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

/** Matches the root, home, and folders above, which are always there. */
const ALWAYS_THERE = /^(?:\/|\u0001\/?|(?:\.{1,2}\/{0,4}){1,64})$/;

function changed(target: string, from: Place, home: string | undefined): Move {
  const at = target === "-" ? from.before : pathOf(target, from.at, home);
  return { to: { at, before: from.at, stack: from.stack }, isSure: ALWAYS_THERE.test(target) };
}

function pathOf(target: string, cwd: string | undefined, home: string | undefined): string | undefined {
  // A tilde with a name is somebody's home or another directory that is not followed.
  if (target.includes(UNKNOWN) || target.startsWith("~") || target.split("/").some(mayClimb)) return undefined;
  const parts = target.length > PATH_CHARACTERS_MAX ? undefined : partsOf(target, { cwd, home });
  const path = parts === undefined ? undefined : `/${parts.join("/")}`;
  return path === undefined || path.length > PATH_CHARACTERS_MAX ? undefined : path;
}
