import { isList } from "../core/json.ts";
import { element, otherKey, type Step } from "../core/output-policy/field-path.ts";
import type { Json } from "../core/types.ts";
import { REDACTION_BOUNDS, TooLarge, Work } from "./bounds.ts";
import type { ActiveLevel, RedactionLevel, SensitiveFinding } from "./finding.ts";
import { NO_LABEL } from "./labels.ts";
import { isSecretValue } from "./secrets/values.ts";
import { DETECTOR, type Detector, hideFindings, replacementOf } from "./sensitive.ts";
import {
  CACHED_POSITIONS_MAX,
  flagBefore,
  type JsonFields,
  type LevelOf,
  Neighbours,
  ValuePosition,
} from "./value-position.ts";
import { cleanText, sequenceStart } from "./views/clean-text.ts";

export { REDACTION_BOUNDS, TooLarge } from "./bounds.ts";

export interface RedactOptions {
  /** One level for all fields, or a level by field. `off` leaves a field unchanged. */
  readonly level: LevelOf;
  /** True removes invisible characters too; set for text that an agent reads. */
  readonly clean?: boolean;
  /** Formats the path of a finding; the default is the path of redacted keys. */
  readonly pathOf?: (steps: readonly Step[]) => string;
  readonly detector?: Detector;
}

/**
 * A finding without any text of the value. `start` and `end` are offsets in the string, or in the cleaned string; for a finding
 * that covers the whole value, they are 0 and its length.
 */
export interface FieldFinding extends SensitiveFinding {
  /** Dotted path, itself redacted: `customer.notes[]`. */
  readonly path: string;
}

export interface Redacted {
  readonly value: Json;
  readonly findings: readonly FieldFinding[];
}

/**
 * Redacts all strings, keys and long numbers of a tree. Unchanged parts are returned as the same objects.
 *
 * @throws {TooLarge} when the value exceeds `REDACTION_BOUNDS`
 */
export function redact(value: Json, options: RedactOptions): Redacted {
  const walk = new Walk(options);
  return { value: walk.visit(value, ValuePosition.rootOf(options.level, options.detector)), findings: walk.findings };
}

/** Work that is counted for a value or key, for a key that is not cached, and for a scanned text. */
const STEPS_PER_NODE = 50;
const STEPS_PER_POSITION = 700;
const STEPS_PER_TEXT = 250;

/** Shorter numbers count as personal data only with a field name. */
const NUMBER_DIGITS_MIN = 12;

/** Longer text is scanned without its field's name, because it contains its own context. UTF-16 units. */
const LABELLED_CHARS_MAX = 256;

/**
 * Cache, by detector and level, of keys without findings: most are names of a schema, the same in every value. A full cache is cleared: schema
 * names are added again, while keys that are data do not recur.
 */
const harmlessKeys = new WeakMap<Detector, Readonly<Record<ActiveLevel, Set<string>>>>();
const HARMLESS_KEYS_MAX = 4_096;
const HARMLESS_KEY_CHARS_MAX = 64;

function harmlessKeysOf(detector: Detector, level: ActiveLevel): Set<string> {
  const known = harmlessKeys.get(detector) ?? { secrets: new Set(), balanced: new Set(), strict: new Set() };
  harmlessKeys.set(detector, known);
  return known[level];
}

class Walk {
  readonly findings: FieldFinding[] = [];
  readonly #options: RedactOptions;
  readonly #detector: Detector;
  readonly #work = new Work();
  /** Positions by parent position and key that are cached only for this value. */
  #temporary: Map<ValuePosition, Map<string, ValuePosition>> | undefined;
  readonly #steps: Step[] = [];
  #nodes = 0;
  #chars = 0;

  constructor(options: RedactOptions) {
    this.#options = options;
    this.#detector = options.detector ?? DETECTOR;
  }

