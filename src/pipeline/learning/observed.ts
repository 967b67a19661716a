import { hmacSha256Hex } from "../../core/digest.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import { isList, isTable } from "../../core/json.ts";
import { element, joinPath, type Step } from "../../core/output-policy/field-path.ts";
import { edgeOf } from "../../core/output-policy/output-policy.ts";
import type { Json } from "../../core/types.ts";
import { redact } from "../../detection/redact.ts";
import type { Detector } from "../../detection/sensitive.ts";

/**
 * Records what answers look like: counts by field, never a value and never a key that is data. The memory and the time for one
 * answer are bounded.
 */

/** Parts of one answer that are looked at. */
const NODES_MAX = 5_000;
const CHARACTERS_MAX = 262_144;
const TEXT_CHARACTERS_MAX = 2_048;
const KEY_CHARACTERS_MAX = 256;
const ELEMENTS_MAX = 50;
const DEPTH_MAX = 32;
/** Fields of one tool that are recorded. */
const FIELDS_MAX = 1_000;
/** Texts of at most this length are compared with each other, up to `DISTINCT_MAX` different ones for each field. */
const COMPARED_CHARACTERS_MAX = 32;
const DISTINCT_MAX = 16;
const LINE_CHARACTERS_MAX = 64;

type JsonType = "string" | "number" | "boolean" | "null" | "list" | "object";

/**
 * Form of a text. `constant`: one word, in upper or in lower case; `identifier`: with a digit, without whitespace; `word`: other
 * text without whitespace; `words`: one short line; `prose`: longer text, or several lines.
 */
type TextShape = "empty" | "uuid" | "time" | "url" | "digits" | "constant" | "identifier" | "word" | "words" | "prose";

type LengthRange = "0" | "1-16" | "17-64" | "65-512" | "513+";

type Tally<Kind extends string> = Readonly<Partial<Record<Kind, number>>>;

/** What was seen at one path. A list counts its elements: there may be more values than answers. */
export interface ObservedField {
  /** In the notation of policies; a key that is data is `*`. */
  readonly path: string;
  /** Number of answers that have the field. */
  readonly answers: number;
  readonly values: number;
  readonly types: Tally<JsonType>;
  readonly shapes: Tally<TextShape>;
  readonly lengths: Tally<LengthRange>;
  /** Number of different short texts; null when there are more than 16, or longer texts. */
  readonly distinct: number | null;
  /** How often each detector rule matched. */
  readonly detected: Tally<string>;
  /** How often a detector of secrets matched. */
  readonly secrets: number;
}

/** Where keys that the schema does not list are recorded as names. */
interface Naming {
  /** Paths of the parts whose keys may be names. */
  readonly open: ReadonlySet<string>;
  readonly isName: (key: string, detector: Detector) => boolean;
}

/** A position in an answer. */
interface Visited {
  readonly node: RegisteredTool["outputPolicy"]["root"];
  readonly path: string;
  /** True where the schema leaves everything open. */
  readonly isOpen: boolean;
}

/** Counts what the answers of one tool look like. */
export class ObservedAnswers {
  readonly #salt: string;
  readonly #naming: Naming | undefined;
  /** Keys in open parts, with whether they may be names. */
  readonly #keys = new Map<string, boolean>();
  readonly #fields = new Map<string, FieldRecord>();
  #answers = 0;
  #isCut = false;

  /** @param salt - keys the hashes by which short texts are compared */
  constructor(salt: string, naming?: Naming) {
    this.#salt = salt;
    this.#naming = naming;
  }

  get answers(): number {
    return this.#answers;
  }

  /** Whether some answer had more parts than are looked at. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Returns what was seen, in the order of the first answers. */
  fields(): readonly ObservedField[] {
    return [...this.#fields.values()].map((record) => record.shown());
  }

  /** Adds an answer, as the output schema returned it. */
  add({ outputPolicy }: Pick<RegisteredTool, "outputPolicy">, answer: unknown, detector: Detector): void {
    this.#answers += 1;
    const sample = new Sample();
    const value = sample.of(answer, 0) ?? null;
    this.#isCut ||= sample.isCut;
    const root = { node: outputPolicy.root, path: "", isOpen: false };
    this.#visit(value, root, detector);
    const pathOf = (steps: readonly Step[]): string =>
      steps.reduce((place, step) => this.#below(place, step, detector), root).path;
    for (const { path, rule, kind } of redact(value, { level: "strict", detector, pathOf }).findings) {
      this.#at(path)?.detect(rule, kind === "secret");
    }
  }

  #visit(value: Json, place: Visited, detector: Detector): void {
    this.#at(place.path)?.count(value, this.#answers);
    if (isList(value)) {
      const below = this.#below(place, element, detector);
      for (const inner of value) this.#visit(inner, below, detector);
    } else if (isTable(value)) {
      for (const [key, inner] of Object.entries(value)) {
        this.#visit(inner as Json, this.#below(place, key, detector), detector);
      }
    }
  }

  #below({ node, path, isOpen }: Visited, step: Step, detector: Detector): Visited {
    const opens = isOpen || this.#naming?.open.has(path) === true;
    if (typeof step !== "string") {
      const { shown, node: below } = step === element ? node.element : node.other;
      return { node: below, path: joinPath(path, shown), isOpen: opens };
    }
    const { shown, node: below } = edgeOf(node, step);
    const isNamed = shown === "*" && opens && this.#isName(step, detector);
    return { node: below, path: joinPath(path, isNamed ? step : shown), isOpen: opens && (isNamed || shown === "*") };
  }

