import { errorText } from "../../core/error-text.ts";
import type { Fault } from "../../core/errors.ts";
import { widened } from "../../core/json-schema/widening/widen.ts";
import { hint } from "../../core/nearest.ts";
import { printableCell } from "../../core/printable.ts";
import type { Json } from "../../core/types.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { readPlainFile } from "../../runtime/config/plain-file.ts";
import { ApiDocument, type ApiOperation } from "../../targets/http/openapi/document.ts";
import { type DraftSystem, draftOf, NotImportable, type OperationDraft } from "../../targets/http/openapi/draft.ts";
import { documentFindings } from "../../targets/http/openapi/faults.ts";
import { type ConfigurationOptions, configuration } from "../configuration.ts";
import { CommandError, EXIT, wrongUsage } from "../output.ts";
import { fixedDraft, fixingProblem, hasArgument, propertiesOf } from "./fixed-arguments.ts";
import {
  type Made,
  madeManifest,
  manifestText,
  openInput,
  proposedPermission,
  shownText,
  snakeCase,
  tolerant,
  toolName,
} from "./manifest-text.ts";
import { type ImportItem, importSelected, pairsOf, renamed, type SelectionOptions } from "./selection.ts";

interface ImportOptions extends ConfigurationOptions, SelectionOptions {
  readonly tag: readonly string[];
  readonly method: readonly string[];
  readonly accept?: boolean;
  readonly openOutput?: boolean;
  readonly openInput?: boolean;
  readonly read?: readonly string[] | undefined;
  readonly rename: readonly string[];
  readonly fix: readonly string[];
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
  const settings = settingsOf(config, system);
  const { tag, method, accept: accepted = false, openOutput: isOpen = false, openInput: isOpenInput = false } = options;
  const { read = [], fix, rename } = options;
  const named = namedOperations(system, document.operations);
  const known = new Set(named.flatMap(({ operation, tool }) => [tool, operation.id, keyOf(operation)]));
  const unknown = read.filter((word) => !known.has(word));
  if (unknown.length > 0) {
    const words = unknown.map((word) => `the document has no operation ${printableCell(word)}, given with --read`);
    return wrongUsage(...words);
  }
  const drafted = { system, document, settings, accepted, isOpen, isOpenInput, read, fixed: pairsOf("--fix", fix) };
  const unfixable = unknownArguments(named, drafted);
  if (unfixable.length > 0) {
    const words = unfixable.map((name) => `no operation has the argument ${printableCell(name)}, given with --fix`);
    return wrongUsage(...words);
  }
  importSelected(
    renamed(
      named.map((operation) => offered(operation, drafted, options)),
      { noun: "operation", source: "the document" },
      rename,
    ),
    {
      noun: "operation",
      source: "the document",
      columns: ["OPERATION", "METHOD", "PATH", "TAGS"],
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
      const made = attempt(drafted, operation);
      return typeof made === "string" ? made : undefined;
    },
    make: (name) => {
      const read = isRead(named, drafted) ? [name] : [];
      return manifestOf({ ...named, tool: name }, { ...drafted, read });
    },
  };
}

/** Returns the names of fixed values whose argument no operation has. */
function unknownArguments(named: readonly NamedOperation[], drafted: Drafted): readonly string[] {
  const unknown = new Set(drafted.fixed?.keys());
  for (const { operation } of named) {
    if (unknown.size === 0) break;
    const draft = attempt(drafted, operation);
    if (typeof draft === "string") continue;
    for (const name of unknown) if (hasArgument(draft, name)) unknown.delete(name);
  }
  return [...unknown];
}

interface HttpSettings {
  readonly baseUrl: string;
  readonly openapi?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly auth?: unknown;
}

function settingsOf({ systems }: Config, system: string): DraftSystem {
  const { baseUrl, headers, auth } = (systems[system] as unknown as { readonly http: HttpSettings }).http;
  return { baseUrl: new URL(baseUrl), headers, hasCredentials: auth !== undefined };
}

/** @throws {CommandError} */
function documentOf(config: Config, system: string): ApiDocument {
  const systems = config.systems as Readonly<Record<string, { readonly http?: HttpSettings }>>;
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
    const own = snakeCase(ownId(operation)) || snakeCase(keyOf(operation));
    const tool = toolName(own === prefix || own.startsWith(`${prefix}_`) ? own : `${prefix}_${own}`, taken);
    taken.add(tool);
    return { operation, tool };
  });
}

/** FastAPI's ids repeat path and method after the function's name: `get_ticket_tickets__ticket_id__get`. */
function ownId({ id = "", path, method }: ApiOperation): string {
  const repeated = `${path.replace(/\W/g, "_")}_${method.toLowerCase()}`;
  return id.endsWith(repeated) ? id.slice(0, -repeated.length) : id;
}

function keyOf({ method, path }: ApiOperation): string {
  return `${method} ${path}`;
}

/** Returns a draft; a text says why there is none. */
function attempt(
  { document, settings }: Pick<Drafted, "document" | "settings">,
  operation: ApiOperation,
): OperationDraft | string {
  try {
    return draftOf(document, operation, settings);
  } catch (error) {
    return error instanceof NotImportable ? error.message : `the document is not usable here: ${errorText(error)}`;
  }
}

const OPEN_OUTPUT: Json = { type: ["object", "array"], additionalProperties: true, items: {} };
const DESCRIPTION_CHARACTERS_MAX = 1_000;

