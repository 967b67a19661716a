import { joinPath, otherKey } from "../../core/output-policy/field-path.ts";
import { type Described, pathOf, policyFields } from "../../core/output-policy/output-fields.ts";
import type { Json } from "../../core/types.ts";
import { redact } from "../../detection/redact.ts";
import type { Detector } from "../../detection/sensitive.ts";
import type { ObservedField } from "./observed.ts";

/**
 * Describes parts of answers that the output schema leaves open, from the names and types that were observed. A name is shown only
 * where it looks like the name of a field and the object around it does not look like a map, whose keys are data.
 */

/** Names that a policy can write. An identifier of somebody or something has more digits. */
const FIELD_NAME = /^(?!(?:.*\d){4})[A-Za-z_][A-Za-z0-9_-]{0,47}$/;
const PROPER_NAME = /^[A-Z][a-z]+$/;
const MEMBERS_MAX = 100;
const LEVELS_MAX = 16;
/** Objects that are needed to say that most names occur in one of them only. */
const OBJECTS_MIN = 4;
/** Members of the same form that are needed to say that an object is a map. */
const ALIKE_MIN = 3;

/** Returns whether a key may be the name of a field. */
export function isFieldName(key: string, detector: Detector): boolean {
  return FIELD_NAME.test(key) && redact(key, { level: "strict", detector }).findings.length === 0;
}

/** Returns the paths of the parts whose fields the output schema does not name. */
export function openPaths(tool: Described): ReadonlySet<string> {
  const open = policyFields(tool).flatMap(({ steps, kind }) => {
    const keysAreData = steps.indexOf(otherKey);
    if (kind !== "open" || (keysAreData !== -1 && keysAreData !== steps.length - 1)) return [];
    return [pathOf(keysAreData === -1 ? steps : steps.slice(0, -1))];
  });
  return new Set(open);
}

/** The observations, as a tree. */
export class ObservedForms {
  readonly #fields: ReadonlyMap<string, ObservedField>;
  readonly #open: ReadonlySet<string>;
  readonly #members = new Map<string, string[]>();

  /** @param open - paths of the parts to describe */
  constructor(fields: readonly ObservedField[], open: ReadonlySet<string>) {
    this.#open = open;
    this.#fields = new Map(fields.map((field) => [field.path, field]));
    for (const { path } of fields) {
      if (path === "") continue;
      const { parent, name } = lastStep(path);
      this.#members.set(parent, [...(this.#members.get(parent) ?? []), name]);
    }
  }

  /** Returns the JSON Schema of an open part; undefined when nothing says what it holds. */
  schemaAt(path: string): Json | undefined {
    return this.#open.has(path) ? this.#schema(path, 0) : undefined;
  }

  /** Returns what was observed, without the names in objects that may be maps. */
  shown(): readonly ObservedField[] {
    const maps = [...this.#members.keys()].filter((path) => this.#isBelowOpen(path) && this.#isMap(path));
    return [...this.#fields.values()].filter(({ path }) => !maps.some((map) => isMemberOf(map, path)));
  }

  #isBelowOpen(path: string): boolean {
    return [...this.#open].some((open) => open === path || isMemberOf(open, path) || path.startsWith(`${open}[]`));
  }

  #schema(path: string, level: number): Json | undefined {
    const field = this.#fields.get(path);
    if (field === undefined || level > LEVELS_MAX) return undefined;
    const { null: _, list, object, ...scalars } = field.types;
    const types = [...Object.keys(scalars), ...(list ? ["array"] : []), ...(object ? ["object"] : [])];
    if (types.length === 0) return undefined;
    const items = list ? this.#schema(joinPath(path, "[]"), level + 1) : undefined;
    const properties = object ? this.#properties(path, level) : undefined;
    return {
      // A field that was never null may be null in another answer; the whole answer may not.
      type: path === "" && types.length === 1 ? (types[0] ?? "object") : [...types, "null"],
      ...(items !== undefined && { items }),
      ...(object && (properties === undefined ? { additionalProperties: true } : { properties })),
    };
  }

  #properties(path: string, level: number): Readonly<Record<string, Json>> | undefined {
    if (this.#isMap(path)) return undefined;
    const entries = this.#names(path).map(
      (name) => [name, this.#schema(joinPath(path, name), level + 1) ?? {}] as const,
    );
    return entries.length === 0 ? undefined : Object.fromEntries(entries);
  }

  #names(path: string): readonly string[] {
    return (this.#members.get(path) ?? []).filter((name) => name !== "[]");
  }

  /** Returns whether the keys of an object may be data: names of persons, identifiers, and the like. */
  #isMap(path: string): boolean {
    const names = this.#names(path);
    const objects = this.#fields.get(path)?.types.object ?? 0;
    if (names.includes("*") || names.length > MEMBERS_MAX) return true;
    const once = names.filter((name) => (this.#fields.get(joinPath(path, name))?.values ?? 0) < 2);
    if (objects >= OBJECTS_MIN && once.length > names.length / 2) return true;
    if (names.length < ALIKE_MIN) return false;
    if (new Set(names.map((name) => this.#outline(joinPath(path, name)))).size === 1) return true;
    const types = new Set(
      names.map((name) => Object.keys(this.#fields.get(joinPath(path, name))?.types ?? {}).join(" ")),
    );
    return types.size === 1 && names.every((name) => PROPER_NAME.test(name));
  }

  /** Returns the names in an object, as one text; for any other value, a text of its own. */
  #outline(path: string): string {
    const below = [joinPath(path, "[]"), path].map((each) => this.#names(each).toSorted().join(" "));
    return below.every((names) => names === "") ? path : below.join("|");
  }
}

function isMemberOf(map: string, path: string): boolean {
  return path !== map && (map === "" ? path !== "" && !path.startsWith("[]") : path.startsWith(`${map}.`));
}

function lastStep(path: string): { readonly parent: string; readonly name: string } {
  if (path.endsWith("[]")) return { parent: path.slice(0, -2), name: "[]" };
  const dot = path.lastIndexOf(".");
  return dot === -1 ? { parent: "", name: path } : { parent: path.slice(0, dot), name: path.slice(dot + 1) };
}
