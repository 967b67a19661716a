import {
  type GraphQLEnumType,
  type GraphQLOutputType,
  getNullableType,
  isEnumType,
  isListType,
  isNonNullType,
  isScalarType,
  isSpecifiedScalarType,
} from "graphql";
import { z } from "zod";
import type { Fault } from "../../../core/errors.ts";
import { isTable } from "../../../core/json.ts";
import { hint, listed } from "../../../core/nearest.ts";
import { joinPath } from "../../../core/output-policy/field-path.ts";
import { policyFields } from "../../../core/output-policy/output-fields.ts";
import type { Tool } from "../../../core/types.ts";
import type { SelectedField } from "./document.ts";
import { FORM_TYPES, referenced, SCALAR_TYPES, type ScalarForms } from "./input-types.ts";
import { ERROR_PATHS } from "./manifest.ts";

type Table = Readonly<Record<string, unknown>>;

const DEPTH_MAX = 64;
const FINDINGS_MAX = 20;

interface Place {
  readonly field: string;
  readonly depth: number;
}

interface OutputFindings {
  readonly faults: readonly Fault[];
  /** Observations that are not errors. */
  readonly notes: readonly Fault[];
}

/** Returns what does not fit between a tool's output and the answer of its document. */
export function outputFindings(
  fields: readonly SelectedField[],
  { output, outputPolicy }: Pick<Tool, "output" | "outputPolicy">,
  { isPartial, scalars }: { readonly isPartial: boolean; readonly scalars: ScalarForms },
): OutputFindings {
  const comparison = new Comparison(
    z.toJSONSchema(output, { io: "input", unrepresentable: "any", cycles: "ref" }) as Table,
    scalars,
  );
  const partial = isPartial
    ? [...comparison.partial(fields), ...withheldPaths({ output, outputPolicy })].slice(0, 1)
    : [];
  const faults = [...partial, ...comparison.members(fields, isPartial)];
  return { faults: faults.slice(0, FINDINGS_MAX), notes: comparison.notes.slice(0, FINDINGS_MAX) };
}

/** Without its path, nothing would tell an agent that a null comes from an error. */
function withheldPaths(tool: Pick<Tool, "output" | "outputPolicy">): readonly Fault[] {
  const fields = policyFields(tool).filter(({ steps: [first] }) => first === ERROR_PATHS);
  if (fields.every(({ node }) => node.action === "allow")) return [];
  return [{ field: `outputPolicy.${ERROR_PATHS}[]`, message: "must be allow: a null may come from an error" }];
}

class Comparison {
  readonly notes: Fault[] = [];
  readonly #root: Table;
  readonly #scalars: ScalarForms;

  constructor(root: Table, scalars: ScalarForms) {
    this.#root = root;
    this.#scalars = scalars;
  }

  /** Partial data has the paths of its errors, and no member of the document may look like them. */
  partial(fields: readonly SelectedField[]): readonly Fault[] {
    const field = `output.${ERROR_PATHS}`;
    if (fields.some(({ key }) => key === ERROR_PATHS))
      return [{ field, message: "is a member of the document: give it another alias" }];
    const declared = this.#forms(this.#root).map((form) =>
      isTable(form["properties"]) ? form["properties"][ERROR_PATHS] : undefined,
    );
    const lists = declared.flatMap((schema) => (schema === undefined ? [] : this.#forms(schema)));
    const isSound = lists.some(
      (form) => form["type"] === "array" && this.#forms(form["items"]).some(({ type }) => type === "string"),
    );
    return isSound ? [] : [{ field, message: "is missing: z.array(z.string()).optional(), the paths of errors" }];
  }

  members(fields: readonly SelectedField[], isPartial: boolean): readonly Fault[] {
    const own = isPartial ? [ERROR_PATHS] : [];
    return this.#object(this.#root, fields, { field: "output", depth: 0 }, own);
  }

  #object(
    schema: unknown,
    fields: readonly SelectedField[],
    { field, depth }: Place,
    own: readonly string[] = [],
  ): readonly Fault[] {
    const forms = this.#forms(schema);
    if (forms.some(isOpen)) return [];
    const objects = forms.filter(({ type }) => type === "object");
    if (objects.length === 0 || depth > DEPTH_MAX) return [{ field, message: "must be an object" }];
    const keys = fields.map(({ key }) => key);
    return objects.flatMap((form) => {
      const properties = isTable(form["properties"]) ? form["properties"] : {};
      const required: readonly unknown[] = Array.isArray(form["required"]) ? form["required"] : [];
      return Object.entries(properties).flatMap(([name, part]): readonly Fault[] => {
        if (own.includes(name)) return [];
        const at = joinPath(field, name);
        const member = fields.find(({ key }) => key === name);
        if (member === undefined) return [{ field: at, message: `is not in the document's answer${hint(name, keys)}` }];
        const missing = member.mayBeMissing && required.includes(name);
        return [
          ...(missing ? [{ field: at, message: "may be missing in an answer: it must be optional" }] : []),
          ...this.#value(part, member.type, member, { field: at, depth: depth + 1 }),
        ];
      });
    });
  }

