import type { Json } from "./types.ts";

interface Facts {
  /** The value that `JSON.parse` returns: the rounded number, or the last of several members. */
  readonly reading: Json;
  /** The number as it was written. */
  readonly digits?: string | undefined;
}

/**
 * A value in a target's answer that two readers of JSON may read differently. It takes the value's place until the output policy
 * is known: it is dropped where nothing is released, and refuses the answer elsewhere. Code that looks inside finds an object
 * without members.
 */
export class AmbiguousValue {
  /** Private, so that `is` does not read the prototype of an untrusted value, which may run code. */
  readonly #problem: string;
  readonly #facts: Facts;

  constructor(problem: string, facts: Facts) {
    this.#problem = problem;
    this.#facts = facts;
  }

  static is(value: unknown): value is AmbiguousValue {
    return typeof value === "object" && value !== null && #problem in value;
  }

  static factsOf(value: AmbiguousValue): Facts & { readonly problem: string } {
    return { problem: value.#problem, ...value.#facts };
  }

  /** Returns the same problem with other facts. */
  static with(value: AmbiguousValue, facts: Facts): AmbiguousValue {
    return new AmbiguousValue(value.#problem, facts);
  }

  /** Shows a number as it was written, in the parsers of manifests and in what their authors see. */
  toString(): string {
    return this.#facts.digits ?? `(${this.#problem})`;
  }

  toJSON(): string {
    return this.toString();
  }
}
