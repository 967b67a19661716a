import { type Command, forEachChild, type Pipeline, parse, type SyntaxNode, type Word } from "unbash";
import { CommandCollector, type CommandReading, DEPTH_MAX, INVOCATIONS_MAX } from "./commands.ts";
import { Control } from "./control.ts";
import { alike, anyOf, type Ends, either, NEVER, type State, widened } from "./flow.ts";
import { entryOf, Functions } from "./functions.ts";
import type { Invocation } from "./invocation.ts";
import { movesIn, NOWHERE } from "./moves.ts";
import { defersCode, hidesText, type Opaque, opacityOf } from "./opacity.ts";
import type { ShellScope } from "./scope.ts";
import { setBeside } from "./set-beside.ts";
import { Streams } from "./streams.ts";
import { variablesOf } from "./variables.ts";
import { fieldsOf, UNKNOWN } from "./word.ts";

/** UTF-16 units of a script, with the scripts inside it. */
const SCRIPT_CHARACTERS_MAX = 16_384;
/** Nodes of the tree that are looked at, those of functions once for each way they are called. */
const NODES_MAX = 8_192;

/** Follows a script through its syntax, as control may go: each command is looked at with what may hold where it stands. */
export class Walk {
  readonly #commands: CommandCollector;
  readonly #control: Control;
  readonly #streams: Streams;
  readonly #functions = new Functions();
  /** Functions that surely are defined, as far as the script comes: not in a branch, a subshell or another one. */
  readonly #defined = new Set<string>();
  /** What holds where a function ends early. */
  #returned: State | undefined;
  /** Whether there is anything that could move the script. */
  #moves = false;
  #traps: { readonly text: string; readonly scope: ShellScope }[] = [];
  #nodes = 0;
  #characters = 0;

