import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLError,
  type GraphQLField,
  type GraphQLInterfaceType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  Kind,
  NoSchemaIntrospectionCustomRule,
  type OperationDefinitionNode,
  parse,
  type SelectionNode,
  type SelectionSetNode,
  specifiedRules,
  TypeNameMetaFieldDef,
  validate,
} from "graphql";
import type { Fault } from "../../../core/errors.ts";
import { shownMessage } from "./schema.ts";

/** Most tokens of a document. */
const TOKENS_MAX = 5_000;
const DEPTH_MAX = 50;
/** Most fields of an answer. A fragment counts each time it is used. */
const FIELDS_MAX = 5_000;
const PROBLEMS_MAX = 10;
/** Directives that make a service answer more than once. */
const SEVERAL_ANSWERS: ReadonlySet<string> = new Set(["defer", "stream", "live"]);
/** Directives of selections that change no value. `@export`, for example, makes one field's value an argument of another. */
const KNOWN: ReadonlySet<string> = new Set(["include", "skip"]);

/** A document with one operation that a schema accepts. */
export interface CheckedDocument {
  /** The document, with its fragments. */
  readonly document: DocumentNode;
  readonly operation: OperationDefinitionNode;
  readonly name: string;
  readonly type: "query" | "mutation";
  /** The members of `data`. */
  readonly fields: readonly SelectedField[];
}

/** A member of an answer, from all fields of the document that are answered under its name. */
export interface SelectedField {
  /** The alias, or the name. */
  readonly key: string;
  readonly type: GraphQLOutputType;
  /** Fields that the value may come from, as `Type.field`, also of the interfaces of these types. */
  readonly origins: readonly string[];
  /** Whether the member may be missing: by a directive, or because it belongs to another type than the answer has. */
  readonly mayBeMissing: boolean;
  readonly description: string | undefined;
  /** Members of an object; empty for a scalar. */
  readonly fields: readonly SelectedField[];
}

/** Thrown for a document that no tool can have. */
export class DocumentFaults extends Error {
  override readonly name = "DocumentFaults";
  readonly faults: readonly Fault[];

  constructor(messages: readonly string[]) {
    super(messages.join("; "));
    this.faults = messages.map((message) => ({ field: "target.http.graphql.document", message }));
  }
}

/** Reads and checks a document. @throws {DocumentFaults} */
export function checkedDocument(schema: GraphQLSchema, text: string): CheckedDocument {
  try {
    const document = parsedDocument(text);
    const only = onlyOperation(document);
    const problems = validate(schema, document, [...specifiedRules, NoSchemaIntrospectionCustomRule], {
      maxErrors: PROBLEMS_MAX,
    });
    if (problems.length > 0) throw new DocumentFaults(problems.map(problemText));
    const fields = new Selecting(schema, document).operation(only.operation);
    return { ...only, document, fields };
  } catch (error) {
    if (error instanceof RangeError) throw new DocumentFaults(["is nested too deeply"]);
    throw error;
  }
}

/** The library bounds the work of comparing fields with each other, and says no more than that it has stopped. */
function problemText(problem: GraphQLError): string {
  const isAborted = problem.message === "Validation aborted.";
  return isAborted ? "has too many fields with one name to be compared" : shownMessage(problem);
}

/** Parses a document. @throws {DocumentFaults} for an invalid document */
export function parsedDocument(text: string): DocumentNode {
  try {
    return parse(text, { maxTokens: TOKENS_MAX, noLocation: true });
  } catch (error) {
    throw new DocumentFaults([`cannot be read: ${shownMessage(error)}`]);
  }
}

