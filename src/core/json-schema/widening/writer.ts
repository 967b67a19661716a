import { asStrings, isList } from "../../json.ts";
import { visible } from "../../terminal-text.ts";
import type { Json } from "../../types.ts";
import { keywordProblem, memberPath, type SchemaSide } from "../schema.ts";
import { asArguments } from "./arguments.ts";
import { described } from "./described.ts";
import { isUnknown } from "./keywords.ts";
import { isPlain, type Lose, type Losses, plainWord } from "./losses.ts";
import { referenced } from "./references.ts";
import { isStatableKey, isStatableName } from "./statable.ts";
import { isJsonTable, type JsonTable, listOf, tableOf } from "./table.ts";
import { stated, valueKeywords } from "./value-keywords.ts";

/** Schemas in one draft, with references written out. */
export const PARTS_MAX = 2_000;
const DESCRIPTION_CHARACTERS_MAX = 512;
const COMBINATIONS = ["allOf", "anyOf", "oneOf"] as const;

interface Writing {
  readonly top: Json;
  readonly losses: Losses;
  readonly side: SchemaSide;
  readonly depthMax: number;
}

interface Position {
  /** With plain names only. */
  readonly path: string;
  readonly depth: number;
  /** The schemas that are being written out: finding one of them again means recursion. */
  readonly open: readonly unknown[];
}

/** Writes a declared schema part by part. `parts` tells whether it was written whole. */
export class Writer {
  readonly #writing: Writing;
  parts = 0;

  constructor(writing: Writing) {
    this.#writing = writing;
  }

  whole(declared: Json): Json {
    const { side, top } = this.#writing;
    const at: Position = { path: side, depth: 0, open: [] };
    const written = this.#write(declared, at);
    return side === "input" ? asArguments(written, top, this.#loseAt(at)) : written;
  }

  #lose(cause: string, { path }: Position): void {
    this.#writing.losses.add(cause, path);
  }