  constructor(cwd: string | undefined) {
    const start = { places: [{ ...NOWHERE, at: cwd }], parameters: [], stopsAtFailure: false };
    this.#commands = new CommandCollector(start, {
      each: (node, scope) => this.#each(node, scope),
      shell: (text, scope) => this.#shell(text, scope),
      text: (text, scope) => this.#script(text, scope),
      trap: (text, scope, isAtEnd) => {
        const before = this.#commands.state;
        this.#traps.push({ text, scope });
        this.#commands.isInterrupted ||= !isAtEnd;
        const moves = this.#script(text, scope) || this.#mayCallMover(text);
        // The trap may run between any two commands, so the working directory of the commands after it is unknown.
        if (!isAtEnd && moves) this.opaque.add("deferred code");
        this.#commands.state = isAtEnd ? before : (either(before, this.#commands.state) ?? before);
      },
      isFunction: (name) => this.#functions.has(name),
      startedBy: (name) => this.#functions.bodies.get(name) ?? [],
    });
    const visit = (node: SyntaxNode, scope: ShellScope) => this.#visit(node, scope);
    this.#control = new Control(this.#commands, visit);
    this.#streams = new Streams(this.#commands, visit);
  }

  get invocations(): readonly Invocation[] {
    return this.#commands.invocations;
  }

  get opaque(): Set<Opaque> {
    return this.#commands.opaque;
  }

  get bodies(): ReadonlyMap<string, ReadonlySet<Invocation>> {
    return this.#functions.bodies;
  }

  functions(): ReadonlySet<string> {
    const isUnset = this.invocations.some(({ program }) => program === "unset");
    return isUnset ? new Set() : this.#defined;
  }

  /** A script with what it traps, and the functions that it never called. */
  whole(text: string, scope: ShellScope): void {
    this.#shell(text, scope);
    for (let next = this.#functions.uncalled(); next !== undefined; next = this.#functions.uncalled()) {
      const [name, { body, scope: around, state }] = next;
      this.#commands.state = { ...state, parameters: undefined };
      this.#body(name, body, { ...around, inside: name });
    }
  }

  #mayCallMover(text: string): boolean {
    return this.#moves && text.split(/[^\w-]+/).some((name) => this.#functions.has(name));
  }

  /** What is trapped runs where the script stands by then. */
  #shell(text: string, scope: ShellScope): void {
    const outer = this.#traps;
    this.#traps = [];
    this.#script(text, scope);
    for (const trap of [...this.#traps]) this.#script(trap.text, trap.scope);
    this.#traps = outer;
  }

  /** Returns whether the text itself contains a command that could move the script. */
  #script(text: string, scope: ShellScope): boolean {
    this.#characters += text.length;
    if (this.#characters > SCRIPT_CHARACTERS_MAX || scope.depth > DEPTH_MAX) {
      this.opaque.add("too large");
      return false;
    }
    if (hidesText(text)) this.opaque.add("control characters");
    const tree = parse(text);
    for (const { command, background } of scope.depth === 0 ? tree.commands : []) {
      if (command.type === "Function" && background !== true) this.#defined.add(command.name.value);
    }
    const { resolved, cautious } = variablesOf(tree, this.#commands.state.places[0]?.at);
    if (defersCode(tree)) this.opaque.add("deferred code");
    const moves = movesIn(tree);
    this.#moves ||= moves;
    this.#visit(tree, { ...scope, lookup: resolved, cautious });
    return moves;
  }

  #visit(node: SyntaxNode, scope: ShellScope): Ends {
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX || this.invocations.length > INVOCATIONS_MAX) {
      this.opaque.add("too large");
      return alike(this.#commands.state);
    }
    const reason = opacityOf(node);
    if (reason !== undefined) this.opaque.add(reason);
    this.#note(setBeside(node), scope);
    const ends = this.#follow(node, scope);
    this.#commands.state = either(ends.ok, ends.failed) ?? this.#commands.state;
    return ends;
  }

  #follow(node: SyntaxNode, scope: ShellScope): Ends {
    switch (node.type) {
      case "Script":
      case "CompoundList":
        return this.#control.list(node.commands, scope);
      case "Statement":
        if (node.background !== true) return this.#visit(node.command, scope);
        return this.#apart(() => this.#visit(node.command, { ...scope, background: true }));
      case "AndOr":
        return this.#control.andOr(node, scope);
      case "Pipeline":
        return this.#pipeline(node, scope);
      case "Command":
        return this.#command(node, scope);
      case "BraceGroup":
        return this.#visit(node.body, scope);
      case "If":
        return this.#control.if(node, scope);
      case "While":
        return this.#control.while(node, scope);
      case "For":
      case "Select":
      case "ArithmeticFor":
        if (node.type !== "ArithmeticFor") this.#choices(node.name.value, node.wordlist ?? [], scope);
        return this.#control.for(node, scope);
      case "Case":
        return this.#control.case(node, scope);
      case "Function":
        return this.#define(node.name.value, node.body, scope);
      case "Redirected":
        return this.#streams.redirected(node.redirects, node.command, scope);
      case "Subshell":
        return this.#apart(() => this.#each(node, { ...scope, isLoop: false }));
      case "Coproc":
        return this.#apart(() => this.#each(node, { ...scope, background: true }));
      case "CommandExpansion":
      case "ProcessSubstitution":
      case "ArithmeticCommandExpansion":
        this.#streams.substitution(node, scope);
        return alike(this.#commands.state);
      default:
        this.#each(node, scope);
        return alike(this.#commands.state);
    }
  }

  /** Variables that are set in passing. */
  #note(names: readonly string[], scope: ShellScope): void {
    if (names.length === 0) return;
    const variables = names.map((name) => `${name}=${UNKNOWN}`);
    this.#commands.add([""], { ...this.#commands.start(scope), variables });
  }

  #each(node: SyntaxNode, scope: ShellScope): void {
    forEachChild(node, (child) => this.#visit(child, scope));
  }

  #apart(look: () => void): Ends {
    this.#commands.apart(look);
    return alike(this.#commands.state);
  }

  #pipeline({ commands, prefixes }: Pipeline, scope: ShellScope): Ends {
    const negations = prefixes.filter(({ type }) => type === "Negation").length;
    const inner = negations === 0 ? scope : { ...scope, isTested: true };
    const [only] = commands;
    if (commands.length > 1 || only === undefined) {
      this.#streams.joined(commands, inner);
      return alike(this.#commands.state);
    }
    const { ok, failed } = this.#visit(only, inner);
    return negations % 2 === 0 ? { ok, failed } : { ok: failed, failed: ok };
  }

  /** Paths from the root or from home in the list of a loop are taken for read: its body has only the variable. */
  #choices(name: string, words: readonly Word[], scope: ShellScope): void {
    const [lookup] = this.#commands.lookups(scope);
    const paths = words.flatMap((word) => fieldsOf(word, lookup)).filter((field) => /^[/\u0001]/.test(field));
    const opened = paths.map((path) => ({ path, writes: false }));
    this.#commands.add([""], { ...this.#commands.start(scope), variables: [`${name}=${UNKNOWN}`], opened });
  }

  /** A function that may be none there leaves the builtin or the program of its name. */
  #command(node: Command, scope: ShellScope): Ends {
    const { readings, scope: inner } = this.#commands.read(node, scope);
    const [name = ""] = readings[0]?.argv ?? [];
    const before = this.#commands.state;
    if (!this.#functions.has(name)) return this.#own(node, readings, scope);
    const called = anyOf(readings.map(({ argv }) => this.#call(name, argv.slice(1), inner)));
    this.#commands.state = before;
    const isSure = !scope.isChild && this.functions().has(name);
    return isSure ? called : anyOf([called, this.#own(node, readings, scope)]);
  }

  #own(node: Command, readings: readonly CommandReading[], scope: ShellScope): Ends {
    const [name = "", ...words] = readings[0]?.argv ?? [];
    if (readings.length > 1 || node.redirects.length > 0 || !isPlainStatus(node, words)) {
      return this.#commands.endsOf(readings, scope);
    }
    if (name === "exit") return NEVER;
    if (name === "return" && scope.inside !== undefined) {
      this.#returned = either(this.#returned, this.#commands.state);
      return NEVER;
    }
    if ((name === "break" || name === "continue") && scope.isLoop) {
      return this.#control.leave(words.length === 0 ? "one" : "several");
    }
    return this.#commands.endsOf(readings, scope);
  }

  #define(name: string, body: SyntaxNode, scope: ShellScope): Ends {
    // What a program of that name prints is believed.
    if (name === "mktemp") this.opaque.add("indirection");
    const alone = { background: false, pipe: undefined, isTested: false, isLoop: false, isGiven: true };
    const definition = { body, scope: { ...scope, ...alone }, state: this.#commands.state };
    if (!this.#functions.define(name, definition)) this.opaque.add("too large");
    return alike(this.#commands.state);
  }

  #call(name: string, words: readonly string[], scope: ShellScope): Ends {
    const before = this.#commands.state;
    if (scope.depth > DEPTH_MAX) {
      this.opaque.add("too large");
      return alike(before);
    }
    const entry = entryOf(name, words, { state: before, calls: scope.calls });
    const { fedBy, readsInput, input, isTested, isChild } = scope;
    const calls = new Map(scope.calls).set(name, entry.places);
    const around = { fedBy, readsInput, input, isTested, isChild, calls, depth: scope.depth + 1, inside: name };
    const ends = this.#functions.called(name).map(({ body, scope: own }, index) => {
      const key = JSON.stringify([name, index, entry, fedBy, readsInput, input, isTested, isChild]);
      this.#commands.state = entry;
      const look = () => this.#body(name, body, { ...own, ...around });
      return this.#functions.once(key, look) ?? alike(this.#moves ? widened(before) : before);
    });
    const back = (state: State | undefined) => state && { ...state, parameters: before.parameters };
    const { ok, failed } = anyOf(ends);
    return { ok: back(ok), failed: back(failed) };
  }

  #body(name: string, body: SyntaxNode, scope: ShellScope): Ends {
    const outer = this.#returned;
    const from = this.invocations.length;
    this.#returned = undefined;
    const { ok, failed } = this.#visit(body, scope);
    const returned = this.#returned;
    this.#returned = outer;
    this.#functions.started(name, this.invocations.slice(from));
    return { ok: either(ok, returned), failed: either(failed, returned) };
  }
}

/** Too many words, or one that is no number, and `exit` does not exit. */
function isPlainStatus({ suffix }: Command, words: readonly string[]): boolean {
  const [only] = words;
  if (only === undefined) return true;
  return (
    words.length === 1 &&
    (/^[0-9]{1,3}$/.test(only) || (suffix.length === 1 && suffix[0]?.type === "Word" && suffix[0].text === "$?"))
  );
}