function onlyOperation(document: DocumentNode): Pick<CheckedDocument, "operation" | "name" | "type"> {
  const operations = document.definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
  const [operation] = operations;
  if (operation === undefined || operations.length > 1) {
    throw new DocumentFaults([`must have exactly one operation; it has ${operations.length}`]);
  }
  const { operation: type, name } = operation;
  if (type === "subscription") throw new DocumentFaults(["is a subscription, which no tool can have"]);
  if (name === undefined) throw new DocumentFaults([`must name its operation: ${type} OrderGet { … }`]);
  return { operation, name: name.value, type };
}

/** Fields of one answer, by the name under which they are answered. */
interface Found extends Place {
  readonly node: FieldNode;
  readonly field: GraphQLField<unknown, unknown>;
}

/** Position of a selection. */
interface Place {
  readonly parent: GraphQLCompositeType;
  /** Types that the object may have there. */
  readonly types: readonly GraphQLObjectType[];
  readonly isConditional: boolean;
}

class Selecting {
  readonly #schema: GraphQLSchema;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #lists = new Map<GraphQLCompositeType, readonly GraphQLObjectType[]>();
  readonly #origins = new Map<readonly GraphQLObjectType[], Map<string, readonly string[]>>();
  readonly #possible = new Map<GraphQLCompositeType, ReadonlySet<GraphQLObjectType>>();
  #visits = 0;

  constructor(schema: GraphQLSchema, { definitions }: DocumentNode) {
    this.#schema = schema;
    const fragments = definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION);
    this.#fragments = new Map(fragments.map((fragment) => [fragment.name.value, fragment]));
  }

  operation({ operation, selectionSet: set, directives }: OperationDefinitionNode): readonly SelectedField[] {
    refuseSeveralAnswers(directives);
    const parent = this.#schema.getRootType(operation);
    if (!isObjectType(parent)) throw new DocumentFaults([`is a ${operation}, which the schema does not have`]);
    return this.#fields([{ set, parent, types: [parent], isConditional: false }], 0);
  }

  /** Returns the members of one object, which several selections describe together. */
  #fields(sets: readonly (Place & { readonly set: SelectionSetNode })[], depth: number): readonly SelectedField[] {
    if (depth > DEPTH_MAX) throw new DocumentFaults([`has fields more than ${DEPTH_MAX} levels deep`]);
    const found = new Map<string, Found[]>();
    for (const { set, ...place } of sets) this.#collect(set, place, found);
    return [...found].map(([key, all]) => this.#field(key, all, depth));
  }

  #field(key: string, all: readonly Found[], depth: number): SelectedField {
    const [first] = all;
    if (first === undefined) throw new Error("a member without a field");
    const below = all.flatMap(({ node, field, isConditional }) => {
      const type = getNamedType(field.type);
      if (node.selectionSet === undefined || !isCompositeType(type)) return [];
      // The object may be there because of another field of the same name.
      const types = this.#listOf(type);
      return [{ set: node.selectionSet, parent: type, types, isConditional: isConditional && all.length > 1 }];
    });
    return {
      key,
      type: first.field.type,
      origins: all.length === 1 ? this.#originsOf(first) : [...new Set(all.flatMap((each) => this.#originsOf(each)))],
      mayBeMissing: all.every(({ isConditional }) => isConditional),
      description: first.field.description ?? undefined,
      fields: this.#fields(below, depth + 1),
    };
  }

  /** A schema may have thousands of types behind one interface, and a document thousands of its fields. */
  #originsOf({ parent, types, field: { name } }: Found): readonly string[] {
    const known = this.#origins.get(types) ?? new Map<string, readonly string[]>();
    const place = `${parent.name}.${name}`;
    const origins = known.get(place) ?? originsOf({ parent, types }, name);
    this.#origins.set(types, known.set(place, origins));
    return origins;
  }

  #listOf(type: GraphQLCompositeType): readonly GraphQLObjectType[] {
    const list = this.#lists.get(type) ?? [...this.#typesOf(type)];
    this.#lists.set(type, list);
    return list;
  }

  #typesOf(type: GraphQLCompositeType): ReadonlySet<GraphQLObjectType> {
    const known = this.#possible.get(type);
    if (known !== undefined) return known;
    const types = new Set(isAbstractType(type) ? this.#schema.getPossibleTypes(type) : [type]);
    this.#possible.set(type, types);
    return types;
  }

  #collect({ selections }: SelectionSetNode, place: Place, found: Map<string, Found[]>): void {
    for (const selection of selections) {
      this.#visits += 1;
      if (this.#visits > FIELDS_MAX)
        throw new DocumentFaults([`has more than ${FIELDS_MAX} fields, fragments included`]);
      const isConditional = place.isConditional || isSkippable(selection);
      if (selection.kind === Kind.FIELD) {
        this.#add(selection, { ...place, isConditional }, found);
        continue;
      }
      const fragment = selection.kind === Kind.INLINE_FRAGMENT ? selection : this.#fragments.get(selection.name.value);
      if (fragment === undefined) continue;
      const condition = fragment.typeCondition?.name.value;
      const type = condition === undefined ? place.parent : this.#schema.getType(condition);
      if (!isCompositeType(type)) continue;
      // The answer has one type of several: a fragment for some of them may not apply.
      const applies = type === place.parent || this.#isAlways(type, place.parent);
      const possible = this.#typesOf(type);
      const kept = place.types.filter((each) => possible.has(each));
      const types = kept.length === place.types.length ? place.types : kept;
      this.#collect(fragment.selectionSet, { parent: type, types, isConditional: isConditional || !applies }, found);
    }
  }

  #isAlways(type: GraphQLCompositeType, parent: GraphQLCompositeType): boolean {
    const isBelow = isObjectType(parent) || isInterfaceType(parent);
    return isAbstractType(type) && isBelow && this.#schema.isSubType(type, parent);
  }

  #add(node: FieldNode, place: Place, found: Map<string, Found[]>): void {
    const name = node.name.value;
    const key = node.alias?.value ?? name;
    if (node.alias?.value.startsWith("__")) throw new DocumentFaults([`has the alias ${key}: __ is reserved`]);
    const field = fieldOf(place.parent, name);
    if (field === undefined) return;
    found.set(key, [...(found.get(key) ?? []), { ...place, node, field }]);
  }
}

