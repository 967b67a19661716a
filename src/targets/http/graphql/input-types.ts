import {
  coerceInputValue,
  type GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLNonNull,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  isScalarType,
  isSpecifiedScalarType,
} from "graphql";
import type { Fault } from "../../../core/errors.ts";
import { isTable } from "../../../core/json.ts";
import { hint, listed } from "../../../core/nearest.ts";
import { joinPath } from "../../../core/output-policy/field-path.ts";
import { shownMessage } from "./schema.ts";
import type { GraphqlSettings } from "./settings.ts";

/** JSON types of the schema's own scalars, by name. */
export type ScalarForms = GraphqlSettings["scalars"];
type ScalarForm = ScalarForms[string];

type Table = Readonly<Record<string, unknown>>;

export const INT_RANGE = { minimum: -2_147_483_648, maximum: 2_147_483_647 } as const;

/** Most levels of schemas within each other. Lists and choices count, too. */
const DEPTH_MAX = 40;
const VISITS_MAX = 20_000;

/** JSON types of the scalars that GraphQL defines. An ID may be sent as a number. */
export const SCALAR_TYPES: Readonly<Record<string, readonly string[]>> = {
  Int: ["integer"],
  Float: ["integer", "number"],
  String: ["string"],
  ID: ["string", "integer"],
  Boolean: ["boolean"],
};
export const FORM_TYPES: Readonly<Record<Exclude<ScalarForm, "any">, readonly string[]>> = {
  string: ["string"],
  integer: ["integer"],
  number: ["integer", "number"],
  boolean: ["boolean"],
};

/** A part of an argument's schema. */
interface InputPlace {
  /** Path of the part in error messages. */
  readonly field: string;
  readonly depth: number;
}

/** Compares JSON Schemas of arguments with types of GraphQL: whatever the schema accepts must be a value of the type. */
export class InputTypes {
  readonly #root: Table;
  readonly #scalars: ScalarForms;
  /** References that are being compared, each with its type. */
  readonly #open = new Set<string>();
  #visits = 0;

  /** `root` holds what references name. */
  constructor(root: Table, scalars: ScalarForms) {
    this.#root = root;
    this.#scalars = scalars;
  }