  visit(value: Json, position: ValuePosition): Json {
    this.#nodes += 1;
    if (this.#nodes > REDACTION_BOUNDS.nodesMax) throw new TooLarge("nodesMax");
    if (typeof value === "string") return this.#string(value, position);
    if (typeof value === "number") return this.#number(value, position);
    if (value === null || typeof value === "boolean") return value;
    if (position.depth >= REDACTION_BOUNDS.depthMax) throw new TooLarge("depthMax");
    return isList(value) ? this.#array(value, position) : this.#object(value, position);
  }

  #array(values: readonly Json[], above: ValuePosition): Json {
    const inside = above.elements;
    let changed: Json[] | undefined;
    this.#steps.push(element);
    for (let index = 0; index < values.length; index += 1) {
      const value = values[index] as Json;
      const flag = typeof value === "string" && !value.startsWith("-") ? flagBefore(values, index) : undefined;
      const seen = this.visit(value, flag === undefined ? inside : inside.called(flag));
      if (changed === undefined && seen !== value) changed = values.slice(0, index);
      changed?.push(seen);
    }
    this.#steps.pop();
    return changed ?? values;
  }

  #object(fields: JsonFields, above: ValuePosition): Json {
    const keys = Object.keys(fields);
    let changed: [string, Json][] | undefined;
    let isRenamed = false;
    let neighbours: Neighbours | undefined;
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[index] ?? "";
      const value = fields[key] as Json;
      const below = this.#below(key, above);
      if (below.isNamedElsewhere) neighbours ??= new Neighbours(fields);
      const position = below.isNamedElsewhere ? neighbours?.positionOf(key, { above, below }) : below;
      this.#steps.push(key);
      const seen = this.visit(value, position ?? below);
      this.#steps.pop();
      if (below.shown !== key) isRenamed = true;
      if (changed === undefined && (seen !== value || below.shown !== key)) {
        changed = keys.slice(0, index).map((before) => [before, fields[before] as Json]);
      }
      changed?.push([below.shown, seen]);
    }
    if (changed === undefined) return fields;
    return Object.fromEntries(isRenamed ? withDistinctNames(changed, keys) : changed);
  }

  #below(key: string, above: ValuePosition): ValuePosition {
    this.#count(key.length);
    const cached = above.cachedBelow(key) ?? (above.isCached ? this.#temporary?.get(above)?.get(key) : undefined);
    // A key with a finding is scanned and counted each time it occurs.
    if (cached !== undefined && cached.shown === key) return cached;
    this.#work.spend(STEPS_PER_POSITION);
    const level = above.levelBelow(key, this.#options.level);
    const position = above.below(key, { shown: this.#key(key, level, above), mayCache: this.#mayCache(key, level) });
    if (above.isCached && !position.isCached) this.#cacheForValue(key, above, position);
    return position;
  }

  #cacheForValue(key: string, above: ValuePosition, position: ValuePosition): void {
    this.#temporary ??= new Map();
    const children = this.#temporary.get(above) ?? new Map<string, ValuePosition>();
    if (children.size < CACHED_POSITIONS_MAX) children.set(key, position);
    this.#temporary.set(above, children);
  }

  #key(key: string, level: RedactionLevel, above: ValuePosition): string {
    if (this.#isHarmless(key, level)) return key;
    const path = (): string => this.#pathOfKeys(above);
    const hidden = this.#text(key, level, path);
    const seen = this.#cleaned(hidden);
    const shown = seen === hidden ? seen : this.#cleaned(this.#text(seen, level, path));
    // Checks the cleaned key even when this call does not clean: the next call may.
    if (shown === key && cleanText(key) === key) this.#noteHarmless(key, level);
    return shown;
  }

  #isHarmless(key: string, level: RedactionLevel): boolean {
    return level === "off" || harmlessKeysOf(this.#detector, level).has(key);
  }

  #noteHarmless(key: string, level: RedactionLevel): void {
    if (level === "off" || key.length > HARMLESS_KEY_CHARS_MAX) return;
    const known = harmlessKeysOf(this.#detector, level);
    if (known.size >= HARMLESS_KEYS_MAX) known.clear();
    known.add(key);
  }

  /** Returns whether the key and its position may be cached across values. */
  #mayCache(key: string, level: RedactionLevel): boolean {
    return key.length <= HARMLESS_KEY_CHARS_MAX && this.#isHarmless(key, level);
  }

  #string(value: string, position: ValuePosition): string {
    this.#count(value.length);
    const level = position.level(this.#options.level);
    if (level === "off") return value;
    const hidden = this.#hidden(value, level, position);
    const seen = this.#cleaned(hidden);
    // Scans the cleaned text again: removed characters may have separated parts that belong together.
    return seen === hidden ? seen : this.#cleaned(this.#hidden(seen, level, position));
  }

  #hidden(value: string, level: RedactionLevel, position: ValuePosition): string {
    const { secret, words } = position.label ?? NO_LABEL;
    if (secret !== undefined && isSecretValue(value, secret, "quoted")) {
      return this.#whole(value, position, { kind: "secret", rule: `${secret}-field` });
    }
    const isLabelled = words !== "" && level !== "secrets" && value.length <= LABELLED_CHARS_MAX;
    return isLabelled ? this.#labelled(value, level, position) : this.#text(value, level, () => this.#pathOf(position));
  }

  #number(value: number, position: ValuePosition): Json {
    const level = position.level(this.#options.level);
    if (level === "off" || !Number.isInteger(value) || Math.abs(value) < 100) return value;
    const digits = String(value);
    const { secret, words } = position.label ?? NO_LABEL;
    if (digits.length < 4) return value;
    if (secret === "password") return this.#whole(digits, position, { kind: "secret", rule: "password-field" });
    if (level === "secrets" || (digits.length < NUMBER_DIGITS_MIN && words === "")) return value;
    const hidden =
      words === "" ? this.#text(digits, level, () => this.#pathOf(position)) : this.#labelled(digits, level, position);
    return hidden === digits ? value : hidden;
  }

  #text(text: string, level: RedactionLevel, path: () => string): string {
    this.#work.spend(STEPS_PER_TEXT);
    return this.#hide(text, this.#detector.find(text, level, this.#work), path);
  }

  /** Scans the text after its field's name, as a person would read it. */
  #labelled(text: string, level: RedactionLevel, position: ValuePosition): string {
    this.#work.spend(STEPS_PER_TEXT);
    const prefix = `${position.label?.words ?? ""}: `;
    const { length } = prefix;
    const found = this.#detector
      .find(prefix + text, level, this.#work)
      .filter(({ end }) => end > length)
      .map((finding) => ({ ...finding, start: Math.max(0, finding.start - length), end: finding.end - length }));
    return this.#hide(text, found, () => this.#pathOf(position));
  }

  #cleaned(text: string): string {
    return this.#options.clean === true ? cleanText(text) : text;
  }

  #hide(text: string, found: readonly SensitiveFinding[], pathOf: () => string): string {
    if (found.length === 0) return text;
    const path = pathOf();
    for (const { rule, start, end, kind, confidence, context } of found) {
      this.findings.push({ rule, start, end, kind, confidence, context, path });
    }
    if (this.#options.clean !== true) return hideFindings(text, found);
    const whole = found.map((finding) => ({ ...finding, start: sequenceStart(text, finding.start) }));
    return hideFindings(text, whole);
  }

  #whole(text: string, position: ValuePosition, { kind, rule }: Pick<SensitiveFinding, "kind" | "rule">): string {
    this.#work.find();
    this.findings.push({ kind, rule, start: 0, end: text.length, confidence: 1, path: this.#pathOf(position) });
    return replacementOf({ kind, rule, start: 0, end: 0, confidence: 1 });
  }

  #pathOf(position: ValuePosition): string {
    return this.#options.pathOf?.(this.#steps) ?? position.path;
  }

  #pathOfKeys(above: ValuePosition): string {
    return this.#options.pathOf?.([...this.#steps, otherKey]) ?? above.pathOfKeys;
  }

  #count(chars: number): void {
    this.#chars += chars;
    this.#work.spend(STEPS_PER_NODE);
    if (this.#chars > REDACTION_BOUNDS.charsMax) throw new TooLarge("charsMax");
    this.#work.allow(chars);
  }
}

/**
 * Keeps keys distinct that have the same name after redaction, by adding a number. Each name continues from its last number,
 * however many keys share it. A key that is unchanged keeps its name.
 */
function withDistinctNames(entries: readonly [string, Json][], keys: readonly string[]): readonly [string, Json][] {
  const taken = new Set(keys.filter((key, index) => entries[index]?.[0] === key));
  const counts = new Map<string, number>();
  return entries.map(([name, value], index) => {
    if (name === keys[index]) return [name, value];
    let own = name;
    for (let count = (counts.get(name) ?? 1) + 1; taken.has(own); count += 1) {
      own = `${name}#${count}`;
      counts.set(name, count);
    }
    taken.add(own);
    return [own, value];
  });
}
