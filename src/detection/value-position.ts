import type { RedactionLevel } from "./finding.ts";
import { type Label, labelOf, plainName } from "./labels.ts";
import { isPrivateMember } from "./secrets/jwk.ts";

/** Keys from the root; `[]` steps into an array. A key that is called so is `"[]"` here, which no field pattern can name either. */
export type RedactionPath = readonly string[];

export type LevelOf = RedactionLevel | ((path: RedactionPath) => RedactionLevel);

/** Places kept for one value, below one place: a schema's, and not all of a table's whose keys are data. */
export const KEPT_MAX = 256;

/** Places that are kept from value to value, below one root. A root that has as many makes way for a new one. */
const LASTING_MAX = 2_048;

/** Of a path as it is told, UTF-16 units: keys may be data, and each of many findings tells its path. */
const PATH_CHARS_MAX = 512;

const VALUE_KEY = /value$|^(?:data|stringData)$/i;

const ELEMENT = "[]";
const KEY_LIKE_ELEMENT = '"[]"';

/** A root's places that last. */
interface Tree {
  count: number;
}

function hasRoom(tree: Tree | undefined): tree is Tree {
  return tree !== undefined && tree.count < LASTING_MAX;
}

interface PlaceFacts {
  readonly shown: string;
  readonly label: Label | undefined;
  readonly tree?: Tree | undefined;
  readonly isNamedElsewhere?: boolean;
  readonly holdsSecrets?: boolean;
}

/** Roots of the levels that tell paths apart. */
const roots = new WeakMap<object, ValuePosition>();

/**
 * Where in a tree a value stands. What is asked of a place is worked out once for all values that stand there; of the fields
 * that most values share also for the values to come.
 */
export class ValuePosition {
  readonly depth: number;
  /** Whether the name of a value here may stand beside or above its key. */
  readonly isNamedElsewhere: boolean;
  /** Of the nearest key above. */
  readonly label: Label | undefined;
  /** The key as it may be shown. */
  readonly shown: string;
  readonly #holdsSecrets: boolean;
  readonly #above: ValuePosition | undefined;
  readonly #step: string;
  readonly #tree: Tree | undefined;
  #level: RedactionLevel | undefined;
  #path: string | undefined;
  #elements: ValuePosition | undefined;
  #kept: Map<string, ValuePosition> | undefined;

  private constructor(above: ValuePosition | undefined, step: string, facts: PlaceFacts) {
    this.#above = above;
    this.#step = step;
    this.#tree = facts.tree;
    this.shown = facts.shown;
    this.label = facts.label;
    this.#holdsSecrets = facts.holdsSecrets ?? false;
    this.isNamedElsewhere = facts.isNamedElsewhere ?? false;
    this.depth = above === undefined ? 0 : above.depth + 1;
    if (facts.tree !== undefined) facts.tree.count += 1;
  }

  /** The same one whenever the same levels are asked for, until it is full: mostly of keys that are data, and do not come again. */
  static rootOf(levels: LevelOf): ValuePosition {
    const key = typeof levels === "string" ? SINGLE[levels] : levels;
    const known = roots.get(key);
    if (known !== undefined && hasRoom(known.#tree)) return known;
    const root = new ValuePosition(undefined, "", { shown: "", label: undefined, tree: { count: 0 } });
    roots.set(key, root);
    return root;
  }

  /** Whether it is kept from value to value. */
  get lasts(): boolean {
    return this.#tree !== undefined;
  }

  /** Where the elements of an array that stands here stand. */
  get elements(): ValuePosition {
    this.#elements ??= new ValuePosition(this, ELEMENT, { shown: ELEMENT, label: this.label, tree: this.#tree });
    return this.#elements;
  }

  /** A place below that was kept. */
  kept(key: string): ValuePosition | undefined {
    return this.#kept?.get(key);
  }

  /** Where the value of a key stands, which may be shown as `shown`. Whoever may not last is not kept by a place that does. */
  below(key: string, { shown, lasts }: { readonly shown: string; readonly lasts: boolean }): ValuePosition {
    this.#kept ??= new Map();
    const tree = lasts && hasRoom(this.#tree) ? this.#tree : undefined;
    const name = plainName(key);
    const isNamedElsewhere = VALUE_KEY.test(name) || isPrivateMember(name);
    const label = this.#holdsSecrets ? SECRET : labelOf(name);
    const place = new ValuePosition(this, stepOf(key), { shown, label, tree, isNamedElsewhere });
    if (place.lasts || (!this.lasts && this.#kept.size < KEPT_MAX)) this.#kept.set(key, place);
    return place;
  }

  /** This place, for a value that has its name beside it: `{name: "DB_PASSWORD", value: "…"}`. */
  called(name: string): ValuePosition {
    return new ValuePosition(this.#above, this.#step, { shown: this.shown, label: labelOf(name) });
  }

  /** This place, for a value whose name stands above it: `{db_password: {value: "…"}}`. */
  labelled(label: Label): ValuePosition {
    return new ValuePosition(this.#above, this.#step, { shown: this.shown, label });
  }

  /** This place, of which each key's value is a secret. */
  secretBelow(): ValuePosition {
    return new ValuePosition(this.#above, this.#step, { shown: this.shown, label: this.label, holdsSecrets: true });
  }

  level(levels: LevelOf): RedactionLevel {
    this.#level ??= typeof levels === "string" ? levels : levels(this.#steps());
    return this.#level;
  }

  /** What a key is looked through for that stands below this place and is not kept. */
  levelBelow(key: string, levels: LevelOf): RedactionLevel {
    return typeof levels === "string" ? levels : levels([...this.#steps(), stepOf(key)]);
  }

  /** As a dotted path, itself redacted: `customer.notes[]`. Ends in `…` when it was cut. */
  get path(): string {
    if (this.#path === undefined) {
      const before = this.#above?.path ?? "";
      const isJoined = this.#step === ELEMENT || before === "";
      this.#path = bounded(isJoined ? before + this.shown : `${before}.${this.shown}`);
    }
    return this.#path;
  }

  /** The path of one of this place's keys, when the key itself is what was found. */
  get pathOfKeys(): string {
    return this.path === "" ? "*" : bounded(`${this.path}.*`);
  }

  #steps(): readonly string[] {
    const steps: string[] = [];
    for (let at: ValuePosition = this; at.#above !== undefined; at = at.#above) steps.push(at.#step);
    return steps.reverse();
  }
}

/** By a level that is the same everywhere: what its root is known by. */
const SINGLE: Readonly<Record<RedactionLevel, object>> = { off: {}, secrets: {}, balanced: {}, strict: {} };

const SECRET: Label = { words: "", secret: "password" };

function bounded(path: string): string {
  return path.length <= PATH_CHARS_MAX ? path : `${path.slice(0, PATH_CHARS_MAX - 1).toWellFormed()}…`;
}

function stepOf(key: string): string {
  return key === ELEMENT ? KEY_LIKE_ELEMENT : key;
}
