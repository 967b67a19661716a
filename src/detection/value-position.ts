import type { Json } from "../core/types.ts";
import type { RedactionLevel } from "./finding.ts";
import { type Label, labelOf, plainName } from "./labels.ts";
import { DETECTOR, type Detector } from "./sensitive.ts";

/**
 * Keys from the root; `[]` represents an array element. A key that is literally `[]` is written `"[]"`, which no field pattern
 * can name either.
 */
export type RedactionPath = readonly string[];

export type LevelOf = RedactionLevel | ((path: RedactionPath) => RedactionLevel);

/** Maximum number of cached child positions: enough for a schema, but not for a table whose keys are data. */
export const CACHED_POSITIONS_MAX = 256;

/** Maximum number of positions that one root caches across values. A full root is replaced by a new one. */
const CACHED_PER_ROOT_MAX = 2_048;

/** Maximum length of a reported path (UTF-16 units): keys may be data, and each of many findings reports its path. */
const PATH_CHARS_MAX = 512;

const VALUE_KEY = /value$|^(?:data|stringData|result)$/i;

const ELEMENT = "[]";
const KEY_LIKE_ELEMENT = '"[]"';

/** Counts the positions of a root that are cached across values. */
interface Tree {
  count: number;
}

function hasRoom(tree: Tree | undefined): tree is Tree {
  return tree !== undefined && tree.count < CACHED_PER_ROOT_MAX;
}

interface PositionFacts {
  readonly shown: string;
  readonly label: Label | undefined;
  readonly tree?: Tree | undefined;
  readonly isNamedElsewhere?: boolean;
  readonly holdsSecrets?: boolean;
}

/** Roots by detector, and by level function or the marker of a single level. */
const roots = new WeakMap<object, WeakMap<object, ValuePosition>>();

/**
 * The position of a value in a tree. Facts about a position are computed once for all values at that position; positions of
 * fields that most values share are also kept for later values.
 */
export class ValuePosition {
  readonly depth: number;
  /** True when the name of a value here may be in a sibling field or in the parent key instead of its own key. */
  readonly isNamedElsewhere: boolean;
  /** Label of the nearest key above. */
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
  #cached: Map<string, ValuePosition> | undefined;