/** Returns a manifest, or why there is none, for each operation. */
export function* importOperations(system: string, document: ApiDocument, settings?: DraftSystem) {
  for (const named of namedOperations(system, document.operations)) {
    yield { ...named, made: manifestOf(named, { system, document, settings }) };
  }
}

interface Drafted {
  readonly system: string;
  readonly document: ApiDocument;
  readonly settings?: DraftSystem | undefined;
  readonly accepted?: boolean;
  /** Operations that only read, as the author judges. */
  readonly read?: readonly string[] | undefined;
  /** Values of arguments that every call sends. */
  readonly fixed?: ReadonlyMap<string, string> | undefined;
  /** Leaves out what the document says about the form of arguments. */
  readonly isOpenInput?: boolean;
  /** Leaves the answer open, for `stc learn` to describe. */
  readonly isOpen?: boolean;
}

/**
 * Returns the text of a manifest that can be loaded and fits the document. What keeps it from that is left out: first what a schema
 * cannot state, then what the document says in two ways.
 */
function manifestOf(named: NamedOperation, drafted: Drafted): Made {
  const draft = attempt(drafted, named.operation);
  if (typeof draft === "string") return { problem: draft };
  const problem = judgementProblem(named, drafted) ?? fixingProblem(draft, drafted.fixed);
  if (problem !== undefined) return { problem };
  let tried = judged(fixedDraft(draft, drafted.fixed), named, drafted);
  let made = written(named, drafted, tried);
  for (let tries = 0; tries < WIDENINGS_MAX && "problem" in made; tries += 1) {
    tried = wider(tried, made.faults);
    made = written(named, drafted, tried);
  }
  return made;
}

/** The first leaves out what cannot be stated, the second what contradicts the document, the third what it hid. */
const WIDENINGS_MAX = 3;

type Written = Made & { readonly faults: readonly Fault[] };

function written({ operation, tool }: NamedOperation, drafted: Drafted, draft: OperationDraft): Written {
  const { system, document, settings, accepted = false, isOpen = false } = drafted;
  const { classification, http, input, output, notes } = draft;
  const text = manifestText({
    name: tool,
    description: descriptionOf(operation),
    classification,
    input,
    accepted,
    output: isOpen ? OPEN_OUTPUT : tolerant(output),
    permissions: [proposedPermission(system, classification)],
    target: { system, http: http as unknown as Json },
    notes: [
      `Written by stc import openapi. Judge the classification and the permission, then ${accepted ? "read" : "write"} the output policy.`,
      ...(operation.isDeprecated ? ["The document calls this operation deprecated."] : []),
      ...notes,
    ],
  });
  const headers = Object.keys(settings?.headers ?? {});
  let faults: readonly Fault[] = [];
  // What stc check finds once the manifest is one of the configuration's.
  const made = madeManifest(text, (loaded) => {
    faults = documentFindings(document, loaded, http, headers).faults;
    return faults;
  });
  return { ...made, faults };
}

/** Returns a draft whose schemas accept more: any JSON for the parts that have errors. */
function wider(draft: OperationDraft, faults: readonly Fault[]): OperationDraft {
  const input = widened("input", draft.input);
  const output = widened("output", draft.output);
  const properties = propertiesOf(input.schema);
  const names = Object.keys(properties).filter((name) => faults.some(({ field }) => isBelow(field, `input.${name}`)));
  const isAnswerWrong = faults.some(({ field }) => isBelow(field, "output"));
  const open = Object.fromEntries(names.map((name) => [name, {}]));
  const places = [...names, ...(isAnswerWrong ? ["the output"] : [])];
  return {
    ...draft,
    input: { ...(input.schema as object), properties: { ...properties, ...open } },
    output: isAnswerWrong ? {} : output.schema,
    notes: [
      ...new Set([
        ...draft.notes,
        ...input.notes,
        ...output.notes,
        ...(places.length === 0 ? [] : [`Any JSON, because the document contradicts itself: ${places.join(", ")}.`]),
      ]),
    ],
  };
}

function isBelow(field: string, part: string): boolean {
  return field === part || field.startsWith(`${part}.`) || field.startsWith(`${part}[`);
}

function isRead({ operation, tool }: NamedOperation, { read = [] }: Drafted): boolean {
  return [tool, operation.id, keyOf(operation)].some((name) => name !== undefined && read.includes(name));
}

function judgementProblem(named: NamedOperation, drafted: Drafted): string | undefined {
  const { method } = named.operation;
  const isChange = method === "PUT" || method === "PATCH" || method === "DELETE";
  return isChange && isRead(named, drafted) ? `a ${method} request is not a read, as --read says` : undefined;
}

/** Returns a draft with the author's judgement about it. */
function judged(draft: OperationDraft, named: NamedOperation, drafted: Drafted): OperationDraft {
  const input = drafted.isOpenInput === true ? openInput(draft.input) : draft.input;
  if (!isRead(named, drafted)) return { ...draft, input };
  return {
    ...draft,
    input,
    classification: "read",
    notes: draft.notes.filter((note) => !note.startsWith("Proposed as read")),
  };
}

function descriptionOf({ summary, description, method, path }: ApiOperation): string {
  const parts = [summary, description === summary ? undefined : description].map((text) =>
    shownText(text ?? "", DESCRIPTION_CHARACTERS_MAX),
  );
  const text = parts.filter((part) => part !== "").map((part) => (/[.!?…]$/.test(part) ? part : `${part}.`));
  return shownText(text.join(" ") || `${method} ${path}`, DESCRIPTION_CHARACTERS_MAX);
}
