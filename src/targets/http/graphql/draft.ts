import {
  type FragmentDefinitionNode,
  findBreakingChanges,
  findDangerousChanges,
  type GraphQLArgument,
  type GraphQLInputField,
  type GraphQLInputType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isInputType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  isSpecifiedScalarType,
  Kind,
  type OperationDefinitionNode,
  print,
  TypeInfo,
  typeFromAST,
  type VariableDefinitionNode,
  visit,
  visitWithTypeInfo,
} from "graphql";
import type { HttpTarget, Json, ToolClassification } from "../../../core/types.ts";
import { descriptionOf } from "../openapi/to-json-schema.ts";
import { originalNames } from "./aliases.ts";
import {
  type CheckedDocument,
  checkedDocument,
  DocumentFaults,
  parsedDocument,
  type SelectedField,
} from "./document.ts";
import { INT_RANGE, type ScalarForms, unknownScalar } from "./input-types.ts";
import { shownMessage } from "./schema.ts";

/** The parts of a manifest that follow from an operation. */
export interface GraphqlDraft {
  readonly classification: ToolClassification;
  /** The descriptions of the operation's fields in the schema; empty when there are none. */
  readonly description: string;
  readonly http: HttpTarget["http"];
  readonly input: Json;
  readonly output: Json;
  readonly fields: ReturnType<typeof originalNames>;
  /** Parts that the manifest leaves out. The sentences are ours and hold no text of the schema but names. */
  readonly notes: readonly string[];
}

/** An operation of a file, with the fragments that it uses. */
export interface WrittenOperation {
  readonly name: string;
  readonly type: string;
  readonly document: string;
  /** The file that has it. */
  readonly file: string;
}

interface OperationsFile {
  readonly file: string;
  readonly text: string;
}

/** Reads operations, each with the fragments that it uses from any of the files. @throws {Error} that names the file */
export function readOperations(files: readonly OperationsFile[]): readonly WrittenOperation[] {
  const fragments = new Map<string, FragmentDefinitionNode>();
  const operations: (OperationDefinitionNode & { readonly file: string })[] = [];
  for (const { file, text } of files) {
    for (const definition of definitionsIn(file, text)) {
      if (definition.kind === Kind.FRAGMENT_DEFINITION) {
        const name = definition.name.value;
        if (fragments.has(name)) throw new Error(`${file}: several fragments are called ${name}`);
        fragments.set(name, definition);
      } else if (definition.kind === Kind.OPERATION_DEFINITION) operations.push({ ...definition, file });
    }
  }
  const names = operations.map(({ name }) => name?.value);
  return operations.map(({ file, ...operation }) => {
    const name = operation.name?.value;
    if (name === undefined) throw new Error(`${file}: an operation has no name`);
    if (names.indexOf(name) !== names.lastIndexOf(name))
      throw new Error(`${file}: several operations are called ${name}`);
    const used = fragmentsOf(operation, fragments);
    return { name, type: operation.operation, document: [operation, ...used].map(print).join("\n\n"), file };
  });
}

function definitionsIn(file: string, text: string) {
  try {
    return parsedDocument(text).definitions;
  } catch (error) {
    throw new Error(`${file}: ${shownMessage(error)}`);
  }
}

function fragmentsOf(
  operation: OperationDefinitionNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): readonly FragmentDefinitionNode[] {
  const used = new Set<FragmentDefinitionNode>();
  const add = (node: OperationDefinitionNode | FragmentDefinitionNode): void => {
    visit(node, {
      FragmentSpread({ name }) {
        const fragment = fragments.get(name.value);
        if (fragment !== undefined) used.add(fragment);
      },
    });
  };
  add(operation);
  // The loop visits the fragments that it adds.
  for (const fragment of used) add(fragment);
  return [...used];
}

