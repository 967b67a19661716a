import { errorText, systemCode } from "../../core/error-text.ts";
import { hint } from "../../core/nearest.ts";
import { printable, printableCell } from "../../core/printable.ts";
import type { Json } from "../../core/types.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { readPlainFile } from "../../runtime/config/plain-file.ts";
import { findings } from "../../targets/http/graphql/contracts.ts";
import { DocumentFaults } from "../../targets/http/graphql/document.ts";
import {
  draftOfOperation,
  type GraphqlDraft,
  readOperations,
  schemaChanges,
  type WrittenOperation,
} from "../../targets/http/graphql/draft.ts";
import { readSchemaFile, type SavedSchema } from "../../targets/http/graphql/schema.ts";
import type { GraphqlSettings } from "../../targets/http/graphql/settings.ts";
import { type ConfigurationOptions, configuration } from "../configuration.ts";
import { CommandError, EXIT, print, wrongUsage } from "../output.ts";
import {
  type Made,
  madeManifest,
  manifestText,
  proposedPermission,
  shownText,
  snakeCase,
  tolerant,
  toolName,
} from "./manifest-text.ts";
import { type ImportItem, importSelected, renamed, type SelectionOptions } from "./selection.ts";

interface ImportOptions extends ConfigurationOptions, SelectionOptions {
  readonly schema?: string;
  readonly operations?: readonly string[] | undefined;
  readonly path?: string;
  readonly accept?: boolean;
  readonly rename: readonly string[];
}

/**
 * `stc import graphql`: writes manifests for operations, one tool for each. With another schema and no operations, says how it differs
 * from the saved one. Nothing is sent to the system.
 */
export async function importGraphql(system: string, wanted: readonly string[], options: ImportOptions): Promise<void> {
  const { config } = await configuration(options);
  const settings = settingsOf(config, system);
  const { operations: files = [] } = options;
  const saved =
    settings === undefined
      ? undefined
      : schemaAt(pathFrom(config, settings.schemaFile), `systems.${system}.http.graphql`, EXIT.configuration);
  const other = options.schema === undefined ? undefined : schemaAt(options.schema, "--schema", EXIT.usage);
  if (files.length === 0) {
    if (saved === undefined || other === undefined)
      wrongUsage("name files with --operations, or another schema with --schema to compare it with the saved one");
    reportChanges(saved, other, options);
    return;
  }
  const schema = other ?? saved;
  if (schema === undefined) {
    return wrongUsage(
      `systems.${system}.http.graphql is not set: save the API's schema next to the configuration and name its file there, or give --schema`,
    );
  }
  const drafting = { system, schema, settings, path: options.path ?? "/graphql", accepted: options.accept === true };
  const words = {
    noun: "operation",
    source: "the files",
    columns: ["OPERATION", "TYPE", "FILE"],
    advice: { several: "", filters: "--operations" },
  };
  importSelected(renamed(items(operationsIn(files), drafting), words, options.rename), words, {
    ...options,
    wanted,
    isFiltered: true,
  });
}

interface Drafting {
  readonly system: string;
  readonly schema: SavedSchema;
  readonly settings: GraphqlSettings | undefined;
  readonly path: string;
  readonly accepted: boolean;
}

/** Returns the GraphQL settings of a system. @throws {CommandError} for a system that is not an HTTP system */
function settingsOf({ systems }: Config, system: string): GraphqlSettings | undefined {
  const all = systems as Readonly<Record<string, { readonly http?: { readonly graphql?: GraphqlSettings } }>>;
  const known = Object.keys(all).filter((name) => all[name]?.http !== undefined);
  if (!known.includes(system))
    return wrongUsage(`systems has no HTTP system ${printableCell(system)}${hint(system, known)}`);
  return all[system]?.http?.graphql;
}

