import { errorText } from "../../core/error-text.ts";
import { hint } from "../../core/nearest.ts";
import { printableCell } from "../../core/printable.ts";
import type { Json } from "../../core/types.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { readPlainFile } from "../../runtime/config/plain-file.ts";
import { ApiDocument, type ApiOperation } from "../../targets/http/openapi/document.ts";
import { draftOf, NotImportable, type OperationDraft } from "../../targets/http/openapi/draft.ts";
import { type ConfigurationOptions, configuration } from "../configuration.ts";
import { CommandError, EXIT, wrongUsage } from "../output.ts";
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
import { type ImportItem, importSelected, type SelectionOptions } from "./selection.ts";

interface ImportOptions extends ConfigurationOptions, SelectionOptions {
  readonly tag: readonly string[];
  readonly method: readonly string[];
  readonly accept?: boolean;
  readonly openOutput?: boolean;
}

/** An operation with the name of its tool. Names depend on the document alone, so each import finds the same. */
interface NamedOperation {
  readonly operation: ApiOperation;
  readonly tool: string;
}

/** `stc import openapi`: writes manifests for operations of an OpenAPI document. Nothing is sent to the system. */
export async function importOpenApi(system: string, wanted: readonly string[], options: ImportOptions): Promise<void> {
  const { config } = await configuration(options);
  const document = documentOf(config, system);
  const { tag, method, accept: accepted = false, openOutput: isOpen = false } = options;
  importSelected(
    namedOperations(system, document.operations).map((named) =>
      offered(named, { system, document, accepted, isOpen }, options),
    ),
    {
      ...{ noun: "operation", source: "the document", columns: ["OPERATION", "METHOD", "PATH", "TAGS"] },
      advice: { several: 'write "GET /path"', filters: "--tag, --method" },
    },
    { ...options, wanted, isFiltered: tag.length > 0 || method.length > 0 },
  );
}

function offered(named: NamedOperation, drafted: Drafted, { tag, method: methods }: ImportOptions): ImportItem {
  const { operation, tool } = named;
  const { id, method, path, tags, isDeprecated } = operation;
  return {
    tool,
    names: [...(id === undefined ? [] : [id]), keyOf(operation)],
    isWanted:
      (tag.length === 0 || tags.some((one) => tag.includes(one))) && (methods.length === 0 || methods.includes(method)),
    cells: [id ?? "-", method, path, tags.join(" ") || "-"],
    remark: isDeprecated ? "deprecated" : "",
    key: { operationId: id ?? null, method, path },
    facts: { tags, deprecated: isDeprecated },
    problem: () => {
      const made = attempt(drafted.document, operation);
      return typeof made === "string" ? made : undefined;
    },
    make: () => manifestOf(named, drafted),
  };
}

/** @throws {CommandError} */
function documentOf(config: Config, system: string): ApiDocument {
  const systems = config.systems as Readonly<Record<string, { readonly http?: { readonly openapi?: string } }>>;
  const known = Object.keys(systems).filter((name) => systems[name]?.http !== undefined);
  const entry = known.includes(system) ? systems[system] : undefined;
  if (entry === undefined) {
    return wrongUsage(`systems has no HTTP system ${printableCell(system)}${hint(system, known)}`);
  }
  const field = `systems.${system}.http.openapi`;
  const path = entry.http?.openapi;
  if (path === undefined) {
    const advice = "save the API's OpenAPI document beside the configuration and name its file there";
    throw new CommandError(EXIT.configuration, `${field} is not set: ${advice}`);
  }
  try {
    return ApiDocument.at(pathFrom(config, path), readPlainFile);
  } catch (error) {
    throw new CommandError(EXIT.configuration, `${field}: ${path} ${errorText(error)}`);
  }
}

function namedOperations(system: string, operations: readonly ApiOperation[]): readonly NamedOperation[] {
  const taken = new Set<string>();
  const prefix = snakeCase(system);
  return operations.map((operation) => {
    const own = snakeCase(operation.id ?? "") || snakeCase(keyOf(operation));
    const tool = toolName(own === prefix || own.startsWith(`${prefix}_`) ? own : `${prefix}_${own}`, taken);
    taken.add(tool);
    return { operation, tool };
  });
}

function keyOf({ method, path }: ApiOperation): string {
  return `${method} ${path}`;
}

/** Returns a draft; a text says why there is none. */
function attempt(document: ApiDocument, operation: ApiOperation): OperationDraft | string {
  try {
    return draftOf(document, operation);
  } catch (error) {
    return error instanceof NotImportable ? error.message : `the document is not usable here: ${errorText(error)}`;
  }
}

const OPEN_OUTPUT: Json = { type: ["object", "array"], additionalProperties: true, items: {} };
const DESCRIPTION_CHARACTERS_MAX = 1_000;

/** Returns a manifest, or why there is none, for each operation. */
export function* importOperations(system: string, document: ApiDocument) {
  for (const named of namedOperations(system, document.operations)) {
    yield { ...named, made: manifestOf(named, { system, document }) };
  }
}

interface Drafted {
  readonly system: string;
  readonly document: ApiDocument;
  readonly accepted?: boolean;
  /** Leaves the answer open, for `stc learn` to describe. */
  readonly isOpen?: boolean;
}

/** Returns the text of a manifest that can be loaded. */
function manifestOf(
  { operation, tool }: NamedOperation,
  { system, document, accepted = false, isOpen = false }: Drafted,
): Made {
  const drafted = attempt(document, operation);
  if (typeof drafted === "string") return { problem: drafted };
  const { classification, http, input, output, notes } = drafted;
  const text = manifestText({
    ...{
      name: tool,
      description: descriptionOf(operation),
      classification,
      input,
      output: isOpen ? OPEN_OUTPUT : tolerant(output),
    },
    permissions: [proposedPermission(system, classification)],
    target: { system, http: http as unknown as Json },
    accepted,
    notes: [
      `Written by stc import openapi. Judge the classification and the permission, then ${accepted ? "read" : "write"} the output policy.`,
      ...(operation.isDeprecated ? ["The document calls this operation deprecated."] : []),
      ...notes,
    ],
  });
  return madeManifest(text);
}

function descriptionOf({ summary, description, method, path }: ApiOperation): string {
  const parts = [summary, description === summary ? undefined : description].map((text) =>
    shownText(text ?? "", DESCRIPTION_CHARACTERS_MAX),
  );
  const text = parts.filter((part) => part !== "").map((part) => (/[.!?…]$/.test(part) ? part : `${part}.`));
  return shownText(text.join(" ") || `${method} ${path}`, DESCRIPTION_CHARACTERS_MAX);
}
