import {
  type DocumentNode,
  type GraphQLInputObjectType,
  type GraphQLInputType,
  type GraphQLSchema,
  isInputObjectType,
  isInputType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  type OperationDefinitionNode,
  TypeInfo,
  typeFromAST,
  type VariableDefinitionNode,
  type VariableNode,
  visit,
  visitWithTypeInfo,
} from "graphql";
import { z } from "zod";
import type { Fault } from "../../../core/errors.ts";
import { isTable } from "../../../core/json.ts";
import { hint } from "../../../core/nearest.ts";
import { joinPath } from "../../../core/output-policy/field-path.ts";
import type { Json, Tool } from "../../../core/types.ts";
import { namesIn, soleArgument, templateOf } from "../request.ts";
import { InputTypes, type ScalarForms, withoutNull } from "./input-types.ts";

const DEPTH_MAX = 32;
const FIELD = "target.http.graphql.variables";

type Table = Readonly<Record<string, unknown>>;

interface Sent {
  readonly schema: GraphQLSchema;
  readonly scalars: ScalarForms;
  readonly operation: OperationDefinitionNode;
  /** The document, with its fragments. */
  readonly document: DocumentNode;
  /** Templates by the name of the variable. */
  readonly variables: Readonly<Record<string, Json>>;
}

/** Returns what does not fit between the variables of a document and the arguments of a tool: whatever these accept is sent. */
export function variableFaults(sent: Sent, { input }: Pick<Tool, "input">): readonly Fault[] {
  return new Comparison(sent, input).faults();
}

/** A value that the document wants, and where its template is. */
interface Wanted {
  readonly type: GraphQLInputType;
  readonly field: string;
  /** Whether it may be left out. */
  readonly isOptional: boolean;
  readonly depth: number;
}

class Comparison {
  readonly #sent: Sent;
  /** JSON Schema of the parsed arguments. */
  readonly #input: Table;
  readonly #types: InputTypes;

  constructor(sent: Sent, input: z.ZodType) {
    this.#sent = sent;
    this.#input = z.toJSONSchema(input, { io: "output", unrepresentable: "any", cycles: "ref" }) as Table;
    this.#types = new InputTypes(this.#input, sent.scalars);
  }

  faults(): readonly Fault[] {
    const { operation, variables } = this.#sent;
    const declared = operation.variableDefinitions ?? [];
    const names = declared.map(({ variable }) => variable.name.value);
    const unknown = Object.keys(variables)
      .filter((name) => !names.includes(name))
      .map((name) => ({ field: `${FIELD}.${name}`, message: `is not a variable of the document${hint(name, names)}` }));
    const notNull = this.#notNull();
    return [...unknown, ...declared.flatMap((definition) => this.#variable(definition, notNull))];
  }

  /** A variable with a default may be used where null is refused. Only leaving it out is safe there. */
  #notNull(): ReadonlySet<string> {
    const found = new Set<string>();
    const info = new TypeInfo(this.#sent.schema);
    const Variable = ({ name }: VariableNode): void => {
      if (isNonNullType(info.getInputType())) found.add(name.value);
    };
    visit(this.#sent.document, visitWithTypeInfo(info, { Variable }));
    return found;
  }

  #variable(
    { variable, type: declared, defaultValue }: VariableDefinitionNode,
    notNull: ReadonlySet<string>,
  ): readonly Fault[] {
    const { schema, variables } = this.#sent;
    const name = variable.name.value;
    const type = typeFromAST(schema, declared);
    if (!isInputType(type)) return [];
    const field = `${FIELD}.${name}`;
    const isOptional = !isNonNullType(type) || defaultValue !== undefined;
    const template = Object.hasOwn(variables, name) ? variables[name] : undefined;
    const wanted = notNull.has(name) ? withoutNull(type) : type;
    if (template !== undefined) return this.#template(template, { type: wanted, field, isOptional, depth: 0 });
    return isOptional ? [] : [{ field, message: "is missing: the document requires the variable" }];
  }

  #template(template: Json, wanted: Wanted): readonly Fault[] {
    const { field, depth } = wanted;
    const type = isNonNullType(wanted.type) ? wanted.type.ofType : wanted.type;
    if (depth > DEPTH_MAX) return [{ field, message: "is nested too deeply" }];
    if (typeof template === "string") {
      const name = soleArgument(template);
      if (name !== undefined) return this.#argument(name, wanted);
      const hasArguments = (templateOf(template) ?? []).some((part) => typeof part !== "string");
      if (hasArguments) return this.#types.faults({ type: "string" }, wanted.type, { field, depth });
    }
    if (Array.isArray(template) && isListType(type)) {
      return template.flatMap((item: Json, index) => {
        const at = `${field}[${index}]`;
        return this.#template(item, { type: type.ofType, field: at, isOptional: true, depth: depth + 1 });
      });
    }
    if (isTable(template) && isInputObjectType(type)) return this.#members(template as Table, type, wanted);
    if (namesIn(template).length > 0) {
      // GraphQL accepts a single value as a list with one item.
      if (isListType(type)) return this.#template(template, { ...wanted, type: type.ofType, depth: depth + 1 });
      const own = this.#types.anyFaults(type, field);
      if (own !== undefined) return own;
    }
    return this.#types.valueFaults(template, wanted.type, field);
  }

  #argument(name: string, { type, field, isOptional }: Wanted): readonly Fault[] {
    const properties = this.#input["properties"];
    const schema = isTable(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
    // The general checks of a manifest report each name that is not an argument.
    if (schema === undefined) return [];
    const required = this.#input["required"];
    const isGiven =
      (Array.isArray(required) && required.includes(name)) || (isTable(schema) && schema["default"] !== undefined);
    const missing = isOptional || isGiven ? [] : [{ field, message: `may be missing, and the document wants ${type}` }];
    return [...missing, ...this.#types.faults(schema, type, { field: joinPath("input", name), depth: 0 })];
  }

  #members(template: Table, type: GraphQLInputObjectType, { field, depth }: Wanted): readonly Fault[] {
    const fields = type.getFields();
    const given = Object.keys(template);
    if (type.isOneOf && given.length !== 1) return [{ field, message: `must have exactly one member of ${type.name}` }];
    const missing = Object.values(fields).filter((each) => isRequiredInputField(each) && !given.includes(each.name));
    return [
      ...missing.map(({ name }) => ({ field: joinPath(field, name), message: `is missing: ${type.name} requires it` })),
      ...Object.entries(template).flatMap(([name, inner]) => {
        const member = Object.hasOwn(fields, name) ? fields[name] : undefined;
        const at = joinPath(field, name);
        if (member === undefined)
          return [{ field: at, message: `is not a member of ${type.name}${hint(name, Object.keys(fields))}` }];
        const isOptional = !type.isOneOf && !isRequiredInputField(member);
        const wanted = type.isOneOf ? withoutNull(member.type) : member.type;
        return this.#template(inner as Json, { type: wanted, field: at, isOptional, depth: depth + 1 });
      }),
    ];
  }
}