  private constructor(above: ValuePosition | undefined, step: string, facts: PositionFacts) {
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

  /**
   * Returns the same root for the same levels until that root is full. Most of its positions are then data keys that do not
   * recur.
   */
  static rootOf(levels: LevelOf, detector: Detector = DETECTOR): ValuePosition {
    const key = typeof levels === "string" ? SINGLE[levels] : levels;
    const own = roots.get(detector) ?? new WeakMap<object, ValuePosition>();
    roots.set(detector, own);
    const known = own.get(key);
    if (known !== undefined && hasRoom(known.#tree)) return known;
    const root = new ValuePosition(undefined, "", { shown: "", label: undefined, tree: { count: 0 } });
    own.set(key, root);
    return root;
  }

  /** True when this position is cached across values. */
  get isCached(): boolean {
    return this.#tree !== undefined;
  }

  get elements(): ValuePosition {
    this.#elements ??= new ValuePosition(this, ELEMENT, { shown: ELEMENT, label: this.label, tree: this.#tree });
    return this.#elements;
  }

  cachedBelow(key: string): ValuePosition | undefined {
    return this.#cached?.get(key);
  }

  /**
   * Returns the position of a key's value; `shown` is the key for display. With `mayCache`, the position may be cached across
   * values.
   */
  below(key: string, { shown, mayCache }: { readonly shown: string; readonly mayCache: boolean }): ValuePosition {
    this.#cached ??= new Map();
    const tree = mayCache && hasRoom(this.#tree) ? this.#tree : undefined;
    const name = plainName(key);
    const isNamedElsewhere = VALUE_KEY.test(name) || PRIVATE_MEMBERS.has(name);
    const label = this.#holdsSecrets ? SECRET : labelOf(name);
    const position = new ValuePosition(this, stepOf(key), { shown, label, tree, isNamedElsewhere });
    if (position.isCached || (!this.isCached && this.#cached.size < CACHED_POSITIONS_MAX))
      this.#cached.set(key, position);
    return position;
  }

  /** Returns this position for a value whose name is in a sibling field: `{name: "DB_PASSWORD", value: "…"}`. */
  called(name: string): ValuePosition {
    return new ValuePosition(this.#above, this.#step, { shown: this.shown, label: labelOf(name) });
  }

  /** Returns this position for a value whose name is in the parent key: `{db_password: {value: "…"}}`. */
  labelled(label: Label): ValuePosition {
    return new ValuePosition(this.#above, this.#step, { shown: this.shown, label });
  }

  /** Returns this position for an object in which every value is a secret. */
  secretBelow(): ValuePosition {
    return new ValuePosition(this.#above, this.#step, { shown: this.shown, label: this.label, holdsSecrets: true });
  }

  level(levels: LevelOf): RedactionLevel {
    this.#level ??= typeof levels === "string" ? levels : levels(this.#steps());
    return this.#level;
  }

  /** Returns the redaction level for scanning a key below this position that is not cached. */
  levelBelow(key: string, levels: LevelOf): RedactionLevel {
    return typeof levels === "string" ? levels : levels([...this.#steps(), stepOf(key)]);
  }

  /** Dotted path, itself redacted: `customer.notes[]`. Ends in `…` when it was truncated. */
  get path(): string {
    if (this.#path === undefined) {
      const before = this.#above?.path ?? "";
      const isJoined = this.#step === ELEMENT || before === "";
      this.#path = bounded(isJoined ? before + this.shown : `${before}.${this.shown}`);
    }
    return this.#path;
  }

  /** Path for a finding in one of this position's keys. */
  get pathOfKeys(): string {
    return this.path === "" ? "*" : bounded(`${this.path}.*`);
  }

  #steps(): readonly string[] {
    const steps: string[] = [];
    for (let at: ValuePosition = this; at.#above !== undefined; at = at.#above) steps.push(at.#step);
    return steps.reverse();
  }
}

/** Marker objects for the roots of levels that are the same for all fields. */
const SINGLE: Readonly<Record<RedactionLevel, object>> = { off: {}, secrets: {}, balanced: {}, strict: {} };

const SECRET: Label = { words: "", secret: "password" };

function bounded(path: string): string {
  return path.length <= PATH_CHARS_MAX ? path : `${path.slice(0, PATH_CHARS_MAX - 1).toWellFormed()}…`;
}

function stepOf(key: string): string {
  return key === ELEMENT ? KEY_LIKE_ELEMENT : key;
}

/** Members of a JSON Web Key that only its owner may know (RFC 7518, 6.2.2, 6.3.2 and 6.4.1). */
const PRIVATE_MEMBERS: ReadonlySet<string> = new Set(["d", "p", "q", "dp", "dq", "qi", "k"]);

function isJwk(fields: JsonFields): boolean {
  return Object.hasOwn(fields, "kty") && typeof fields["kty"] === "string";
}

export interface JsonFields {
  readonly [key: string]: Json;
}

/** Returns the same object when its keys are already plain, as most are. */
function withPlainKeys(fields: JsonFields): JsonFields {
  const keys = Object.keys(fields);
  if (keys.every((key) => plainName(key) === key)) return fields;
  return Object.fromEntries(keys.map((key) => [plainName(key), fields[key] as Json]));
}

/** The fields of one object, one of which may name the value of another. Each name is read once, without invisible characters. */
export class Neighbours {
  readonly #fields: JsonFields;
  readonly #labels = new Map<string, Label>();

  constructor(fields: JsonFields) {
    this.#fields = withPlainKeys(fields);
  }

  /**
   * Returns the position of a field whose key alone may not name its value: the name may be a part of the key, or in a sibling
   * field or the parent key.
   */
  positionOf(
    written: string,
    { above, below }: { readonly above: ValuePosition; readonly below: ValuePosition },
  ): ValuePosition {
    const key = plainName(written);
    const fields = this.#fields;
    if (PRIVATE_MEMBERS.has(key)) return isJwk(fields) ? below.called("private_key") : below;
    if (DATA.test(key)) return fields["kind"] === "Secret" ? below.secretBelow() : below;
    const declared = DECLARED_SECRETS.find((declaration) => declaration.key === key && declaration.appliesTo(fields));
    if (declared !== undefined) return below.called(declared.name);
    if (key === RESULT) return below;
    const named = siblingName(fields, key.slice(0, -VALUE_CHARS));
    if (named !== undefined) return below.labelled(this.#labelOf(named));
    return key.length === VALUE_CHARS && above.label !== undefined ? below.labelled(above.label) : below;
  }

  #labelOf(name: string): Label {
    const label = this.#labels.get(name) ?? labelOf(name);
    this.#labels.set(name, label);
    return label;
  }
}

/** Members that only a cookie has. A cookie may have any name. */
const COOKIE_MEMBERS = ["httpOnly", "sameSite", "hostOnly", "HttpOnly", "SameSite"];

/** Attributes of generated passwords and texts in a state of Terraform: `result` next to one of them is a secret. */
const GENERATED_MEMBERS = ["bcrypt_hash", "override_special", "special", "min_special"];
const RESULT = "result";

/** Fields that another field of the object declares to be secret, with the name that the value is scanned under. */
const DECLARED_SECRETS: readonly {
  readonly key: string;
  readonly name: string;
  readonly appliesTo: (fields: JsonFields) => boolean;
}[] = [
  { key: "value", name: "password", appliesTo: (fields) => fields["sensitive"] === true },
  { key: "Value", name: "password", appliesTo: (fields) => fields["Type"] === "SecureString" },
  {
    key: "value",
    name: "session_token",
    appliesTo: (fields) => COOKIE_MEMBERS.some((member) => Object.hasOwn(fields, member)),
  },
  {
    key: RESULT,
    name: "password",
    appliesTo: (fields) => GENERATED_MEMBERS.some((member) => Object.hasOwn(fields, member)),
  },
];

/** Fields of a Kubernetes Secret: everything below is secret, whatever its name. */
const DATA = /^(?:data|stringData)$/;

const VALUE_CHARS = "value".length;
const NAME_KEYS = ["name", "Name", "key", "Key", "variable", "Variable", "field", "header", "_name", "_key"];

/**
 * Returns the name in a sibling field: `{name: "DB_PASSWORD", value: "…"}`, `{ParameterKey: "DbPassword", ParameterValue: "…"}`.
 */
function siblingName(fields: JsonFields, prefix: string): string | undefined {
  const stem = prefix.endsWith("_") ? prefix.slice(0, -1) : prefix;
  for (const end of NAME_KEYS) {
    const name = Object.hasOwn(fields, stem + end) ? fields[stem + end] : undefined;
    if (typeof name === "string") return name;
  }
  return undefined;
}

/** Maximum length in UTF-16 units, after and before decoding. */
const FLAG_CHARS_MAX = 64;
const WRITTEN_CHARS_MAX = 1_024;

/** Matches a hyphen, or a character that may decode to a hyphen or to nothing. Linear, because it reads one character. */
const MAY_BEGIN_FLAG = /^[-%&\\"']|^[^\x20-\x7e]/;

/** Returns the flag before a program argument, as in `["--password", "…"]`. */
export function flagBefore(values: readonly Json[], index: number): string | undefined {
  const before = index === 0 ? undefined : values[index - 1];
  if (typeof before !== "string" || before.length > WRITTEN_CHARS_MAX || !MAY_BEGIN_FLAG.test(before)) return undefined;
  const flag = plainName(before);
  return flag.startsWith("--") && flag.length <= FLAG_CHARS_MAX ? flag : undefined;
}