function schemaAt(path: string, field: string, exit: CommandError["exitCode"]): SavedSchema {
  try {
    return readSchemaFile(() => readPlainFile(path));
  } catch (error) {
    throw new CommandError(exit, `${field}: ${printable(path)} ${errorText(error)}`);
  }
}

function operationsIn(files: readonly string[]): readonly WrittenOperation[] {
  try {
    return readOperations(files.map((file) => ({ file: printable(file), text: textOf(file) })));
  } catch (error) {
    throw error instanceof CommandError ? error : new CommandError(EXIT.failed, errorText(error));
  }
}

function textOf(file: string): string {
  try {
    return readPlainFile(file).toString();
  } catch (error) {
    throw new CommandError(EXIT.failed, `${printable(file)} cannot be read (${systemCode(error)})`);
  }
}

function items(operations: readonly WrittenOperation[], drafting: Drafting): readonly ImportItem[] {
  const taken = new Set<string>();
  const prefix = snakeCase(drafting.system);
  return operations.map((operation) => {
    const own = snakeCase(operation.name);
    const tool = toolName(own === prefix || own.startsWith(`${prefix}_`) ? own : `${prefix}_${own}`, taken);
    taken.add(tool);
    const { name, type, file } = operation;
    return {
      tool,
      names: [name],
      isWanted: true,
      cells: [name, type, file],
      remark: "",
      key: { operation: name, type },
      facts: { file },
      problem: () => {
        const draft = attempt(operation, drafting);
        return typeof draft === "string" ? draft : undefined;
      },
      make: (given: string) => manifestOf(given, operation, drafting),
    };
  });
}

/** Returns a draft, or the reason why there is none. */
function attempt(operation: WrittenOperation, { schema, settings, path }: Drafting): GraphqlDraft | string {
  try {
    return draftOfOperation(schema.schema, operation, { path, scalars: settings?.scalars ?? {} });
  } catch (error) {
    if (error instanceof DocumentFaults) return error.message;
    throw error;
  }
}

const DESCRIPTION_CHARACTERS_MAX = 1_000;

function manifestOf(tool: string, operation: WrittenOperation, drafting: Drafting): Made {
  const draft = attempt(operation, drafting);
  if (typeof draft === "string") return { problem: draft };
  const { system, schema, settings, accepted } = drafting;
  const { classification, http, input, output, fields, notes } = draft;
  const description = shownText(draft.description, DESCRIPTION_CHARACTERS_MAX) || `${operation.type} ${operation.name}`;
  const text = manifestText({
    name: tool,
    description,
    classification,
    input,
    accepted,
    output: tolerant(output),
    fields,
    permissions: [proposedPermission(system, classification)],
    target: { system, http: http as unknown as Json },
    notes: [
      `Written by stc import graphql. Judge the classification and the permission, then ${accepted ? "read" : "write"} the output policy.`,
      ...(settings === undefined
        ? [`Set systems.${system}.http.graphql.schemaFile: without it, the tool does not load.`]
        : []),
      ...notes,
    ],
  });
  const rules = settings ?? { fields: {}, scalars: {} };
  // Includes the errors that `stc check` reports once the manifest is part of the configuration.
  return madeManifest(text, (loaded) => findings(schema.schema, loaded, http, rules).faults);
}

/** Reports the differences between the saved schema and another one that callers may notice. */
function reportChanges(saved: SavedSchema, other: SavedSchema, { json = false }: ImportOptions): void {
  const changes = saved.sha256 === other.sha256 ? [] : schemaChanges(saved.schema, other.schema);
  const broken = changes.filter(({ isBreaking }) => isBreaking).length;
  if (json) print.json({ sha256: other.sha256, changes });
  else {
    for (const { isBreaking, description } of changes)
      print.line(`${isBreaking ? "breaking" : "note"}: ${printable(description)}`);
    print.line(`${changes.length} changes, ${broken} of them breaking; sha256:${other.sha256}`);
  }
  if (broken > 0) process.exitCode = EXIT.failed;
}