/** Returns the parts of a manifest for an operation. @throws {DocumentFaults} that says why there is none */
export function draftOfOperation(
  schema: GraphQLSchema,
  { document }: Pick<WrittenOperation, "document">,
  { path, scalars }: { readonly path: string; readonly scalars: ScalarForms },
): GraphqlDraft {
  const checked = checkedDocument(schema, document);
  const input = new InputSchemas(schema, scalars, checked);
  const variables = (checked.operation.variableDefinitions ?? []).map(({ variable }) => variable.name.value);
  const templates = Object.fromEntries(variables.map((name) => [name, `{${name}}`]));
  return {
    classification: classificationOf(checked),
    description: checked.fields.flatMap(({ description }) => description ?? []).join(" "),
    http: {
      method: "POST",
      path,
      graphql: { document, ...(variables.length > 0 && { variables: templates }) },
    },
    input: input.schema(),
    output: objectSchema(checked.fields, scalars),
    fields: originalNames(checked.fields),
    notes: [
      ...(checked.type === "mutation" ? ["The document is a mutation: judge whether it is write or destructive."] : []),
      ...input.notes(),
    ],
  };
}

const DESTRUCTIVE = /^(?:delete|remove|destroy|purge|drop|erase|revoke|cancel|archive|terminate)/i;

function classificationOf({ type, name, fields }: CheckedDocument): ToolClassification {
  if (type === "query") return "read";
  const names = [name, ...fields.map(({ origins: [origin = ""] }) => origin.slice(origin.indexOf(".") + 1))];
  return names.some((each) => DESTRUCTIVE.test(each)) ? "destructive" : "write";
}

const DEPTH_MAX = 6;

class InputSchemas {
  readonly #schema: GraphQLSchema;
  readonly #scalars: ScalarForms;
  readonly #operation: OperationDefinitionNode;
  readonly #leftOut = new Set<string>();

  constructor(schema: GraphQLSchema, scalars: ScalarForms, { operation }: CheckedDocument) {
    this.#schema = schema;
    this.#scalars = scalars;
    this.#operation = operation;
  }

