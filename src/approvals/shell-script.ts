import {
  type Command,
  type CommandNode,
  forEachChild,
  parse,
  type Redirection,
  type SyntaxNode,
  type Word,
} from "unbash";
import { type Invocation, invocationOf, type Opened, operandsOf, type Start } from "./shell-invocation.ts";
import type { Standing } from "./shell-place.ts";
import { variablesOf } from "./shell-variables.ts";
import { fieldsOf, HOME, isLiteral, type Lookup, NOTHING_KNOWN, textOf, UNKNOWN } from "./shell-word.ts";
import { type Wrapped, wrappedBy } from "./shell-wrappers.ts";

/** UTF-16 units of a script, with the scripts inside it. */
export const SCRIPT_CHARACTERS_MAX = 16_384;
/** Nodes of the tree that are looked at. */
const NODES_MAX = 8_192;
/** Programs that one script may start. */
const INVOCATIONS_MAX = 512;
/** Scripts inside scripts, and wrappers around wrappers. */
const DEPTH_MAX = 12;

/** What keeps a script from being judged by what it says. */
export type Opaque =
  | "syntax"
  | "too large"
  | "control characters"
  | "program not literal"
  | "indirection"
  | "deferred code"
  | "hidden script";

/** Everything that a script would start, whatever stands around it. */
export interface ShellScript {
  readonly invocations: readonly Invocation[];
  readonly opaque: ReadonlySet<Opaque>;
  /** Names of functions that the script defines. */
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
  readonly forks: boolean;
  readonly depth: number;
  /** Literal texts that come in through the pipe. */
  readonly input: readonly string[];
}

/** Controls but tab and line feed, bidirectional marks, and what is not seen: a reader would see another command. */
const UNSEEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/u;

/** Reads a script as the shell would and lists what it starts. Never throws; what it cannot read, it says. */
export function readScript(text: string, standing: Standing): ShellScript {
  const walk = new Walk();
  const scope = { standing, fedBy: [], readsInput: false, inside: undefined, forks: false, depth: 0, input: [] };
  try {
    walk.script(text, { ...scope, lookup: NOTHING_KNOWN, cautious: NOTHING_KNOWN });
  } catch (error) {
    // The parser's own faults and an exhausted stack: what was found so far stands, and the rest was not seen.
    if (!(error instanceof Error)) throw error;
    walk.opaque.add("syntax");
  }
  return { invocations: walk.invocations, opaque: walk.opaque, functions: walk.functions(), bombs: walk.bombs() };
}

class Walk {
  readonly invocations: Invocation[] = [];
  readonly opaque = new Set<Opaque>();
  readonly #bodies = new Map<string, Invocation[]>();
  #nodes = 0;
  #characters = 0;
  /** Where the last `cd` went: a later command of the same list stands there. */
  #cwd: string | undefined;

  script(text: string, scope: Scope): void {
    this.#characters += text.length;
    if (this.#characters > SCRIPT_CHARACTERS_MAX || scope.depth > DEPTH_MAX) {
      this.opaque.add("too large");
      return;
    }
    if (UNSEEN.test(text) || !text.isWellFormed()) this.opaque.add("control characters");
    const tree = parse(text);
    const outer = this.#cwd;
    this.#cwd = scope.standing.cwd;
    const { resolved, cautious } = variablesOf(tree, scope.standing.cwd);
    this.#deferred(tree);
    this.visit(tree, { ...scope, lookup: resolved, cautious });
    this.#cwd = outer;
  }

  visit(node: SyntaxNode, scope: Scope): void {
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX || this.invocations.length > INVOCATIONS_MAX) {
      this.opaque.add("too large");
      return;
    }
    switch (node.type) {
      case "Script":
        if (node.errors !== undefined && node.errors.length > 0) this.opaque.add("syntax");
        return this.#each(node, scope);
      case "Statement":
        return this.visit(node.command, node.background === true ? { ...scope, forks: true } : scope);
      case "Pipeline":
        return node.commands.length > 1 ? this.#pipeline(node.commands, scope) : this.#each(node, scope);
      case "Command":
        return this.#command(node, scope);
      case "Function":
        return this.#function(node.name.value, node.body, scope);
      case "Subshell":
        return this.#apart(() => this.#each(node, scope));
      case "Redirected":
        return this.#redirected(node.redirects, node.command, scope);
      case "CommandExpansion":
      case "ProcessSubstitution":
      case "ArithmeticCommandExpansion":
        if (node.script === undefined) this.opaque.add("syntax");
        return this.#apart(() => this.#each(node, { ...scope, forks: false }));
      case "ParameterExpansion":
        if (node.operation?.type === "Transform" && node.operation.operand.value === "P")
          this.opaque.add("indirection");
        if (node.operation?.type === "Unknown") this.opaque.add("syntax");
        if (node.prefix === "!" && node.operation?.type !== "Names" && !isKeys(node.index))
          this.opaque.add("indirection");
        return this.#each(node, scope);
      default:
        return this.#each(node, scope);
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
    let fedBy = scope.fedBy;
    let input: readonly string[] = scope.input;
    for (const [index, command] of commands.entries()) {
      const readsInput = index > 0 || scope.readsInput;
      const inner = { ...scope, fedBy, readsInput, forks: true, input };
      const found = this.#programs(() => this.#apart(() => this.visit(command, inner)));
      fedBy = [...new Set([...fedBy, ...found])];
      input = said(command, scope.lookup);
    }
  }