  #value(schema: unknown, type: GraphQLOutputType, member: SelectedField, place: Place): readonly Fault[] {
    const { field, depth } = place;
    const forms = this.#forms(schema);
    if (forms.some(isOpen)) return [];
    const nulls =
      isNonNullType(type) || forms.some(({ type: own }) => own === "null")
        ? []
        : [{ field, message: `may be null (${type}): it must be nullable` }];
    const inner = getNullableType(type);
    if (isListType(inner)) {
      const lists = forms.filter(({ type: own }) => own === "array");
      if (lists.length === 0) return [...nulls, { field, message: `must be a list: the document has ${type}` }];
      return [
        ...nulls,
        ...lists.flatMap((list) =>
          this.#value(list["items"] ?? {}, inner.ofType, member, { field: joinPath(field, "[]"), depth: depth + 1 }),
        ),
      ];
    }
    if (member.fields.length > 0) return [...nulls, ...this.#object(schema, member.fields, place)];
    return [...nulls, ...this.#leaf(forms, inner, field)];
  }

  #leaf(forms: readonly Table[], type: GraphQLOutputType, field: string): readonly Fault[] {
    const wanted = typesOf(type, this.#scalars);
    if (wanted === undefined) return [];
    const own = forms.map(({ type: each }) => String(each));
    if (isEnumType(type)) this.#enum(forms, type, field);
    if (own.some((each) => wanted.includes(each))) return [];
    return [{ field, message: `does not read ${type}, which is ${wanted[0]}` }];
  }

  #enum(forms: readonly Table[], type: GraphQLEnumType, field: string): void {
    const texts = forms.filter(({ type: each }) => each === "string");
    const accepted = texts.map((form) => (form["const"] === undefined ? form["enum"] : [form["const"]]));
    if (!accepted.every((values) => Array.isArray(values))) return;
    const known: readonly unknown[] = accepted.flat();
    const missing = type.getValues().flatMap(({ name }) => (known.includes(name) ? [] : [name]));
    if (missing.length === 0) return;
    const message = `an answer with ${listed(missing)} would be withheld: the output schema does not accept it`;
    this.notes.push({ field, message });
  }

  /** Returns the alternatives of a schema, each with one type. */
  #forms(schema: unknown, depth = 0): readonly Table[] {
    if (!isTable(schema) || depth > DEPTH_MAX) return [{}];
    const { $ref, anyOf, oneOf, allOf, ...own } = schema;
    if (typeof $ref === "string") return this.#forms(referenced(this.#root, $ref), depth + 1);
    const choices = [anyOf, oneOf, allOf].find((each) => Array.isArray(each));
    if (Array.isArray(choices)) return choices.flatMap((choice) => this.#forms(choice, depth + 1));
    const values = own["const"] === undefined ? own["enum"] : [own["const"]];
    const named =
      own["type"] ??
      (Array.isArray(values) ? values.map((value) => (value === null ? "null" : typeof value)) : undefined);
    if (named === undefined) return [own];
    return [...new Set([named].flat())].map((type) => ({ ...own, type }));
  }
}

function isOpen({ type, properties }: Table): boolean {
  return type === undefined || (type === "object" && properties === undefined);
}

/** Returns the JSON types of a scalar's values; undefined where they are unknown. */
function typesOf(type: GraphQLOutputType, scalars: ScalarForms): readonly string[] | undefined {
  if (isEnumType(type)) return ["string"];
  if (!isScalarType(type)) return undefined;
  // Services write each ID as text.
  if (isSpecifiedScalarType(type)) return type.name === "ID" ? ["string"] : numbersToo(SCALAR_TYPES[type.name] ?? []);
  const form = Object.hasOwn(scalars, type.name) ? scalars[type.name] : undefined;
  return form === undefined || form === "any" ? undefined : numbersToo(FORM_TYPES[form]);
}

/** A schema for any number reads whole ones. */
function numbersToo(types: readonly string[]): readonly string[] {
  return types.includes("integer") ? [...new Set([...types, "number"])] : types;
}
