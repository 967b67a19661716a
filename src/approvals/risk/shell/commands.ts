import type { Command, Redirection, SyntaxNode } from "unbash";
import { names } from "../names.ts";
import { alike, type Ends, either, inChild, movedBy, type State } from "./flow.ts";
import { type Invocation, type InvocationContext, invocationOf } from "./invocation.ts";
import type { Opaque } from "./opacity.ts";
import { settingsAfter, withParameters } from "./parameters.ts";
import { isInput, type Redirected, readRedirects } from "./redirects.ts";
import { wordFields } from "./said-text.ts";
import type { ShellScope } from "./scope.ts";
import type { Wrapped } from "./unwrap.ts";
import { HOME, isLiteral, UNKNOWN, type VariableLookup } from "./word.ts";
import { wrappedBy } from "./wrappers.ts";

/** Programs that one script may start. */
export const INVOCATIONS_MAX = 512;
/** Words of all of them, those behind wrappers counted again. */
const WORDS_MAX = 12_288;
/** Scripts inside scripts, wrappers around wrappers, and functions that call functions. */
export const DEPTH_MAX = 12;

/** Builtins whose text is run by the shell itself. */
const SAME_SHELL = names("eval source .");

/** A trap that nothing comes behind. */
function isEnd(signal: string): boolean {
  return /^(?:EXIT|0)$/.test(signal);
}

/** What the reader of the syntax does for a command. */
interface Reader {
  each(node: SyntaxNode, scope: ShellScope): void;
  /** A text that the shell itself runs. */
  text(text: string, scope: ShellScope): void;
  /** A text that the shell runs when something happens. */
  trap(text: string, scope: ShellScope, isAtEnd: boolean): void;
  /** A text that another shell runs. */
  shell(text: string, scope: ShellScope): void;
  isFunction(name: string): boolean;
  /** What calls of the function have started. */
  startedBy(name: string): Iterable<Invocation>;
}

/** A command as it comes out: its words, and what is set for it alone. */
export interface CommandReading {
  readonly argv: readonly string[];
  readonly variables: readonly string[];
}

interface Read {
  readonly readings: readonly CommandReading[];
  /** What stands around it, with what its own redirections bring. */
  readonly scope: ShellScope;
}

/** Collects what simple commands start: words evaluated, wrappers taken off. */
export class CommandCollector {
  readonly invocations: Invocation[] = [];
  readonly opaque = new Set<Opaque>();
  /** What holds where the script has come to. */
  state: State;
  /** Whether something runs between the commands, which could undo a `set -e`. */
  isInterrupted = false;
  readonly #reader: Reader;
  #words = 0;

  constructor(state: State, reader: Reader) {
    this.state = state;
    this.#reader = reader;
  }

