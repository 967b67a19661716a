import { type Label, labelOf } from "./labels.ts";
import type { RedactionLevel } from "./sensitive.ts";

/** Keys from the root; `[]` steps into an array. A key that is called so is `"[]"` here, which no field pattern can name either. */
export type RedactionPath = readonly string[];

export type LevelOf = RedactionLevel | ((path: RedactionPath) => RedactionLevel);

/** Places kept below one place: a schema's, and not all of a table's whose keys are data. */
const KEPT_MAX = 256;

const ELEMENT = "[]";
const KEY_LIKE_ELEMENT = '"[]"';

/** Where in a tree a value stands. What is asked of a place is worked out once for all values that stand there. */
export class Place {
  readonly depth: number;
  /** Of the nearest key above. */
  readonly label: Label | undefined;
  /** The key as it may be shown. */
  readonly shown: string;
  readonly #above: Place | undefined;
  readonly #step: string;
  #level: RedactionLevel | undefined;
  #path: string | undefined;
  #elements: Place | undefined;
  #kept: Map<string, Place> | undefined;

  private constructor(
    above: Place | undefined,
    step: string,
    { shown, label }: { shown: string; label: Label | undefined },
  ) {
    this.#above = above;
    this.#step = step;
    this.shown = shown;
    this.label = label;
    this.depth = above === undefined ? 0 : above.depth + 1;
  }

  static root(): Place {
    return new Place(undefined, "", { shown: "", label: undefined });
  }

  /** Where the elements of an array that stands here stand. */
  get elements(): Place {
    this.#elements ??= new Place(this, ELEMENT, { shown: ELEMENT, label: this.label });
    return this.#elements;
  }

  /** A place below that was kept. */
  kept(key: string): Place | undefined {
    return this.#kept?.get(key);
  }

  /** Where the value of a key stands, which may be shown as `shown`. */
  below(key: string, shown: string): Place {
    const place = new Place(this, stepOf(key), { shown, label: labelOf(key) });
    this.#kept ??= new Map();
    if (this.#kept.size < KEPT_MAX) this.#kept.set(key, place);
    return place;
  }

  /** This place, for a value that has its name beside it: `{name: "DB_PASSWORD", value: "…"}`. */
  called(name: string): Place {
    return new Place(this.#above, this.#step, { shown: this.shown, label: labelOf(name) });
  }

  /** This place, for a value whose name stands above it: `{db_password: {value: "…"}}`. */
  labelled(label: Label): Place {
    return new Place(this.#above, this.#step, { shown: this.shown, label });
  }

  level(levels: LevelOf): RedactionLevel {
    this.#level ??= typeof levels === "string" ? levels : levels(this.#steps());
    return this.#level;
  }

  /** What a key is looked through for that stands below this place and is not kept. */
  levelBelow(key: string, levels: LevelOf): RedactionLevel {
    return typeof levels === "string" ? levels : levels([...this.#steps(), stepOf(key)]);
  }

  /** As a dotted path, itself redacted: `customer.notes[]`. */
  get path(): string {
    if (this.#path === undefined) {
      const before = this.#above?.path ?? "";
      const isJoined = this.#step === ELEMENT || before === "";
      this.#path = isJoined ? before + this.shown : `${before}.${this.shown}`;
    }
    return this.#path;
  }

  /** The path of one of this place's keys, when the key itself is what was found. */
  get pathOfKeys(): string {
    return this.path === "" ? "*" : `${this.path}.*`;
  }

  #steps(): readonly string[] {
    const steps: string[] = [];
    for (let at: Place = this; at.#above !== undefined; at = at.#above) steps.push(at.#step);
    return steps.reverse();
  }
}

function stepOf(key: string): string {
  return key === ELEMENT ? KEY_LIKE_ELEMENT : key;
}
