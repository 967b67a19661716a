import { basename, dirname, join, posix } from "node:path";
import { type Document, isScalar, parseDocument, visit } from "yaml";
import { sha256Hex } from "../../../core/digest.ts";
import { errorText } from "../../../core/error-text.ts";
import { asString, isTable } from "../../../core/json.ts";
import { parseDocumentJson, StrictJsonError, whyUnusable } from "../../../core/strict-json.ts";

/** Methods that a manifest can send, in the order in which operations are listed. */
const METHODS = ["get", "head", "post", "put", "patch", "delete"] as const;

const BYTES_MAX = 33_554_432;
/** YAML takes forty times as long to read as JSON. */
const YAML_BYTES_MAX = 8_388_608;
const FILES_MAX = 100;
const DEPTH_MAX = 128;
const VALUES_MAX = 5_000_000;
/** Deeper values are refused with a message of their own. */
const JSON_LIMITS = { depthMax: 512, keysMax: VALUES_MAX, elementsMax: VALUES_MAX } as const;
const ALIASES_MAX = 100;
const HOPS_MAX = 1_000;
const PARAMETERS_MAX = 200;
const SERVERS_MAX = 100;

type Table = Readonly<Record<string, unknown>>;

/** A part of a document, with the file in which its references are relative. */
export interface Part {
  readonly value: unknown;
  readonly file: string;
}

/** A part that is a table and not a reference. */
export interface TablePart extends Part {
  readonly value: Table;
}

export type ParameterLocation = "path" | "query" | "header" | "cookie";

export interface ApiParameter {
  readonly name: string;
  readonly location: ParameterLocation;
  readonly isRequired: boolean;
  readonly description: string | undefined;
  readonly style: string;
  readonly explode: boolean;
  /** Undefined when the document does not describe the value. */
  readonly schema: Part | undefined;
}

/** A body, or an answer, in each of its media types. */
export interface ApiContent {
  readonly types: ReadonlyMap<string, Part | undefined>;
}

export interface ApiBody extends ApiContent {
  readonly isRequired: boolean;
}

export interface ApiAnswer extends ApiContent {
  /** Such as `200`, `2XX`, `default`. */
  readonly status: string;
}

/** An operation whose parts are read when they are needed: large documents have thousands. */
export interface ApiOperation {
  readonly method: Uppercase<(typeof METHODS)[number]>;
  readonly path: string;
  /** The document's own text: it may be missing, not unique, or anything else. */
  readonly id: string | undefined;
  readonly tags: readonly string[];
  readonly summary: string | undefined;
  readonly description: string | undefined;
  readonly isDeprecated: boolean;
  /** URLs of the servers that the operation or its path names instead of the document's. */
  readonly servers: readonly string[];
  /** Whether callers must prove who they are. */
  readonly isAuthenticated: boolean;
  /** Whether the service calls back, which no tool receives. */
  readonly hasCallbacks: boolean;
  /** @throws {Error} that says what is wrong with the document */
  parameters(): readonly ApiParameter[];
  /** @throws {Error} that says what is wrong with the document */
  body(): ApiBody | undefined;
  /** Returns the documented answers that are successes. @throws {Error} */
  successes(): readonly ApiAnswer[];
}

/** Returns the text of a file of the document, by its path relative to the document. @throws {Error} with a `code` */
type ReadRelative = (path: string) => Buffer;

/**
 * An OpenAPI document of version 3.0 or 3.1 that is kept next to the configuration. Everything in it is data.
 *
 * Rejected: `@apidevtools/swagger-parser`, which reads YAML with merge keys and without limits, replaces all references of a
 * document at once (GitHub's becomes a cyclic graph in which names and recursion are lost), and brings two further readers of
 * JSON Schema for a check that many real documents fail in parts that no tool uses.
 */
export class ApiDocument {
  readonly #read: ReadRelative;
  readonly #files = new Map<string, unknown>();
  readonly #digests = new Map<string, string>();
  readonly #main: string;
  #bytes = 0;
  readonly #security: unknown;
  readonly is31: boolean;
  /** Paths of the servers' URLs, without a slash at the end; those with variables are left out. */
  readonly serverPaths: readonly string[];
  readonly operations: readonly ApiOperation[];

