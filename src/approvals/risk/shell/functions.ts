import type { SyntaxNode } from "unbash";
import type { Ends, State } from "./flow.ts";
import type { Invocation } from "./invocation.ts";
import { type DirectoryState, NOWHERE } from "./moves.ts";
import type { ShellScope } from "./scope.ts";

/** A function as it was defined. */
export interface Definition {
  readonly body: SyntaxNode;
  readonly scope: ShellScope;
  readonly state: State;
}

/** Of one name. */
const DEFINITIONS_MAX = 8;

/** The functions of a script, and the calls of them that were looked into. */
export class Functions {
  /** What they start, by their names. */
  readonly bodies = new Map<string, Set<Invocation>>();
  readonly #definitions = new Map<string, Definition[]>();
  readonly #called = new Set<Definition>();
  /** `undefined` while a call is being looked into. */
  readonly #calls = new Map<string, Ends | undefined>();

  /** Whether there was still room for it. */
  define(name: string, definition: Definition): boolean {
    const before = this.#definitions.get(name) ?? [];
    if (before.length === DEFINITIONS_MAX) return false;
    this.bodies.set(name, this.bodies.get(name) ?? new Set());
    this.#definitions.set(name, [...before, definition]);
    return true;
  }

  /** Takes down what one call of it started. */
  started(name: string, invocations: readonly Invocation[]): void {
    for (const invocation of invocations) this.bodies.get(name)?.add(invocation);
  }

  has(name: string): boolean {
    return this.#definitions.has(name);
  }

  /** Every definition so far: which of them counts is not followed. */
  called(name: string): readonly Definition[] {
    const all = this.#definitions.get(name) ?? [];
    for (const definition of all) this.#called.add(definition);
    return all;
  }

  /** Takes out one that was never called. */
  uncalled(): readonly [name: string, definition: Definition] | undefined {
    for (const [name, definitions] of this.#definitions) {
      const definition = definitions.find((one) => !this.#called.has(one));
      if (definition === undefined) continue;
      this.#called.add(definition);
      return [name, definition];
    }
    return undefined;
  }

  /** Looks into a call once; `undefined` when it is the one that is being looked into. */
  once(key: string, look: () => Ends): Ends | undefined {
    if (this.#calls.has(key)) return this.#calls.get(key);
    this.#calls.set(key, undefined);
    const ends = look();
    this.#calls.set(key, ends);
    return ends;
  }
}

/** What a function is called with. A call inside a call of the same one is with anything, and from anywhere else when it moved. */
export function entryOf(name: string, words: readonly string[], { state, calls }: Caller): State {
  const from = calls.get(name);
  if (from === undefined) return { ...state, parameters: words };
  const hasMoved = JSON.stringify(from) !== JSON.stringify(state.places);
  return { ...state, parameters: undefined, places: hasMoved ? [NOWHERE] : state.places };
}

interface Caller {
  readonly state: State;
  readonly calls: ReadonlyMap<string, readonly DirectoryState[]>;
}
