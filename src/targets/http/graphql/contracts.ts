import { type GraphQLSchema, isInterfaceType, isObjectType, isScalarType, isSpecifiedScalarType } from "graphql";
import { sha256Hex } from "../../../core/digest.ts";
import type { Fault } from "../../../core/errors.ts";
import { ManifestError } from "../../../core/errors.ts";
import { hint } from "../../../core/nearest.ts";
import type { ContractState, ToolNote } from "../../../core/target-kind.ts";
import type { HttpTarget, Tool } from "../../../core/types.ts";
import { fieldsOf } from "../manifest.ts";
import { usedArguments } from "../request.ts";
import { aliasFaults } from "./aliases.ts";
import type { AnswerPaths, GraphqlOperation } from "./answer.ts";
import { type CheckedDocument, checkedDocument, DocumentFaults, type SelectedField } from "./document.ts";
import { requestOf, variablesOf } from "./manifest.ts";
import { outputFindings } from "./output.ts";
import { listLevels, ruleFaults } from "./rules.ts";
import { readSchemaFile, type SavedSchema } from "./schema.ts";
import type { GraphqlSettings } from "./settings.ts";
import { variableFaults } from "./variables.ts";

type Rules = Pick<GraphqlSettings, "fields" | "scalars">;

/** The schemas of the systems that have one. */
export class GraphqlContracts {
  readonly #schemas = new Map<string, SavedSchema & { readonly settings: GraphqlSettings }>();
  readonly #broken = new Set<string>();
  readonly #notes: ToolNote[] = [];

  /** Reads the schema of a system. @throws {Error} that says what is wrong with it, or with the settings */
  add(system: string, read: () => Buffer, settings: GraphqlSettings): void {
    this.#broken.add(system);
    const saved = readSchemaFile(read);
    if (settings.sha256 !== undefined && settings.sha256 !== saved.sha256) {
      throw new Error(
        `has changed: its SHA-256 is ${saved.sha256}, and sha256 names another one. See what changed: stc import graphql ${system} --schema`,
      );
    }
    const [problem] = settingsProblems(saved.schema, settings);
    if (problem !== undefined) throw new Error(problem);
    this.#broken.delete(system);
    this.#schemas.set(system, { ...saved, settings });
  }

  /** Returns whether the schema of a system could not be used, which has been reported. */
  isBroken(system: string): boolean {
    return this.#broken.has(system);
  }

  /** A plain request could send a document of its own, whose answer no rule protects. @throws {ManifestError} */
  checkPlain(tool: string, system: string): void {
    const rules = Object.keys(this.#schemas.get(system)?.settings.fields ?? {});
    if (rules.length === 0) return;
    const message = `is missing: systems.${system}.http.graphql.fields holds for all tools of the system. Give other requests a system of their own`;
    throw new ManifestError(tool, [{ field: "target.http.graphql", message }]);
  }

  /** Returns the operation of a tool. @throws {ManifestError} for a tool that does not fit the schema */
  check(tool: Tool & { readonly target: HttpTarget }): GraphqlOperation {
    const { system } = tool.target;
    const known = this.#schemas.get(system);
    if (known === undefined) {
      throw new ManifestError(tool.name, [
        { field: "target.http.graphql", message: `systems.${system}.http.graphql is not set: it names the schema` },
      ]);
    }
    const found = findings(known.schema, tool, tool.target.http, known.settings);
    if (found.operation === undefined || found.faults.length > 0) throw new ManifestError(tool.name, [...found.faults]);
    this.#notes.push(...found.notes.map((note) => ({ tool: tool.name, ...note })));
    return found.operation;
  }

  /** Returns the report once all tools are checked, and frees the schemas. */
  report(): { readonly contracts: readonly ContractState[]; readonly toolNotes: readonly ToolNote[] } {
    const contracts = [...this.#schemas].map(([system, { sha256 }]) => ({
      system,
      origin: "graphql",
      sha256,
      isPinned: true,
    }));
    this.#schemas.clear();
    return { contracts, toolNotes: this.#notes };
  }
}

