import {
  type AndOr,
  type ArithmeticFor,
  type Case,
  type For,
  forEachChild,
  type If,
  type Select,
  type Statement,
  type SyntaxNode,
  type While,
} from "unbash";
import { alike, anyOf, type Ends, either, isSame, NEVER, type State, widened } from "./flow.ts";
import type { ShellScope } from "./scope.ts";

/** Rounds of a loop that are told apart. */
const ROUNDS_MAX = 3;

type Visit = (node: SyntaxNode, scope: ShellScope) => Ends;

/** Lists, branches and loops: which of their parts runs after which, and with what. */
export class Control {
  readonly #at: { state: State };
  readonly #visit: Visit;
  /** What holds where a round of the loop ends early, and where several loops do. */
  #broken: State | undefined;
  #jumped: State | undefined;

  constructor(at: { state: State }, visit: Visit) {
    this.#at = at;
    this.#visit = visit;
  }

  /** `break` or `continue` of one loop, or of several. */
  leave(loops: "one" | "several"): Ends {
    this.#broken = either(this.#broken, this.#at.state);
    if (loops === "several") this.#jumped = either(this.#jumped, this.#at.state);
    return NEVER;
  }

  /** Looks at what runs when this holds. What never does is looked at all the same, and leads nowhere. */
  #from(state: State | undefined, look: () => Ends): Ends {
    this.#at.state = state ?? this.#at.state;
    const ends = look();
    return state === undefined ? NEVER : ends;
  }

  list(commands: readonly Statement[], scope: ShellScope): Ends {
    let ends = alike(this.#at.state);
    for (const command of commands) ends = this.#visit(command, scope);
    return ends;
  }

  andOr({ commands, operators }: AndOr, scope: ShellScope): Ends {
    let ends = alike(this.#at.state);
    for (const [index, command] of commands.entries()) {
      const inner = { ...scope, isTested: scope.isTested || index < operators.length };
      const look = () => this.#visit(command, inner);
      const operator = operators[index - 1];
      if (operator === undefined) ends = look();
      else if (operator === "&&") {
        const { ok, failed } = this.#from(ends.ok, look);
        ends = { ok, failed: either(ends.failed, failed) };
      } else {
        const { ok, failed } = this.#from(ends.failed, look);
        ends = { ok: either(ends.ok, ok), failed };
      }
    }
    return ends;
  }

  if(node: If, scope: ShellScope): Ends {
    const tested = { ...scope, isTested: true };
    const first = this.#visit(node.clause, tested);
    const done = [this.#from(first.ok, () => this.#visit(node.then, scope))];
    let rest = first.failed;
    for (const { clause, then } of node.elif) {
      const { ok, failed } = this.#from(rest, () => this.#visit(clause, tested));
      done.push(this.#from(ok, () => this.#visit(then, scope)));
      rest = failed;
    }
    const last = node.else;
    done.push(last === undefined ? alike(rest) : this.#from(rest, () => this.#visit(last, scope)));
    return anyOf(done);
  }

  case({ word, items }: Case, scope: ShellScope): Ends {
    this.#visit(word, scope);
    const before = this.#at.state;
    const done = [alike(before)];
    for (const { pattern, body } of items) {
      for (const part of pattern) this.#visit(part, scope);
      // Behind `;&` it runs after the one above it.
      const from = done.map(({ ok, failed }) => either(ok, failed)).reduce(either, before);
      done.push(this.#from(from, () => this.#visit(body, scope)));
    }
    return anyOf(done);
  }

  while({ kind, clause, body }: While, scope: ShellScope): Ends {
    return this.#rounds(() => {
      const { ok, failed } = this.#visit(clause, { ...scope, isTested: true, isLoop: true });
      this.#from(kind === "while" ? ok : failed, () => this.#visit(body, { ...scope, isLoop: true }));
      return kind === "while" ? failed : ok;
    });
  }

  for(node: For | Select | ArithmeticFor, scope: ShellScope): Ends {
    forEachChild(node, (child) => {
      if (child !== node.body) this.#visit(child, scope);
    });
    return this.#rounds(() => {
      const before = this.#at.state;
      this.#visit(node.body, { ...scope, isLoop: true });
      return either(before, this.#at.state);
    });
  }

  /** Each round begins where the last one may have ended. `look` tells what holds when no other follows. */
  #rounds(look: () => State | undefined): Ends {
    const outer = this.#broken;
    this.#broken = undefined;
    let from = this.#at.state;
    let done: State | undefined;
    for (let round = 1; round <= ROUNDS_MAX; round += 1) {
      this.#at.state = from;
      done = either(done, look());
      const next = either(either(from, this.#at.state), this.#broken) ?? from;
      if (isSame(next, from)) break;
      from = round + 1 < ROUNDS_MAX ? next : widened(next);
    }
    done = either(either(done, this.#broken), this.#jumped);
    this.#broken = outer;
    return alike(done);
  }
}
