import { isTable } from "../../../core/json.ts";
import { patternTest } from "../../../core/json-schema/text.ts";
import { isStatable, plainWord } from "../../../core/json-schema/widening/widen.ts";
import { changeWord } from "../../../core/manifest/change-words.ts";
import { namesCharacter } from "../../../core/pattern/parse.ts";
import { present } from "../../../core/present.ts";
import type { HttpTarget, Json, ToolClassification } from "../../../core/types.ts";
import { headerNameProblem } from "../manifest.ts";
import { type BodyForm, bodyFormOf, GUARDED, JSON_TYPE } from "../request.ts";
import {
  type ApiAnswer,
  type ApiContent,
  type ApiDocument,
  type ApiOperation,
  type ApiParameter,
  shown,
} from "./document.ts";
import {
  descriptionOf,
  fits,
  isAny,
  type LeftOut,
  toJsonSchema,
  type Written,
  type WrittenTable,
} from "./to-json-schema.ts";

/** The parts of a manifest that follow from an operation. */
export interface OperationDraft {
  readonly classification: ToolClassification;
  readonly http: HttpTarget["http"];
  readonly input: Json;
  readonly output: Json;
  /** Parts of the operation that the manifest leaves out, in our own words. */
  readonly notes: readonly string[];
}

/** An operation that no manifest can send or read. */
export class NotImportable extends Error {
  override readonly name = "NotImportable";
}

const ARGUMENT_CHARACTERS_MAX = 64;
const ARGUMENTS_MAX = 100;
/** Length of path parameters that the document does not bound. */
const SEGMENT_CHARACTERS = 256;
const SEGMENT_CHARACTERS_MAX = 512;
const TEMPLATE = /\{([^{}]{1,256})\}/g;
/** Levels of objects in forms and queries whose members become arguments. */
const FORM_DEPTH_MAX = 3;

/** The settings of the system that concern its drafts. */
export interface DraftSystem {
  readonly baseUrl?: URL | undefined;
  /** Headers that the system sets in every request, by lower-case name. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Whether requests carry credentials. Undefined: not known. */
  readonly hasCredentials?: boolean | undefined;
}

/**
 * Returns the parts of a manifest for an operation.
 *
 * @throws {NotImportable} that says why there is none
 * @throws {Error} that says what is wrong with the document
 */
export function draftOf(document: ApiDocument, operation: ApiOperation, system: DraftSystem = {}): OperationDraft {
  for (let depth = FORM_DEPTH_MAX; depth >= 0; depth -= 1) {
    const draft = new Drafting({ document, operation, system }, depth).draft();
    if (draft !== undefined) return draft;
  }
  throw new NotImportable(`needs more than ${ARGUMENTS_MAX} arguments`);
}

interface Argument {
  readonly schema: Written;
  readonly isRequired: boolean;
}

/** A value that is sent under a name: the argument's name, and its schema. */
interface Field {
  readonly name: string;
  readonly schema: Written;
  readonly isRequired: boolean;
}

interface Drafted {
  readonly document: ApiDocument;
  readonly operation: ApiOperation;
  readonly system: DraftSystem;
}

class Drafting {
  readonly #document: ApiDocument;
  readonly #operation: ApiOperation;
  readonly #system: DraftSystem;
  readonly #unstated: LeftOut = { formats: new Set(), defaults: new Set() };
  /** Arguments whose names end with a number, because several names of the document become the same. */
  readonly #numbered: string[] = [];
  /** Levels of optional objects in forms and queries whose members become arguments. */
  readonly #optionalDepth: number;
  readonly #arguments = new Map<string, Argument>();
  readonly #query: Record<string, string> = {};
  readonly #headers: Record<string, string> = {};
  readonly #leftOut = new Set<string>();
  readonly #setHeaders: string[] = [];
  /** Path parameters whose patterns are left out. */
  readonly #pathPatterns = new Set<string>();
  #loose = 0;
  readonly #extra: string[] = [];

  constructor({ document, operation, system }: Drafted, optionalDepth: number) {
    this.#document = document;
    this.#operation = operation;
    this.#system = system;
    this.#optionalDepth = optionalDepth;
  }