  /** Returns what the schema accepts and the type does not. */
  faults(schema: unknown, type: GraphQLInputType, { field, depth }: InputPlace): readonly Fault[] {
    this.#visits += 1;
    if (depth > DEPTH_MAX || this.#visits > VISITS_MAX)
      return [{ field, message: "is too large to be compared with the document" }];
    const reference = isTable(schema) && typeof schema["$ref"] === "string" ? `${schema["$ref"]} ${type}` : undefined;
    // A schema that contains itself fits if the rest of it fits.
    if (reference !== undefined && this.#open.has(reference)) return [];
    if (reference === undefined) return this.#tableFaults(this.#followed(schema), type, { field, depth });
    this.#open.add(reference);
    const faults = this.#tableFaults(this.#followed(schema), type, { field, depth });
    this.#open.delete(reference);
    return faults;
  }

  #tableFaults(table: Table | undefined, type: GraphQLInputType, { field, depth }: InputPlace): readonly Fault[] {
    if (table === undefined || Object.keys(table).length === 0) return this.#anything(type, field);
    const { anyOf, oneOf, allOf, ...own } = table;
    for (const choices of [anyOf, oneOf]) {
      if (!Array.isArray(choices)) continue;
      const { description: _, title: __, default: ___, $defs: ____, $schema: _____, ...rest } = own;
      const isAlone = Object.keys(rest).length === 0;
      return choices.flatMap((choice) =>
        this.faults(isAlone ? choice : combined(rest, this.#followed(choice)), type, { field, depth: depth + 1 }),
      );
    }
    // Values have all parts: one that fits is enough.
    const parts = [own, ...(Array.isArray(allOf) ? allOf : [])].map((part, index) =>
      index === 0 ? this.#plain(own, type, { field, depth }) : this.faults(part, type, { field, depth: depth + 1 }),
    );
    return parts.some((faults) => faults.length === 0) ? [] : (parts[0] ?? []);
  }

  /** Returns why the type does not take a value that is always the same. */
  valueFaults(value: unknown, type: GraphQLInputType, field: string): readonly Fault[] {
    const faults: Fault[] = [];
    coerceInputValue(value, type, (path, _, error) => {
      const at = path.reduce<string>((joined, step) => joinPath(joined, typeof step === "number" ? "[]" : step), field);
      faults.push({ field: at, message: shownMessage(error) });
    });
    return faults;
  }

  /** Returns why a scalar of the schema does not take any value; undefined for another type. */
  anyFaults(type: GraphQLInputType, field: string): readonly Fault[] | undefined {
    if (!isScalarType(type) || isSpecifiedScalarType(type)) return undefined;
    const form = this.#formOf(type);
    if (form === "any") return [];
    return [{ field, message: form === undefined ? unknownScalar(type.name) : `is ${form}, and no object or list` }];
  }

  #followed(schema: unknown): Table | undefined {
    let at = schema;
    for (let hops = 0; isTable(at) && typeof at["$ref"] === "string" && hops < DEPTH_MAX; hops += 1) {
      const { $ref, ...others } = at;
      const found = referenced(this.#root, String($ref));
      at = isTable(found) ? { ...found, ...others } : undefined;
    }
    return isTable(at) && at["$ref"] === undefined ? at : undefined;
  }

  #anything(type: GraphQLInputType, field: string): readonly Fault[] {
    const named = isNonNullType(type) ? undefined : type;
    if (named !== undefined && this.#formOf(named) === "any") return [];
    return [{ field, message: `accepts any value, and the document wants ${type}` }];
  }

  #formOf(type: GraphQLInputType): ScalarForm | undefined {
    return "name" in type && Object.hasOwn(this.#scalars, type.name) ? this.#scalars[type.name] : undefined;
  }

  #plain(table: Table, type: GraphQLInputType, { field, depth }: InputPlace): readonly Fault[] {
    const values = table["const"] === undefined ? table["enum"] : [table["const"]];
    if (Array.isArray(values)) return values.flatMap((value) => this.valueFaults(value, type, field)).slice(0, 3);
    const types = [table["type"] ?? []].flat().map(String);
    if (types.length === 0) return this.#anything(type, field);
    return types.flatMap((each) => {
      if (each === "null") {
        return isNonNullType(type) ? [{ field, message: `may be null, and the document wants ${type}` }] : [];
      }
      return this.#typed({ ...table, type: each }, isNonNullType(type) ? type.ofType : type, { field, depth });
    });
  }

  #typed(table: Table, type: GraphQLInputType, { field, depth }: InputPlace): readonly Fault[] {
    const own = String(table["type"]);
    const wrong = [{ field, message: `is ${own} here, and ${type} in the document` }];
    if (isListType(type)) {
      if (own !== "array") return wrong;
      const items = [table["items"] ?? {}, ...(Array.isArray(table["prefixItems"]) ? table["prefixItems"] : [])];
      const all = table["items"] === false ? items.slice(1) : items;
      return all.flatMap((item) => this.faults(item, type.ofType, { field: joinPath(field, "[]"), depth: depth + 1 }));
    }
    if (isInputObjectType(type)) return own === "object" ? this.#object(table, type, { field, depth }) : wrong;
    if (isEnumType(type)) {
      const names = type.getValues().map(({ name }) => name);
      return own === "string" ? [{ field, message: `must list its values: ${type} has ${listed(names)}` }] : wrong;
    }
    if (isNonNullType(type)) return wrong;
    const isKnown = isSpecifiedScalarType(type);
    const form = this.#formOf(type);
    if (!isKnown && form === undefined) return [{ field, message: unknownScalar(type.name) }];
    if (form === "any") return [];
    const accepted = isKnown ? SCALAR_TYPES[type.name] : form && FORM_TYPES[form];
    if (accepted?.includes(own) !== true) return wrong;
    return isKnown && type.name === "Int" ? rangeFaults(table, field) : [];
  }

  #object(table: Table, type: GraphQLInputObjectType, { field, depth }: InputPlace): readonly Fault[] {
    if (table["additionalProperties"] !== false)
      return [{ field, message: `takes members that ${type.name} may not have` }];
    const properties = Object.entries(isTable(table["properties"]) ? table["properties"] : {});
    const required: readonly unknown[] = Array.isArray(table["required"]) ? table["required"] : [];
    const isGiven = (name: string): boolean =>
      required.includes(name) ||
      properties.some(([each, part]) => each === name && isTable(part) && part["default"] !== undefined);
    const fields = type.getFields();
    const names = Object.keys(fields);
    const missing = type.isOneOf
      ? []
      : Object.values(fields).filter((each) => isRequiredInputField(each) && !isGiven(each.name));
    return [
      ...(type.isOneOf &&
      !isOneOf(
        properties.map(([name]) => name),
        table,
        isGiven,
      )
        ? [
            {
              field,
              message: `must always have exactly one member of ${type.name}: write a union of objects with one each`,
            },
          ]
        : []),
      ...missing.map(({ name }) => ({
        field: joinPath(field, name),
        message: `may be missing, and ${type.name} requires it`,
      })),
      ...properties.flatMap(([name, part]) => {
        const member = Object.hasOwn(fields, name) ? fields[name] : undefined;
        const at = joinPath(field, name);
        if (member === undefined)
          return [{ field: at, message: `is not a member of ${type.name}${hint(name, names)}` }];
        return this.faults(part, type.isOneOf ? withoutNull(member.type) : member.type, {
          field: at,
          depth: depth + 1,
        });
      }),
    ];
  }
}

