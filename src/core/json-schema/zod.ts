import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import type { Fault } from "../errors.ts";
import { unless } from "../manifest/checks.ts";
import { readNullsWith } from "../schema/absent-nulls.ts";
import { plainReader, unread } from "../schema/plain-reader.ts";
import type { Json } from "../types.ts";
import { nullReaderOf } from "./absent-nulls.ts";
import { checkerOf } from "./check.ts";
import {
  isUnrestricted,
  type JsonSchema,
  type JsonType,
  memberPath,
  readJsonSchema,
  type SchemaSide,
  type SchemaTable,
  schemasInPlace,
  typesOf,
} from "./schema.ts";
import { formatTest, patternTest } from "./text.ts";

/** A JSON Schema as the rest of the product takes it. */
export interface ZodFromJson {
  readonly schema: z.ZodType;
  /** Empty: the schema may be used. */
  readonly faults: readonly Fault[];
}

/**
 * Returns a Zod schema that accepts what a JSON Schema accepts. It consists of two parts. The value is checked against the JSON
 * Schema itself (`check.ts`). A Zod schema with the same members and types then parses it: it gives the members that are
 * missing their defaults, leaves out members of an answer that nothing describes, and shows policies, contracts and the list of
 * tools which fields there are. Where several forms name a member, it takes the types of all of them.
 */
export function zodFromJson(side: SchemaSide, declared: unknown): ZodFromJson {
  const { schema: json, faults } = readJsonSchema(side, declared);
  const topFaults = side === "input" ? inputFaults(json) : [];
  if (faults.length > 0 || topFaults.length > 0) return { schema: z.unknown(), faults: [...faults, ...topFaults] };
  const schema = new Skeleton(side).of([json]);
  const violations = checkerOf(json);
  const readPlain = plainReader(schema, { isChecked: true });
  readNullsWith(schema, nullReaderOf(json));
  const parse = schema._zod.run;
  schema._zod.run = (payload, context) => {
    const found = violations(payload.value);
    if (found.length === 0) {
      const value = readPlain?.(payload.value as Json) ?? unread;
      return value === unread ? parse(payload, context) : Object.assign(payload, { value });
    }
    payload.issues.push(...found.map((violation) => ({ ...violation, inst: schema })));
    return payload;
  };
  // What agents read is the schema itself. Of an answer they read what its policy releases, by field.
  if (side === "input") schema._zod.toJSONSchema = () => structuredClone(json as object);
  return { schema, faults: defaultFaults(json, side) };
}

/** Arguments have names, and LLM APIs refuse a choice at the top. */
function inputFaults(schema: JsonSchema): readonly Fault[] {
  const table: SchemaTable = typeof schema === "boolean" ? {} : schema;
  const isChoice = table.allOf !== undefined || table.anyOf !== undefined || table.oneOf !== undefined;
  return [
    ...unless(table.type === "object", "input.type", "must be object: arguments have names"),
    ...unless(!isChoice, "input", "must not have allOf, anyOf or oneOf at the top: LLM APIs refuse a choice there"),
  ];
}

/** Returns an error for each default that its own schema refuses. */
function defaultFaults(schema: JsonSchema, path: string): readonly Fault[] {
  if (typeof schema === "boolean") return [];
  const own = schema.default !== undefined && checkerOf(schema)(schema.default).length > 0;
  const below = Object.entries(schema.properties ?? {}).flatMap(([name, part]) =>
    defaultFaults(part, memberPath(`${path}.properties`, name)),
  );
  return [...(own ? [{ field: `${path}.default`, message: "is refused by its own schema" }] : []), ...below];
}

const CONTAINERS: readonly JsonType[] = ["object", "array"];

class Skeleton {
  readonly #side: SchemaSide;

  constructor(side: SchemaSide) {
    this.#side = side;
  }

  /** Returns a schema for values that the JSON Schemas describe, of which some or all apply. */
  of(schemas: readonly JsonSchema[]): z.ZodType {
    const [only, another] = schemas;
    const schema = this.#schema(schemas);
    if (another !== undefined || typeof only !== "object") return schema;
    const { title, description } = only;
    if (title === undefined && description === undefined) return schema;
    return schema.meta({ ...(title !== undefined && { title }), ...(description !== undefined && { description }) });
  }

  #schema(schemas: readonly JsonSchema[]): z.ZodType {
    if (schemas.some(isUnrestricted)) return z.unknown();
    const [only, another] = schemas;
    const choices = another === undefined && typeof only === "object" ? pureChoices(only) : undefined;
    if (choices !== undefined) return unionOf(choices.map((choice) => this.of([choice])));
    const types = new Set(schemas.flatMap((schema) => [...typesOf(schema)]));
    const required = another === undefined && only !== undefined ? allOf(only) : [];
    const values = required.flatMap((part) => (part.const === undefined ? (part.enum ?? []) : [part.const]));
    if (values.some((value) => typeof value === "object" && value !== null)) return z.unknown();
    if (values.length > 0) return valuesSchema(values);
    const parts = schemas.flatMap(schemasInPlace);
    return unionOf(
      [...types].map((type) => {
        if (type === "object") return this.#object(parts, required);
        if (type === "array") return this.#array(parts);
        return scalar(type, required, this.#side);
      }),
    );
  }

