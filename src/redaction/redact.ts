import type { Json } from "../core/types.ts";
import { cleanText } from "./clean-text.ts";
import { type Label, labelOf } from "./labels.ts";
import { isSecretValue } from "./secret-values.ts";
import {
  findSensitive,
  hideFindings,
  REDACTED,
  type RedactionLevel,
  replacementOf,
  type SensitiveFinding,
} from "./sensitive.ts";

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
  return { value: walk.visit(value, { path: [], label: undefined }), findings: walk.findings };
}

interface Place {
  readonly path: RedactionPath;
  /** Of the nearest key above. */
  readonly label: Label | undefined;
}

/** Numbers shorter than this are personal data beside a name only. */
const NUMBER_DIGITS_MIN = 12;

/** Labels remembered while one tree is walked. */
const LABELS_MAX = 4_096;

/** Longer text is read without its field's name: it announces itself. UTF-16 units. */
const LABELLED_CHARS_MAX = 256;

class Walk {
  readonly findings: FieldFinding[] = [];
  readonly #options: RedactOptions;
  readonly #labels = new Map<string, Label>();
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
    if (place.path.length >= REDACTION_BOUNDS.depthMax) throw new TooLarge("depthMax");
    return isList(value) ? this.#array(value, place) : this.#object(value, place);
  }

  #array(values: readonly Json[], { path, label }: Place): Json {
    const inside = { path: [...path, "[]"], label };
    let isSame = true;
    const visited = values.map((value) => {
      const seen = this.visit(value, inside);
      if (seen !== value) isSame = false;
      return seen;
    });
    return isSame ? values : visited;
  }

  #object(fields: { readonly [key: string]: Json }, { path }: Place): Json {
    const named = nameBeside(fields);
    let isSame = true;
    const taken = new Set<string>();
    const visited = Object.entries(fields).map(([key, value]) => {
      this.#count(key.length);
      const level = this.#level([...path, key]);
      const name = level === "off" ? key : unique(this.#text(key, level, [...path, "*"]), taken);
      taken.add(name);
      const isValue = named !== undefined && (key === "value" || key === "Value");
      const seen = this.visit(value, { path: [...path, name], label: this.#label(isValue ? named : key) });
      if (seen !== value || name !== key) isSame = false;
      return [name, seen] as const;
    });
    return isSame ? fields : Object.fromEntries(visited);
  }

  #string(value: string, { path, label }: Place): string {
    this.#count(value.length);
    const level = this.#level(path);
    if (level === "off") return value;
    if (label?.secret !== undefined && isSecretValue(value, label.secret, "quoted")) {
      return this.#whole(value, path, { kind: "secret", rule: `${label.secret}-field` });
    }
    const isLabelled =
      label !== undefined && label.words !== "" && level !== "secrets" && value.length <= LABELLED_CHARS_MAX;
    return this.#text(value, level, path, isLabelled ? `${label.words}: ` : "");
  }

  #number(value: number, { path, label }: Place): Json {
    const digits = String(value);
    const level = this.#level(path);
    if (level === "off" || !Number.isInteger(value) || digits.length < 4) return value;
    if (label?.secret === "password") return this.#whole(digits, path, { kind: "secret", rule: "password-field" });
    if (level === "secrets" || (digits.length < NUMBER_DIGITS_MIN && (label?.words ?? "") === "")) return value;
    const hidden = this.#text(digits, level, path, label === undefined || label.words === "" ? "" : `${label.words}: `);
    return hidden === digits ? value : hidden;
  }

  #text(text: string, level: RedactionLevel, path: RedactionPath, prefix = ""): string {
    const found = findSensitive(prefix + text, level)
      .filter(({ end }) => end > prefix.length)
      .map((finding) => ({
        ...finding,
        start: Math.max(0, finding.start - prefix.length),
        end: finding.end - prefix.length,
      }));
    for (const finding of found) this.findings.push({ ...finding, path: dotted(path) });
    const hidden = hideFindings(text, found);
    return this.#options.clean === true ? cleanText(hidden) : hidden;
  }

  #whole(text: string, path: RedactionPath, { kind, rule }: Pick<SensitiveFinding, "kind" | "rule">): string {
    this.findings.push({ kind, rule, start: 0, end: text.length, confidence: 1, path: dotted(path) });
    return kind === "secret" ? REDACTED : replacementOf({ kind, rule, start: 0, end: 0, confidence: 1 });
  }

  #level(path: RedactionPath): RedactionLevel {
    const { level } = this.#options;
    return typeof level === "string" ? level : level(path);
  }

  #label(name: string): Label {
    const known = this.#labels.get(name);
    if (known !== undefined) return known;
    const label = labelOf(name);
    if (this.#labels.size < LABELS_MAX) this.#labels.set(name, label);
    return label;
  }

  #count(chars: number): void {
    this.#nodes += 1;
    this.#chars += chars;
    if (this.#nodes > REDACTION_BOUNDS.nodesMax) throw new TooLarge("nodesMax");
    if (this.#chars > REDACTION_BOUNDS.charsMax) throw new TooLarge("charsMax");
  }
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
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
function unique(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  let count = 2;
  while (taken.has(`${name}#${count}`)) count += 1;
  return `${name}#${count}`;
}

function dotted(path: RedactionPath): string {
  return path.reduce((before, step) => (step === "[]" || before === "" ? before + step : `${before}.${step}`), "");
}