  /** Returns undefined when there are too many arguments. */
  draft(): OperationDraft | undefined {
    const { method } = this.#operation;
    const parameters = this.#operation.parameters();
    const path = this.#path(parameters.filter(({ location }) => location === "path"));
    for (const parameter of parameters) {
      if (parameter.location === "query") this.#queryParameter(parameter);
      if (parameter.location === "header") this.#header(parameter);
      if (parameter.location === "cookie") this.#cannot(parameter, "is a cookie");
    }
    const body = this.#body();
    const { output, means } = this.#answers();
    if (this.#arguments.size > ARGUMENTS_MAX) return undefined;
    return {
      classification: CLASSIFICATIONS[method],
      http: {
        method,
        path,
        ...(Object.keys(this.#query).length > 0 && { query: this.#query }),
        ...(Object.keys(this.#headers).length > 0 && { headers: this.#headers }),
        ...body,
        ...(Object.keys(means).length > 0 && { means }),
      },
      input: this.#input(),
      output: output as Json,
      notes: this.#notes(),
    };
  }

  #notes(): readonly string[] {
    const patterns = [...this.#pathPatterns].sort().join(", ");
    const notes = [
      ...this.#extra,
      ...this.#remarks(),
      ...noteIf(patterns !== "", `Patterns left out because they could open the path: ${patterns}.`),
    ];
    const left = this.#leftOut.size + this.#loose;
    if (left === 0) return notes;
    const names = [...this.#leftOut].sort();
    const all = [...names, ...(this.#loose > 0 ? [`${this.#loose} more`] : [])];
    return [...notes, `Optional parameters of the operation that no argument fills: ${all.join(", ")}.`];
  }

  /** Returns what the document says about the operation and the manifest does not do. */
  #remarks(): readonly string[] {
    const { formats, defaults } = this.#unstated;
    const { hasCredentials } = this.#system;
    const { hasCallbacks, isAuthenticated } = this.#operation;
    const set = this.#setHeaders;
    const word = this.#changeWord();
    return [
      ...noteIf(word !== undefined, `Proposed as read, although its name or description says ${word}: judge it.`),
      ...noteIf(this.#isElsewhere(), this.#elsewhere()),
      ...noteIf(
        isAuthenticated && hasCredentials === false,
        "The document requires credentials, and the system has no auth.",
      ),
      ...noteIf(hasCallbacks, "The service calls back (callbacks): no tool receives that."),
      ...noteIf(set.length > 0, `Headers that the system sets: ${set.join(", ")}.`),
      ...noteIf(
        this.#numbered.length > 0,
        `Arguments whose names the document has several times: ${this.#numbered.join(", ")}. Their descriptions say as what they are sent.`,
      ),
      ...noteIf(
        formats.size > 0,
        `Formats that are not checked: ${[...new Set([...formats].map(plainWord))].sort().join(", ")}.`,
      ),
      ...noteIf(defaults.size > 0, `Defaults that do not fit their own schemas are left out: ${defaults.size}.`),
    ];
  }

  #changeWord(): string | undefined {
    const { method, id = "", path, summary = "", description = "" } = this.#operation;
    if (CLASSIFICATIONS[method] !== "read") return undefined;
    const last = path.split("/").findLast((segment) => !segment.includes("{")) ?? "";
    const names = [id, last].map((name) => changeWord({ name, description: "" }));
    const texts = [summary, description].map((text) => changeWord({ name: "", description: text }));
    return [...names, ...texts].find((word) => word !== undefined);
  }

  #isElsewhere(): boolean {
    const { servers } = this.#operation;
    const { baseUrl } = this.#system;
    if (baseUrl === undefined || servers.length === 0) return false;
    const own = pathOf(baseUrl);
    return !servers.some((server) => {
      const url = URL.parse(server, baseUrl.href);
      return url !== null && url.origin === baseUrl.origin && pathOf(url) === own;
    });
  }

  #elsewhere(): string {
    const hosts = this.#operation.servers.flatMap((server) => URL.parse(server)?.host ?? []);
    const plain = hosts.filter((host) => /^[a-z0-9.:-]{1,100}$/.test(host)).slice(0, 3);
    const named = plain.length === 0 ? "" : `: ${plain.join(", ")}`;
    return `The document names other servers for this operation${named}. Requests go to the system's baseUrl.`;
  }

  #input(): Json {
    const all = [...this.#arguments];
    const required = all.filter(([, { isRequired }]) => isRequired).map(([name]) => name);
    return {
      type: "object",
      properties: Object.fromEntries(all.map(([name, { schema }]) => [name, schema as Json])),
      ...(required.length > 0 && { required }),
    };
  }

  /** Adds an argument and returns its name, in letters, digits and `_`. */
  #argument({ name, schema, isRequired }: Field): string {
    const plain = argumentName(name);
    let free = plain;
    for (let number = 2; this.#arguments.has(free); number += 1) free = `${plain}_${number}`;
    if (free !== plain) this.#numbered.push(free);
    this.#arguments.set(free, { schema: free === plain ? schema : sentAs(schema, name), isRequired });
    return free;
  }

  #path(parameters: readonly ApiParameter[]): string {
    const { path } = this.#operation;
    const known = new Map(parameters.map((parameter) => [parameter.name, parameter]));
    const names = new Map<string, string>();
    const found = [...path.matchAll(TEMPLATE)].map(([, name = ""]) => name);
    for (const name of new Set(found)) {
      const parameter = known.get(name);
      if (parameter === undefined) throw new NotImportable(`describes no parameter for {${shown(name)}} in its path`);
      const schema = this.#segment(parameter);
      names.set(name, this.#argument({ name, schema, isRequired: true }));
    }
    return path.replace(TEMPLATE, (_, name: string) => `{${present(names.get(name), "the argument of a path")}}`);
  }

  #segment(parameter: ApiParameter): Written {
    if (parameter.style !== "simple") {
      const style = parameter.style === "matrix" || parameter.style === "label" ? parameter.style : "(another)";
      throw new NotImportable(
        `the path parameter ${shown(parameter.name)} has the style ${style}, which cannot be sent`,
      );
    }
    const { schema } = this.#field(parameter);
    if (listsOf(schema) !== undefined && !parameter.explode) {
      return {
        type: "string",
        maxLength: SEGMENT_CHARACTERS,
        description: `${noteOf(schema)}Values separated by commas.`,
      };
    }
    const scalars = scalarsOf(schema);
    if (scalars === undefined) throw new NotImportable(`the path parameter ${shown(parameter.name)} is not one value`);
    if (patternsIn(schema).length > patternsIn(scalars).length) this.#pathPatterns.add(argumentName(parameter.name));
    return scalars;
  }

  #field(parameter: ApiParameter): Field {
    const { name, isRequired, description, schema } = parameter;
    const written = schema === undefined ? {} : toJsonSchema(this.#document, schema, "input", this.#unstated);
    const described =
      description === undefined || !isTable(written) || written["description"] !== undefined
        ? written
        : { ...written, ...descriptionOf(description) };
    return { name, isRequired, schema: described };
  }

  #cannot({ name, isRequired }: { readonly name: string; readonly isRequired: boolean }, why: string): void {
    if (isRequired) throw new NotImportable(`the parameter ${shown(name)} ${why}`);
    if (/^[A-Za-z0-9_-]{1,64}$/.test(name)) this.#leftOut.add(name);
    else this.#loose += 1;
  }

  #queryParameter(parameter: ApiParameter): void {
    const { name, style, explode } = parameter;
    if (name === "__proto__") {
      this.#cannot(parameter, "has a name that no manifest can hold");
      return;
    }
    if (style === "content") {
      this.#cannot(parameter, "is JSON in a text");
      return;
    }
    const field = this.#field(parameter);
    const separator = explode ? undefined : { form: ",", spaceDelimited: " ", pipeDelimited: "|" }[style];
    const [list, scalar] = [listsOf(field.schema), scalarsIn(field.schema)];
    if (style === "deepObject") {
      this.#deep(field, 0);
      return;
    }
    if (list !== undefined && separator !== undefined) {
      const words = `Values separated by ${{ ",": "commas", " ": "spaces", "|": "|" }[separator] ?? separator}.`;
      const text = { type: "string", description: `${noteOf(field.schema)}${words}` };
      this.#query[name] = `{${this.#argument({ ...field, schema: text })}}`;
    } else if (list !== undefined || scalar !== undefined) {
      this.#query[name] = `{${this.#argument({ ...field, schema: list ?? scalar ?? {} })}}`;
    } else if (style === "form" && explode) {
      this.#members(field);
    } else {
      this.#cannot(parameter, "is an object in a style that cannot be sent");
    }
  }

  /** Sends each member of an object as a parameter of its own. */
  #members({ name, schema, isRequired }: Field): void {
    const members = membersOf(schema);
    if (members === undefined) {
      this.#cannot({ name, isRequired }, "is an object whose members the document does not list");
      return;
    }
    for (const member of members) {
      const sent = listsOf(member.schema) ?? scalarsIn(member.schema);
      const wanted = isRequired && member.isRequired;
      if (sent === undefined) this.#cannot({ name: `${name}.${member.name}`, isRequired: wanted }, "is not one value");
      else this.#query[member.name] = `{${this.#argument({ ...member, schema: sent, isRequired: wanted })}}`;
    }
  }

  /** Sends the members of an object as `name[member]`, and a list as `name[]`. */
  #deep(field: Field, depth: number, into = this.#query): void {
    const list = listsOf(field.schema);
    const scalar = scalarsIn(field.schema);
    const members = membersOf(field.schema);
    const depthMax = field.isRequired ? FORM_DEPTH_MAX : this.#optionalDepth;
    if (list !== undefined) into[`${field.name}[]`] = `{${this.#argument({ ...field, schema: list })}}`;
    else if (members !== undefined && members.length > 0 && depth < depthMax) {
      for (const member of members) {
        const isRequired = field.isRequired && member.isRequired;
        this.#deep({ ...member, name: `${field.name}[${member.name}]`, isRequired }, depth + 1, into);
      }
    } else if (scalar !== undefined) into[field.name] = `{${this.#argument({ ...field, schema: scalar })}}`;
    else this.#cannot(field, "is an object whose members the document does not list");
  }