  /** @throws {Error} that says what is wrong with the document */
  constructor(name: string, read: ReadRelative) {
    this.#read = read;
    this.#main = posix.normalize(name);
    const top = this.#file(this.#main);
    if (!isTable(top)) throw new Error("must be a table: openapi, paths, …");
    this.is31 = isVersion31(top);
    const { paths, servers, security } = top;
    this.#security = security;
    this.serverPaths = Array.isArray(servers) ? servers.slice(0, SERVERS_MAX).flatMap(serverPath) : [];
    if (paths !== undefined && !isTable(paths)) throw new Error("paths: must be a table");
    this.operations = Object.entries(paths ?? {}).flatMap(([path, item]) => this.#operationsOf(path, item));
  }

  /** Reads the document at a path. @throws {Error} that says what is wrong with it */
  static at(path: string, readFile: (path: string) => Buffer): ApiDocument {
    return new ApiDocument(basename(path), (name) => readFile(join(dirname(path), name)));
  }

  /** Hex SHA-256 over the files that have been read. */
  get sha256(): string {
    const digests = [...this.#digests].sort(([one], [other]) => (one < other ? -1 : 1));
    const [only, another] = digests;
    return only !== undefined && another === undefined ? only[1] : sha256Hex(digests.flat().join("\n"));
  }

  /**
   * Returns the table that a part is or refers to.
   *
   * @throws {Error} for a reference that cannot be followed
   */
  table(part: Part, what: string): TablePart {
    const found = this.follow(part);
    if (!isTable(found.value)) throw new Error(`${what}: must be a table`);
    return { value: found.value, file: found.file };
  }

  /**
   * Returns the part at the end of a chain of references.
   *
   * @throws {Error} for a reference that cannot be followed
   */
  follow(part: Part): Part {
    let at = part;
    const seen = new Set<unknown>();
    while (isTable(at.value) && typeof at.value["$ref"] === "string") {
      const reference = at.value["$ref"];
      if (seen.has(at.value)) throw new Error(`the reference ${shown(reference)} leads to itself`);
      if (seen.size === HOPS_MAX) throw new Error(`the reference ${shown(reference)} ends a chain of ${HOPS_MAX}`);
      seen.add(at.value);
      at = this.#referenced(reference, at.file);
    }
    return at;
  }

  /** Returns the part that a reference names, which may be a reference itself. */
  #referenced(reference: string, from: string): Part {
    const [path = "", ...fragments] = reference.split("#");
    const pointer = fragments.join("#");
    const file = path === "" ? from : this.#relativeFile(path, from, reference);
    const steps = pointer.split("/");
    if (pointer !== "" && steps[0] !== "") throw new Error(`the reference ${shown(reference)} is not a JSON pointer`);
    let value = this.#file(file);
    for (const step of steps.slice(1)) {
      const key = keyOf(step);
      const known = typeof value === "object" && value !== null && Object.hasOwn(value, key);
      if (!known) throw new Error(`the reference ${shown(reference)} names nothing`);
      value = (value as Table)[key];
    }
    return { value, file };
  }

  #relativeFile(path: string, from: string, reference: string): string {
    if (/^[a-z][a-z0-9+.-]*:|^\/\/|[\\?]/i.test(path)) {
      throw new Error(
        `the reference ${shown(reference)} leaves this machine: only files in the document's folder are read; save a copy there`,
      );
    }
    const relativePath = decoded(path);
    const file = posix.normalize(posix.join(posix.dirname(from), relativePath));
    const folder = posix.dirname(this.#main);
    if (file.includes("\0") || posix.isAbsolute(relativePath) || posix.relative(folder, file).startsWith("..")) {
      throw new Error(`the reference ${shown(reference)} leaves the document's folder`);
    }
    return file;
  }

  #file(name: string): unknown {
    if (this.#files.has(name)) return this.#files.get(name);
    if (this.#files.size >= FILES_MAX) throw new Error(`consists of more than ${FILES_MAX} files`);
    let bytes: Buffer;
    try {
      bytes = this.#read(name);
    } catch (error) {
      const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
      throw new Error(`${name === this.#main ? "it" : `the file ${shown(name)}`} cannot be read${code}`);
    }
    this.#bytes += bytes.length;
    if (this.#bytes > BYTES_MAX) throw new Error(`is larger than ${BYTES_MAX} bytes`);
    const value = parse(bytes);
    this.#files.set(name, value);
    this.#digests.set(name, sha256Hex(bytes));
    return value;
  }

  #operationsOf(path: string, declared: unknown): readonly ApiOperation[] {
    if (path.startsWith("x-")) return [];
    let item: TablePart;
    try {
      item = this.table({ value: declared, file: this.#main }, "the path");
    } catch (error) {
      throw new Error(`paths: ${shown(path)}: ${errorText(error)}`);
    }
    return METHODS.flatMap((method) => {
      const operation = item.value[method];
      return isTable(operation)
        ? [this.#operation({ method, path, item, operation: { value: operation, file: item.file } })]
        : [];
    });
  }

  #operation(found: {
    readonly method: (typeof METHODS)[number];
    readonly path: string;
    readonly item: TablePart;
    readonly operation: TablePart;
  }): ApiOperation {
    const { method, path, item, operation } = found;
    const { operationId, tags, summary, description, deprecated, callbacks, security, servers } = operation.value;
    return {
      method: method.toUpperCase() as ApiOperation["method"],
      path,
      id: asString(operationId),
      tags: Array.isArray(tags) ? tags.filter((tag) => typeof tag === "string") : [],
      summary: asString(summary),
      description: asString(description),
      isDeprecated: deprecated === true,
      servers: serverUrls(servers ?? item.value["servers"]),
      isAuthenticated: requiresAuthentication(security ?? this.#security),
      hasCallbacks: isTable(callbacks) && Object.keys(callbacks).length > 0,
      parameters: () => this.#parameters(item, operation),
      body: () => this.#body(operation),
      successes: () => this.#successes(operation),
    };
  }

  #parameters(item: TablePart, operation: TablePart): readonly ApiParameter[] {
    const found = new Map<string, ApiParameter>();
    for (const { value, file } of [item, operation]) {
      const declared = value["parameters"] ?? [];
      if (!Array.isArray(declared)) throw new Error("parameters: must be a list");
      for (const each of declared) {
        const parameter = this.#parameter({ value: each, file });
        found.set(`${parameter.location} ${parameter.name}`, parameter);
      }
      if (found.size > PARAMETERS_MAX) throw new Error(`has more than ${PARAMETERS_MAX} parameters`);
    }
    return [...found.values()];
  }

  #parameter(part: Part): ApiParameter {
    const { value, file } = this.table(part, "parameters");
    const { name, in: location, required, description, schema, content } = value;
    const isLocation = location === "path" || location === "query" || location === "header" || location === "cookie";
    if (typeof name !== "string" || !isLocation)
      throw new Error("parameters: each needs a name, and in: path, query, …");
    const style = asString(value["style"]) ?? (location === "query" || location === "cookie" ? "form" : "simple");
    const explode = value["explode"];
    return {
      name,
      location,
      isRequired: required === true || location === "path",
      description: asString(description),
      // A parameter with `content` is JSON in a text.
      style: content === undefined ? style : "content",
      explode: typeof explode === "boolean" ? explode : style === "form",
      schema: schema === undefined ? undefined : { value: schema, file },
    };
  }

  #body({ value, file }: TablePart): ApiBody | undefined {
    if (value["requestBody"] === undefined) return undefined;
    const body = this.table({ value: value["requestBody"], file }, "requestBody");
    return { isRequired: body.value["required"] === true, types: contentOf(body) };
  }

  #successes({ value, file }: TablePart): readonly ApiAnswer[] {
    const { value: answers, file: at } = this.table({ value: value["responses"] ?? {}, file }, "responses");
    const all = Object.keys(answers).filter((status) => /^2(?:\d\d|XX)$/i.test(status));
    const statuses = all.length === 0 && answers["default"] !== undefined ? ["default"] : all;
    return statuses.map((status) => {
      const answer = this.table({ value: answers[status], file: at }, `responses.${status}`);
      return { status: status.toUpperCase(), types: contentOf(answer) };
    });
  }
}