/** Returns the type of a member that must be given although its declared type may be null. */
export function withoutNull(type: GraphQLInputType): GraphQLInputType {
  return isNonNullType(type) ? type : new GraphQLNonNull(type);
}

/** Returns why a scalar cannot be compared. */
export function unknownScalar(name: string): string {
  return `is the scalar ${name}, whose values only its service knows: say what they are in the system's graphql.scalars`;
}

/** A union of objects is compared choice by choice, so that each has one member here. */
function isOneOf(names: readonly string[], table: Table, isGiven: (name: string) => boolean): boolean {
  const [only, another] = names;
  if (only !== undefined && another === undefined) return isGiven(only);
  return table["minProperties"] === 1 && table["maxProperties"] === 1;
}

function rangeFaults(table: Table, field: string): readonly Fault[] {
  const numbers = (keys: readonly string[]): readonly number[] =>
    keys.map((key) => table[key]).filter((value) => typeof value === "number");
  const least = Math.max(Number.NEGATIVE_INFINITY, ...numbers(["minimum", "exclusiveMinimum"]));
  const most = Math.min(Number.POSITIVE_INFINITY, ...numbers(["maximum", "exclusiveMaximum"]));
  if (least >= INT_RANGE.minimum && most <= INT_RANGE.maximum) return [];
  return [
    { field, message: "may be larger than an Int, which has 32 bits: write a minimum and a maximum, or z.int32()" },
  ];
}

function combined(outer: Table, inner: Table | undefined): Table {
  if (inner === undefined) return {};
  const properties = { ...(outer["properties"] as object), ...(inner["properties"] as object) };
  const required = [outer["required"], inner["required"]].flatMap((names) => (Array.isArray(names) ? names : []));
  return {
    ...outer,
    ...inner,
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
  };
}

/** Returns the part of a JSON Schema that a reference names. */
export function referenced(root: Table, reference: string): unknown {
  const steps = reference
    .replace(/^#\/?/, "")
    .split("/")
    .filter((step) => step !== "");
  return steps.reduce<unknown>((value, step) => (isTable(value) ? value[pointerKey(step)] : undefined), root);
}

function pointerKey(step: string): string {
  return decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
}