  /** Records what a command starts; says how it reads, first with everything resolved, then with nothing guessed. */
  read(node: Command, scope: ShellScope): Read {
    const program = node.name?.value ?? "";
    const fed = this.programs(() => this.#reader.each(node, { ...scope, feeds: program === "" ? [] : [program] }));
    const { opened, input } = this.open(node.redirects, scope);
    if (node.name !== undefined && !isLiteral(node.name)) this.opaque.add("program not literal");
    const inner = {
      ...scope,
      fedBy: [...new Set([...scope.fedBy, ...fed])],
      readsInput: scope.readsInput || node.redirects.some(isInput),
      input: [...scope.input, ...input],
    };
    const [resolved, plain] = this.lookups(scope).map((lookup) => readingOf(node, lookup));
    if (resolved === undefined || plain === undefined) return { readings: [], scope: inner };
    const start = { ...this.start(inner), opened };
    const before = this.state;
    this.#run(resolved.argv, { ...start, variables: resolved.variables }, inner);
    if (JSON.stringify(resolved) === JSON.stringify(plain)) {
      return { readings: [resolved], scope: inner };
    }
    const after = this.state;
    this.state = before;
    this.#run(plain.argv, { ...start, variables: plain.variables, background: false, pipe: undefined }, inner);
    this.state = either(after, this.state) ?? after;
    return { readings: [resolved, plain], scope: inner };
  }

  /** What variables are worth here: taking what nobody sets for empty, and taking it for anything. */
  lookups({ lookup, cautious, zero, isGiven }: ShellScope): readonly [VariableLookup, VariableLookup] {
    const { places, parameters } = this.state;
    const isHere = (name: string, value: string) => name === "PWD" && value !== UNKNOWN;
    const at = (place = places[0]) => place?.at ?? UNKNOWN;
    const here =
      (read: VariableLookup, place: string): VariableLookup =>
      (name) => {
        const value = read(name);
        return isHere(name, value) ? place : value;
      };
    return [
      withParameters(here(lookup, at()), { parameters, zero, unset: "", isCautious: false }),
      withParameters(here(cautious, places.length === 1 ? at() : UNKNOWN), {
        parameters,
        zero,
        unset: isGiven ? "" : UNKNOWN,
        isCautious: true,
      }),
    ];
  }

  /** What holds behind a command that is no function. */
  endsOf(readings: readonly CommandReading[], scope: ShellScope): Ends {
    const [resolved, plain = resolved] = readings.map(({ argv }) => argv);
    if (resolved === undefined || plain === undefined) return alike(this.state);
    const settings = settingsAfter(resolved, this.state);
    const isCertain =
      readings.length === 1 || JSON.stringify(settingsAfter(plain, this.state)) === JSON.stringify(settings);
    const certain = isCertain ? settings : { parameters: undefined, stopsAtFailure: false };
    const isSet = settings !== this.state;
    if (isSet) this.state = { ...this.state, ...certain };
    const { ok, failed } = movedBy([resolved, plain], this.state, scope.home);
    const stops = this.state.stopsAtFailure && !scope.isTested && !this.isInterrupted;
    return { ok, failed: stops ? undefined : failed };
  }

  /** One for each place where it may run. */
  add(argv: readonly string[], start: InvocationContext, { places } = this.state): Invocation {
    const isKnown = start.inside !== undefined || this.#reader.isFunction(argv[0] ?? "");
    const [first, ...others] = places.map(({ at }, index) => {
      const standing = { ...start.standing, cwd: at };
      const counted = index === 0 ? start : { ...start, background: false, pipe: undefined };
      return invocationOf(argv, { ...counted, standing, mayCallFunction: start.mayCallFunction && isKnown });
    });
    const made = first ?? invocationOf(argv, start);
    this.invocations.push(made, ...others);
    return made;
  }

  start({ home, fedBy, readsInput, inside, background, pipe, input }: ShellScope): InvocationContext {
    const place = { standing: { cwd: undefined, home }, mayCallFunction: true };
    return { ...place, variables: [], opened: [], fedBy, readsInput, inside, background, pipe, input };
  }

  open(redirects: readonly Redirection[], scope: ShellScope): Redirected {
    const read = readRedirects(redirects, this.lookups(scope));
    if (!read.isWhole) this.opaque.add("syntax");
    return read;
  }

  /** Names of the programs that were found while looking. */
  programs(look: () => void): readonly string[] {
    const from = this.invocations.length;
    look();
    const found = this.invocations.slice(from);
    // A call that was looked into before starts the same again.
    const again = found.flatMap(({ spelled }) => [...this.#reader.startedBy(spelled)]);
    return [...new Set([...found, ...again].map(({ family }) => family))];
  }

  /** What is looked at in here changes nothing for later commands. */
  apart(look: () => void): void {
    const before = this.state;
    look();
    this.state = before;
  }

  /** Takes the wrappers off, one after the other. */
  #run(argv: readonly string[], start: InvocationContext, scope: ShellScope): void {
    this.#words += argv.length * this.state.places.length;
    if (scope.depth > DEPTH_MAX || this.invocations.length > INVOCATIONS_MAX || this.#words > WORDS_MAX) {
      this.opaque.add("too large");
      return;
    }
    const made = this.add(argv, start);
    const { program, family, args } = made;
    const inner = { ...scope, depth: scope.depth + 1 };
    const given = { input: scope.input };
    const wrapped = wrappedBy(program, args, given);
    const found = wrapped.length === 0 && family !== program ? wrappedBy(family, args, given) : wrapped;
    for (const behind of found) this.#behind(behind, { made, start, scope: inner });
  }

  #behind(wrapped: Wrapped, { made, start, scope }: Behind): void {
    if ("hidden" in wrapped) this.opaque.add("hidden script");
    else if ("argv" in wrapped) {
      if ((wrapped.argv[0] ?? "").includes(UNKNOWN)) this.opaque.add("program not literal");
      const look = () => this.#run(wrapped.argv, { ...start, opened: [], mayCallFunction: false }, scope);
      const { at } = wrapped;
      if (at === undefined) look();
      else this.apart(() => this.#at(at, scope, look));
    } else this.#script(wrapped, { made, start, scope });
  }

  #at(path: string, scope: ShellScope, look: () => void): void {
    this.state = movedBy([["cd", path]], this.state, scope.home).ok ?? this.state;
    look();
  }

  #script(wrapped: Extract<Wrapped, { script: string }>, { made, scope }: Behind): void {
    if (wrapped.dialect === "other" || wrapped.script.includes(UNKNOWN)) this.opaque.add("hidden script");
    // `${_}` is a value that nobody knows.
    const text = wrapped.script.replaceAll(UNKNOWN, "$" + "{_}").replaceAll(HOME, "~");
    if (SAME_SHELL.has(made.program)) this.#reader.text(text, scope);
    else if (made.program === "trap") this.#reader.trap(text, scope, made.args.slice(1).every(isEnd));
    else this.#child(text, wrapped.words, scope);
  }

  #child(text: string, words: readonly string[] | undefined, scope: ShellScope): void {
    const [zero = UNKNOWN, ...parameters] = words ?? [];
    const isGiven = words !== undefined;
    this.apart(() => {
      this.state = inChild(this.state, isGiven ? parameters : undefined);
      this.#reader.shell(text, {
        ...scope,
        zero,
        isGiven,
        inside: undefined,
        isTested: false,
        isLoop: false,
        isChild: true,
      });
    });
  }
}

interface Behind {
  readonly made: Invocation;
  readonly start: InvocationContext;
  readonly scope: ShellScope;
}

function readingOf(node: Command, lookup: VariableLookup): CommandReading {
  const words = node.suffix.filter((part) => part.type === "Word" || part.type === "Assignment");
  return {
    argv: [...(node.name === undefined ? [] : [node.name]), ...words].flatMap((word) => wordFields(word, lookup)),
    variables: node.prefix.flatMap((part) => (part.type === "Assignment" ? wordFields(part, lookup) : [])),
  };
}