  #header(parameter: ApiParameter): void {
    const name = parameter.name.toLowerCase();
    // OpenAPI says to ignore these: other parts of the document describe them.
    if (["accept", "content-type", "authorization"].includes(name)) return;
    if (headerNameProblem(name) !== undefined) {
      // The proxy sets them itself, or refuses them.
      this.#cannot({ name, isRequired: false }, "");
      return;
    }
    if (Object.hasOwn(this.#system.headers ?? {}, name)) {
      this.#setHeaders.push(name);
      return;
    }
    const field = this.#field(parameter);
    const scalar = scalarsIn(field.schema);
    if (scalar === undefined) {
      this.#cannot(parameter, "is not one value");
      return;
    }
    const fallback = this.#defaultOf(parameter);
    const isKept = fallback !== undefined && isStatable(fallback) && fits(scalar, fallback);
    const schema = isKept && isTable(scalar) ? { ...scalar, default: fallback } : scalar;
    const isRequired = field.isRequired && !isKept;
    this.#headers[name] = `{${this.#argument({ name: parameter.name, schema, isRequired })}}`;
  }

  /** Returns the value that a header has unless the caller says another one: services require it more often than they apply it. */
  #defaultOf({ schema }: ApiParameter): Json | undefined {
    if (schema === undefined) return undefined;
    const { value } = this.#document.follow(schema);
    return isTable(value) ? (value["default"] as Json | undefined) : undefined;
  }

  #body(): Pick<HttpTarget["http"], "body" | "contentType"> {
    const body = this.#operation.body();
    if (body === undefined || body.types.size === 0) return {};
    const { method } = this.#operation;
    if (method === "GET" || method === "HEAD" || method === "DELETE") {
      this.#cannot({ name: "body", isRequired: body.isRequired }, `cannot be sent: a ${method} request has no body`);
      return {};
    }
    const [type, form] = bodyType(body) ?? [];
    if (type === undefined || form === undefined) {
      const types = [...body.types.keys()].map(shown).join(", ");
      this.#cannot({ name: "body", isRequired: body.isRequired }, `cannot be sent: it is ${types}`);
      return {};
    }
    const part = body.types.get(type);
    const schema = part === undefined ? {} : toJsonSchema(this.#document, part, "input", this.#unstated);
    const contentType = type === JSON_TYPE || type === "*/*" ? {} : { contentType: type };
    if (form === "text") {
      const text = isTable(schema) && schema["type"] === "string" ? schema : { type: "string" };
      const name = this.#argument({ name: "body", schema: text, isRequired: body.isRequired });
      return { body: `{${name}}`, ...contentType };
    }
    return form === "form"
      ? { body: this.#formBody(schema), ...contentType }
      : { body: this.#jsonBody(schema, body.isRequired), ...contentType };
  }

  #formBody(schema: Written): Json {
    const members = membersOf(schema);
    if (members === undefined) throw new NotImportable("the body is a form whose fields the document does not list");
    const fields: Record<string, string> = {};
    for (const member of members) {
      const list = listsOf(member.schema);
      if (list !== undefined) fields[member.name] = `{${this.#argument({ ...member, schema: list })}}`;
      else this.#deep(member, 0, fields);
    }
    return fields;
  }

  /** The body's members are arguments of their own where that is clear; else the body is one argument. */
  #jsonBody(schema: Written, isRequired: boolean): Json {
    const members = membersOf(schema);
    const isOpen = isTable(schema) && schema["additionalProperties"] !== undefined;
    const isApart = members?.every(
      ({ name }) => name === argumentName(name) && !this.#arguments.has(name) && name.length > 0,
    );
    const isClear = isTable(schema) && schema["anyOf"] === undefined && schema["allOf"] === undefined && !isOpen;
    if (members === undefined || members.length === 0 || isApart !== true || !isClear) {
      const described = isAny(schema) ? { type: "object", additionalProperties: true } : schema;
      const name = this.#argument({ name: "body", schema: described, isRequired });
      return `{${name}}`;
    }
    for (const member of members) this.#argument(member);
    return "{*}";
  }

  #answers(): { readonly output: Written; readonly means: Record<number, "OK"> } {
    const answers = this.#operation.successes().filter(({ status }) => !NO_RESULTS.has(status));
    if (answers.length === 0) {
      this.#extra.push("The document describes no successful answer: write the output as the service answers.");
      return { output: ANY_TABLE, means: {} };
    }
    const read = answers.map((answer) => this.#answer(answer));
    const usable = read.flatMap((found) => (typeof found === "string" ? [] : [found]));
    if (usable.length === 0) throw new NotImportable(String(read[0]));
    const schemas = [...new Map(usable.map(({ schema }) => [JSON.stringify(schema), schema])).values()];
    const [only, another] = schemas;
    const numbers = usable.map(({ status }) => Number(status)).filter((status) => status > 201 && status !== 204);
    const means = Object.fromEntries(numbers.map((status) => [status, "OK" as const]));
    if (only !== undefined && another === undefined) return { output: only, means };
    // Answers of other statuses may lack what this one requires.
    const objects = schemas.filter((schema) => !isEmpty(schema));
    const [main, second] = objects;
    if (main !== undefined && second === undefined && isTable(main) && main["type"] === "object") {
      const { required: _, ...others } = main;
      return { output: others, means };
    }
    return { output: { anyOf: schemas as readonly Json[] }, means };
  }

  /** Returns the schema of an answer; a text says why it cannot be read. */
  #answer({ status, types }: ApiAnswer): { readonly status: string; readonly schema: Written } | string {
    if (types.size === 0 || status === "204" || this.#operation.method === "HEAD") return { status, schema: EMPTY };
    const json =
      [...types.keys()].find((type) => bodyFormOf(type) === "json") ?? (types.has("*/*") ? "*/*" : undefined);
    if (json !== undefined) {
      const part = types.get(json);
      const schema = part === undefined ? {} : toJsonSchema(this.#document, part, "output");
      return { status, schema: isAny(schema) ? ANY_TABLE : schema };
    }
    if ([...types.keys()].some((type) => type.startsWith("text/"))) return { status, schema: TEXT };
    return `its answer is ${[...types.keys()].map(shown).join(", ")}, which is neither JSON nor text`;
  }
}