function serverUrls(servers: unknown): readonly string[] {
  if (!Array.isArray(servers)) return [];
  return servers.slice(0, SERVERS_MAX).flatMap((server) => (isTable(server) ? (asString(server["url"]) ?? []) : []));
}

/** Returns whether a list of alternatives has none that requires nothing. */
function requiresAuthentication(security: unknown): boolean {
  if (!Array.isArray(security) || security.length === 0) return false;
  return security.every((alternative) => isTable(alternative) && Object.keys(alternative).length > 0);
}

function serverPath(server: unknown): readonly string[] {
  const url = isTable(server) ? (asString(server["url"]) ?? "") : "";
  const found = url.includes("{") ? null : URL.parse(url, "http://localhost/");
  return found === null || url === "" ? [] : [found.pathname.replace(/\/$/, "")];
}

function contentOf({ value, file }: TablePart): ApiContent["types"] {
  const content = value["content"];
  if (!isTable(content)) return new Map();
  return new Map(
    Object.entries(content).map(([type, media]) => {
      const schema = isTable(media) ? media["schema"] : undefined;
      const [name = ""] = type.toLowerCase().split(";");
      return [name.trim(), schema === undefined ? undefined : { value: schema, file }];
    }),
  );
}

/** @throws {Error} for a version that is not supported */
function isVersion31({ openapi, swagger }: Table): boolean {
  // Without quotes, YAML reads 3.1 as a number, and 3.0 as 3.
  const version = typeof openapi === "number" ? String(openapi).replace(/^3$/, "3.0") : (asString(openapi) ?? "");
  if (/^3\.[01](?:\.\d{1,3})?(?:-|$)/.test(version)) return version.startsWith("3.1");
  if (swagger !== undefined) {
    throw new Error(`is a Swagger ${shown(String(swagger))} document: convert it to OpenAPI 3.0 or 3.1`);
  }
  throw new Error(
    version === ""
      ? "is not an OpenAPI document: openapi is missing"
      : `openapi: must be 3.0 or 3.1, got ${shown(version)}`,
  );
}