  #function(name: string, body: SyntaxNode, scope: Scope): void {
    const from = this.invocations.length;
    this.#apart(() => this.visit(body, { ...scope, inside: name }));
    this.#bodies.set(name, [...(this.#bodies.get(name) ?? []), ...this.invocations.slice(from)]);
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
      this.#run(plain.argv, { ...start, variables: plain.variables }, inner);
    }
    this.#move(resolved.argv, scope);
  }

  #start({ standing, fedBy, readsInput, inside, forks }: Scope): Start {
    const cwd = this.#cwd;
    return { standing: { ...standing, cwd }, variables: [], opened: [], fedBy, readsInput, inside, forks };
  }

  #add(argv: readonly string[], start: Start): Invocation {
    const invocation = invocationOf(argv, start);
    this.invocations.push(invocation);
    return invocation;
  }

  /** Takes the wrappers off, one after the other. */
  #run(argv: readonly string[], start: Start, scope: Scope): void {
    if (scope.depth > DEPTH_MAX || this.invocations.length > INVOCATIONS_MAX) {
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
      this.#run(wrapped.argv, { ...start, opened: [] }, scope);
    } else {
      if (wrapped.dialect === "other" || wrapped.script.includes(UNKNOWN)) this.opaque.add("hidden script");
      // `${1}` is a value that nobody knows.
      const text = wrapped.script.replaceAll(UNKNOWN, "$" + "{1}").replaceAll(HOME, "~");
      this.script(text, { ...scope, standing: { ...scope.standing, cwd: this.#cwd } });
    }
  }

  #open(redirects: readonly Redirection[], { lookup, cautious }: Scope): { opened: Opened[]; input: string[] } {
    const opened: Opened[] = [];
    const input: string[] = [];
    for (const redirect of redirects) {
      if (redirect.type === "HereDoc") input.push(redirect.body.text);
      else if (redirect.target === undefined) this.opaque.add("syntax");
      else if (redirect.type === "HereString") input.push(textOf(redirect.target, lookup));
      else if (!isDescriptor(redirect.operator, redirect.target)) {
        const writes = redirect.operator !== "<" && redirect.operator !== "<&";
        for (const look of [lookup, cautious]) opened.push({ path: textOf(redirect.target, look), writes });
      }
    }
    return { opened, input };
  }

  #move([program, ...args]: readonly string[], { standing }: Scope): void {
    if (program === "popd") this.#cwd = undefined;
    if (program !== "cd" && program !== "pushd") return;
    const [target = HOME] = operandsOf(args);
    if (target === "-" || target.includes(UNKNOWN)) this.#cwd = undefined;
    else if (target.startsWith("/")) this.#cwd = target;
    else if (target.startsWith(HOME))
      this.#cwd = standing.home === undefined ? undefined : standing.home + target.slice(1);
    else if (this.#cwd !== undefined) this.#cwd = `${this.#cwd}/${target}`;
  }

  /** Arithmetic and subscripts run what stands in `$( )` inside the value of a variable, however it was quoted. */
  #deferred(tree: SyntaxNode): void {
    let evaluates = false;
    let holdsCode = false;
    const look = (node: SyntaxNode): void => {
      if (node.type === "ArithmeticWord" || (node.type === "ParameterExpansion" && node.index !== undefined))
        evaluates = true;
      if (
        node.type === "Command" &&
        /^(?:let|declare|typeset|local|test|\[|printf|unset|read)$/.test(node.name?.value ?? "")
      ) {
        evaluates = true;
      }
      if (node.type === "TestBinary" || node.type === "TestUnary") evaluates = true;
      if (node.type === "Assignment" && node.value.type === "Word" && isLiteral(node.value)) {
        holdsCode ||= /\[.{0,256}(?:\$\(|`)/.test(node.value.value.slice(0, 512));
      }
      forEachChild(node, look);
    };
    look(tree);
    if (evaluates && holdsCode) this.opaque.add("deferred code");
  }

  functions(): ReadonlySet<string> {
    return new Set(this.#bodies.keys());
  }

  bombs(): readonly string[] {
    return [...this.#bodies.keys()].filter((name) => this.#reaches(name, name, new Set()));
  }

  #reaches(from: string, goal: string, seen: Set<string>): boolean {
    return (this.#bodies.get(from) ?? []).some(({ spelled, forks }) => {
      if (spelled === goal) return forks;
      if (seen.has(spelled) || !this.#bodies.has(spelled)) return false;
      seen.add(spelled);
      return this.#reaches(spelled, goal, seen);
    });
  }
}

/** `${!name[@]}` lists keys; every other `${!name}` reads the variable that a variable names. */
function isKeys(index: Word | undefined): boolean {
  return index?.value === "@" || index?.value === "*";
}

function wordFields(part: Command["suffix"][number], lookup: Lookup): readonly string[] {
  if (part.type === "Word") return fieldsOf(part, lookup);
  if (part.type !== "Assignment") return [];
  const index = part.index === undefined ? "" : "[]";
  return [`${part.name}${index}=${part.value.type === "Word" ? textOf(part.value, lookup) : UNKNOWN}`];
}

function isInput(redirect: Redirection): boolean {
  return redirect.type !== "Redirect" || redirect.operator.startsWith("<");
}

/** `2>&1`, `<&-`: no file. */
function isDescriptor(operator: string, target: Word): boolean {
  return /^[<>]&$/.test(operator) && /^(?:[0-9]+-?|-)$/.test(target.value);
}

/** What `echo` or `printf` hands to the next program of a pipeline, when that can be told. */
function said(node: CommandNode, lookup: Lookup): readonly string[] {
  if (node.type !== "Command" || node.redirects.some((redirect) => !isInput(redirect))) return [];
  if (node.name?.value !== "echo" && node.name?.value !== "printf") return [];
  const words = node.suffix.flatMap((part) => wordFields(part, lookup)).filter((word) => !/^-[neE]+$/.test(word));
  return [words.join(" ").replaceAll("\\n", "\n"), ...words];
}