function noteIf(applies: boolean, note: string): readonly string[] {
  return applies ? [note] : [];
}

function pathOf({ pathname }: URL): string {
  return pathname.replace(/\/$/, "");
}

function sentAs(schema: Written, name: string): Written {
  const table = isTable(schema) ? schema : {};
  return { ...table, ...descriptionOf(`Sent as ${name}. ${noteOf(schema)}`) };
}

const CLASSIFICATIONS: Readonly<Record<ApiOperation["method"], ToolClassification>> = {
  GET: "read",
  HEAD: "read",
  DELETE: "destructive",
  POST: "write",
  PUT: "write",
  PATCH: "write",
};

/** Successes without a result of their own: partial content, and parts of several results. */
const NO_RESULTS: ReadonlySet<string> = new Set(["206", "207"]);
const EMPTY: WrittenTable = { type: "object", properties: {} };
const ANY_TABLE: WrittenTable = { type: "object", additionalProperties: true };
const TEXT: WrittenTable = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

function isEmpty(schema: Written): boolean {
  return JSON.stringify(schema) === JSON.stringify(EMPTY);
}

/** Returns the media type to send, and how. */
function bodyType({ types }: ApiContent): readonly [type: string, form: BodyForm] | undefined {
  const forms = [...types.keys()].map((type) => [type, type === "*/*" ? "json" : bodyFormOf(type)] as const);
  for (const wanted of ["json", "form", "text"] as const) {
    const found =
      forms.find(([type, form]) => form === wanted && type === JSON_TYPE) ?? forms.find(([, form]) => form === wanted);
    if (found !== undefined) return [found[0], wanted];
  }
  return undefined;
}