interface Findings {
  readonly faults: readonly Fault[];
  /** Observations that are not errors. */
  readonly notes: readonly Fault[];
  /** Undefined when the document itself is wrong. */
  readonly operation: GraphqlOperation | undefined;
}

/** Compares a manifest with the schema: its document, variables, classification, output and output policy. */
export function findings(
  schema: GraphQLSchema,
  tool: Pick<Tool, "input" | "output" | "outputPolicy" | "classification">,
  http: HttpTarget["http"],
  { fields: rules, scalars }: Rules,
): Findings {
  const { graphql } = http;
  if (graphql === undefined) return { faults: [], notes: [], operation: undefined };
  try {
    const checked = checkedDocument(schema, graphql.document);
    const isPartial = graphql.partial === "allow";
    const { document, operation, fields } = checked;
    const used = usedArguments(requestOf(http));
    const others = Object.keys(fieldsOf(tool.input)).filter((name) => !used.has(name));
    const variables = variablesOf(graphql, others);
    const output = outputFindings(fields, tool, { isPartial, scalars });
    const ruled = ruleFaults(fields, tool, rules);
    const faults = [
      ...classificationFaults(checked, tool),
      ...variableFaults({ schema, scalars, operation, document, variables }, tool),
      ...output.faults,
      ...(ruled.length > 0 ? ruled : aliasFaults(fields, tool)),
    ];
    const { name, type } = checked;
    const sha256 = sha256Hex(graphql.document);
    return {
      faults,
      notes: output.notes,
      operation: { type, name, document: graphql.document, sha256, isPartial, members: pathsOf(fields) },
    };
  } catch (error) {
    if (error instanceof DocumentFaults) return { faults: error.faults, notes: [], operation: undefined };
    if (!(error instanceof RangeError)) throw error;
    return {
      faults: [{ field: "target.http.graphql", message: "is nested too deeply" }],
      notes: [],
      operation: undefined,
    };
  }
}

function classificationFaults(
  { type }: CheckedDocument,
  { classification }: Pick<Tool, "classification">,
): readonly Fault[] {
  const isRead = classification === "read";
  if (isRead === (type === "query")) return [];
  const message = isRead
    ? "is read, but the document is a mutation: write or destructive"
    : `is ${classification}, but the document is a query: read`;
  return [{ field: "classification", message }];
}

function pathsOf(fields: readonly SelectedField[]): AnswerPaths["members"] {
  return new Map(
    fields.map(({ key, type, mayBeMissing, fields: below }) => [
      key,
      { lists: listLevels(type), mayBeMissing, members: pathsOf(below) },
    ]),
  );
}

/** A rule whose name is wrong would protect nothing. */
function settingsProblems(schema: GraphQLSchema, { fields, scalars }: Rules): readonly string[] {
  const types = schema.getTypeMap();
  const unknownFields = Object.keys(fields).flatMap((name) => {
    const [typeName = "", field = ""] = name.split(".");
    const type = Object.hasOwn(types, typeName) ? types[typeName] : undefined;
    if (!isObjectType(type) && !isInterfaceType(type))
      return [`fields.${name}: the schema has no type ${typeName} with fields${hint(typeName, Object.keys(types))}`];
    const known = Object.keys(type.getFields());
    return field === "*" || known.includes(field)
      ? []
      : [`fields.${name}: ${typeName} has no such field${hint(field, known)}`];
  });
  const unknownScalars = Object.keys(scalars).flatMap((name) => {
    const type = Object.hasOwn(types, name) ? types[name] : undefined;
    return isScalarType(type) && !isSpecifiedScalarType(type)
      ? []
      : [`scalars.${name}: the schema has no scalar of its own with this name${hint(name, Object.keys(types))}`];
  });
  return [...unknownFields, ...unknownScalars];
}