  #isName(key: string, detector: Detector): boolean {
    const known = this.#keys.get(key);
    if (known !== undefined) return known;
    const isName = this.#keys.size < FIELDS_MAX && this.#naming?.isName(key, detector) === true;
    if (this.#keys.size < FIELDS_MAX) this.#keys.set(key, isName);
    return isName;
  }

  #at(path: string): FieldRecord | undefined {
    const known = this.#fields.get(path);
    if (known !== undefined) return known;
    if (this.#fields.size >= FIELDS_MAX) {
      this.#isCut = true;
      return undefined;
    }
    const record = new FieldRecord(path, this.#salt);
    this.#fields.set(path, record);
    return record;
  }
}

/** Copies the parts of an answer that are looked at. Values that are not JSON are left out. */
class Sample {
  isCut = false;
  #nodes = 0;
  #characters = 0;

  of(value: unknown, depth: number): Json | undefined {
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX || depth > DEPTH_MAX) return this.#cut();
    if (typeof value === "string") return this.#text(value);
    if (typeof value === "number" || typeof value === "boolean" || value === null) return value;
    if (Array.isArray(value)) {
      if (value.length > ELEMENTS_MAX) this.#cut();
      const elements = value.slice(0, ELEMENTS_MAX).map((inner: unknown) => this.of(inner, depth + 1));
      return elements.filter((inner) => inner !== undefined);
    }
    return isTable(value) ? this.#table(value, depth) : undefined;
  }

  #table(value: Readonly<Record<string, unknown>>, depth: number): Json {
    const copied: [string, Json][] = [];
    for (const key of Object.keys(value)) {
      this.#characters += key.length;
      if (this.#nodes >= NODES_MAX || this.#characters > CHARACTERS_MAX || key.length > KEY_CHARACTERS_MAX) {
        this.#cut();
        continue;
      }
      const inner = this.of(value[key], depth + 1);
      if (inner !== undefined) copied.push([key, inner]);
    }
    return Object.fromEntries(copied);
  }

  #text(text: string): Json | undefined {
    const kept = text.slice(0, TEXT_CHARACTERS_MAX);
    this.#characters += kept.length;
    if (kept.length < text.length) this.#cut();
    return this.#characters > CHARACTERS_MAX ? this.#cut() : kept;
  }

  #cut(): undefined {
    this.isCut = true;
  }
}

class FieldRecord {
  readonly #path: string;
  readonly #salt: string;
  readonly #types = new Counter<JsonType>();
  readonly #shapes = new Counter<TextShape>();
  readonly #lengths = new Counter<LengthRange>();
  readonly #detected = new Counter<string>();
  /** Keyed hashes of the short texts; undefined when there are too many, or longer texts. */
  #hashes: Set<string> | undefined = new Set();
  #answers = 0;
  #lastAnswer = 0;
  #values = 0;
  #secrets = 0;

  constructor(path: string, salt: string) {
    this.#path = path;
    this.#salt = salt;
  }

  count(value: Json, answer: number): void {
    if (this.#lastAnswer !== answer) this.#answers += 1;
    this.#lastAnswer = answer;
    this.#values += 1;
    this.#types.add(typeOf(value));
    if (typeof value !== "string") return;
    this.#shapes.add(shapeOf(value));
    this.#lengths.add(rangeOf(value.length));
    if (value.length > COMPARED_CHARACTERS_MAX) this.#hashes = undefined;
    this.#hashes?.add(hmacSha256Hex(this.#salt, value));
    if ((this.#hashes?.size ?? 0) > DISTINCT_MAX) this.#hashes = undefined;
  }

  detect(rule: string, isSecret: boolean): void {
    this.#detected.add(rule);
    if (isSecret) this.#secrets += 1;
  }

  shown(): ObservedField {
    return {
      path: this.#path,
      answers: this.#answers,
      values: this.#values,
      types: this.#types.shown(),
      shapes: this.#shapes.shown(),
      lengths: this.#lengths.shown(),
      distinct: this.#hashes?.size ?? null,
      detected: this.#detected.shown(),
      secrets: this.#secrets,
    };
  }
}

class Counter<Kind extends string> {
  readonly #counts = new Map<Kind, number>();

  add(kind: Kind): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
  }

  shown(): Tally<Kind> {
    return Object.fromEntries(this.#counts) as Tally<Kind>;
  }
}

function typeOf(value: Json): JsonType {
  if (value === null) return "null";
  if (isList(value)) return "list";
  return typeof value as "string" | "number" | "boolean" | "object";
}

/** Forms of texts that are one short line without whitespace; the first that fits counts. */
const FORMS: readonly (readonly [TextShape, RegExp])[] = [
  ["uuid", /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i],
  ["time", /^\d{4}-\d{2}-\d{2}(?:T[\d:.,Z+-]{4,32})?$/],
  ["url", /^https?:\/\/[^\s]+$/],
  ["digits", /^\d+$/],
  ["constant", /^(?:[a-z]+(?:[_-][a-z]+)*|[A-Z]+(?:[_-][A-Z]+)*)$/],
  ["identifier", /^(?=[^\d]*\d)[A-Za-z0-9._:@/+=-]+$/],
];

function shapeOf(text: string): TextShape {
  if (text === "") return "empty";
  if (/[\n\r]/.test(text)) return "prose";
  if (!/\s/.test(text)) return FORMS.find(([, form]) => form.test(text))?.[0] ?? "word";
  return text.length > LINE_CHARACTERS_MAX ? "prose" : "words";
}

function rangeOf(length: number): LengthRange {
  if (length === 0) return "0";
  if (length <= 16) return "1-16";
  if (length <= 64) return "17-64";
  return length <= 512 ? "65-512" : "513+";
}
