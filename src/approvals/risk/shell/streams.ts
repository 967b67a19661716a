import { type CommandNode, forEachChild, type Redirection, type SyntaxNode } from "unbash";
import type { CommandCollector } from "./commands.ts";
import { alike, type Ends } from "./flow.ts";
import { isInput } from "./redirects.ts";
import { said } from "./said-text.ts";
import type { ShellScope } from "./scope.ts";

type Visit = (node: SyntaxNode, scope: ShellScope) => Ends;

/** Pipes, redirections and substitutions: who reads what whom writes. */
export class Streams {
  readonly #commands: CommandCollector;
  readonly #visit: Visit;
  #pipes = 0;

  constructor(commands: CommandCollector, visit: Visit) {
    this.#commands = commands;
    this.#visit = visit;
  }

  /** Each reads what the one before it writes. */
  joined(commands: readonly CommandNode[], scope: ShellScope): void {
    this.#pipes += 1;
    const pipe = this.#pipes;
    let { fedBy, input } = scope;
    for (const [index, command] of commands.entries()) {
      const inner = { ...scope, fedBy, readsInput: index > 0 || scope.readsInput, pipe, input, isLoop: false };
      const found = this.#commands.programs(() => this.#commands.apart(() => this.#visit(command, inner)));
      fedBy = [...new Set([...fedBy, ...found])];
      input = said(command, this.#commands.lookups(scope)[0]);
    }
  }

  substitution(node: SyntaxNode, scope: ShellScope): void {
    const isFed = node.type === "ProcessSubstitution" && node.operator === ">";
    const fed = isFed ? { fedBy: [...scope.fedBy, ...scope.feeds], readsInput: true } : {};
    const alone = { background: false, pipe: undefined, isLoop: false };
    this.#commands.apart(() => {
      this.#commands.state = { ...this.#commands.state, stopsAtFailure: false };
      const inner = { ...scope, ...alone, ...fed, feeds: [] };
      forEachChild(node, (child) => this.#visit(child, inner));
    });
  }

  /** What it reads from is looked at before, what it writes to behind it. */
  redirected(redirects: readonly Redirection[], command: SyntaxNode, scope: ShellScope): Ends {
    const look = (some: readonly Redirection[], around: ShellScope) =>
      this.#commands.programs(() => {
        for (const redirect of some) this.#visit(redirect, around);
      });
    const fedBy = [...scope.fedBy, ...look(redirects.filter(isInput), scope)];
    const { opened, input } = this.#commands.open(redirects, scope);
    const readsInput = scope.readsInput || redirects.some(isInput);
    const inner = { ...scope, fedBy, readsInput, input: [...scope.input, ...input] };
    const start = this.#commands.start(scope);
    const before = this.#commands.state;
    let ends = alike(before);
    const feeds = this.#commands.programs(() => {
      ends = this.#visit(command, inner);
    });
    look(
      redirects.filter((redirect) => !isInput(redirect)),
      { ...inner, feeds },
    );
    this.#commands.add([""], { ...start, opened, fedBy: [...fedBy, ...feeds] }, before);
    return ends;
  }
}
