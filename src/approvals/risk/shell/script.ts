import {
  type Command,
  type CommandNode,
  forEachChild,
  parse,
  type Redirection,
  type SyntaxNode,
  type Word,
} from "unbash";
import { bombsIn } from "./bombs.ts";
import { type Invocation, invocationOf, type Start } from "./invocation.ts";
import { defersCode, hidesText, type Opaque, opacityOf } from "./opacity.ts";
import { movedTo, type Standing } from "./place.ts";
import { isInput, type Redirected, readRedirects } from "./redirects.ts";
import { said, wordFields } from "./said.ts";
import type { Wrapped } from "./unwrap.ts";
import { variablesOf } from "./variables.ts";
import { fieldsOf, HOME, isLiteral, type Lookup, NOTHING_KNOWN, UNKNOWN } from "./word.ts";
import { wrappedBy } from "./wrappers.ts";

/** UTF-16 units of a script, with the scripts inside it. */
export const SCRIPT_CHARACTERS_MAX = 16_384;
/** Nodes of the tree that are looked at. */
const NODES_MAX = 8_192;
/** Programs that one script may start. */
const INVOCATIONS_MAX = 512;
/** Words of all of them, those behind wrappers counted again. */
const WORDS_MAX = 12_288;
/** Scripts inside scripts, and wrappers around wrappers. */
const DEPTH_MAX = 12;

/** Everything that a script would start, whatever stands around it. */
export interface ShellScript {
  readonly invocations: readonly Invocation[];
  readonly opaque: ReadonlySet<Opaque>;
  /** Names of functions that the script defines for all that follows. */
  readonly functions: ReadonlySet<string>;
  /** Those of them that start themselves again beside themselves. */
  readonly bombs: readonly string[];
}

interface Scope {
  readonly standing: Standing;
  readonly lookup: Lookup;
  readonly cautious: Lookup;
  readonly fedBy: readonly string[];
  readonly readsInput: boolean;
  readonly inside: string | undefined;
  readonly background: boolean;
  readonly pipe: number | undefined;
  readonly depth: number;
  /** Literal texts that come in through the pipe. */
  readonly input: readonly string[];
}

/** Reads a script as the shell would and lists what it starts. Never throws; what it cannot read, it says. */
export function readScript(text: string, standing: Standing): ShellScript {
  const walk = new Walk();
  const scope = {
    standing,
    fedBy: [],
    readsInput: false,
    inside: undefined,
    background: false,
    pipe: undefined,
    depth: 0,
    input: [],
  };
  try {
    walk.script(text, { ...scope, lookup: NOTHING_KNOWN, cautious: NOTHING_KNOWN });
  } catch (error) {
    // The parser's own faults and an exhausted stack: what was found so far stands, and the rest was not seen.
    if (!(error instanceof Error)) throw error;
    walk.opaque.add("syntax");
  }
  return {
    invocations: walk.invocations,
    opaque: walk.opaque,
    functions: walk.functions(),
    bombs: bombsIn(walk.bodies),
  };
}

class Walk {
  readonly invocations: Invocation[] = [];
  readonly opaque = new Set<Opaque>();
  /** What functions start, by their names. */
  readonly bodies = new Map<string, Invocation[]>();
  /** Functions that surely are defined, as far as the script comes: not in a branch, a subshell or another one. */
  readonly #defined = new Set<string>();
  #nodes = 0;
  #pipes = 0;
  #characters = 0;
  #words = 0;
  /** Where the last `cd` went: a later command of the same list stands there. */
  #cwd: string | undefined;

  script(text: string, scope: Scope): void {
    this.#characters += text.length;
    if (this.#characters > SCRIPT_CHARACTERS_MAX || scope.depth > DEPTH_MAX) {
      this.opaque.add("too large");
      return;
    }
    if (hidesText(text)) this.opaque.add("control characters");
    const tree = parse(text);
    for (const { command } of scope.depth === 0 ? tree.commands : []) {
      if (command.type === "Function") this.#defined.add(command.name.value);
    }
    const outer = this.#cwd;
    this.#cwd = scope.standing.cwd;
    const { resolved, cautious } = variablesOf(tree, scope.standing.cwd);
    if (defersCode(tree)) this.opaque.add("deferred code");
    this.visit(tree, { ...scope, lookup: resolved, cautious });
    this.#cwd = outer;
  }