  #loseAt(at: Position): Lose {
    return (cause) => this.#lose(cause, at);
  }

  #write(declared: Json, at: Position): Json {
    this.parts += 1;
    if (typeof declared === "boolean" || this.parts > PARTS_MAX) return declared === false ? false : {};
    if (!isJsonTable(declared)) return this.#any("is not a schema, and is left out", at);
    if (at.open.includes(declared)) return this.#any("is recursive: what is below is any JSON", at);
    if (at.depth > this.#writing.depthMax) return this.#any("is nested too deeply: what is below is any JSON", at);
    const inner: Position = { ...at, open: [...at.open, declared] };
    const written = this.#table(declared, inner);
    if (!("$ref" in declared)) return written;
    const target = this.#referenced(declared["$ref"], inner);
    if (target === undefined) return written;
    if (Object.keys(written).every((key) => key === "description") && isJsonTable(target))
      return { ...target, ...written };
    return { ...written, allOf: [target, ...listOf(written["allOf"])] };
  }

  #any(cause: string, at: Position): Json {
    this.#lose(cause, at);
    return {};
  }

  #referenced(reference: Json | undefined, at: Position): Json | undefined {
    const found = referenced(this.#writing.top, reference);
    if (found !== undefined) return this.#write(found, at);
    this.#lose("has a reference that names no part of the schema, and is any JSON", at);
    return undefined;
  }

  #table(table: JsonTable, at: Position): JsonTable {
    const schema: Record<string, Json> = {
      ...valueKeywords(table, this.#loseAt(at)),
      ...this.#elements(table, at),
      ...this.#members(table, at),
      ...this.#dependencies(table, at),
      ...this.#combinations(table, at),
      ...this.#conditions(table, at),
    };
    const { description } = table;
    if (typeof description === "string" && description.trim() !== "") schema["description"] = noteOf(description);
    for (const key of Object.keys(table)) {
      if (isUnknown(key)) this.#lose(`the keyword ${plainWord(key)} is left out`, at);
    }
    return this.#writing.side === "input" ? described(schema) : schema;
  }

  #elements({ items, prefixItems, additionalItems }: JsonTable, at: Position): JsonTable {
    const first = isList(items) ? items : prefixItems;
    const others = isList(items) ? additionalItems : items;
    const schema: Record<string, Json> = {};
    if (isList(first) && first.length > 0) schema["prefixItems"] = first.map((part) => this.#below(part, "[]", at));
    if (others !== undefined) schema["items"] = this.#below(others, "[]", at);
    return schema;
  }

  #below(declared: Json, step: string, { path, depth, open }: Position): Json {
    const below = isPlain(step) ? memberPath(path, step) : `${path}${step === "[]" ? "[]" : ""}`;
    return this.#write(declared, { path: below, depth: depth + 1, open });
  }

  #members(table: JsonTable, at: Position): JsonTable {
    const { properties, patternProperties, additionalProperties, propertyNames, required } = table;
    const schema: Record<string, Json> = {};
    if (isJsonTable(properties)) {
      const members = Object.entries(properties).filter(([name]) => this.#isNameable(name, at));
      schema["properties"] = Object.fromEntries(members.map(([name, part]) => [name, this.#below(part, name, at)]));
    }
    const names = [...new Set(asStrings(required))].filter((name) => this.#isNameable(name, at));
    if (names.length > 0) schema["required"] = names;
    if (additionalProperties !== undefined) schema["additionalProperties"] = this.#below(additionalProperties, "*", at);
    if (propertyNames !== undefined) schema["propertyNames"] = this.#below(propertyNames, "*", at);
    if (isJsonTable(patternProperties)) {
      const all = Object.entries(patternProperties);
      const usable = all.filter(
        ([pattern]) => isStatableKey(pattern) && keywordProblem("pattern", pattern) === undefined,
      );
      const parts = usable.map(([pattern, part]) => [pattern, this.#below(part, "*", at)] as const);
      if (parts.length > 0) schema["patternProperties"] = Object.fromEntries(parts);
      if (usable.length < all.length) {
        this.#lose("a pattern of names cannot be checked: other names are accepted", at);
        schema["additionalProperties"] = true;
      }
    }
    return schema;
  }

  #isNameable(name: string, at: Position): boolean {
    if (isStatableName(name)) return true;
    this.#lose("a member whose name a manifest cannot have is left out", at);
    return false;
  }

  #dependencies({ dependencies, dependentRequired, dependentSchemas }: JsonTable, at: Position): JsonTable {
    const older = Object.entries(tableOf(dependencies));
    const lists = {
      ...Object.fromEntries(older.filter(([, value]) => isList(value))),
      ...tableOf(dependentRequired),
    };
    const schemas = {
      ...Object.fromEntries(older.filter(([, value]) => !isList(value))),
      ...tableOf(dependentSchemas),
    };
    const schema: Record<string, Json> = {};
    const written = Object.entries(schemas).filter(([name]) => this.#isNameable(name, at));
    if (written.length > 0)
      schema["dependentSchemas"] = Object.fromEntries(written.map(([name, part]) => [name, this.#write(part, at)]));
    const named = Object.entries(lists).filter(([name]) => this.#isNameable(name, at));
    if (named.length > 0)
      Object.assign(schema, stated("dependentRequired", Object.fromEntries(named), this.#loseAt(at)));
    return schema;
  }

  #combinations(table: JsonTable, at: Position): JsonTable {
    const schema: Record<string, Json> = {};
    for (const keyword of COMBINATIONS) {
      const declared = table[keyword];
      if (!isList(declared) || declared.length === 0) continue;
      const before = this.#writing.losses.count;
      const parts = declared.map((part) => this.#write(part, { ...at, depth: at.depth + 1 }));
      // A part that accepts more may accept what another one does.
      const target = keyword === "oneOf" && this.#writing.losses.count > before ? "anyOf" : keyword;
      if (target === "anyOf" && schema["anyOf"] !== undefined)
        schema["allOf"] = [...listOf(schema["allOf"]), { anyOf: parts }];
      else schema[target] = parts;
    }
    return schema;
  }

  /** Writes keywords that would accept less if a part of them were left out: each is kept whole or not at all. */
  #conditions(table: JsonTable, at: Position): JsonTable {
    const exact = (declared: Json): Json | undefined => {
      const before = this.#writing.losses.count;
      const written = this.#write(declared, at);
      if (this.#writing.losses.count === before) return written;
      this.#lose("a condition cannot be stated, and is left out", at);
      return undefined;
    };
    const schema: Record<string, Json> = {};
    const { not, if: condition, then: met, else: otherwise, contains, minContains, maxContains } = table;
    const negated = not === undefined ? undefined : exact(not);
    if (negated !== undefined) schema["not"] = negated;
    const asked = condition === undefined ? undefined : exact(condition);
    if (asked !== undefined) {
      schema["if"] = asked;
      if (met !== undefined) schema["then"] = this.#write(met, at);
      if (otherwise !== undefined) schema["else"] = this.#write(otherwise, at);
    }
    const contained = contains === undefined ? undefined : exact(contains);
    if (contained !== undefined) {
      schema["contains"] = contained;
      for (const [key, value] of Object.entries({ minContains, maxContains }))
        if (value !== undefined) Object.assign(schema, stated(key, value, this.#loseAt(at)));
    }
    return schema;
  }
}

function noteOf(text: string): string {
  const line = text
    .slice(0, 4 * DESCRIPTION_CHARACTERS_MAX)
    .trim()
    .replace(/\s+/g, " ");
  const isLong = line.length > DESCRIPTION_CHARACTERS_MAX;
  return visible(isLong ? `${line.slice(0, DESCRIPTION_CHARACTERS_MAX).toWellFormed()}…` : line.toWellFormed());
}