/** A field of an interface is one of each type that has the interface, and the other way round. */
function originsOf({ parent, types }: Pick<Place, "parent" | "types">, field: string): readonly string[] {
  const own = isObjectType(parent) || isInterfaceType(parent) ? parent.getInterfaces() : [];
  const interfaces = [...own, ...types.flatMap((type): readonly GraphQLInterfaceType[] => type.getInterfaces())];
  const all = [parent, ...types, ...interfaces].filter((type) => isObjectType(type) || isInterfaceType(type));
  const having = [...new Set(all)].filter((type) => Object.hasOwn(type.getFields(), field));
  return having.map((type) => `${type.name}.${field}`);
}

function fieldOf(parent: GraphQLCompositeType, name: string): GraphQLField<unknown, unknown> | undefined {
  if (name === TypeNameMetaFieldDef.name) return TypeNameMetaFieldDef;
  return isObjectType(parent) || isInterfaceType(parent) ? parent.getFields()[name] : undefined;
}

function isSkippable({ directives = [] }: SelectionNode): boolean {
  refuseSeveralAnswers(directives);
  const names = directives.map(({ name }) => name.value);
  const other = names.find((name) => !KNOWN.has(name));
  if (other !== undefined)
    throw new DocumentFaults([`uses @${other} on a selection: only @include and @skip leave values as they are`]);
  return names.length > 0;
}

function refuseSeveralAnswers(directives: OperationDefinitionNode["directives"] = []): void {
  const repeated = directives.map(({ name }) => name.value).find((name) => SEVERAL_ANSWERS.has(name));
  if (repeated !== undefined) throw new DocumentFaults([`uses @${repeated}: a tool has one answer`]);
}
