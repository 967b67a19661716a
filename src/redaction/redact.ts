import { isList } from "../core/json.ts";
import type { Json } from "../core/types.ts";
import { type Label, labelOf } from "./labels.ts";
import { isSecretValue } from "./secrets/values.ts";
import {
  findSensitive,
  hideFindings,
  REDACTED,
  type RedactionLevel,
  replacementOf,
  type SensitiveFinding,
} from "./sensitive.ts";
import { cleanText } from "./views/clean-text.ts";

export const REDACTION_BOUNDS = {
  /** Containers inside one another. */
  depthMax: 64,
  /** Values and keys of a tree. */
  nodesMax: 500_000,
  /** UTF-16 units of all strings and keys. */
  charsMax: 8 * 1_024 * 1_024,
} as const;

/** A value exceeds what is looked through. Nothing of it may be released. */
export class TooLarge extends Error {
  override readonly name = "TooLarge";
  readonly bound: keyof typeof REDACTION_BOUNDS;

  constructor(bound: keyof typeof REDACTION_BOUNDS) {
    super(`the value exceeds ${bound} = ${REDACTION_BOUNDS[bound]}`);
    this.bound = bound;
  }
}

/** Keys from the root; `[]` steps into an array. */
export type RedactionPath = readonly string[];

export interface RedactOptions {
  /** For all fields, or by field: `off` leaves a field as it is. */
  readonly level: RedactionLevel | ((path: RedactionPath) => RedactionLevel);
  /** Whether characters that cannot be seen are taken out, too: for what an agent will read. */
  readonly clean?: boolean;
}

/** Holds no text of the value. `start` and `end` are the string's own; of a whole value 0 and its length. */
export interface FieldFinding extends SensitiveFinding {
  /** As a dotted path, itself redacted: `customer.notes[]`. */
  readonly path: string;
}

export interface Redacted {
  readonly value: Json;
  readonly findings: readonly FieldFinding[];
}

/** Looks through all strings, keys and long numbers of a tree. Untouched parts come back as they are; throws `TooLarge`. */
export function redact(value: Json, options: RedactOptions): Redacted {
  const walk = new Walk(options);
  return { value: walk.visit(value, TOP), findings: walk.findings };
}

/** Where a value stands. Paths are written out only for what is found, or where levels differ by path. */
interface Place {
  readonly above: Place | undefined;
  readonly step: string;
  readonly depth: number;
  /** Of the nearest key above. */
  readonly label: Label | undefined;
}

const TOP: Place = { above: undefined, step: "", depth: 0, label: undefined };

function pathOf(place: Place): string[] {
  const path: string[] = [];
  for (let at: Place = place; at.above !== undefined; at = at.above) path.push(at.step);
  return path.reverse();
}

/** Numbers shorter than this are personal data beside a name only. */
const NUMBER_DIGITS_MIN = 12;

/** Longer text is read without its field's name: it announces itself. UTF-16 units. */
const LABELLED_CHARS_MAX = 256;

/** Keys in which nothing was found, by level: most are names of a schema, the same in every value. */
const harmlessKeys = { secrets: new Set<string>(), balanced: new Set<string>(), strict: new Set<string>() };
const HARMLESS_KEYS_MAX = 4_096;
const HARMLESS_KEY_CHARS_MAX = 64;

class Walk {
  readonly findings: FieldFinding[] = [];
  readonly #options: RedactOptions;
  #nodes = 0;
  #chars = 0;

  constructor(options: RedactOptions) {
    this.#options = options;
  }

  visit(value: Json, place: Place): Json {
    this.#count(0);
    if (typeof value === "string") return this.#string(value, place);
    if (typeof value === "number") return this.#number(value, place);
    if (value === null || typeof value === "boolean") return value;
    if (place.depth >= REDACTION_BOUNDS.depthMax) throw new TooLarge("depthMax");
    return isList(value) ? this.#array(value, place) : this.#object(value, place);
  }

