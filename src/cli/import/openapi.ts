import { errorText } from "../../core/error-text.ts";
import { hint } from "../../core/nearest.ts";
import { printableCell } from "../../core/printable.ts";
import type { Json } from "../../core/types.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { readPlainFile } from "../../runtime/config/plain-file.ts";
import { ApiDocument, type ApiOperation } from "../../targets/http/openapi/document.ts";
import { draftOf, NotImportable, type OperationDraft } from "../../targets/http/openapi/draft.ts";
import { type ConfigurationOptions, configuration } from "../configuration.ts";
import { CommandError, EXIT, print, table, wrongUsage } from "../output.ts";
import {
  manifestProblems,
  manifestText,
  proposedPermission,
  shownText,
  snakeCase,
  tolerant,
  toolName,
  writeManifest,
} from "./manifest-text.ts";

interface ImportOptions extends ConfigurationOptions {
  readonly list?: boolean;
  readonly all?: boolean;
  readonly tag: readonly string[];
  readonly method: readonly string[];
  readonly out?: string;
  readonly accept?: boolean;
  readonly openOutput?: boolean;
  readonly json?: boolean;
}

/** An operation with the name of its tool. Names depend on the document alone, so each import finds the same. */
interface NamedOperation {
  readonly operation: ApiOperation;
  readonly tool: string;
}

interface Result extends NamedOperation {
  readonly file?: string;
  readonly problem?: string;
}

/** `stc import openapi`: writes manifests for operations of an OpenAPI document. Nothing is sent to the system. */
export async function importOpenApi(system: string, wanted: readonly string[], options: ImportOptions): Promise<void> {
  const { config } = await configuration(options);
  const document = documentOf(config, system);
  const named = namedOperations(system, document.operations);
  const isFiltered = options.tag.length > 0 || options.method.length > 0;
  const isChosen = wanted.length > 0 || isFiltered || options.all === true;
  if (!isChosen && options.list !== true) {
    return wrongUsage("name operations, or give --tag, --method or --all; --list lists them");
  }
  const chosen = filtered(chosenOf(named, wanted), options);
  if (options.list === true) return list(chosen, document, options);
  const folder = options.out ?? wrongUsage("--out is missing: where are the manifests written?");
  const results = chosen.map((each) =>
    imported(each, {
      system,
      document,
      folder,
      accepted: options.accept === true,
      isOpen: options.openOutput === true,
    }),
  );
  report(results, options);
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

/** @throws {CommandError} for a text that names no operation, or several */
function chosenOf(named: readonly NamedOperation[], wanted: readonly string[]): readonly NamedOperation[] {
  if (wanted.length === 0) return named;
  const problems: string[] = [];
  const found = wanted.flatMap((text) => {
    const same = named.filter(
      ({ operation, tool }) => operation.id === text || tool === text || keyOf(operation) === text,
    );
    if (same.length > 1) problems.push(`several operations are called ${printableCell(text)}: write "GET /path"`);
    if (same.length === 0) {
      const known = named.map(({ operation }) => operation.id ?? keyOf(operation));
      problems.push(`the document has no operation ${printableCell(text)}${printableCell(hint(text, known))}`);
    }
    return same;
  });
  return problems.length > 0 ? wrongUsage(...problems) : [...new Set(found)];
}

function filtered(
  named: readonly NamedOperation[],
  { tag, method }: Pick<ImportOptions, "tag" | "method">,
): readonly NamedOperation[] {
  return named.filter(
    ({ operation }) =>
      (tag.length === 0 || operation.tags.some((one) => tag.includes(one))) &&
      (method.length === 0 || method.includes(operation.method)),
  );
}

function list(chosen: readonly NamedOperation[], document: ApiDocument, { json }: ImportOptions): void {
  const rows = chosen.map(({ operation, tool }) => {
    const drafted = attempt(document, operation);
    const problem = typeof drafted === "string" ? drafted : undefined;
    return { operation, tool, problem };
  });
  if (json === true) {
    print.json({
      operations: rows.map(({ operation: { id, method, path, tags, isDeprecated }, tool, problem }) => ({
        ...{ operationId: id ?? null, method, path, tags, deprecated: isDeprecated, tool },
        ...(problem !== undefined && { problem }),
      })),
    });
    return;
  }
  const lines = rows.map(({ operation: { id, method, path, tags, isDeprecated }, problem }) => [
    ...[printableCell(id ?? "-"), method, printableCell(path), printableCell(tags.join(" ") || "-")],
    `${isDeprecated ? "deprecated " : ""}${problem === undefined ? "" : `cannot be imported: ${problem}`}`,
  ]);
  print.line(table([["OPERATION", "METHOD", "PATH", "TAGS", "NOTE"], ...lines]));
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
): { readonly text: string } | { readonly problem: string } {
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
  const [problem, another] = manifestProblems(text);
  if (problem === undefined) return { text };
  return { problem: `no manifest can say this: ${problem}${another === undefined ? "" : "; and more"}` };
}

function descriptionOf({ summary, description, method, path }: ApiOperation): string {
  const parts = [summary, description === summary ? undefined : description].map((text) =>
    shownText(text ?? "", DESCRIPTION_CHARACTERS_MAX),
  );
  const text = parts.filter((part) => part !== "").map((part) => (/[.!?…]$/.test(part) ? part : `${part}.`));
  return shownText(text.join(" ") || `${method} ${path}`, DESCRIPTION_CHARACTERS_MAX);
}

function imported(named: NamedOperation, to: Drafted & { readonly folder: string }): Result {
  const made = manifestOf(named, to);
  if ("problem" in made) return { ...named, problem: made.problem };
  try {
    return { ...named, file: writeManifest(to.folder, named.tool, made.text) };
  } catch (error) {
    return { ...named, problem: errorText(error) };
  }
}

function report(results: readonly Result[], { json }: ImportOptions): void {
  const failed = results.filter(({ problem }) => problem !== undefined);
  if (json === true) {
    const rows = results.map(({ operation, tool, file, problem }) => ({
      ...{ operationId: operation.id ?? null, method: operation.method, path: operation.path, tool },
      ...{ file: file ?? null, problem: problem ?? null },
    }));
    print.json({ written: results.length - failed.length, results: rows });
  } else {
    for (const { file } of results) if (file !== undefined) print.line(`wrote ${file}`);
    for (const { operation, problem } of failed) {
      print.error(`${printableCell(operation.id ?? keyOf(operation))}: ${problem ?? ""}`);
    }
    print.line(`${results.length - failed.length} of ${results.length} operations imported`);
  }
  if (failed.length > 0) process.exitCode = EXIT.failed;
}
