import type { FieldKind } from "../schema/fields.ts";
import {
  advance,
  type FieldPattern,
  otherKey,
  type Segment,
  type Step,
  startPosition,
  wildcard,
} from "./field-path.ts";
import { pathOf } from "./policy-fields.ts";

interface Place {
  readonly steps: readonly Step[];
  readonly kind: FieldKind;
}

/** Steps of all searches together. */
const SEARCH_STEPS_MAX = 10_000_000;

/** Finds where patterns lead in what a schema leaves undescribed. */
export class Undescribed {
  readonly #open: readonly Place[];
  readonly #spelled: ReadonlySet<string>;
  #left = SEARCH_STEPS_MAX;

  constructor(fields: readonly Place[]) {
    this.#open = fields.filter(({ kind, steps }) => kind === "open" || steps.includes(otherKey));
    this.#spelled = new Set(fields.flatMap(({ steps }) => steps.map((_, at) => pathOf(steps.slice(0, at + 1)))));
  }

  /**
   * Places that the pattern names though the schema does not: `email` of a loose object, `payload.email` of an unknown payload.
   *
   * @throws {RangeError} when there is too much to search: what is not found cannot be judged
   */
  reachedBy(pattern: FieldPattern): readonly Place[] {
    const found = new Map<string, Place>();
    for (const place of this.#open) {
      this.#search(pattern, place, (steps) => {
        const { kind } = place;
        found.set(pathOf(steps), { steps, kind });
      });
    }
    return [...found.values()];
  }

  #search(pattern: FieldPattern, { steps, kind }: Place, report: (steps: readonly Step[]) => void): void {
    const { segments } = pattern;
    const todo: Reached[] = [{ position: startPosition(pattern), taken: [] }];
    for (let from = todo.pop(); from !== undefined; from = todo.pop()) {
      this.#left -= 1;
      if (this.#left < 0)
        throw new RangeError("the policy has too many patterns for what the schema leaves undescribed");
      const { position, taken } = from;
      const step = steps[taken.length];
      if (position === segments.length) {
        if (!isSame(taken, steps)) report([...taken, ...steps.slice(taken.length)]);
        continue;
      }
      if (step === undefined) {
        if (kind === "open") report([...taken, ...segments.slice(position).map(asStep)]);
        continue;
      }
      for (const next of advance(pattern, position, step)) todo.push({ position: next, taken: [...taken, step] });
      const awaited = segments[position];
      if (step === otherKey && typeof awaited === "string" && !this.#spelled.has(pathOf([...taken, awaited]))) {
        todo.push({ position: position + 1, taken: [...taken, awaited] });
      }
    }
  }
}

interface Reached {
  readonly position: number;
  readonly taken: readonly Step[];
}

/** Whether no other key was taken on the way than the place's own. */
function isSame(taken: readonly Step[], steps: readonly Step[]): boolean {
  return taken.every((step, at) => step === steps[at]);
}

function asStep(segment: Segment): Step {
  return segment === wildcard ? otherKey : segment;
}