/** Returns the name of an argument: letters, digits and `_`, as LLM APIs accept them. */
function argumentName(name: string): string {
  const plain = name
    .slice(0, 512)
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9_]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .slice(0, ARGUMENT_CHARACTERS_MAX - 4);
  if (plain === "" || plain in Object.prototype || plain === "prototype") return `value_${plain}`.replace(/_$/, "");
  return plain;
}

function noteOf(schema: Written): string {
  const note = isTable(schema) ? schema["description"] : undefined;
  return typeof note === "string" && note !== "" ? `${note} ` : "";
}

const SCALAR_TYPES: readonly unknown[] = ["string", "integer", "number", "boolean"];

function typesIn(schema: WrittenTable): readonly unknown[] {
  if (schema["type"] !== undefined) return [schema["type"]].flat();
  const values = schema["const"] === undefined ? schema["enum"] : [schema["const"]];
  return Array.isArray(values) ? values.map((value: unknown) => (value === null ? "null" : typeof value)) : [];
}

/** Returns the part of a schema that accepts single values; undefined when there is none. */
function scalarsIn(schema: Written): Written | undefined {
  if (!isTable(schema)) return { type: "string" };
  if (isAny(schema)) return { type: "string", ...schema };
  const types = typesIn(schema).filter((type) => type !== "null");
  if (types.length > 0) {
    const kept = types.filter((type) => SCALAR_TYPES.includes(type));
    const [only, another] = kept;
    if (only === undefined) return undefined;
    if (schema["type"] === undefined) return schema;
    return { ...schema, type: another === undefined ? (only as string) : (kept as readonly string[]) };
  }
  const choices = schema["anyOf"];
  if (!Array.isArray(choices) || schema["allOf"] !== undefined) return undefined;
  const kept = choices.map((choice: Json) => scalarsIn(choice as Written)).filter((choice) => choice !== undefined);
  const [only, another] = kept;
  const { anyOf: _, ...others } = schema;
  if (only === undefined) return undefined;
  return another === undefined && isTable(only)
    ? { ...only, ...others }
    : { ...others, anyOf: kept as readonly Json[] };
}