  schema(): Json {
    const variables = this.#operation.variableDefinitions ?? [];
    const descriptions = this.#descriptions();
    const isRequired = ({ type, defaultValue }: VariableDefinitionNode): boolean =>
      type.kind === Kind.NON_NULL_TYPE && defaultValue === undefined;
    const required = variables.filter(isRequired).map(({ variable }) => variable.name.value);
    const properties = variables.flatMap(({ variable, type: node, defaultValue }): [string, Json][] => {
      const type = typeFromAST(this.#schema, node);
      if (!isInputType(type)) return [];
      const name = variable.name.value;
      const fallback = defaultValue === undefined ? "" : `Default: ${print(defaultValue)}.`;
      return [[name, described(this.#of(type, []), [descriptions.get(name) ?? "", fallback].join(" "))]];
    });
    return {
      type: "object",
      properties: Object.fromEntries(properties),
      ...(required.length > 0 && { required }),
    };
  }

  notes(): readonly string[] {
    if (this.#leftOut.size === 0) return [];
    return [
      `Optional members of input objects that no argument fills, because they contain themselves: ${[...this.#leftOut].sort().join(", ")}.`,
    ];
  }

  /** Returns, for each variable, the description of the argument or input object member that takes its value. */
  #descriptions(): ReadonlyMap<string, string> {
    const found = new Map<string, string>();
    const info = new TypeInfo(this.#schema);
    const argument = (): GraphQLArgument | null | undefined => info.getArgument();
    visit(
      this.#operation,
      visitWithTypeInfo(info, {
        Argument({ value }) {
          const description = argument()?.description;
          if (value.kind === Kind.VARIABLE && description) found.set(value.name.value, description);
        },
      }),
    );
    return found;
  }

  #of(declared: GraphQLInputType, above: readonly string[]): Json {
    const type = getNullableType(declared);
    if (isListType(type)) return { type: "array", items: this.#of(type.ofType, above) };
    if (isEnumType(type)) return { type: "string", enum: type.getValues().map(({ name }) => name) };
    if (!isInputObjectType(type))
      return isSpecifiedScalarType(type) ? (SCALARS[type.name] ?? {}) : this.#own(type.name);
    if (above.includes(type.name) || above.length >= DEPTH_MAX) {
      throw new DocumentFaults([`needs ${type.name}, which contains itself: write the manifest by hand`]);
    }
    const below = [...above, type.name];
    const members = Object.values(type.getFields()).flatMap((field) => this.#member(field, below));
    if (type.isOneOf) {
      const choices = members.map(([name, schema]) => closed({ [name]: schema }, [name]));
      return choices.length === 1 ? (choices[0] ?? {}) : { anyOf: choices };
    }
    const required = Object.values(type.getFields()).filter(isRequiredInputField);
    return closed(
      Object.fromEntries(members),
      required.map(({ name }) => name),
    );
  }

  #member(field: GraphQLInputField, above: readonly string[]): readonly (readonly [string, Json])[] {
    try {
      return [[field.name, described(this.#of(field.type, above), field.description ?? "")]];
    } catch (error) {
      if (isRequiredInputField(field) || !(error instanceof DocumentFaults)) throw error;
      this.#leftOut.add(`${above.at(-1) ?? ""}.${field.name}`);
      return [];
    }
  }

  #own(name: string): Json {
    const form = Object.hasOwn(this.#scalars, name) ? this.#scalars[name] : undefined;
    if (form === undefined) throw new DocumentFaults([`a variable ${unknownScalar(name)}`]);
    return form === "any" ? {} : { type: form };
  }
}

const SCALARS: Readonly<Record<string, Json>> = {
  Int: { type: "integer", ...INT_RANGE },
  Float: { type: "number" },
  String: { type: "string" },
  ID: { type: "string" },
  Boolean: { type: "boolean" },
};

function closed(properties: Readonly<Record<string, Json>>, required: readonly string[]): Json {
  return { type: "object", properties, ...(required.length > 0 && { required }), additionalProperties: false };
}

const DESCRIPTION_CHARACTERS_MAX = 300;

function described(schema: Json, description: string): Json {
  const text = description.replace(/\s+/g, " ").trim().slice(0, DESCRIPTION_CHARACTERS_MAX).toWellFormed();
  return { ...(schema as object), ...descriptionOf(text) };
}

function objectSchema(fields: readonly SelectedField[], scalars: ScalarForms): Json {
  const members = fields.map((field): [string, Json] => [
    field.key,
    described(answerSchema(field.type, field, scalars), field.description ?? ""),
  ]);
  return { type: "object", properties: Object.fromEntries(members) };
}

function answerSchema(declared: GraphQLOutputType, field: SelectedField, scalars: ScalarForms): Json {
  const type = getNullableType(declared);
  const isNullable = !isNonNullType(declared);
  const typed = (name: string, more: object = {}): Json => ({ type: isNullable ? [name, "null"] : name, ...more });
  if (isListType(type)) return typed("array", { items: answerSchema(type.ofType, field, scalars) });
  if (field.fields.length > 0) {
    const { properties } = objectSchema(field.fields, scalars) as { readonly properties: Json };
    return typed("object", { properties });
  }
  if (isEnumType(type)) {
    const names = type.getValues().map(({ name }) => name);
    return typed("string", { enum: isNullable ? [...names, null] : names });
  }
  const name = "name" in type ? type.name : "";
  const form = Object.hasOwn(scalars, name) ? scalars[name] : undefined;
  const known = ANSWERED[name] ?? form;
  return known === undefined || known === "any" ? {} : typed(known);
}

const ANSWERED: Readonly<Record<string, string>> = {
  Int: "integer",
  Float: "number",
  String: "string",
  ID: "string",
  Boolean: "boolean",
};

/** A difference between two schemas. */
export interface SchemaChange {
  readonly isBreaking: boolean;
  readonly description: string;
}

/** Returns the differences that callers of the old schema may notice. */
export function schemaChanges(old: GraphQLSchema, next: GraphQLSchema): readonly SchemaChange[] {
  return [
    ...findBreakingChanges(old, next).map(({ description }) => ({ isBreaking: true, description })),
    ...findDangerousChanges(old, next).map(({ description }) => ({ isBreaking: false, description })),
  ];
}