  #object(parts: readonly SchemaTable[], required: readonly SchemaTable[]): z.ZodType {
    const members = new Map<string, JsonSchema[]>();
    const others: JsonSchema[] = [];
    for (const { properties = {}, patternProperties, additionalProperties: more } of parts) {
      for (const [name, part] of Object.entries(properties)) members.set(name, [...(members.get(name) ?? []), part]);
      others.push(...Object.values(patternProperties ?? {}));
      // Next to patterns, a name that matches none may have any value.
      if (more !== false && (more !== undefined || patternProperties !== undefined)) others.push(more ?? true);
    }
    const isClosed = required.some(({ additionalProperties: more }) => more === false);
    const isDescribed = isClosed || parts.some(({ properties }) => properties !== undefined);
    if (others.length === 0 && !isDescribed) others.push(true);
    if (members.size === 0 && others.length > 0) return z.record(z.string(), this.#oneOf(others));
    const names = new Set(required.flatMap((part) => part.required ?? []));
    const shape = Object.fromEntries(
      [...members].map(([name, described]) => {
        // Closing an input adds names without a schema.
        const restricting = described.filter((part) => !isUnrestricted(part));
        return [name, this.#member(restricting.length > 0 ? restricting : described, names.has(name))];
      }),
    );
    const object = z.object(shape);
    if (others.length > 0) return object.catchall(this.#oneOf(others));
    return isClosed ? object.strict() : object;
  }

  #member(described: readonly JsonSchema[], isRequired: boolean): z.ZodType {
    const schema = this.of(described);
    const [only, another] = described;
    const value = another === undefined && typeof only === "object" ? only.default : undefined;
    if (this.#side === "input" && value !== undefined) return schema.default(() => structuredClone(value));
    return isRequired ? schema : schema.optional();
  }

  #array(parts: readonly SchemaTable[]): z.ZodType {
    const described = parts.filter(({ items, prefixItems }) => items !== undefined || prefixItems !== undefined);
    const elements = described.flatMap(({ items = true, prefixItems = [] }) => [...prefixItems, items]);
    const possible = elements.filter((element) => element !== false);
    return z.array(elements.length === 0 ? z.unknown() : this.#oneOf(possible.length === 0 ? [false] : possible));
  }

  /** Returns a schema for values that one of the JSON Schemas describes: objects or lists of two kinds are not taken apart. */
  #oneOf(schemas: readonly JsonSchema[]): z.ZodType {
    const isTwofold = CONTAINERS.some((type) => {
      const [first, ...others] = schemas.filter((schema) => typesOf(schema).has(type));
      return others.some((other) => !isDeepStrictEqual(other, first));
    });
    return isTwofold ? z.unknown() : this.of(schemas);
  }
}

/** Returns the schemas that all apply to the same value. */
function allOf(schema: JsonSchema): readonly SchemaTable[] {
  return typeof schema === "boolean" ? [] : [schema, ...(schema.allOf ?? []).flatMap(allOf)];
}

/** Returns the choices of a schema that is nothing else, if the value's type tells apart those that have members or elements. */
function pureChoices(schema: SchemaTable): readonly JsonSchema[] | undefined {
  const { anyOf, oneOf, type: _, ...others } = schema;
  const choices = anyOf ?? oneOf;
  if (choices === undefined || (anyOf !== undefined && oneOf !== undefined) || !isUnrestricted(others))
    return undefined;
  const isApart = CONTAINERS.every((type) => choices.filter((choice) => typesOf(choice).has(type)).length <= 1);
  return isApart ? choices : undefined;
}

function unionOf(schemas: readonly z.ZodType[]): z.ZodType {
  const others = schemas.filter((schema) => !(schema instanceof z.ZodNull));
  const [only, another] = others;
  if (only === undefined) return schemas[0] ?? z.never();
  const union = another === undefined ? only : z.union(others);
  return others.length === schemas.length ? union : union.nullable();
}

function valuesSchema(values: readonly Json[]): z.ZodType {
  const scalars = values as readonly (string | number | boolean | null)[];
  const texts = scalars.filter((value) => typeof value === "string");
  return texts.length === scalars.length ? z.enum(texts as [string, ...string[]]) : z.literal([...scalars]);
}

/** Returns the schema of a scalar, with the constraints by which policies tell prose and unbounded numbers. */
function scalar(type: JsonType, required: readonly SchemaTable[], side: SchemaSide): z.ZodType {
  if (type === "null") return z.null();
  if (type === "boolean") return z.boolean();
  if (type === "number") {
    return required.reduce((schema, { minimum, maximum }) => {
      const above = minimum === undefined ? schema : schema.min(minimum);
      return maximum === undefined ? above : above.max(maximum);
    }, z.number());
  }
  if (required.some(({ format }) => format === "uuid")) return z.guid();
  return required.reduce((schema, { pattern, format, maxLength }) => {
    // Targets see that a text is bounded. JSON Schema counts characters; Zod UTF-16 units, at most two per character.
    const bounded = side === "input" && maxLength !== undefined ? schema.max(2 * maxLength) : schema;
    const matching = pattern === undefined ? bounded : bounded.regex(patternTest(pattern).pattern);
    const test = format === undefined ? undefined : formatTest(format);
    if (format === undefined || test === undefined) return matching;
    // A format by its name: targets treat the pattern of a format otherwise than one that somebody wrote.
    return matching.check(new z.core.$ZodCheckStringFormat({ check: "string_format", format, pattern: test.pattern }));
  }, z.string());
}