  #array(values: readonly Json[], above: Place): Json {
    const inside = { above, step: "[]", depth: above.depth + 1, label: above.label };
    let isSame = true;
    const visited = values.map((value) => {
      const seen = this.visit(value, inside);
      if (seen !== value) isSame = false;
      return seen;
    });
    return isSame ? values : visited;
  }

  #object(fields: { readonly [key: string]: Json }, above: Place): Json {
    const named = nameBeside(fields);
    const keys = Object.keys(fields);
    let changed: [string, Json][] | undefined;
    for (const [index, key] of keys.entries()) {
      const value = fields[key] as Json;
      const step = this.#key(key, above);
      const isValue = named !== undefined && (key === "value" || key === "Value");
      const seen = this.visit(value, { above, step, depth: above.depth + 1, label: labelOf(isValue ? named : key) });
      if (changed === undefined && (seen !== value || step !== key)) {
        changed = keys.slice(0, index).map((before) => [before, fields[before] as Json]);
      }
      changed?.push([step, seen]);
    }
    return changed === undefined ? fields : Object.fromEntries(apart(changed));
  }

  #key(key: string, above: Place): string {
    this.#count(key.length);
    const { level: levels } = this.#options;
    const level = typeof levels === "string" ? levels : levels([...pathOf(above), key]);
    if (level === "off" || harmlessKeys[level].has(key)) return key;
    const shown = this.#text(key, level, { above, step: "*", depth: above.depth + 1, label: undefined });
    const known = harmlessKeys[level];
    if (shown === key && key.length <= HARMLESS_KEY_CHARS_MAX && known.size < HARMLESS_KEYS_MAX) known.add(key);
    return shown;
  }

  #string(value: string, place: Place): string {
    this.#count(value.length);
    const level = this.#level(place);
    if (level === "off") return value;
    const { label } = place;
    if (label?.secret !== undefined && isSecretValue(value, label.secret, "quoted")) {
      return this.#whole(value, place, { kind: "secret", rule: `${label.secret}-field` });
    }
    const isLabelled =
      label !== undefined && label.words !== "" && level !== "secrets" && value.length <= LABELLED_CHARS_MAX;
    return isLabelled ? this.#labelled(value, level, place) : this.#text(value, level, place);
  }

  #number(value: number, place: Place): Json {
    const level = this.#level(place);
    if (level === "off" || !Number.isInteger(value) || Math.abs(value) < 100) return value;
    const digits = String(value);
    const { label } = place;
    if (digits.length < 4) return value;
    if (label?.secret === "password") return this.#whole(digits, place, { kind: "secret", rule: "password-field" });
    if (level === "secrets" || (digits.length < NUMBER_DIGITS_MIN && (label?.words ?? "") === "")) return value;
    const hasWords = label !== undefined && label.words !== "";
    const hidden = hasWords ? this.#labelled(digits, level, place) : this.#text(digits, level, place);
    return hidden === digits ? value : hidden;
  }

  #text(text: string, level: RedactionLevel, place: Place): string {
    return this.#hide(text, findSensitive(text, level), place);
  }

  /** With its field's name before it, as a person would read it. */
  #labelled(text: string, level: RedactionLevel, place: Place): string {
    const prefix = `${place.label?.words ?? ""}: `;
    const found = findSensitive(prefix + text, level)
      .filter(({ end }) => end > prefix.length)
      .map((finding) => ({
        ...finding,
        start: Math.max(0, finding.start - prefix.length),
        end: finding.end - prefix.length,
      }));
    return this.#hide(text, found, place);
  }

  #hide(text: string, found: readonly SensitiveFinding[], place: Place): string {
    if (found.length > 0) {
      const path = dotted(pathOf(place));
      for (const finding of found) this.findings.push({ ...finding, path });
    }
    const hidden = hideFindings(text, found);
    return this.#options.clean === true ? cleanText(hidden) : hidden;
  }

  #whole(text: string, place: Place, { kind, rule }: Pick<SensitiveFinding, "kind" | "rule">): string {
    this.findings.push({ kind, rule, start: 0, end: text.length, confidence: 1, path: dotted(pathOf(place)) });
    return kind === "secret" ? REDACTED : replacementOf({ kind, rule, start: 0, end: 0, confidence: 1 });
  }

  #level(place: Place): RedactionLevel {
    const { level } = this.#options;
    return typeof level === "string" ? level : level(pathOf(place));
  }

  #count(chars: number): void {
    this.#nodes += 1;
    this.#chars += chars;
    if (this.#nodes > REDACTION_BOUNDS.nodesMax) throw new TooLarge("nodesMax");
    if (this.#chars > REDACTION_BOUNDS.charsMax) throw new TooLarge("charsMax");
  }
}

/** `{name: "DB_PASSWORD", value: "…"}`: the name that the value has. */
function nameBeside(fields: { readonly [key: string]: Json }): string | undefined {
  if (!Object.hasOwn(fields, "value") && !Object.hasOwn(fields, "Value")) return undefined;
  for (const key of ["name", "Name", "key", "Key"]) {
    const name = Object.hasOwn(fields, key) ? fields[key] : undefined;
    if (typeof name === "string") return name;
  }
  return undefined;
}

/** Two keys that are hidden stay two. */
function apart(entries: readonly [string, Json][]): readonly [string, Json][] {
  const taken = new Set<string>();
  return entries.map(([name, value]) => {
    let own = name;
    for (let count = 2; taken.has(own); count += 1) own = `${name}#${count}`;
    taken.add(own);
    return [own, value];
  });
}

function dotted(path: RedactionPath): string {
  return path.reduce((before, step) => (step === "[]" || before === "" ? before + step : `${before}.${step}`), "");
}