/** Returns a schema for one segment of a path: its texts are bounded, and no pattern of the document opens the path. */
function scalarsOf(schema: Written): Written | undefined {
  const scalars = scalarsIn(schema);
  return scalars === undefined ? undefined : bounded(withPathPatterns(scalars));
}

function bounded(schema: Written): Written {
  if (!isTable(schema)) return schema;
  const choices = schema["anyOf"];
  if (Array.isArray(choices)) {
    return { ...schema, anyOf: choices.map((choice: Json) => bounded(choice as Written) as Json) };
  }
  const isClosed = schema["enum"] !== undefined || schema["const"] !== undefined;
  if (isClosed || !typesIn(schema).includes("string")) return schema;
  const declared = schema["maxLength"];
  const length = typeof declared === "number" ? Math.min(declared, SEGMENT_CHARACTERS_MAX) : SEGMENT_CHARACTERS;
  return { ...schema, maxLength: length };
}

/** Returns a schema without the patterns that must not be those of a path parameter. */
function withPathPatterns(schema: Written): Written {
  if (!isTable(schema)) return schema;
  const { pattern, ...others } = schema as WrittenTable;
  const parts: Record<string, Json> = { ...others };
  if (typeof pattern === "string" && isPathPattern(pattern)) parts["pattern"] = pattern;
  for (const keyword of ["anyOf", "allOf"] as const) {
    const declared = parts[keyword];
    if (Array.isArray(declared))
      parts[keyword] = declared.map((part: Json) => withPathPatterns(part as Written) as Json);
  }
  return parts;
}