  visit(node: SyntaxNode, scope: Scope): void {
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX || this.invocations.length > INVOCATIONS_MAX) {
      this.opaque.add("too large");
      return;
    }
    const reason = opacityOf(node);
    if (reason !== undefined) this.opaque.add(reason);
    switch (node.type) {
      case "Statement":
        this.visit(node.command, node.background === true ? { ...scope, background: true } : scope);
        break;
      case "Pipeline":
        if (node.commands.length > 1) this.#pipeline(node.commands, scope);
        else this.#each(node, scope);
        break;
      case "Command":
        this.#command(node, scope);
        break;
      case "Coproc":
        this.#each(node, { ...scope, background: true });
        break;
      case "For":
      case "Select":
        this.#loop(node.name.value, node.wordlist ?? [], scope);
        this.#each(node, scope);
        break;
      case "Function":
        this.#function(node.name.value, node.body, scope);
        break;
      case "Subshell":
        this.#apart(() => this.#each(node, scope));
        break;
      case "Redirected":
        this.#redirected(node.redirects, node.command, scope);
        break;
      case "CommandExpansion":
      case "ProcessSubstitution":
      case "ArithmeticCommandExpansion":
        this.#apart(() => this.#each(node, { ...scope, background: false, pipe: undefined }));
        break;
      default:
        this.#each(node, scope);
    }
  }

  #each(node: SyntaxNode, scope: Scope): void {
    forEachChild(node, (child) => this.visit(child, scope));
  }

  /** What is looked at in here does not move where later commands stand. */
  #apart(look: () => void): void {
    const before = this.#cwd;
    look();
    this.#cwd = before;
  }

  /** Names of the programs that were found while looking. */
  #programs(look: () => void): readonly string[] {
    const from = this.invocations.length;
    look();
    return this.invocations.slice(from).map(({ family }) => family);
  }

  #pipeline(commands: readonly CommandNode[], scope: Scope): void {
    this.#pipes += 1;
    const pipe = this.#pipes;
    let fedBy = scope.fedBy;
    let input: readonly string[] = scope.input;
    for (const [index, command] of commands.entries()) {
      const readsInput = index > 0 || scope.readsInput;
      const inner = { ...scope, fedBy, readsInput, pipe, input };
      const found = this.#programs(() => this.#apart(() => this.visit(command, inner)));
      fedBy = [...new Set([...fedBy, ...found])];
      input = said(command, scope.lookup);
    }
  }

  #function(name: string, body: SyntaxNode, scope: Scope): void {
    const from = this.invocations.length;
    this.bodies.set(name, this.bodies.get(name) ?? []);
    this.#apart(() => this.visit(body, { ...scope, inside: name }));
    this.bodies.set(name, [...(this.bodies.get(name) ?? []), ...this.invocations.slice(from)]);
  }

  /** Paths from the root or from home in the list of a loop are taken for read: its body has only the variable. */
  #loop(name: string, words: readonly Word[], scope: Scope): void {
    const paths = words.flatMap((word) => fieldsOf(word, scope.lookup)).filter((field) => /^[/\u0001]/.test(field));
    const opened = paths.map((path) => ({ path, writes: false }));
    this.#add([""], { ...this.#start(scope), variables: [`${name}=${UNKNOWN}`], opened });
  }

  #redirected(redirects: readonly Redirection[], command: SyntaxNode, scope: Scope): void {
    const fed = this.#programs(() => {
      for (const redirect of redirects) this.visit(redirect, scope);
    });
    const { opened, input } = this.#open(redirects, scope);
    const reads = scope.readsInput || redirects.some(isInput);
    this.#add([""], { ...this.#start(scope), opened, fedBy: [...scope.fedBy, ...fed] });
    this.visit(command, {
      ...scope,
      fedBy: [...scope.fedBy, ...fed],
      readsInput: reads,
      input: [...scope.input, ...input],
    });
  }

  #command(node: Command, scope: Scope): void {
    const fed = this.#programs(() => this.#each(node, scope));
    const { opened, input } = this.#open(node.redirects, scope);
    const words = node.suffix.filter((part) => part.type === "Word" || part.type === "Assignment");
    if (node.name !== undefined && !isLiteral(node.name)) this.opaque.add("program not literal");
    const inner = {
      ...scope,
      fedBy: [...new Set([...scope.fedBy, ...fed])],
      readsInput: scope.readsInput || node.redirects.some(isInput),
      input: [...scope.input, ...input],
    };
    const argvs = [scope.lookup, scope.cautious].map((lookup) => ({
      argv: [...(node.name === undefined ? [] : [node.name]), ...words].flatMap((word) => wordFields(word, lookup)),
      variables: node.prefix.flatMap((part) => (part.type === "Assignment" ? wordFields(part, lookup) : [])),
    }));
    const [resolved, plain] = argvs;
    if (resolved === undefined || plain === undefined) return;
    const start = { ...this.#start(inner), opened };
    this.#run(resolved.argv, { ...start, variables: resolved.variables }, inner);
    if (JSON.stringify(resolved) !== JSON.stringify(plain)) {
      this.#run(plain.argv, { ...start, variables: plain.variables, background: false, pipe: undefined }, inner);
    }
    this.#cwd = movedTo(resolved.argv, { ...scope.standing, cwd: this.#cwd });
  }

  #start({ standing, fedBy, readsInput, inside, background, pipe, input }: Scope): Start {
    const cwd = this.#cwd;
    const place = { standing: { ...standing, cwd }, mayCallFunction: true };
    return { ...place, variables: [], opened: [], fedBy, readsInput, inside, background, pipe, input };
  }

  #add(argv: readonly string[], start: Start): Invocation {
    const isKnown = start.inside !== undefined || this.bodies.has(argv[0] ?? "");
    const invocation = invocationOf(argv, { ...start, mayCallFunction: start.mayCallFunction && isKnown });
    this.invocations.push(invocation);
    return invocation;
  }

  /** Takes the wrappers off, one after the other. */
  #run(argv: readonly string[], start: Start, scope: Scope): void {
    this.#words += argv.length;
    if (scope.depth > DEPTH_MAX || this.invocations.length > INVOCATIONS_MAX || this.#words > WORDS_MAX) {
      this.opaque.add("too large");
      return;
    }
    const { program, family, args } = this.#add(argv, start);
    const inner = { ...scope, depth: scope.depth + 1 };
    const given = { input: scope.input };
    const wrapped = wrappedBy(program, args, given);
    const found = wrapped.length === 0 && family !== program ? wrappedBy(family, args, given) : wrapped;
    for (const behind of found) this.#behind(behind, { start, scope: inner });
  }

  #behind(wrapped: Wrapped, { start, scope }: { readonly start: Start; readonly scope: Scope }): void {
    if ("hidden" in wrapped) this.opaque.add("hidden script");
    else if ("argv" in wrapped) {
      if ((wrapped.argv[0] ?? "").includes(UNKNOWN)) this.opaque.add("program not literal");
      this.#run(wrapped.argv, { ...start, opened: [], mayCallFunction: false }, scope);
    } else {
      if (wrapped.dialect === "other" || wrapped.script.includes(UNKNOWN)) this.opaque.add("hidden script");
      // `${1}` is a value that nobody knows.
      const text = wrapped.script.replaceAll(UNKNOWN, "$" + "{1}").replaceAll(HOME, "~");
      this.script(text, { ...scope, standing: { ...scope.standing, cwd: this.#cwd } });
    }
  }

  #open(redirects: readonly Redirection[], scope: Scope): Redirected {
    const read = readRedirects(redirects, [scope.lookup, scope.cautious]);
    if (!read.isWhole) this.opaque.add("syntax");
    return read;
  }

  functions(): ReadonlySet<string> {
    const isUnset = this.invocations.some(({ program }) => program === "unset");
    return isUnset ? new Set() : this.#defined;
  }
}