/** @throws {Error} that says what is wrong with the text */
function parse(bytes: Buffer): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error("must be UTF-8");
  }
  const value = /^\s*\{/.test(text) ? parseJson(text) : parseYaml(text);
  checkSize(value);
  return value;
}

function parseJson(text: string): unknown {
  try {
    return parseDocumentJson(text, JSON_LIMITS);
  } catch (error) {
    // Flow style, which starts as JSON does, is YAML.
    const mayBeYaml = error instanceof StrictJsonError && error.isSyntax && text.length <= YAML_BYTES_MAX;
    if (mayBeYaml) return parseYaml(text);
    throw new Error(`is not JSON that can be used: ${whyUnusable(error)}`);
  }
}

function parseYaml(text: string): unknown {
  if (text.length > YAML_BYTES_MAX) {
    throw new Error(`is larger than ${YAML_BYTES_MAX} characters, the most for YAML: convert it to JSON`);
  }
  const document = parseDocument(text, {
    version: "1.2",
    schema: "core",
    merge: false,
    strict: true,
    uniqueKeys: true,
    logLevel: "error",
  });
  // A tag that YAML does not know is only a warning, and its value would be read as if it had none.
  const [problem] = [...document.errors, ...document.warnings.filter(({ code }) => code === "TAG_RESOLVE_FAILED")];
  if (problem !== undefined) {
    const [message = ""] = problem.message.replace(/^Maximum call stack.*$/, "is nested too deeply").split("\n");
    throw new Error(`is not valid YAML: ${message}`);
  }
  checkMergeKeys(document);
  try {
    return document.toJS({ maxAliasCount: ALIASES_MAX });
  } catch (error) {
    throw new Error(`is not usable YAML: ${errorText(error)}`);
  }
}

/** @throws {Error} for a key that other readers of YAML take for a merge. In quotes, it is a name. */
function checkMergeKeys(document: Document.Parsed): void {
  visit(document, {
    Pair(_, { key }) {
      if (!isScalar(key) || key.value !== "<<" || key.type !== "PLAIN") return;
      throw new Error('has a YAML merge key (<<): write the members out, or use $ref; a name is "<<", in quotes');
    },
  });
}

/** @throws {Error} for a value that is too large, too deep, or has a key that means something else to JavaScript */
function checkSize(top: unknown): void {
  let values = 0;
  const visit = (value: unknown, depth: number): void => {
    values += 1;
    if (values > VALUES_MAX) throw new Error(`has more than ${VALUES_MAX} values`);
    if (depth > DEPTH_MAX) throw new Error(`is nested more than ${DEPTH_MAX} levels deep`);
    if (typeof value !== "object" || value === null) return;
    if (Array.isArray(value)) {
      for (const inner of value) visit(inner, depth + 1);
      return;
    }
    for (const key of Object.keys(value)) {
      if (key === "__proto__") throw new Error("has a key __proto__");
      visit((value as Table)[key], depth + 1);
    }
  };
  visit(top, 0);
}

/** Returns the key that a step of a JSON pointer in a URI fragment names. */
function keyOf(step: string): string {
  return decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not encoded: the name itself has a %.
    return text;
  }
}

const SHOWN_CHARACTERS_MAX = 120;

/** Returns a text of the document for a message: on one line, in visible ASCII, and not too long. */
export function shown(text: string): string {
  const visible = text.replace(/[^\x20-\x7e]/gu, "?");
  return visible.length > SHOWN_CHARACTERS_MAX ? `${visible.slice(0, SHOWN_CHARACTERS_MAX)}…` : visible;
}