/**
 * Returns whether the pattern of a path parameter may be the argument's. A pattern lets the guarded characters that it names into
 * the path, which only the manifest's author may decide. The pattern must also say what the whole text is.
 */
function isPathPattern(pattern: string): boolean {
  const { pattern: read } = patternTest(pattern);
  return /^\^[^|]*\$$/.test(pattern) && !GUARDED.some((character) => namesCharacter(read, character));
}

/** Returns the patterns in a schema and its parts that describe the same value. */
function patternsIn(schema: Written): readonly string[] {
  if (!isTable(schema)) return [];
  const { pattern, anyOf = [], allOf = [] } = schema as WrittenTable;
  const parts = [anyOf, allOf].flat() as readonly Written[];
  return [...(typeof pattern === "string" ? [pattern] : []), ...parts.flatMap(patternsIn)];
}

/** Returns the part of a schema that accepts lists of single values; undefined when there is none. */
function listsOf(schema: Written): Written | undefined {
  if (!isTable(schema)) return undefined;
  const choices = schema["anyOf"];
  if (Array.isArray(choices)) {
    const found = choices.map((choice: Json) => listsOf(choice as Written)).find((list) => list !== undefined);
    return found !== undefined && isTable(found) ? { ...found, ...descriptionIn(schema) } : found;
  }
  if (!typesIn(schema).includes("array")) return undefined;
  const items = scalarsIn((schema["items"] as Written | undefined) ?? {});
  return items === undefined ? undefined : { ...schema, type: "array", items: items as Json };
}

function descriptionIn(schema: WrittenTable): WrittenTable {
  const { description } = schema;
  return description === undefined ? {} : { description };
}

/** Returns the members of an object with a fixed form; undefined for any other schema. */
function membersOf(schema: Written): readonly Field[] | undefined {
  if (!isTable(schema)) return undefined;
  const choices = schema["anyOf"];
  if (Array.isArray(choices) && schema["properties"] === undefined) {
    return choices.map((choice: Json) => membersOf(choice as Written)).find((members) => members !== undefined);
  }
  const properties = schema["properties"];
  if (!isTable(properties)) return undefined;
  const required = Array.isArray(schema["required"]) ? (schema["required"] as readonly unknown[]) : [];
  return Object.entries(properties).map(([name, inner]) => ({
    name,
    schema: inner as Written,
    isRequired: required.includes(name),
  }));
}
